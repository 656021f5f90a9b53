//! Temporary memory of a schedule: allocated while it is built, released all at once, reused by the next.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Every allocation starts on its own cache line.
const ALIGN: usize = 64;
/// Size of the first block.
const FIRST_BYTES: usize = 4096;
/// Memory that a schedule in the pool may keep.
const KEEP_BYTES: usize = 256 << 10;

struct Block {
    start: NonNull<u8>,
    len: usize,
}

impl Block {
    fn new(len: usize) -> Block {
        let layout = Self::layout(len);
        // SAFETY: the length isn't zero.
        let Some(start) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        Block { start, len }
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, ALIGN).expect("a temporary buffer fits the address space")
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.len)) }
    }
}

/// A bump allocator. What it hands out stays where it is until [`Arena::reset`].
#[derive(Default)]
pub struct Arena {
    blocks: Vec<Block>,
    /// Used bytes of the last block.
    used: usize,
    /// Bytes handed out since the last reset.
    total: usize,
}

impl Arena {
    /// `len` bytes of uninitialised memory.
    #[inline]
    pub fn take(&mut self, len: usize) -> *mut u8 {
        let len = len.next_multiple_of(ALIGN);
        self.total += len;
        match self.blocks.last() {
            Some(block) if block.len - self.used >= len => {}
            _ => {
                self.blocks.push(Block::new(len.max(FIRST_BYTES)));
                self.used = 0;
            }
        }
        let start = self.blocks[self.blocks.len() - 1].start.as_ptr().wrapping_add(self.used);
        self.used += len;
        start
    }

    /// Bytes handed out since the last reset.
    #[inline]
    pub fn total(&self) -> usize {
        self.total
    }

    /// Everything handed out is invalid from here on. Keeps one block of the size that was needed, if that is moderate.
    #[inline]
    pub fn reset(&mut self) {
        if self.blocks.len() > 1 || self.total > KEEP_BYTES {
            let wanted = self.total;
            self.blocks.clear();
            if wanted <= KEEP_BYTES {
                self.blocks.push(Block::new(wanted));
            }
        }
        self.used = 0;
        self.total = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_round_needs_one_block() {
        let mut arena = Arena::default();
        let (a, b) = (arena.take(10), arena.take(FIRST_BYTES));
        assert_ne!(a, b);
        assert_eq!(arena.blocks.len(), 2);
        arena.reset();
        let (a, b) = (arena.take(10), arena.take(FIRST_BYTES));
        assert_eq!(b as usize - a as usize, ALIGN);
        assert_eq!(arena.blocks.len(), 1);
        arena.take(KEEP_BYTES);
        arena.reset();
        assert!(arena.blocks.is_empty());
    }
}
