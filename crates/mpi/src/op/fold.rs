//! The element loop of all predefined operations.

/// Below this many bytes the wider instructions are not worth the check.
const WIDE_MIN_BYTES: usize = 512;

/// `inout[i] = f(input[i], inout[i])`.
///
/// # Safety
/// Both pointers must be valid for `count` values, in any alignment, without overlap.
#[inline]
pub(super) unsafe fn fold<T: Copy>(input: *const u8, inout: *mut u8, count: usize, f: impl Fn(T, T) -> T) {
    #[cfg(target_arch = "x86_64")]
    if count * size_of::<T>() >= WIDE_MIN_BYTES && std::is_x86_feature_detected!("avx2") {
        // SAFETY: passed on from the caller; the instructions exist.
        return unsafe { fold_avx2(input.cast(), inout.cast(), count, f) };
    }
    // SAFETY: passed on from the caller.
    unsafe { fold_base(input, inout, count, f) }
}

/// [`fold`] with the instructions that every processor has.
///
/// # Safety
/// As for [`fold`].
#[inline]
pub(super) unsafe fn fold_base<T: Copy>(input: *const u8, inout: *mut u8, count: usize, f: impl Fn(T, T) -> T) {
    // SAFETY: passed on from the caller.
    unsafe { each(input.cast::<T>(), inout.cast::<T>(), count, f) }
}

/// The loop, compiled with AVX2. Not FMA: results must not depend on the length.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn fold_avx2<T: Copy>(input: *const T, inout: *mut T, count: usize, f: impl Fn(T, T) -> T) {
    // SAFETY: passed on from the caller.
    unsafe { each(input, inout, count, f) }
}

#[inline(always)]
unsafe fn each<T: Copy>(input: *const T, inout: *mut T, count: usize, f: impl Fn(T, T) -> T) {
    for i in 0..count {
        // SAFETY: `i < count`; the caller vouches for both arrays.
        unsafe {
            let value = f(input.add(i).read_unaligned(), inout.add(i).read_unaligned());
            inout.add(i).write_unaligned(value);
        }
    }
}
