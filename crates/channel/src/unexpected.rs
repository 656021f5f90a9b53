//! Unexpected buffers: where messages wait that have arrived before their receives.
//!
//! Up to [`FEW`] bytes lie on the heap; more in blocks of a pool of this process's own, so that memory which many messages once
//! needed is given back: an allocator only returns what lies at its end. Blocks that nobody needs keep their pages, [`BUSY`] of them,
//! until the process has slept for a while; then [`WARM`].

use crate::buffer::RecvBuf;
use protocol::transport::UnexpectedPool;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use sys::mem::Private;

/// Messages up to this size are not worth a block.
const FEW: usize = 1024;
/// Bytes of a block: a page of most machines; with larger ones less is given back, nothing else changes.
const BLOCK: usize = 4096;
/// Blocks of one mapping.
const SEGMENT: usize = 256;
/// Free blocks that keep their pages: one message of 64 KiB (docs/design/0003-cells.md has the sum).
const WARM: usize = 16;

/// As many as keep them at most in a process that is busy: 2 MiB.
const BUSY: usize = 512;
/// How long a process sleeps before it rests.
pub const REST: Duration = Duration::from_millis(10);

/// The blocks of a process.
#[derive(Debug, Default)]
pub struct Pool {
    segments: Vec<Private>,
    /// Free blocks; the last `warm` ones have pages.
    free: Vec<u32>,
    warm: usize,
    /// One was taken since the last [`Pool::rest`].
    in_use: bool,
}

/// A pool as its users share it.
type SharedPool = Rc<RefCell<Pool>>;

/// The unexpected buffers of a process.
#[derive(Debug, Default)]
pub struct UnexpectedBuffers(SharedPool);

impl UnexpectedBuffers {
    /// The process is about to sleep. Nothing happens if blocks were taken since it did so before.
    pub fn rest(&self) {
        self.0.borrow_mut().rest();
    }

    /// Whether it keeps more than a process that rests should.
    pub fn is_warm(&self) -> bool {
        self.0.borrow().is_warm()
    }
}

impl UnexpectedPool for UnexpectedBuffers {
    type Sink = RecvBuf;
    type Buffer = UnexpectedBuffer;

    fn append(&self, buffer: &mut UnexpectedBuffer, more: usize, fill: impl FnMut(usize, &RecvBuf)) {
        buffer.append(&self.0, more, fill);
    }

    fn len(buffer: &UnexpectedBuffer) -> usize {
        buffer.len()
    }

    fn copy_out(&self, buffer: &UnexpectedBuffer, len: usize, sink: &RecvBuf) {
        buffer.copy_out(len, sink);
    }
}

impl Pool {
    fn take(&mut self) -> u32 {
        self.in_use = true;
        if let Some(block) = self.free.pop() {
            self.warm = self.warm.saturating_sub(1);
            return block;
        }
        let first = (self.segments.len() * SEGMENT) as u32;
        let segment = Private::new(SEGMENT * BLOCK);
        self.segments.push(segment.expect("memory for messages that nobody receives"));
        self.free.extend((first + 1..first + SEGMENT as u32).rev());
        first
    }

    fn give(&mut self, blocks: &[u32]) {
        self.free.extend_from_slice(blocks);
        self.warm += blocks.len();
        if self.warm > BUSY {
            self.cool(BUSY / 2);
        }
    }

    /// Whether it keeps more than a process that rests should.
    fn is_warm(&self) -> bool {
        self.warm > WARM
    }

    /// The process is about to sleep. Nothing happens if blocks were taken since it did so before.
    fn rest(&mut self) {
        if !std::mem::take(&mut self.in_use) && self.is_warm() {
            self.cool(WARM);
        }
    }

    /// Gives the pages of free blocks back, but for `keep` that were used last.
    #[cold]
    fn cool(&mut self, keep: usize) {
        let end = self.free.len() - keep;
        let cooled = &mut self.free[end + keep - self.warm..end];
        cooled.sort_unstable_by(|a, b| b.cmp(a));
        for run in cooled.chunk_by(|a, b| *a == *b + 1 && !(*a as usize).is_multiple_of(SEGMENT)) {
            let (from, until) = (run[run.len() - 1] as usize, run[0] as usize + 1);
            let segment = from / SEGMENT;
            let base = segment * SEGMENT;
            // Where that is denied the pages stay.
            let _ = self.segments[segment].give_back((from - base) * BLOCK..(until - base) * BLOCK);
        }
        self.warm = keep;
    }

    fn address(&self, block: u32) -> *mut u8 {
        let block = block as usize;
        self.segments[block / SEGMENT].as_ptr().wrapping_add(block % SEGMENT * BLOCK)
    }
}

/// The bytes of one message.
#[derive(Debug)]
pub enum UnexpectedBuffer {
    /// On the heap.
    Few(Vec<u8>),
    /// In blocks.
    Many(Blocks),
}

/// Blocks of a pool, given back on drop.
#[derive(Debug)]
pub struct Blocks {
    pool: SharedPool,
    blocks: Vec<u32>,
    len: usize,
}

impl Default for UnexpectedBuffer {
    fn default() -> UnexpectedBuffer {
        UnexpectedBuffer::Few(Vec::new())
    }
}

impl UnexpectedBuffer {
    /// Bytes that are kept.
    pub fn len(&self) -> usize {
        match self {
            UnexpectedBuffer::Few(bytes) => bytes.len(),
            UnexpectedBuffer::Many(many) => many.len,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes room for `more` bytes, which `fill` puts there: it gets the place of each piece in what is new, and its room.
    pub fn append(&mut self, pool: &SharedPool, more: usize, mut fill: impl FnMut(usize, &RecvBuf)) {
        let before = self.len();
        if let UnexpectedBuffer::Few(bytes) = self {
            if before + more <= FEW {
                bytes.reserve_exact(more);
                bytes.resize(before + more, 0);
                // SAFETY: the bytes were just made, and nobody else looks at them meanwhile.
                return fill(0, &unsafe { RecvBuf::contiguous(bytes[before..].as_mut_ptr(), more) });
            }
            let bytes = std::mem::take(bytes);
            let mut many = Blocks { pool: Rc::clone(pool), blocks: Vec::new(), len: 0 };
            // SAFETY: the slice is readable for the length of the piece from `at` on.
            many.append(before, |at, piece| unsafe { piece.copy_in(0, bytes[at..].as_ptr(), piece.len()) });
            *self = UnexpectedBuffer::Many(many);
        }
        if let UnexpectedBuffer::Many(many) = self {
            many.append(more, fill);
        }
    }

    /// Copies the first `len` bytes, or all, to the start of `sink`.
    pub fn copy_out(&self, len: usize, sink: &RecvBuf) {
        let len = len.min(self.len());
        match self {
            // SAFETY: the vector is readable for `len` bytes.
            UnexpectedBuffer::Few(bytes) => unsafe { sink.copy_in(0, bytes.as_ptr(), len) },
            UnexpectedBuffer::Many(many) => {
                let pool = many.pool.borrow();
                for (at, block) in (0..len).step_by(BLOCK).zip(&many.blocks) {
                    // SAFETY: the block belongs to this message.
                    unsafe { sink.copy_in(at, pool.address(*block), BLOCK.min(len - at)) };
                }
            }
        }
    }
}

impl Blocks {
    fn append(&mut self, more: usize, mut fill: impl FnMut(usize, &RecvBuf)) {
        let mut pool = self.pool.borrow_mut();
        let mut done = 0;
        self.blocks.reserve_exact((self.len + more).div_ceil(BLOCK) - self.blocks.len());
        while done < more {
            let used = self.len % BLOCK;
            if used == 0 {
                self.blocks.push(pool.take());
            }
            let here = (more - done).min(BLOCK - used);
            let start = pool.address(self.blocks[self.len / BLOCK]).wrapping_add(used);
            // SAFETY: the rest of the block belongs to this message, and nobody else looks at it.
            fill(done, &unsafe { RecvBuf::contiguous(start, here) });
            self.len += here;
            done += here;
        }
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        self.pool.borrow_mut().give(&self.blocks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Appends a copy of `bytes`.
    fn append_slice(kept: &mut UnexpectedBuffer, pool: &SharedPool, bytes: &[u8]) {
        // SAFETY: the slice is readable for the length of the piece from `at` on.
        kept.append(pool, bytes.len(), |at, piece| unsafe { piece.copy_in(0, bytes[at..].as_ptr(), piece.len()) });
    }

    fn contents(kept: &UnexpectedBuffer, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        // SAFETY: the vector outlives the buffer.
        kept.copy_out(len, &unsafe { RecvBuf::contiguous(out.as_mut_ptr(), len) });
        out
    }

    proptest! {
        #[test]
        fn keeps_what_is_appended_and_gives_it_back(
            messages in proptest::collection::vec(proptest::collection::vec(0usize..20_000, 1..6), 1..12),
            seed in any::<u8>(),
        ) {
            let pool = SharedPool::default();
            for _ in 0..3 {
                let mut all = Vec::new();
                for (i, pieces) in messages.iter().enumerate() {
                    let (mut kept, mut expected) = (UnexpectedBuffer::default(), Vec::new());
                    for (j, len) in pieces.iter().enumerate() {
                        let piece: Vec<u8> = (0..*len).map(|k| (k * 7 + i * 31 + j) as u8 ^ seed).collect();
                        append_slice(&mut kept, &pool, &piece);
                        expected.extend_from_slice(&piece);
                    }
                    all.push((kept, expected));
                }
                for (kept, expected) in all {
                    prop_assert_eq!(kept.len(), expected.len());
                    prop_assert!(contents(&kept, kept.len()) == expected);
                    let some = kept.len() / 2;
                    prop_assert!(contents(&kept, some) == expected[..some]);
                }
                let mut pool = pool.borrow_mut();
                prop_assert!(pool.warm <= BUSY);
                pool.rest();
                pool.rest();
                let mut free = pool.free.clone();
                free.sort_unstable();
                prop_assert!(free == (0..(pool.segments.len() * SEGMENT) as u32).collect::<Vec<_>>());
                prop_assert!(pool.warm <= WARM);
            }
        }
    }
}
