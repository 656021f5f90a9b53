//! The memory that a process has attached to a dynamic window (MPI-5.0, 12.2.5), in a table that the ranks under its kernel map.
//!
//! Only the owner writes the table, inside its critical section. A reader copies an entry between two looks at the number of changes: if that is odd or has
//! moved, the copy is worth nothing. What doesn't find its place here is asked for by a message.

use protocol::memory::Key;
use std::sync::atomic::{AtomicU64, Ordering};

/// Regions that have a place in the table.
pub const REGIONS_MAX: usize = 512;
/// Looks at a table that is being changed before a reader gives up.
const LOOKS: usize = 64;
const ENTRY_WORDS: usize = 5;

/// The word that counts changes, that of the number of regions, and where the entries begin.
const CHANGES: usize = 0;
const COUNT: usize = 1;
const ENTRIES: usize = 2;

/// See the head of this file. All zeroes is a table without regions.
#[repr(transparent)]
pub struct Table([AtomicU64; ENTRIES + ENTRY_WORDS * REGIONS_MAX]);

/// Bytes of a [`Table`].
pub const TABLE_BYTES: usize = size_of::<Table>();

/// One region: where it begins in its owner's address space, and the key that others access it by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    pub start: u64,
    pub key: Key,
}

impl Region {
    fn words(&self) -> [u64; ENTRY_WORDS] {
        [self.start, self.key.number.into(), self.key.nonce, self.key.len, self.key.record]
    }

    fn of([start, number, nonce, len, record]: [u64; ENTRY_WORDS]) -> Region {
        Region { start, key: Key { number: number as u32, nonce, len, record } }
    }

    fn holds(&self, low: i128, high: i128) -> bool {
        low >= i128::from(self.start) && high <= i128::from(self.start) + i128::from(self.key.len)
    }
}

impl Table {
    /// Replaces what is in the table; more than [`REGIONS_MAX`] are left out.
    pub fn set(&self, regions: impl Iterator<Item = Region>) {
        let before = self.0[CHANGES].load(Ordering::Relaxed);
        // SYNC(window-regions): a reader that sees anything of what follows sees this first.
        self.0[CHANGES].store(before | 1, Ordering::SeqCst);
        let mut count = 0;
        for (entry, region) in self.entries().zip(regions) {
            for (place, word) in entry.iter().zip(region.words()) {
                place.store(word, Ordering::SeqCst);
            }
            count += 1;
        }
        self.0[COUNT].store(count, Ordering::SeqCst);
        // SYNC(window-regions): publishes the entries.
        self.0[CHANGES].store((before | 1).wrapping_add(1), Ordering::SeqCst);
    }

    /// The region that holds the bytes `low .. high` of the owner's address space.
    pub fn find(&self, low: i128, high: i128) -> Option<Region> {
        for _ in 0..LOOKS {
            // SYNC(window-regions): acquires the entries.
            let before = self.0[CHANGES].load(Ordering::SeqCst);
            let found = self.look(low, high);
            // SYNC(window-regions): nothing of the entries was newer than the first look.
            if before.is_multiple_of(2) && self.0[CHANGES].load(Ordering::SeqCst) == before {
                return found;
            }
            std::hint::spin_loop();
        }
        None
    }

    fn entries(&self) -> impl Iterator<Item = &[AtomicU64]> {
        self.0[ENTRIES..].chunks_exact(ENTRY_WORDS)
    }

    fn look(&self, low: i128, high: i128) -> Option<Region> {
        let count = (self.0[COUNT].load(Ordering::SeqCst) as usize).min(REGIONS_MAX);
        let word = |entry: &[AtomicU64], at: usize| entry[at].load(Ordering::SeqCst);
        let mut regions = self.entries().take(count).map(|entry| Region::of(std::array::from_fn(|at| word(entry, at))));
        regions.find(|region| region.holds(low, high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: u64, len: u64) -> Region {
        Region { start, key: Key { number: start as u32, nonce: start ^ len, len, record: start + 1 } }
    }

    fn empty() -> Box<Table> {
        Box::new(Table(std::array::from_fn(|_| AtomicU64::new(0))))
    }

    #[test]
    fn a_region_holds_what_is_all_in_it() {
        let table = empty();
        assert_eq!(table.find(0, 1), None);
        table.set([region(1000, 100), region(1100, 50)].into_iter());
        assert_eq!(table.find(1000, 1100), Some(region(1000, 100)));
        assert_eq!(table.find(1100, 1101), Some(region(1100, 50)));
        for (low, high) in
            [(999, 1001), (1099, 1101), (1149, 1151), (-5, 0), (i128::from(u64::MAX), i128::from(u64::MAX) + 1)]
        {
            assert_eq!(table.find(low, high), None, "{low} {high}");
        }
        table.set(std::iter::empty());
        assert_eq!(table.find(1000, 1100), None);
    }

    #[test]
    fn what_has_no_place_is_left_out() {
        let table = empty();
        table.set((0..2 * REGIONS_MAX as u64).map(|i| region(100 * i, 10)));
        let last = REGIONS_MAX as i128 - 1;
        assert!(table.find(100 * last, 100 * last + 10).is_some());
        assert_eq!(table.find(100 * (last + 1), 100 * (last + 1) + 10), None);
        // A count that its owner can't have written.
        table.0[COUNT].store(u64::MAX, Ordering::Relaxed);
        assert_eq!(table.find(-1, 0), None);
    }

    #[test]
    fn readers_never_see_half_a_change() {
        let table = empty();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..20_000u64 {
                    let nonce = round % 7;
                    table.set((0..3).map(|i| region(10 * i, 10 + nonce)));
                }
            });
            scope.spawn(|| {
                for round in 0..20_000 {
                    let low = 10 * (round % 3);
                    if let Some(found) = table.find(low, low + 10) {
                        assert_eq!(found, region(found.start, found.key.len));
                    }
                }
            });
        });
    }
}
