//! Memory that windows allocate, and the words of their locks.
//!
//! A process has one part of its heap for each window: a page with [`Words`], then the memory of the window if the library allocates it. Ranks under the same
//! kernel map it. Where nothing can be shared the same lies in private memory, and only this process uses it: on behalf of others, too.

use crate::cs::Section;
use crate::{engine, memory, progress};
use base::{Class, Error, Peer, Result, log};
use channel::shm::heap::{Heap, Part};
use channel::transports;
use std::sync::atomic::{AtomicU64, Ordering};
use sys::mem::Mapping;

/// Where the memory of the window begins, behind the words.
const DATA_AT: usize = 4096;

/// The bit of a lock that somebody has alone; the rest is its rank. Without it, the number of those who share the lock.
const ALONE: u64 = 1 << 63;

/// What the processes of a window agree by about the memory of one of them.
#[repr(transparent)]
#[derive(Default, Debug)]
pub struct Words([AtomicU64; 2]);

/// The word of `MPI_Win_lock`, and that of whoever accumulates.
const LOCK: usize = 0;
const ACCUMULATE: usize = 1;

impl Words {
    /// Tries to take the lock of `MPI_Win_lock`.
    pub fn try_lock(&self, alone: bool, rank: usize) -> bool {
        let before = self.0[LOCK].load(Ordering::Relaxed);
        let after = match (alone, before) {
            (true, 0) => ALONE | rank as u64,
            (true, _) => return false,
            (false, shared) if shared & ALONE == 0 => shared + 1,
            (false, _) => return false,
        };
        // SYNC(window-lock): acquires what the holders before have released.
        self.0[LOCK].compare_exchange(before, after, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Gives the lock back.
    pub fn unlock(&self, alone: bool) {
        // SYNC(window-lock): publishes what was written under it.
        match alone {
            true => self.0[LOCK].store(0, Ordering::SeqCst),
            false => drop(self.0[LOCK].fetch_sub(1, Ordering::SeqCst)),
        }
    }

    /// Who has the lock alone.
    pub fn holder(&self) -> Option<usize> {
        let word = self.0[LOCK].load(Ordering::Relaxed);
        (word & ALONE != 0).then_some((word & !ALONE) as usize)
    }

    /// Tries to become the one who accumulates.
    pub fn try_accumulate(&self, rank: usize) -> bool {
        // SYNC(window-accumulate): acquires what the one before has released.
        self.0[ACCUMULATE].compare_exchange(0, rank as u64 + 1, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Who accumulates.
    pub fn accumulator(&self) -> Option<usize> {
        self.0[ACCUMULATE].load(Ordering::Relaxed).checked_sub(1).map(|rank| rank as usize)
    }

    /// Lets others accumulate.
    pub fn end_accumulate(&self) {
        // SYNC(window-accumulate): publishes what was accumulated.
        self.0[ACCUMULATE].store(0, Ordering::SeqCst);
    }
}

/// What a process has allocated for one window.
#[derive(Debug)]
pub enum Memory {
    /// A part of the heap.
    Shared(Part, Mapping),
    /// Words, and the address of memory of `MPI_Alloc_mem`.
    Private(Box<Words>, *mut u8),
}

impl Memory {
    /// Words and `data` bytes.
    pub fn new(cs: &Section, data: usize) -> Result<Memory> {
        const EXHAUSTED: Error = Error::new(Class::ERR_NO_MEM, "there is not enough memory for the window");
        let len = data.checked_add(DATA_AT).ok_or(EXHAUSTED)?;
        let shared = with_heap(cs, |heap| {
            let part = heap.allocate(len)?;
            heap.map(part).map(|mapping| (part, mapping)).inspect_err(|_| heap.free(part))
        });
        match shared {
            Some(Ok((part, mapping))) => Ok(Memory::Shared(part, mapping)),
            Some(Err(error)) => {
                log!(Info, "no shared memory of {len} bytes for a window: {error}");
                Err(EXHAUSTED)
            }
            None if data == 0 => Ok(Memory::Private(Box::default(), std::ptr::null_mut())),
            None => {
                let address = memory::allocate(cs, i64::try_from(data).map_err(|_| EXHAUSTED)?, DATA_AT)?;
                // SAFETY: `data` bytes were just allocated there.
                unsafe { address.cast::<u8>().write_bytes(0, data) };
                Ok(Memory::Private(Box::default(), address.cast()))
            }
        }
    }

    /// What ranks under the same kernel can map.
    pub fn part(&self) -> Option<Part> {
        match self {
            Memory::Shared(part, _) => Some(*part),
            Memory::Private(..) => None,
        }
    }

    pub fn words(&self) -> *const Words {
        match self {
            Memory::Shared(_, mapping) => words_of(mapping),
            Memory::Private(words, _) => &raw const **words,
        }
    }

    /// The memory of the window.
    pub fn data(&self) -> *mut u8 {
        match self {
            Memory::Shared(_, mapping) => data_of(mapping),
            Memory::Private(_, address) => *address,
        }
    }

    /// Frees it all; what is left has no memory.
    pub fn free(&mut self, cs: &Section) -> Result {
        match std::mem::replace(self, Memory::Private(Box::default(), std::ptr::null_mut())) {
            Memory::Shared(part, mapping) => {
                drop(mapping);
                with_heap(cs, |heap| heap.free(part));
                Ok(())
            }
            Memory::Private(_, address) => memory::free(cs, address.cast()),
        }
    }
}

/// The words at the beginning of a mapped part.
pub fn words_of(mapping: &Mapping) -> *const Words {
    mapping.as_ptr().cast()
}

/// The memory of the window behind them.
pub fn data_of(mapping: &Mapping) -> *mut u8 {
    mapping.as_ptr().wrapping_add(DATA_AT)
}

fn with_heap<R>(cs: &Section, f: impl FnOnce(&mut Heap) -> R) -> Option<R> {
    engine::with(cs, |engine| transports::heap(engine.endpoints()).map(f))
}

/// Maps a part of a peer's heap; none if the peer isn't reached through shared memory.
pub fn map(cs: &mut Section, peer: Peer, part: Part) -> Option<Mapping> {
    if !engine::with(cs, |engine| transports::may_be_near(engine.endpoints(), peer)) {
        return None;
    }
    // The lane has to be open.
    let flush = engine::with(cs, |engine| engine.post_flush(peer));
    let mut opened = None;
    progress::wait_until(cs, |cs| {
        opened = engine::with(cs, |engine| engine.take_access(flush));
        opened.is_some()
    });
    let mapped = engine::with(cs, |engine| transports::map_part(engine.endpoints(), peer, part));
    mapped.inspect_err(|error| log!(Info, "the memory of a window is not mapped: {error}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_shared_or_alone() {
        let words = Words::default();
        assert!(words.try_lock(false, 1) && words.try_lock(false, 2) && !words.try_lock(true, 3));
        words.unlock(false);
        assert!(!words.try_lock(true, 3));
        words.unlock(false);
        assert_eq!(words.holder(), None);
        assert!(words.try_lock(true, 0) && !words.try_lock(true, 1) && !words.try_lock(false, 1));
        assert_eq!(words.holder(), Some(0));
        words.unlock(true);
        assert!(words.try_lock(false, 0));
        assert!(words.try_accumulate(3) && !words.try_accumulate(2));
        assert_eq!(words.accumulator(), Some(3));
        words.end_accumulate();
        assert!(words.try_accumulate(0));
    }
}
