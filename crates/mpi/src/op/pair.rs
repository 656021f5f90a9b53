//! `MPI_MAXLOC` and `MPI_MINLOC` on pairs of value and index (MPI-5.0, 6.9.4).

use std::cmp::Ordering;

use super::quad::Quad;
use super::scalar::{Half, Ordered};
use super::x87::X87;
use crate::datatype::{Builtin, Repr};

/// A pair as C lays it out.
#[derive(Clone, Copy)]
#[repr(C)]
struct Pair<V, I> {
    value: V,
    index: I,
}

/// `inout[i]` becomes the pair with the larger value (`max`) or the smaller one; of equal values, the smaller index.
///
/// # Safety
/// Both pointers must be valid for `count` pairs of `builtin`, in any alignment, without overlap.
pub(super) unsafe fn apply(max: bool, builtin: Builtin, input: *const u8, inout: *mut u8, count: usize) {
    use Repr::{F32, F64, I16, I32, I64};
    // SAFETY: each arm uses the types that `builtin` names; the caller vouches for the memory.
    unsafe {
        match (builtin.repr, builtin.index) {
            (F32, Some(I32)) => typed::<f32, i32>(max, input, inout, count),
            (F64, Some(I32)) => typed::<f64, i32>(max, input, inout, count),
            (I64, Some(I32)) => typed::<i64, i32>(max, input, inout, count),
            (I32, Some(I32)) => typed::<i32, i32>(max, input, inout, count),
            (I16, Some(I32)) => typed::<i16, i32>(max, input, inout, count),
            (F32, Some(F32)) => typed::<f32, f32>(max, input, inout, count),
            (F64, Some(F64)) => typed::<f64, f64>(max, input, inout, count),
            (value, Some(index)) => any(max, builtin, (value, index), input, inout, count),
            (_, None) => {}
        }
    }
}

unsafe fn typed<V: Ordered, I: Ordered>(max: bool, input: *const u8, inout: *mut u8, count: usize) {
    let (input, inout) = (input.cast::<Pair<V, I>>(), inout.cast::<Pair<V, I>>());
    for i in 0..count {
        // SAFETY: `i < count`; fields are read and written one by one, so padding is never touched.
        unsafe {
            let (a, b) = (input.add(i), inout.add(i));
            let (value, other) = ((&raw const (*a).value).read_unaligned(), (&raw const (*b).value).read_unaligned());
            let (index, at) = ((&raw const (*a).index).read_unaligned(), (&raw const (*b).index).read_unaligned());
            let (more, less) = (value.greater(other), other.greater(value));
            if if max { more } else { less } {
                (&raw mut (*b).value).write_unaligned(value);
                (&raw mut (*b).index).write_unaligned(index);
            } else if !more && !less && at.greater(index) {
                (&raw mut (*b).index).write_unaligned(index);
            }
        }
    }
}

/// Pairs without a name: types are looked up for each element.
unsafe fn any(max: bool, builtin: Builtin, reprs: (Repr, Repr), input: *const u8, inout: *mut u8, count: usize) {
    let (value, index) = reprs;
    let (extent, offset) = (builtin.extent(), builtin.index_offset());
    let wanted = if max { Ordering::Greater } else { Ordering::Less };
    for i in 0..count {
        // SAFETY: pair `i < count` holds `value` at 0 and `index` at `offset`.
        unsafe {
            let (a, b) = (input.add(i * extent), inout.add(i * extent));
            let order = compare(value, a, b);
            if order == wanted {
                std::ptr::copy_nonoverlapping(a, b, value.size());
            }
            let smaller = order == Ordering::Equal && compare(index, a.add(offset), b.add(offset)) == Ordering::Less;
            if order == wanted || smaller {
                std::ptr::copy_nonoverlapping(a.add(offset), b.add(offset), index.size());
            }
        }
    }
}

/// Compares two scalars; a NaN equals everything.
unsafe fn compare(repr: Repr, a: *const u8, b: *const u8) -> Ordering {
    unsafe fn order<T: Ordered>(a: *const u8, b: *const u8) -> Ordering {
        // SAFETY: the caller vouches for two values of this type.
        let (a, b) = unsafe { (a.cast::<T>().read_unaligned(), b.cast::<T>().read_unaligned()) };
        if a.greater(b) {
            Ordering::Greater
        } else if b.greater(a) {
            Ordering::Less
        } else {
            Ordering::Equal
        }
    }
    // SAFETY: the types that `repr` stands for; passed on from the caller.
    unsafe {
        match repr {
            Repr::I8 => order::<i8>(a, b),
            Repr::I16 => order::<i16>(a, b),
            Repr::I32 => order::<i32>(a, b),
            Repr::I64 => order::<i64>(a, b),
            Repr::I128 => order::<i128>(a, b),
            Repr::U8 => order::<u8>(a, b),
            Repr::U16 => order::<u16>(a, b),
            Repr::U32 => order::<u32>(a, b),
            Repr::U64 => order::<u64>(a, b),
            Repr::U128 => order::<u128>(a, b),
            Repr::F16 => order::<Half>(a, b),
            Repr::F32 => order::<f32>(a, b),
            Repr::F64 => order::<f64>(a, b),
            Repr::F80 => order::<X87>(a, b),
            Repr::F128 => order::<Quad>(a, b),
        }
    }
}
