//! `MPI_MAXLOC` and `MPI_MINLOC` on pairs of value and index (MPI-5.0, 6.9.4).

use super::scalar::Ordered;
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
    use Repr::{F32, F64, F80, I16, I32, I64};
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
            (F80, Some(I32)) => typed::<X87, i32>(max, input, inout, count),
            _ => debug_assert!(false, "not a pair type"),
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
