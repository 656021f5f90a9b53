//! The program's buffers as the lanes see them: where the bytes of a message are and where they go.
//!
//! A message is a sequence of bytes. Contiguous buffers hold that sequence as it is; for others a [`Layout`] knows
//! which byte lies where (the datatype engine implements it). The constructors are unsafe because MPI buffers belong to the
//! program from the post to the completion of an operation (MPI-5.0, 3.7): that is the contract.

use protocol::transport::{Sink, Source};
use std::rc::Rc;

/// How the bytes of a message lie in memory that is not contiguous.
///
/// # Safety
/// `pack` and `unpack` touch only memory that belongs to the message described, and exactly `len` bytes of the other side.
pub unsafe trait Layout: std::fmt::Debug {
    /// Copies bytes `from .. from + len` of the message at `base` to `dst`.
    ///
    /// # Safety
    /// `base` is readable as the layout says, `dst` writable for `len` bytes, the range inside the message.
    unsafe fn pack(&self, base: *const u8, from: usize, dst: *mut u8, len: usize);

    /// Copies `len` bytes at `src` to bytes `at .. at + len` of the message at `base`.
    ///
    /// # Safety
    /// `base` is writable as the layout says, `src` readable for `len` bytes, the range inside the message.
    unsafe fn unpack(&self, base: *mut u8, at: usize, src: *const u8, len: usize);
}

/// Bytes to be sent.
#[derive(Clone, Debug)]
pub struct SendBuf {
    ptr: *const u8,
    len: usize,
    layout: Option<Rc<dyn Layout>>,
}

/// Room for bytes to be received.
#[derive(Clone, Debug)]
pub struct RecvBuf {
    ptr: *mut u8,
    len: usize,
    layout: Option<Rc<dyn Layout>>,
}

impl SendBuf {
    /// `len` contiguous bytes at `ptr`; null is fine for none.
    ///
    /// # Safety
    /// The bytes stay readable and unchanged as long as this or a clone of it is in use.
    #[inline(always)]
    pub unsafe fn contiguous(ptr: *const u8, len: usize) -> SendBuf {
        SendBuf { ptr, len, layout: None }
    }

    /// A message of `len` bytes spread around `ptr` as `layout` says.
    ///
    /// # Safety
    /// As for [`SendBuf::contiguous`], for all bytes of the layout.
    #[inline]
    pub unsafe fn spread(ptr: *const u8, len: usize, layout: Rc<dyn Layout>) -> SendBuf {
        SendBuf { ptr, len, layout: Some(layout) }
    }

    /// No bytes.
    pub fn empty() -> SendBuf {
        SendBuf { ptr: std::ptr::null(), len: 0, layout: None }
    }

    /// Bytes of the message.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of byte `from` if the message is contiguous.
    #[inline]
    pub fn as_contiguous(&self, from: usize) -> Option<*const u8> {
        if self.layout.is_none() && from <= self.len { Some(self.ptr.wrapping_add(from)) } else { None }
    }

    /// Copies bytes `from .. from + len` to `dst`, cut at the end of the message.
    ///
    /// # Safety
    /// `dst` is writable for `len` bytes.
    #[inline(always)]
    pub unsafe fn copy_out(&self, from: usize, dst: *mut u8, len: usize) {
        let len = len.min(self.len.saturating_sub(from));
        // SAFETY: the range is inside the message (cut above), which the constructor's caller keeps readable; the
        // destination is promised by our caller.
        unsafe {
            match &self.layout {
                None => copy_bytes(self.ptr.wrapping_add(from), dst, len),
                Some(layout) => layout.pack(self.ptr, from, dst, len),
            }
        }
    }
}

impl RecvBuf {
    /// `len` contiguous bytes at `ptr`; null is fine for none.
    ///
    /// # Safety
    /// The bytes stay writable and are not read or written by others as long as this or a clone of it is in use.
    #[inline(always)]
    pub unsafe fn contiguous(ptr: *mut u8, len: usize) -> RecvBuf {
        RecvBuf { ptr, len, layout: None }
    }

    /// Room for a message of `len` bytes spread around `ptr` as `layout` says.
    ///
    /// # Safety
    /// As for [`RecvBuf::contiguous`], for all bytes of the layout.
    #[inline]
    pub unsafe fn spread(ptr: *mut u8, len: usize, layout: Rc<dyn Layout>) -> RecvBuf {
        RecvBuf { ptr, len, layout: Some(layout) }
    }

    /// No room.
    pub fn empty() -> RecvBuf {
        RecvBuf { ptr: std::ptr::null_mut(), len: 0, layout: None }
    }

    /// Bytes that fit.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing fits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of byte `at` if the room is contiguous.
    #[inline]
    pub fn as_contiguous(&self, at: usize) -> Option<*mut u8> {
        if self.layout.is_none() && at <= self.len { Some(self.ptr.wrapping_add(at)) } else { None }
    }

    /// Copies `len` bytes at `src` to place `at`, cut at the end of the room.
    ///
    /// # Safety
    /// `src` is readable for `len` bytes.
    #[inline(always)]
    pub unsafe fn copy_in(&self, at: usize, src: *const u8, len: usize) {
        let len = len.min(self.len.saturating_sub(at));
        // SAFETY: the range is inside the room (cut above), which the constructor's caller keeps writable; the source is
        // promised by our caller.
        unsafe {
            match &self.layout {
                None => copy_bytes(src, self.ptr.wrapping_add(at), len),
                Some(layout) => layout.unpack(self.ptr, at, src, len),
            }
        }
    }
}

impl Source for SendBuf {
    #[inline]
    fn len(&self) -> usize {
        self.len
    }
}

impl Sink for RecvBuf {
    #[inline]
    fn len(&self) -> usize {
        self.len
    }
}

/// Copies `len` bytes; a handful of instructions for up to 32, `memcpy` for more.
///
/// # Safety
/// `src` is readable and `dst` writable for `len` bytes; they don't overlap.
#[inline(always)]
pub unsafe fn copy_bytes(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: each branch copies the first and the last bytes of a range at least as long as one of the two pieces, so all
    // accesses are inside `len` bytes.
    unsafe {
        match len {
            33.. => std::ptr::copy_nonoverlapping(src, dst, len),
            16.. => ends::<[u64; 2]>(src, dst, len),
            8.. => ends::<u64>(src, dst, len),
            4.. => ends::<u32>(src, dst, len),
            2.. => ends::<u16>(src, dst, len),
            1 => *dst = *src,
            0 => {}
        }
    }
}

/// Copies the first and the last `size_of::<T>()` bytes of a range of `len` bytes.
///
/// # Safety
/// As for [`copy_bytes`], and `len >= size_of::<T>()`.
#[inline(always)]
unsafe fn ends<T: Copy>(src: *const u8, dst: *mut u8, len: usize) {
    let last = len - size_of::<T>();
    // SAFETY: promised by the caller; unaligned accesses throughout.
    unsafe {
        let (first, end) = (src.cast::<T>().read_unaligned(), src.add(last).cast::<T>().read_unaligned());
        dst.cast::<T>().write_unaligned(first);
        dst.add(last).cast::<T>().write_unaligned(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every second byte of memory.
    #[derive(Debug)]
    struct EverySecond;

    // SAFETY: touches bytes 0, 2, 4, … of the message's memory only.
    unsafe impl Layout for EverySecond {
        unsafe fn pack(&self, base: *const u8, from: usize, dst: *mut u8, len: usize) {
            // SAFETY: promised by the caller.
            (0..len).for_each(|i| unsafe { *dst.add(i) = *base.add(2 * (from + i)) });
        }
        unsafe fn unpack(&self, base: *mut u8, at: usize, src: *const u8, len: usize) {
            // SAFETY: promised by the caller.
            (0..len).for_each(|i| unsafe { *base.add(2 * (at + i)) = *src.add(i) });
        }
    }

    #[test]
    fn every_length_is_copied_exactly() {
        let src: Vec<u8> = (1..=200).collect();
        for len in 0..=200 {
            let mut dst = [0u8; 202];
            // SAFETY: 201 bytes are left behind the first.
            unsafe { copy_bytes(src.as_ptr(), dst.as_mut_ptr().add(1), len) };
            assert_eq!(dst[0], 0);
            assert_eq!(dst[1..=len], src[..len]);
            assert!(dst[len + 1..].iter().all(|b| *b == 0));
        }
    }

    #[test]
    fn ranges_are_cut_at_the_end() {
        let src = [1u8, 2, 3, 4];
        let mut dst = [0u8; 8];
        // SAFETY: both arrays outlive the buffers.
        let (from, to) = unsafe { (SendBuf::contiguous(src.as_ptr(), 4), RecvBuf::contiguous(dst.as_mut_ptr(), 3)) };
        let mut mid = [9u8; 8];
        // SAFETY: eight bytes on both sides.
        unsafe {
            from.copy_out(2, mid.as_mut_ptr(), 8);
            to.copy_in(1, mid.as_ptr(), 8);
            from.copy_out(99, mid.as_mut_ptr(), 8);
        }
        assert_eq!(mid, [3, 4, 9, 9, 9, 9, 9, 9]);
        assert_eq!(dst, [0, 3, 4, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn layouts_spread_and_gather() {
        let src = [1u8, 0, 2, 0, 3, 0];
        let mut mid = [0u8; 3];
        let mut dst = [0u8; 6];
        // SAFETY: all arrays outlive the buffers and are as long as the layout says.
        unsafe {
            SendBuf::spread(src.as_ptr(), 3, Rc::new(EverySecond)).copy_out(0, mid.as_mut_ptr(), 3);
            RecvBuf::spread(dst.as_mut_ptr(), 3, Rc::new(EverySecond)).copy_in(1, mid[1..].as_ptr(), 2);
        }
        assert_eq!(mid, [1, 2, 3]);
        assert_eq!(dst, [0, 0, 2, 0, 3, 0]);
    }
}
