//! Cells: room for large payloads in an inbox, shared by all of its senders.
//!
//! A sender claims a cell, fills it, and sends a record that names it; the receiver copies the data out and frees the cell. A sender
//! may *keep* its share of the cells: such a cell is not freed, but its sender's again when the ring says that the record is consumed,
//! which spares both sides two cache lines that would go to and fro. Claims go round through all cells, so that a cell is written again as late as possible: by then its lines have moved from the private
//! caches to the shared one, where both sides reach them at full speed (`docs/design/0003-cells.md`: three times the
//! bandwidth of a ring that stays in the private caches).
//!
//! *Segments* are claimed in the same way ([`crate::outbox`]): larger ones, of which only so many as their owner has *opened* can be
//! claimed: none at rest, more while much is streamed to it ([`crate::burst`]). Nothing depends on when a sender notices that they were
//! closed; closed ones come back as they are freed, and whoever then holds them for a moment, which [`Cells::take_closed`] does, may
//! remove their pages.
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
    /// How many cells may be claimed, as far as the owner has said.
    fn load_open(&self, order: std::sync::atomic::Ordering) -> u32;
    /// Says so.
    fn store_open(&self, cells: u32);
    /// A sequentially consistent fence.
    fn fence(&self);
}

/// Where the payload of a record lies, as the record says it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CellName(u32);

/// The same, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In this cell, which its receiver frees unless its sender keeps it.
    Cell {
        /// Its number.
        index: usize,
        /// Its sender takes it back by itself.
        kept: bool,
    },
    /// In the segments, so many lines from the first one's start. Its sender takes the room back by itself.
    Segments {
        /// Lines of 64 bytes.
        line: usize,
    },
}

impl CellName {
    const KEPT: u32 = 1 << 31;
    const SEGMENTS: u32 = 1 << 30;

    /// A cell, kept by its sender or to be freed.
    pub fn new(index: usize, kept: bool) -> CellName {
        CellName(index as u32 | if kept { CellName::KEPT } else { 0 })
    }

    /// A place in the segments.
    pub fn in_segments(line: usize) -> CellName {
        CellName(line as u32 | CellName::SEGMENTS)
    }

    /// From what a record says, whatever that is.
    pub fn from_number(number: u32) -> CellName {
        CellName(number)
    }

    /// As a record says it.
    pub fn number(self) -> u32 {
        self.0
    }

    /// Where that is. Nothing is checked.
    #[inline]
    pub fn place(self) -> Place {
        let number = (self.0 & !(CellName::KEPT | CellName::SEGMENTS)) as usize;
        match self.0 & CellName::SEGMENTS {
            0 => Place::Cell { index: number, kept: self.0 & CellName::KEPT != 0 },
            _ => Place::Segments { line: number },
        }
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

    /// How many of them may be claimed.
    #[inline]
    pub fn open(&self) -> usize {
        self.count.min(self.states.load_open(Relaxed) as usize)
    }

    /// From now on the first `open` cells may be claimed. [`Cells::take_closed`] must follow if these are fewer.
    pub fn set_open(&self, open: usize) {
        self.states.store_open(open as u32);
        // SYNC(cells.open): a cell is freed before this fence, and `take_closed` finds it, or `give_back` finds it closed.
        self.states.fence();
    }

    /// Takes the cells of `range` that are free and closed, lends runs of them to `remove`, and frees them.
    pub fn take_closed(
        &self,
        who: usize,
        range: std::ops::Range<usize>,
        mut remove: impl FnMut(std::ops::Range<usize>),
    ) {
        let (mut cell, end) = (range.start.max(self.open()), range.end.min(self.count));
        while cell < end {
            let first = cell;
            // SYNC(cell.free): what its last receiver read may now be removed.
            while cell < end && self.states.claim(cell, who as u32 + 1, Acquire) {
                cell += 1;
            }
            if cell > first {
                remove(first..cell);
                (first..cell).for_each(|cell| self.free(cell));
            }
            cell += 1;
        }
    }

    /// Frees a cell; if it is closed, as [`Cells::take_closed`].
    pub fn give_back(&self, who: usize, cell: usize, remove: impl FnMut(std::ops::Range<usize>)) {
        self.free(cell);
        // SYNC(cells.open): see `set_open`.
        self.states.fence();
        self.take_closed(who, cell..cell + 1, remove);
    }

    /// A free cell, from now on held by `who`.
    pub fn claim(&self, who: usize) -> Option<usize> {
        let open = self.open();
        if open == 0 {
            return None;
        }
        let start = self.states.load_hint() as usize % open;
        for step in 0..open {
            let cell = match start + step {
                cell if cell < open => cell,
                beyond => beyond - open,
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
