//! How a sender's bytes get into a cell: through its caches, or past them where the receiver's processor shares none with it
//! (`docs/design/0003-cells.md`).
//!
//! A cell that is used again is in the caches of the receiver, modified or shared. If those are far, each line that the sender
//! writes waits for them; stores past the caches don't. If they are near, the caches are the faster way.

/// Smallest copy whose time tells something, in bytes.
const MEASURE_MIN_BYTES: usize = 4096;
/// Copies through the caches between two measurements.
const MEASURE_EVERY: u32 = 4;
/// Copies slower than this go far: 5.3 GB/s, in ns for 1024 bytes. Near they take 40 to 80, far 420 (AMD EPYC).
const FAR_NS_PER_KIB: u64 = 192;
/// Copies past the caches until one goes through them again, to see; at first and at most.
const PAST_MIN: u32 = 256;
const PAST_MAX: u32 = 16384;

/// Decides for one sender and one inbox, by the time that copies take; the host of a virtual machine moves its processors about.
#[derive(Debug)]
pub struct Far {
    /// Copies past the caches that are left.
    past: u32,
    /// As many it will be the next time.
    next: u32,
    /// Copies through the caches until one is measured.
    unmeasured: u32,
    /// The last measured one was slow: so must be the next, as one alone may have been interrupted.
    was_slow: bool,
}

impl Default for Far {
    fn default() -> Far {
        Far { past: 0, next: PAST_MIN, unmeasured: 0, was_slow: false }
    }
}

impl Far {
    /// Copies `len` bytes into a cell.
    ///
    /// # Safety
    /// `src` is readable and `cell` writable for `len` bytes; they don't overlap, and `cell` is aligned to 16 bytes.
    pub unsafe fn copy(&mut self, src: *const u8, cell: *mut u8, len: usize) {
        // SAFETY: promised by the caller.
        let (through, past) = (
            || unsafe { std::ptr::copy_nonoverlapping(src, cell, len) },
            || unsafe { copy_past_caches(src, cell, len) },
        );
        self.step(len, sys::clock::now_ns, through, past);
    }

    /// One copy of `len` bytes, by one of the two ways.
    #[inline(always)]
    fn step(&mut self, len: usize, now_ns: impl Fn() -> u64, through: impl FnOnce(), past: impl FnOnce()) {
        if len < MEASURE_MIN_BYTES {
            return through();
        }
        if self.past > 0 {
            self.past -= 1;
            return past();
        }
        if self.unmeasured > 0 {
            self.unmeasured -= 1;
            return through();
        }
        let start_ns = now_ns();
        through();
        let is_slow = (now_ns() - start_ns) * 1024 > FAR_NS_PER_KIB * len as u64;
        match (is_slow, std::mem::replace(&mut self.was_slow, is_slow)) {
            (true, true) => {
                self.past = self.next;
                self.next = (self.next * 2).min(PAST_MAX);
            }
            (true, false) => {}
            (false, _) => (self.next, self.unmeasured) = (PAST_MIN, MEASURE_EVERY - 1),
        }
    }
}

/// As `copy_nonoverlapping`, with stores that don't bring the destination into this processor's caches; complete when it returns.
///
/// # Safety
/// As for [`Far::copy`].
#[cfg(target_arch = "x86_64")]
unsafe fn copy_past_caches(src: *const u8, dst: *mut u8, len: usize) {
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
/// As for [`Far::copy`].
#[cfg(not(target_arch = "x86_64"))]
unsafe fn copy_past_caches(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: promised by the caller.
    unsafe { std::ptr::copy_nonoverlapping(src, dst, len) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// `copies` copies of 8 KiB, each of `ns` nanoseconds through the caches; how many went past them.
    fn past(far: &mut Far, copies: u32, ns: u64) -> u32 {
        let (clock, count) = (Cell::new(1u64 << 40), Cell::new(0));
        for _ in 0..copies {
            far.step(8192, || clock.get(), || clock.set(clock.get() + ns), || count.set(count.get() + 1));
        }
        count.get()
    }

    #[test]
    fn slow_copies_go_past_the_caches_until_they_are_fast_again() {
        let mut far = Far::default();
        assert_eq!(past(&mut far, 10_000, 500), 0, "near");
        let went_past = past(&mut far, 100_000, 3300);
        assert!((99_900..100_000).contains(&went_past), "{went_past}: one in 16,384 tells whether it is still so");
        assert!(past(&mut far, 100_000, 500) <= PAST_MAX, "near again");
        assert_eq!(past(&mut far, 10_000, 500), 0);
        far.step(64, || unreachable!("too small to tell"), || {}, || unreachable!("small"));
    }

    #[test]
    fn every_length_is_copied_exactly() {
        #[repr(align(16))]
        struct Aligned([u8; 512]);
        let src: Vec<u8> = (0..=255).cycle().skip(1).take(512).collect();
        for len in (0..=511).rev() {
            let mut dst = Aligned([0; 512]);
            // SAFETY: both have more than `len` bytes behind these places.
            unsafe { copy_past_caches(src.as_ptr().add(1), dst.0.as_mut_ptr(), len) };
            assert_eq!(dst.0[..len], src[1..=len]);
            assert!(dst.0[len..].iter().all(|b| *b == 0));
        }
    }
}
