//! Arithmetic on the values of predefined types.

/// Values with a sum and a product.
pub(super) trait Arithmetic: Copy {
    fn sum(self, other: Self) -> Self;
    fn difference(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
}

/// Values with an order. Of two that don't compare (a NaN), `larger` and `smaller` give `other`.
pub(super) trait Ordered: Copy {
    /// Whether loops gain from wider instructions.
    const WIDE: bool = true;

    fn greater(self, other: Self) -> bool;

    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        if self.greater(other) { self } else { other }
    }

    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        if other.greater(self) { self } else { other }
    }
}

/// Integers, also as truth values.
pub(super) trait Bits: Copy {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn is_true(self) -> bool;
    fn truth(value: bool) -> Self;
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Arithmetic for $t {
            #[inline(always)]
            fn sum(self, other: $t) -> $t {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn difference(self, other: $t) -> $t {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn product(self, other: $t) -> $t {
                self.wrapping_mul(other)
            }
        }
        impl Ordered for $t {
            #[inline(always)]
            fn greater(self, other: $t) -> bool {
                self > other
            }
        }
        impl Bits for $t {
            #[inline(always)]
            fn and(self, other: $t) -> $t {
                self & other
            }
            #[inline(always)]
            fn or(self, other: $t) -> $t {
                self | other
            }
            #[inline(always)]
            fn xor(self, other: $t) -> $t {
                self ^ other
            }
            #[inline(always)]
            fn is_true(self) -> bool {
                self != 0
            }
            #[inline(always)]
            fn truth(value: bool) -> $t {
                value as $t
            }
        }
    )*};
}

integers! { i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 }

macro_rules! floats {
    ($($t:ty)*) => {$(
        impl Arithmetic for $t {
            #[inline(always)]
            fn sum(self, other: $t) -> $t {
                self + other
            }
            #[inline(always)]
            fn difference(self, other: $t) -> $t {
                self - other
            }
            #[inline(always)]
            fn product(self, other: $t) -> $t {
                self * other
            }
        }
        impl Ordered for $t {
            // With AVX, "store the larger one" becomes a masked store, which is six times slower than `maxps`.
            const WIDE: bool = false;

            #[inline(always)]
            fn greater(self, other: $t) -> bool {
                self > other
            }
        }
    )*};
}

floats! { f32 f64 }

/// A complex number of any precision.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(C)]
pub(super) struct Complex<T> {
    pub re: T,
    pub im: T,
}

impl<T: Arithmetic> Arithmetic for Complex<T> {
    #[inline(always)]
    fn sum(self, other: Self) -> Self {
        Complex { re: self.re.sum(other.re), im: self.im.sum(other.im) }
    }

    #[inline(always)]
    fn difference(self, other: Self) -> Self {
        Complex { re: self.re.difference(other.re), im: self.im.difference(other.im) }
    }

    #[inline(always)]
    fn product(self, other: Self) -> Self {
        Complex {
            re: self.re.product(other.re).difference(self.im.product(other.im)),
            im: self.re.product(other.im).sum(self.im.product(other.re)),
        }
    }
}

/// IEEE binary16, computed in single precision: one rounding of a sum or product, because 24 >= 2 * 11 + 2 bits.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(transparent)]
pub(super) struct Half(pub u16);

impl Half {
    pub fn widen(self) -> f32 {
        let (sign, exponent, fraction) =
            (u32::from(self.0 >> 15) << 31, u32::from(self.0 >> 10) & 0x1f, u32::from(self.0) & 0x3ff);
        match exponent {
            // Subnormal: fraction * 2^-24, exact in single precision.
            0 => f32::from_bits(sign | (fraction as f32 * 2f32.powi(-24)).to_bits()),
            0x1f => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
            _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
        }
    }

    /// Rounds to nearest even.
    pub fn narrow(value: f32) -> Half {
        let bits = value.to_bits();
        let (sign, magnitude) = ((bits >> 16 & 0x8000) as u16, bits & 0x7fff_ffff);
        if magnitude > 0x7f80_0000 {
            return Half(sign | 0x7e00);
        }
        if magnitude >= 0x4780_0000 {
            return Half(sign | 0x7c00);
        }
        let shift = if magnitude < 0x3880_0000 { 126 - (magnitude >> 23).max(101) } else { 13 };
        let significand = match magnitude {
            // Subnormal result: shift the whole significand; below half of the smallest one nothing remains.
            0..0x3300_0000 => 0,
            0x3300_0000..0x3880_0000 => magnitude & 0x7f_ffff | 0x80_0000,
            _ => magnitude - 0x3800_0000,
        };
        let (kept, rest, half) = (significand >> shift, significand & ((1 << shift) - 1), 1 << (shift - 1));
        let up = rest > half || rest == half && kept & 1 == 1;
        Half(sign | (kept + u32::from(up)) as u16)
    }
}

impl Arithmetic for Half {
    #[inline(always)]
    fn sum(self, other: Half) -> Half {
        Half::narrow(self.widen() + other.widen())
    }
    #[inline(always)]
    fn difference(self, other: Half) -> Half {
        Half::narrow(self.widen() - other.widen())
    }
    #[inline(always)]
    fn product(self, other: Half) -> Half {
        Half::narrow(self.widen() * other.widen())
    }
}

impl Ordered for Half {
    #[inline(always)]
    fn greater(self, other: Half) -> bool {
        self.widen() > other.widen()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives_the_round_trip() {
        for bits in 0..=u16::MAX {
            let wide = Half(bits).widen();
            if wide.is_nan() {
                assert!(Half::narrow(wide).widen().is_nan());
            } else {
                assert_eq!(Half::narrow(wide), Half(bits));
            }
        }
    }

    #[test]
    fn halves_round_to_nearest_even() {
        for bits in 0..0x7bffu16 {
            let (a, b) = (Half(bits).widen(), Half(bits + 1).widen());
            let middle = (a + b) / 2.0;
            let even = if bits & 1 == 0 { bits } else { bits + 1 };
            assert_eq!(Half::narrow(middle), Half(even));
            assert_eq!(Half::narrow(middle.next_up()), Half(bits + 1));
            assert_eq!(Half::narrow(middle.next_down()), Half(bits));
        }
        assert_eq!(Half::narrow(65520.0), Half(0x7c00));
        assert_eq!(Half::narrow(65519.996), Half(0x7bff));
        assert_eq!(Half::narrow(-1e30), Half(0xfc00));
        assert_eq!(Half::narrow(1e-30), Half(0));
    }
}
