//! Temporary memory of a schedule: allocated while it is built, released all at once, reused by the next.
//!
//! An arena at rest keeps little, as many of them rest in the pool and with remembered plans. One larger block is kept for all.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// Every allocation starts on its own cache line.
const ALIGN: usize = 64;
/// Size of the first block.
const FIRST_BYTES: usize = 4096;
/// Memory that an arena at rest may keep.
const OWN_BYTES: usize = 8 << 10;
/// Memory that is kept for whichever arena needs more next.
const SPARE_BYTES: usize = 256 << 10;

static SPARE: Mutex<Option<Block>> = Mutex::new(None);

struct Block {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a block is memory that belongs to whoever has the block.
unsafe impl Send for Block {}

impl Block {
    fn new(len: usize) -> Block {
        let layout = Self::layout(len);
        // SAFETY: the length isn't zero.
        let Some(start) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        Block { start, len }
    }

    /// At least `len` bytes, of the spare block if that is large enough.
    fn at_least(len: usize) -> Block {
        if len > OWN_BYTES {
            let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
            if spare.as_ref().is_some_and(|block| block.len >= len)
                && let Some(block) = spare.take()
            {
                return block;
            }
        }
        Block::new(len.max(FIRST_BYTES))
    }

    /// The larger one of this and the spare block is kept, unless it is too large.
    fn spare(self) {
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        if self.len <= SPARE_BYTES && spare.as_ref().is_none_or(|block| block.len < self.len) {
            *spare = Some(self);
        }
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
                self.blocks.push(Block::at_least(len));
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

    /// Everything handed out is invalid from here on. One block of the size that was needed is kept, if that is moderate.
    #[inline]
    pub fn reset(&mut self) {
        if self.blocks.len() > 1 || self.blocks.last().is_some_and(|block| block.len > OWN_BYTES) {
            self.shrink();
        }
        self.used = 0;
        self.total = 0;
    }

    fn shrink(&mut self) {
        let wanted = self.total;
        let whole = self.blocks.len() == 1;
        let block = self.blocks.pop().filter(|_| whole);
        self.blocks.clear();
        match block {
            Some(block) => block.spare(),
            None if wanted <= OWN_BYTES => self.blocks.push(Block::new(wanted)),
            None if wanted <= SPARE_BYTES => Block::new(wanted).spare(),
            None => {}
        }
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
        arena.take(SPARE_BYTES);
        arena.reset();
        assert!(arena.blocks.is_empty());
    }

    #[test]
    fn large_blocks_are_not_kept_by_an_arena() {
        let mut arenas = [Arena::default(), Arena::default()];
        for _ in 0..3 {
            for arena in &mut arenas {
                for _ in 0..3 {
                    arena.take(OWN_BYTES);
                }
                arena.reset();
                assert!(arena.blocks.is_empty());
                arena.take(100);
                arena.reset();
                assert!(arena.blocks.iter().all(|block| block.len <= OWN_BYTES));
            }
        }
    }
}
