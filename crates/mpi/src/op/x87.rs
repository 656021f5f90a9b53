//! C's `long double` on x86-64: 80-bit extended precision in 16 bytes, computed by the x87 unit itself.

use std::arch::asm;

use super::scalar::{Arithmetic, Ordered};

/// A `long double`. The last 6 bytes are padding.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(C, align(16))]
pub(super) struct X87(pub [u8; 16]);

/// `self op other` by one x87 instruction, with the precision that the control word has (extended, on Linux).
macro_rules! arithmetic {
    ($a:expr, $b:expr, $instruction:literal) => {{
        let mut out = $b;
        // SAFETY: reads 10 bytes of each operand and writes 10 of `out`; the x87 stack is empty before and after.
        unsafe {
            asm!(
                "fld tbyte ptr [{a}]",
                "fld tbyte ptr [{b}]",
                $instruction,
                "fstp tbyte ptr [{out}]",
                a = in(reg) &$a,
                b = in(reg) &$b,
                out = in(reg) &mut out,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        out
    }};
}

impl Arithmetic for X87 {
    #[inline]
    fn sum(self, other: X87) -> X87 {
        arithmetic!(self, other, "faddp")
    }

    #[inline]
    fn difference(self, other: X87) -> X87 {
        arithmetic!(self, other, "fsubp")
    }

    #[inline]
    fn product(self, other: X87) -> X87 {
        arithmetic!(self, other, "fmulp")
    }
}

impl Ordered for X87 {
    #[inline]
    fn greater(self, other: X87) -> bool {
        let result: u8;
        // SAFETY: reads 10 bytes of each operand; the x87 stack is empty before and after.
        unsafe {
            asm!(
                "fld tbyte ptr [{b}]",
                "fld tbyte ptr [{a}]",
                "fcomip st, st(1)",
                "fstp st(0)",
                "seta {result}",
                a = in(reg) &self,
                b = in(reg) &other,
                result = out(reg_byte) result,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack, readonly),
            );
        }
        result != 0
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An integer as a long double.
    pub fn from_f64(value: f64) -> X87 {
        let mut out = X87([0; 16]);
        // SAFETY: loads 8 bytes, stores 10.
        unsafe {
            asm!(
                "fld qword ptr [{a}]", "fstp tbyte ptr [{o}]", a = in(reg) &value, o = in(reg) &mut out,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            );
        }
        out
    }

    #[test]
    fn arithmetic_and_order() {
        let (a, b) = (from_f64(3.5), from_f64(-1.25));
        assert_eq!(a.sum(b), from_f64(2.25));
        assert_eq!(a.difference(b), from_f64(4.75));
        assert_eq!(a.product(b), from_f64(-4.375));
        assert!(a.greater(b) && !b.greater(a) && !a.greater(a));
        assert_eq!(a.larger(b), a);
        assert_eq!(a.smaller(b), b);
        let nan = from_f64(f64::NAN);
        assert!(!nan.greater(a) && !a.greater(nan));
    }

    #[test]
    fn keeps_64_bits_of_precision() {
        // 2^63 + 1 needs all 64 bits.
        let sum = from_f64(9223372036854775808.0).sum(from_f64(1.0));
        assert_eq!(sum.0[..8], [1, 0, 0, 0, 0, 0, 0, 0x80]);
    }
}
