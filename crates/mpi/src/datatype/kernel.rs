//! Copy loops for many small blocks of one size.

/// Where block `i` begins, relative to a base address.
pub(super) trait Places: Copy {
    /// Offset of block `i` in bytes.
    fn at(self, i: usize) -> isize;
}

/// Blocks at a constant distance.
#[derive(Clone, Copy)]
pub(super) struct Every(pub isize);

impl Places for Every {
    #[inline(always)]
    fn at(self, i: usize) -> isize {
        (i as isize).wrapping_mul(self.0)
    }
}

impl Places for &[isize] {
    #[inline(always)]
    fn at(self, i: usize) -> isize {
        self[i]
    }
}

/// Runs `$f::<N, _>($args)` with the constant block size, or `$other` for an unusual one.
macro_rules! by_size {
    ($len:expr, $f:ident($($arg:expr),*), $other:expr) => {
        match $len {
            1 => $f::<1, _>($($arg),*),
            2 => $f::<2, _>($($arg),*),
            4 => $f::<4, _>($($arg),*),
            8 => $f::<8, _>($($arg),*),
            12 => $f::<12, _>($($arg),*),
            16 => $f::<16, _>($($arg),*),
            24 => $f::<24, _>($($arg),*),
            32 => $f::<32, _>($($arg),*),
            64 => $f::<64, _>($($arg),*),
            _ => $other,
        }
    };
}

/// Copies `count` blocks of `len` bytes from `base + places` to `dst`, densely.
///
/// # Safety
/// Every block must be readable, `dst` writable for `count * len` bytes, and the two must not overlap.
#[inline]
pub(super) unsafe fn gather<P: Places>(base: *const u8, places: P, count: usize, len: usize, dst: *mut u8) {
    // SAFETY: passed on from the caller.
    unsafe {
        by_size!(len, gather_n(base, places, count, dst), {
            for i in 0..count {
                copy_block(base.wrapping_offset(places.at(i)), dst.add(i * len), len);
            }
        })
    }
}

/// Copies `count` dense blocks of `len` bytes from `src` to `base + places`.
///
/// # Safety
/// As for [`gather`], the other way round.
#[inline]
pub(super) unsafe fn scatter<P: Places>(src: *const u8, base: *mut u8, places: P, count: usize, len: usize) {
    // SAFETY: passed on from the caller.
    unsafe {
        by_size!(len, scatter_n(src, base, places, count), {
            for i in 0..count {
                copy_block(src.add(i * len), base.wrapping_offset(places.at(i)), len);
            }
        })
    }
}

unsafe fn gather_n<const N: usize, P: Places>(base: *const u8, places: P, count: usize, dst: *mut u8) {
    for i in 0..count {
        // SAFETY: the caller of `gather` vouches for both blocks; unaligned access of plain bytes.
        unsafe {
            let block = base.wrapping_offset(places.at(i)).cast::<[u8; N]>().read_unaligned();
            dst.add(i * N).cast::<[u8; N]>().write_unaligned(block);
        }
    }
}

unsafe fn scatter_n<const N: usize, P: Places>(src: *const u8, base: *mut u8, places: P, count: usize) {
    for i in 0..count {
        // SAFETY: the caller of `scatter` vouches for both blocks; unaligned access of plain bytes.
        unsafe {
            let block = src.add(i * N).cast::<[u8; N]>().read_unaligned();
            base.wrapping_offset(places.at(i)).cast::<[u8; N]>().write_unaligned(block);
        }
    }
}

/// Copies one block; up to 64 bytes without a call, by two moves that may overlap each other.
///
/// # Safety
/// `src` readable and `dst` writable for `len` bytes, not overlapping.
#[inline(always)]
pub(super) unsafe fn copy_block(src: *const u8, dst: *mut u8, len: usize) {
    macro_rules! two {
        ($n:literal) => {{
            // SAFETY: `$n <= len <= 2 * $n`, so both moves stay inside; the caller vouches for the memory.
            unsafe {
                let (low, high) = (src.cast::<[u8; $n]>(), src.add(len - $n).cast::<[u8; $n]>());
                let (low, high) = (low.read_unaligned(), high.read_unaligned());
                dst.cast::<[u8; $n]>().write_unaligned(low);
                dst.add(len - $n).cast::<[u8; $n]>().write_unaligned(high);
            }
        }};
    }
    match len {
        // SAFETY: the caller vouches for `len` bytes.
        65.. => unsafe { std::ptr::copy_nonoverlapping(src, dst, len) },
        33..=64 => two!(32),
        16..=32 => two!(16),
        8..=15 => two!(8),
        4..=7 => two!(4),
        2..=3 => two!(2),
        1 => two!(1),
        0 => {}
    }
}
