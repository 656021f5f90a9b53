//! IEEE binary128 (`REAL*16`, `COMPLEX*32`), with the arithmetic of the compiler's support library.
//!
//! Stable Rust has no 128-bit float, but its runtime has the functions that C compilers call for it. Their arguments
//! travel in vector registers, which only inline assembly can express without the type.

use std::arch::asm;
use std::arch::x86_64::__m128i;

use super::scalar::{Arithmetic, Ordered};

/// A binary128 number.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(transparent)]
pub(super) struct Quad(pub u128);

unsafe extern "C" {
    fn __addtf3();
    fn __subtf3();
    fn __multf3();
}

macro_rules! call {
    ($function:ident, $a:expr, $b:expr) => {{
        // SAFETY: any 16 bytes are a value of both types.
        let (a, b) = unsafe { (std::mem::transmute::<u128, __m128i>($a.0), std::mem::transmute::<u128, __m128i>($b.0)) };
        let result: __m128i;
        // SAFETY: takes two binary128 values in xmm0 and xmm1 and returns one in xmm0 (System V ABI for x86-64); all
        // registers that a C call may change are listed.
        unsafe {
            asm!(
                "call {f}",
                f = sym $function,
                inlateout("xmm0") a => result,
                inlateout("xmm1") b => _,
                clobber_abi("C"),
            );
            Quad(std::mem::transmute::<__m128i, u128>(result))
        }
    }};
}

impl Arithmetic for Quad {
    fn sum(self, other: Quad) -> Quad {
        call!(__addtf3, self, other)
    }

    fn difference(self, other: Quad) -> Quad {
        call!(__subtf3, self, other)
    }

    fn product(self, other: Quad) -> Quad {
        call!(__multf3, self, other)
    }
}

const SIGN: u128 = 1 << 127;
const INFINITY: u128 = 0x7fff << 112;

impl Ordered for Quad {
    fn greater(self, other: Quad) -> bool {
        let is_nan = |x: u128| x & !SIGN > INFINITY;
        // Sign and magnitude to two's complement, in which both zeros are 0.
        let key = |x: u128| if x & SIGN == 0 { x as i128 } else { -((x & !SIGN) as i128) };
        !is_nan(self.0) && !is_nan(other.0) && key(self.0) > key(other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exact for every finite double that is not subnormal.
    fn from_f64(value: f64) -> Quad {
        let bits = value.to_bits();
        let (sign, exponent, fraction) = (bits >> 63, bits >> 52 & 0x7ff, bits & ((1 << 52) - 1));
        if exponent == 0 {
            return Quad(u128::from(sign) << 127);
        }
        Quad(u128::from(sign) << 127 | u128::from(exponent + 16383 - 1023) << 112 | u128::from(fraction) << 60)
    }

    #[test]
    fn arithmetic_and_order() {
        let (a, b) = (from_f64(3.5), from_f64(-1.25));
        assert_eq!(a.sum(b), from_f64(2.25));
        assert_eq!(a.difference(b), from_f64(4.75));
        assert_eq!(a.product(b), from_f64(-4.375));
        assert!(a.greater(b) && !b.greater(a) && !a.greater(a));
        assert!(!from_f64(0.0).greater(from_f64(-0.0)) && !from_f64(-0.0).greater(from_f64(0.0)));
        assert!(!Quad(INFINITY | 1).greater(a) && !a.greater(Quad(INFINITY | 1)));
    }

    #[test]
    fn keeps_113_bits_of_precision() {
        let sum = from_f64(2f64.powi(112)).sum(from_f64(1.0));
        assert_eq!(sum.0 & 1, 1);
    }
}
