//! Cells: room for large payloads in an inbox, shared by all of its senders.
//!
//! A sender claims a cell, fills it, and sends a record that names it; the receiver copies the data out and frees the cell. A sender
//! may *keep* its share of the cells: such a cell is not freed, but its sender's again when the ring says that the record is consumed,
//! which spares both sides two cache lines that would go to and fro. Claims go round through all cells, so that a cell is written again as late as possible: by then its lines have moved from the private
//! caches to the shared one, where both sides reach them at full speed (`docs/design/0003-cells.md`: three times the
//! bandwidth of a ring that stays in the private caches).
//!
//! A cell's state is 0 when it is free, else the number of its holder plus one. Only a claim is a read-modify-write. A holder that
//! dies loses its cells by [`Cells::free_all_of`].
//!
//! The logic knows memory only as [`States`]: the product gives it mapped memory, loom its model of it.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The words that order the holders of cells.
pub trait States {
    /// The state of `cell`.
    fn load(&self, cell: usize, order: std::sync::atomic::Ordering) -> u32;
    /// Sets the state of `cell`.
    fn store(&self, cell: usize, state: u32, order: std::sync::atomic::Ordering);
    /// Sets the state of `cell` to `state` if it is 0; whether it was.
    fn claim(&self, cell: usize, state: u32, success: std::sync::atomic::Ordering) -> bool;
    /// Where the next search begins: a hint that any sender may overwrite.
    fn load_hint(&self) -> u32;
    /// Moves the hint.
    fn store_hint(&self, cell: u32);
}

/// What a record calls a cell: its number, and whether its sender keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CellName(u32);

impl CellName {
    const KEPT: u32 = 1 << 31;

    /// A cell, kept by its sender or to be freed.
    pub fn new(index: usize, kept: bool) -> CellName {
        CellName(index as u32 | if kept { CellName::KEPT } else { 0 })
    }

    /// From what a record says, whatever that is.
    pub fn from_number(number: u32) -> CellName {
        CellName(number)
    }

    /// As a record says it.
    pub fn number(self) -> u32 {
        self.0
    }

    /// Which cell.
    pub fn index(self) -> usize {
        (self.0 & !CellName::KEPT) as usize
    }

    /// Whether its sender takes it back by itself.
    pub fn is_kept(self) -> bool {
        self.0 & CellName::KEPT != 0
    }
}

/// The agreement about `count` cells.
#[derive(Debug)]
pub struct Cells<S> {
    states: S,
    count: usize,
}

impl<S: States> Cells<S> {
    /// Cells with these states.
    pub fn new(states: S, count: usize) -> Cells<S> {
        Cells { states, count }
    }

    /// The states that it was made with.
    pub fn states(&self) -> &S {
        &self.states
    }

    /// Number of cells.
    pub fn count(&self) -> usize {
        self.count
    }

    /// A free cell, from now on held by `who`.
    pub fn claim(&self, who: usize) -> Option<usize> {
        if self.count == 0 {
            return None;
        }
        let start = self.states.load_hint() as usize % self.count;
        for step in 0..self.count {
            let cell = match start + step {
                cell if cell < self.count => cell,
                beyond => beyond - self.count,
            };
            // SYNC(cell.free): what its last receiver read may now be overwritten.
            if self.states.load(cell, Relaxed) == 0 && self.states.claim(cell, who as u32 + 1, Acquire) {
                self.states.store_hint(cell as u32 + 1);
                return Some(cell);
            }
        }
        None
    }

    /// Whether `who` holds `cell`; false for cells that don't exist.
    pub fn holds(&self, who: usize, cell: usize) -> bool {
        cell < self.count && self.states.load(cell, Relaxed) == who as u32 + 1
    }

    /// The cell may be claimed again. It exists.
    pub fn free(&self, cell: usize) {
        // SYNC(cell.free): all reads of its data are done before it is claimed again.
        self.states.store(cell, 0, Release);
    }

    /// Takes its cells from a holder that is gone.
    pub fn free_all_of(&self, who: usize) {
        (0..self.count).filter(|cell| self.holds(who, *cell)).for_each(|cell| self.free(cell));
    }
}
