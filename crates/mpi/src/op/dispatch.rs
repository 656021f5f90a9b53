//! From operation and type to one loop.

use super::Predefined as P;
use super::fold::{fold, fold_base};
use super::logical;
use super::quad::Quad;
use super::scalar::{Arithmetic, Bits, Complex, Half, Ordered};
use super::x87::X87;
use crate::datatype::{Builtin, Family, Repr};

/// Runs `$f::<T>($args)` with the type that `$repr` stands for among the listed ones.
macro_rules! with_type {
    ($repr:expr, [$($name:ident = $t:ty),*], $f:ident $args:tt) => {
        match $repr {
            $(Repr::$name => $f::<$t> $args,)*
            #[allow(unreachable_patterns)]
            _ => {}
        }
    };
}

/// A predefined operation other than `MPI_REPLACE` and `MPI_NO_OP`; does nothing where it is not defined.
///
/// # Safety
/// Both pointers must be valid for `count` elements of `builtin`, in any alignment, without overlap.
pub(super) unsafe fn apply(which: P, builtin: Builtin, input: *const u8, inout: *mut u8, count: usize) {
    // SAFETY: passed on from the caller.
    unsafe {
        match which {
            P::Maxloc | P::Minloc => super::pair::apply(which == P::Maxloc, builtin, input, inout, count),
            P::Sum | P::Prod if builtin.family == Family::Complex => with_type!(
                builtin.repr,
                [F16 = Complex<Half>, F32 = Complex<f32>, F64 = Complex<f64>, F80 = Complex<X87>, F128 = Complex<Quad>],
                arithmetic(which, input, inout, count)
            ),
            P::Sum | P::Prod => with_type!(
                builtin.repr,
                [
                    I8 = i8,
                    I16 = i16,
                    I32 = i32,
                    I64 = i64,
                    I128 = i128,
                    U8 = u8,
                    U16 = u16,
                    U32 = u32,
                    U64 = u64,
                    U128 = u128,
                    F16 = Half,
                    F32 = f32,
                    F64 = f64,
                    F80 = X87,
                    F128 = Quad
                ],
                arithmetic(which, input, inout, count)
            ),
            P::Max | P::Min => with_type!(
                builtin.repr,
                [
                    I8 = i8,
                    I16 = i16,
                    I32 = i32,
                    I64 = i64,
                    I128 = i128,
                    U8 = u8,
                    U16 = u16,
                    U32 = u32,
                    U64 = u64,
                    U128 = u128,
                    F16 = Half,
                    F32 = f32,
                    F64 = f64,
                    F80 = X87,
                    F128 = Quad
                ],
                ordered(which, input, inout, count)
            ),
            P::Land | P::Lor | P::Lxor if builtin.family == Family::FortranLogical => {
                logical::apply(which, logical::pattern(builtin.repr.size()), input, inout, count);
            }
            // Signs don't matter to bits and truth values.
            P::Band | P::Bor | P::Bxor | P::Land | P::Lor | P::Lxor => match builtin.repr.size() {
                1 => bits::<u8>(which, input, inout, count),
                2 => bits::<u16>(which, input, inout, count),
                4 => bits::<u32>(which, input, inout, count),
                8 => bits::<u64>(which, input, inout, count),
                _ => bits::<u128>(which, input, inout, count),
            },
            P::Replace | P::NoOp => {}
        }
    }
}

unsafe fn arithmetic<T: Arithmetic>(which: P, input: *const u8, inout: *mut u8, count: usize) {
    // SAFETY: passed on from the caller.
    unsafe {
        match which {
            P::Sum => fold(input, inout, count, T::sum),
            _ => fold(input, inout, count, T::product),
        }
    }
}

unsafe fn ordered<T: Ordered>(which: P, input: *const u8, inout: *mut u8, count: usize) {
    // SAFETY: passed on from the caller.
    unsafe {
        match which {
            P::Max if T::WIDE => fold(input, inout, count, T::larger),
            P::Max => fold_base(input, inout, count, T::larger),
            _ if T::WIDE => fold(input, inout, count, T::smaller),
            _ => fold_base(input, inout, count, T::smaller),
        }
    }
}

unsafe fn bits<T: Bits>(which: P, input: *const u8, inout: *mut u8, count: usize) {
    // SAFETY: passed on from the caller.
    unsafe {
        match which {
            P::Band => fold(input, inout, count, T::and),
            P::Bor => fold(input, inout, count, T::or),
            P::Bxor => fold(input, inout, count, T::xor),
            P::Land => fold(input, inout, count, |a: T, b: T| T::truth(a.is_true() && b.is_true())),
            P::Lor => fold(input, inout, count, |a: T, b: T| T::truth(a.is_true() || b.is_true())),
            _ => fold(input, inout, count, |a: T, b: T| T::truth(a.is_true() != b.is_true())),
        }
    }
}
