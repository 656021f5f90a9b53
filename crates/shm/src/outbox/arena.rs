//! The segments that a sender has borrowed from an inbox while much is streamed there.
//!
//! Pieces are put one behind the other. When a segment is full, the next one is claimed until the sender has its share; from then on
//! the segment that was filled first is filled again, once the ring says that all of it has been read. So all pieces go round through
//! the whole share, and a claim is rare.
//!
//! ```text
//!          the owner lends, a claim succeeds
//! closed ────────────────────────────────────► open ── owner closes, or this process rests ──► closed
//! ```
//! A closed arena may still hold segments that are not read to their end; they are given back when they are, or used when it opens again.

use crate::cells::{CellName, Cells};
use crate::layout::*;
use crate::ring::LINE;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use sys::mem::Mapping;

/// With fewer segments a sender would wait for its receiver after every few pieces.
const SHARE_MIN: usize = 2;
/// Pieces that go through cells before the next attempt, when others hold all segments.
const RETRY_AFTER: u32 = 64;

/// A sender's segments.
#[derive(Debug)]
pub(super) struct Arena {
    segments: Cells<MappedCells>,
    geometry: Geometry,
    sender: usize,
    /// Those that it holds, in the order in which they were begun. Pieces go into the last one.
    held: VecDeque<Held>,
    /// Bytes of the last one that are used.
    used: usize,
    /// Pieces go here.
    is_open: bool,
    /// Pieces until the next attempt to open it.
    retry_in: u32,
}

#[derive(Debug)]
struct Held {
    segment: usize,
    /// Position behind the last record that names it.
    until: u64,
}

impl Arena {
    /// No segments yet.
    pub(super) fn new(segments: Cells<MappedCells>, geometry: Geometry, sender: usize) -> Arena {
        Arena { segments, geometry, sender, held: VecDeque::new(), used: SEGMENT_BYTES, is_open: false, retry_in: 0 }
    }

    /// Whether pieces go here.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// How many segments this sender may hold, as the owner says; 0 while it lends none.
    fn share(&self, mapping: &Mapping) -> usize {
        // SAFETY: page 0 is mapped.
        let share = unsafe { word(mapping.as_ptr(), AT_SEGMENT_SHARE) }.load(Relaxed) as usize;
        if self.segments.open() == 0 { 0 } else { share.min(self.segments.count()) }
    }

    /// Opens it if the owner lends segments and some are free. Whether it is open.
    #[inline]
    pub(super) fn try_open(&mut self, mapping: &Mapping) -> bool {
        if self.is_open || self.segments.count() == 0 || self.segments.open() == 0 {
            return self.is_open;
        }
        self.borrow(mapping)
    }

    #[cold]
    fn borrow(&mut self, mapping: &Mapping) -> bool {
        if self.retry_in > 0 {
            self.retry_in -= 1;
            return false;
        }
        self.retry_in = RETRY_AFTER;
        self.is_open = self.share(mapping) >= SHARE_MIN && (self.held.len() >= SHARE_MIN || self.claim(mapping));
        self.is_open
    }

    /// Another segment, empty.
    fn claim(&mut self, mapping: &Mapping) -> bool {
        let Some(segment) = self.segments.claim(self.sender) else { return false };
        // One system call instead of a fault per page. If it fails, the faults come.
        let _ = mapping.populate(self.geometry.segment_at(segment)..self.geometry.segment_at(segment + 1));
        self.held.push_back(Held { segment, until: 0 });
        self.used = 0;
        true
    }

    /// Room for `len` bytes, at most [`PIECE_MAX`]; `None` until the receiver has read more. [`Arena::published`] follows.
    pub(super) fn take(
        &mut self,
        len: usize,
        mapping: &Mapping,
        is_consumed: impl FnMut(u64) -> bool,
    ) -> Option<(CellName, *mut u8)> {
        if self.used + len > SEGMENT_BYTES && !self.next_segment(mapping, is_consumed) {
            return None;
        }
        let segment = self.held.back()?.segment;
        let name = CellName::in_segments((segment * SEGMENT_BYTES + self.used) / LINE);
        let data = self.segments.states().data(segment).wrapping_add(self.used);
        self.used += len.next_multiple_of(LINE);
        Some((name, data))
    }

    /// New segments up to the share, then the oldest one.
    fn next_segment(&mut self, mapping: &Mapping, mut is_consumed: impl FnMut(u64) -> bool) -> bool {
        let share = self.share(mapping);
        if self.held.len() < share && self.claim(mapping) {
            return true;
        }
        while let Some(first) = self.held.front()
            && is_consumed(first.until)
        {
            // What the owner has closed is used on until `settle`, as the caller has a piece that is too large for a cell.
            if share > 0 && self.held.len() > share {
                self.give_back_first(mapping);
                continue;
            }
            let first = self.held.pop_front();
            self.held.extend(first);
            self.used = 0;
            return true;
        }
        false
    }

    /// The record that names what was taken last ends at this position of the ring.
    pub(super) fn published(&mut self, until: u64) {
        if let Some(last) = self.held.back_mut() {
            last.until = until;
        }
    }

    /// Closes if the owner has; gives back what its receiver has read, if no pieces go here any more.
    pub(super) fn settle(&mut self, mapping: &Mapping, mut is_consumed: impl FnMut(u64) -> bool) {
        if self.segments.open() == 0 {
            self.close();
        }
        while !self.is_open
            && let Some(first) = self.held.front()
            && is_consumed(first.until)
        {
            self.give_back_first(mapping);
        }
    }

    /// No more pieces go here.
    pub(super) fn close(&mut self) {
        self.is_open = false;
        self.used = SEGMENT_BYTES;
        self.retry_in = 0;
    }

    /// Whether it holds any.
    pub(super) fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    #[cold]
    fn give_back_first(&mut self, mapping: &Mapping) {
        let Some(first) = self.held.pop_front() else { return };
        if self.held.is_empty() {
            self.used = SEGMENT_BYTES;
        }
        let remove = |segments| remove_segments(mapping, self.geometry, segments);
        self.segments.give_back(self.sender, first.segment, remove);
    }
}
