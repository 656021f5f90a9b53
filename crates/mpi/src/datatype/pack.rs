//! Moving bytes between items in memory and the packed stream.
//!
//! The packed stream is the typemap's data without gaps, item after item. Any range of it can be packed or unpacked at
//! any time, so pipelines simply ask for the next range.

use super::Datatype;
use super::kernel::{Every, copy_block, gather, scatter};
use super::walk::{Sink, walk_items};

/// Staging area of a copy between two types that are both not contiguous: stays in the first-level cache.
const STAGE_BYTES: usize = 8192;

struct Packer {
    base: *const u8,
    dst: *mut u8,
}

impl Sink for Packer {
    #[inline]
    fn run(&mut self, at: isize, len: usize) {
        // SAFETY: whoever made the packer vouches for every run of the range that it walks.
        unsafe {
            copy_block(self.base.wrapping_offset(at), self.dst, len);
            self.dst = self.dst.add(len);
        }
    }

    #[inline]
    fn strided(&mut self, at: isize, count: usize, len: usize, stride: isize) {
        // SAFETY: as in `run`.
        unsafe {
            gather(self.base.wrapping_offset(at), Every(stride), count, len, self.dst);
            self.dst = self.dst.add(count * len);
        }
    }

    #[inline]
    fn listed(&mut self, at: isize, len: usize, disps: &[isize]) {
        // SAFETY: as in `run`.
        unsafe {
            gather(self.base.wrapping_offset(at), disps, disps.len(), len, self.dst);
            self.dst = self.dst.add(disps.len() * len);
        }
    }
}

struct Unpacker {
    base: *mut u8,
    src: *const u8,
}

impl Sink for Unpacker {
    #[inline]
    fn run(&mut self, at: isize, len: usize) {
        // SAFETY: whoever made the unpacker vouches for every run of the range that it walks.
        unsafe {
            copy_block(self.src, self.base.wrapping_offset(at), len);
            self.src = self.src.add(len);
        }
    }

    #[inline]
    fn strided(&mut self, at: isize, count: usize, len: usize, stride: isize) {
        // SAFETY: as in `run`.
        unsafe {
            scatter(self.src, self.base.wrapping_offset(at), Every(stride), count, len);
            self.src = self.src.add(count * len);
        }
    }

    #[inline]
    fn listed(&mut self, at: isize, len: usize, disps: &[isize]) {
        // SAFETY: as in `run`.
        unsafe {
            scatter(self.src, self.base.wrapping_offset(at), disps, disps.len(), len);
            self.src = self.src.add(disps.len() * len);
        }
    }
}

/// Packs the bytes `from_byte .. from_byte + len` of the packed stream of `count` items at `src`.
///
/// # Safety
/// The data of the items must be readable, `dst` writable for `len` bytes, both without overlap, and the range must lie
/// inside `count * dt.size()`.
#[inline]
pub unsafe fn pack(dt: &Datatype, src: *const u8, count: usize, from_byte: usize, dst: *mut u8, len: usize) {
    debug_assert!(from_byte + len <= dt.size() * count);
    if dt.is_contiguous() {
        // SAFETY: the caller vouches for both ranges.
        unsafe { std::ptr::copy_nonoverlapping(src.wrapping_add(from_byte), dst, len) };
        return;
    }
    walk_items(dt, count, from_byte, from_byte + len, &mut Packer { base: src, dst });
}

/// Unpacks `len` bytes at `src` to the bytes `from_byte .. from_byte + len` of the packed stream of `count` items at `dst`.
///
/// # Safety
/// As for [`pack`], the other way round.
#[inline]
pub unsafe fn unpack(dt: &Datatype, dst: *mut u8, count: usize, from_byte: usize, src: *const u8, len: usize) {
    debug_assert!(from_byte + len <= dt.size() * count);
    if dt.is_contiguous() {
        // SAFETY: the caller vouches for both ranges.
        unsafe { std::ptr::copy_nonoverlapping(src, dst.wrapping_add(from_byte), len) };
        return;
    }
    walk_items(dt, count, from_byte, from_byte + len, &mut Unpacker { base: dst, src });
}

/// Copies items to items of another type, as a message to oneself would; stops at the end of the shorter one.
/// Returns the number of data bytes.
///
/// # Safety
/// Source data readable, destination writable; they may overlap only if both are one run of memory.
pub unsafe fn copy(
    src: *const u8,
    scount: usize,
    sdt: &Datatype,
    dst: *mut u8,
    dcount: usize,
    ddt: &Datatype,
) -> usize {
    let len = (sdt.size() * scount).min(ddt.size() * dcount);
    if len == 0 {
        return 0;
    }
    // SAFETY: `len` is inside both streams; the caller vouches for the memory.
    unsafe {
        match (sdt.dense_offset(scount), ddt.dense_offset(dcount)) {
            (Some(from), Some(to)) => std::ptr::copy(src.wrapping_offset(from), dst.wrapping_offset(to), len),
            (None, Some(to)) => pack(sdt, src, scount, 0, dst.wrapping_offset(to), len),
            (Some(from), None) => unpack(ddt, dst, dcount, 0, src.wrapping_offset(from), len),
            (None, None) => staged(src, scount, sdt, dst, dcount, ddt, len),
        }
    }
    len
}

/// Copies `len` bytes through a small buffer.
unsafe fn staged(
    src: *const u8,
    scount: usize,
    sdt: &Datatype,
    dst: *mut u8,
    dcount: usize,
    ddt: &Datatype,
    len: usize,
) {
    let mut stage = std::mem::MaybeUninit::<[u8; STAGE_BYTES]>::uninit();
    let stage = stage.as_mut_ptr().cast::<u8>();
    let mut done = 0;
    while done < len {
        let step = (len - done).min(STAGE_BYTES);
        // SAFETY: `pack` writes the `step` bytes that `unpack` reads; the caller of `copy` vouches for the rest.
        unsafe {
            pack(sdt, src, scount, done, stage, step);
            unpack(ddt, dst, dcount, done, stage, step);
        }
        done += step;
    }
}

struct RunSink<F> {
    base: usize,
    pending: (usize, usize),
    out: F,
}

impl<F: FnMut(usize, usize)> Sink for RunSink<F> {
    fn run(&mut self, at: isize, len: usize) {
        let addr = self.base.wrapping_add_signed(at);
        if self.pending.1 != 0 && self.pending.0.wrapping_add(self.pending.1) == addr {
            self.pending.1 += len;
            return;
        }
        self.flush();
        self.pending = (addr, len);
    }
}

impl<F: FnMut(usize, usize)> RunSink<F> {
    fn flush(&mut self) {
        if self.pending.1 != 0 {
            (self.out)(self.pending.0, self.pending.1);
        }
    }
}

/// Calls `out(address, length)` for each run of memory that holds the packed bytes `from_byte .. from_byte + len`.
pub fn runs_in(dt: &Datatype, base: usize, count: usize, from_byte: usize, len: usize, out: impl FnMut(usize, usize)) {
    let mut sink = RunSink { base, pending: (0, 0), out };
    walk_items(dt, count, from_byte, from_byte + len, &mut sink);
    sink.flush();
}

/// All runs of memory of `count` items at `base`: (address, length), in packed order, neighbours merged.
pub fn runs(dt: &Datatype, base: usize, count: usize) -> Vec<(usize, usize)> {
    let mut list = Vec::new();
    runs_in(dt, base, count, 0, dt.size() * count, |addr, len| list.push((addr, len)));
    list
}

/// At most how many runs [`runs`] gives, without walking them; saturates.
pub fn run_count(dt: &Datatype, count: usize) -> usize {
    if dt.dense_offset(count).is_some() { 1 } else { dt.place.shape.runs().saturating_mul(count) }
}
