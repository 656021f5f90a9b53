//! Copies with non-temporal stores. When they are used is decided elsewhere (`protocol::policy::non_temporal`).

/// As `copy_nonoverlapping`, with stores that don't bring the destination into this processor's caches; complete when it returns.
///
/// # Safety
/// `src` is readable and `dst` writable for `len` bytes; they don't overlap, and `dst` is aligned to 16 bytes.
#[cfg(target_arch = "x86_64")]
pub unsafe fn copy_non_temporal(src: *const u8, dst: *mut u8, len: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const STEP: usize = 64;
    let whole = len / STEP * STEP;
    // SAFETY: all accesses are below `len`; the destination's alignment is promised by the caller, and steps keep it.
    unsafe {
        for at in (0..whole).step_by(STEP) {
            let (from, to) = (src.add(at).cast::<__m128i>(), dst.add(at).cast::<__m128i>());
            let line = [0, 1, 2, 3].map(|i| _mm_loadu_si128(from.add(i)));
            for (i, part) in line.into_iter().enumerate() {
                _mm_stream_si128(to.add(i), part);
            }
        }
        std::ptr::copy_nonoverlapping(src.add(whole), dst.add(whole), len - whole);
        // A release store that follows doesn't order such stores; this does.
        _mm_sfence();
    }
}

/// Nothing better is known for this architecture.
///
/// # Safety
/// As above.
#[cfg(not(target_arch = "x86_64"))]
pub unsafe fn copy_non_temporal(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: promised by the caller.
    unsafe { std::ptr::copy_nonoverlapping(src, dst, len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_exactly() {
        #[repr(align(16))]
        struct Aligned([u8; 512]);
        let src: Vec<u8> = (0..=255).cycle().skip(1).take(512).collect();
        for len in (0..=511).rev() {
            let mut dst = Aligned([0; 512]);
            // SAFETY: both have more than `len` bytes behind these places.
            unsafe { copy_non_temporal(src.as_ptr().add(1), dst.0.as_mut_ptr(), len) };
            assert_eq!(dst.0[..len], src[1..=len]);
            assert!(dst.0[len..].iter().all(|b| *b == 0));
        }
    }
}
