//! A sender's side of somebody's inbox ([`crate::layout`]).
//!
//! A sender maps it on first use, compares magic, version, sizes and nonce, and from then on writes only its own ring, its bit
//! and, when it rings, the asleep word. Setting the bit is the one read-modify-write of a connection.

mod arena;

use crate::cells::{CellName, Cells, Place};
use crate::layout::*;
use crate::ring::{Corrupt, LINE, PREFIX, Producer, Slot, payload_max};
use crate::sleep;
use arena::Arena;
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use sys::mem::Mapping;

/// A sender keeps its share of the cells only if it is at least so many: a few would bound what is under way.
const SHARE_MIN: usize = 8;

/// The sender's side of somebody's inbox.
#[derive(Debug)]
pub struct Outbox {
    producer: Producer<MappedWords>,
    /// The owner's barrier also covers this process.
    covered: bool,
    identity: Identity,
    cells: Cells<MappedCells>,
    geometry: Geometry,
    sender: usize,
    /// Cells that it may keep.
    share: usize,
    /// Those that it keeps, and the positions behind the records that named them last; in that order.
    kept: VecDeque<(usize, u64)>,
    arena: Arena,
    /// Position behind the last record that names a cell.
    cells_until: u64,
    /// Cells that were read are used again before new ones.
    is_compact: bool,
    mapping: Mapping,
}

// SAFETY: as for `Inbox`.
unsafe impl Send for Outbox {}

/// Room for one record in an [`Outbox`].
#[derive(Debug)]
pub struct Room {
    slot: Slot,
    /// Where the payload goes: as many bytes as were reserved, and never less than 32.
    pub payload: *mut u8,
}

impl Outbox {
    /// Connects as sender `sender` to the inbox `fd`, which must be that of the process with this `nonce`.
    pub fn open(fd: BorrowedFd<'_>, sender: usize, nonce: u128) -> io::Result<Outbox> {
        let mapping = Mapping::shared(fd, sys::mem::fixed_size(fd)?)?;
        Outbox::over(mapping, sender, nonce)
    }

    /// As [`Outbox::open`], for an inbox that is in a file.
    pub fn open_file(file: &std::fs::File, sender: usize, nonce: u128) -> io::Result<Outbox> {
        Outbox::over(Mapping::of_file(file)?, sender, nonce)
    }

    /// As [`Outbox::open`], for an inbox of `len` bytes at `offset` of memory that kernels share.
    pub fn open_in_region(
        file: &std::fs::File,
        (offset, len): (u64, usize),
        sender: usize,
        nonce: u128,
    ) -> io::Result<Outbox> {
        Outbox::over(Mapping::of_part(file, offset, len)?, sender, nonce)
    }

    fn over(mapping: Mapping, sender: usize, nonce: u128) -> io::Result<Outbox> {
        let bad = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        let bytes = mapping.len();
        if bytes < PAGE {
            return bad("inbox is too small");
        }
        // SAFETY: at least a page is mapped.
        let load = |at| unsafe { word(mapping.as_ptr(), at) }.load(Acquire);
        if load(AT_MAGIC) != MAGIC || load(AT_VERSION) != VERSION {
            return bad("inbox has another format: do all ranks use the same version of Ferrule?");
        }
        let seen = u128::from(load(AT_NONCE)) | u128::from(load(AT_NONCE + 8)) << 64;
        if seen != nonce {
            return bad("inbox belongs to another process");
        }
        let [senders, ring_bytes] = [AT_SENDERS, AT_RING_BYTES].map(|at| load(at) as usize);
        let [cells, segments] = [AT_CELLS, AT_SEGMENTS].map(|at| load(at) as usize);
        let cells = CellCounts { cells, segments };
        let Some(geometry) = Geometry::new(senders, ring_bytes, cells) else {
            return bad("inbox has impossible sizes");
        };
        if geometry.bytes() != bytes || sender >= geometry.senders {
            return bad("inbox has other sizes than it says");
        }
        let identity = Identity { nonce, probe_address: load(AT_PROBE_ADDRESS), probe_value: load(AT_PROBE_VALUE) };
        let covered = load(AT_FLAGS) & FLAG_BARRIER != 0 && sys::wake::register_barrier();
        // SAFETY: page 0 is mapped, the sender's number is below SENDERS_MAX.
        unsafe { word(mapping.as_ptr(), AT_ACTIVE + sender / 64 * 8) }.fetch_or(1 << (sender % 64), SeqCst);
        // SAFETY: the mapping has the geometry's size (checked) and lives in the same object.
        let words = unsafe { MappedWords::new(mapping.as_ptr(), geometry, sender) };
        let producer = Producer::new(words, ring_bytes / LINE);
        // SAFETY: as above.
        let states = unsafe { [MappedCells::cells, MappedCells::segments].map(|of| of(mapping.as_ptr(), geometry)) };
        let [cells, segments] = states;
        let cells = Cells::new(cells, geometry.cells.cells);
        let segments = Cells::new(segments, geometry.cells.segments);
        let share = cells.count() / (geometry.senders - 1).max(1);
        Ok(Outbox {
            producer,
            covered,
            identity,
            cells,
            geometry,
            sender,
            share: if share >= SHARE_MIN { share } else { 0 },
            kept: VecDeque::new(),
            arena: Arena::new(segments, geometry, sender),
            cells_until: 0,
            is_compact: false,
            mapping,
        })
    }

    /// What the owner tells.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Largest payload of a record.
    pub fn payload_max(&self) -> usize {
        payload_max(self.geometry.ring_bytes / LINE)
    }

    /// Cells of the inbox, shared with its other senders.
    pub fn cells(&self) -> usize {
        self.cells.count()
    }

    /// From now on uses as few cells as will do: better for ranks that take turns on a processor, whose caches can't hold what all of
    /// them go round through.
    pub fn stay_compact(&mut self) {
        self.is_compact = true;
    }

    /// Bytes that it can send by cells while the owner reads nothing.
    pub fn share_bytes(&self) -> usize {
        self.share * CELL_BYTES
    }

    /// Largest payload that [`Outbox::claim_cell`] has room for now.
    pub fn piece_max(&self) -> usize {
        if self.arena.is_open() { PIECE_MAX } else { CELL_BYTES }
    }

    /// Room for `len` bytes, aligned to 64; [`Outbox::publish_cell`] must follow, or it stays claimed. `borrows`: in lent segments, if there
    /// are any; what is larger than a cell goes there anyway.
    pub fn claim_cell(&mut self, len: usize, borrows: bool) -> Option<(CellName, *mut u8)> {
        if (borrows || len > CELL_BYTES) && self.arena.try_open(&self.mapping) {
            let is_consumed = |until| self.producer.is_consumed(until);
            return if len <= PIECE_MAX { self.arena.take(len, &self.mapping, is_consumed) } else { None };
        }
        if len > CELL_BYTES {
            return None;
        }
        let (index, kept) = self.next_cell()?;
        Some((CellName::new(index, kept), self.cells.states().data(index)))
    }

    /// A cell, and whether this sender keeps it. New cells up to its share, then the one of them that was sent first, then what others
    /// leave. Compact: new cells only if that one is unread.
    fn next_cell(&mut self) -> Option<(usize, bool)> {
        let first_until = self.kept.front().map(|(_, until)| *until);
        let first_is_read = first_until.is_some_and(|until| self.producer.is_consumed(until));
        if self.kept.len() < self.share
            && !(self.is_compact && first_is_read)
            && let Some(cell) = self.cells.claim(self.sender)
        {
            return Some((cell, true));
        }
        if first_is_read && let Some((cell, _)) = self.kept.pop_front() {
            return Some((cell, true));
        }
        self.cells.claim(self.sender).map(|cell| (cell, false))
    }

    /// Before this process sleeps: gives back what was lent to it, as far as the receiver has read it.
    pub fn rest(&mut self) {
        if self.arena.holds_any() {
            self.arena.close();
            self.arena.settle(&self.mapping, |until| self.producer.is_consumed(until));
        }
    }

    /// As [`Outbox::publish`], of a record that names the cell claimed last.
    #[must_use]
    pub fn publish_cell(&mut self, room: Room, header: &[u64; HEADER_WORDS], cell: CellName) -> bool {
        let ring = self.publish(room, header);
        self.cells_until = self.producer.position();
        match cell.place() {
            Place::Cell { index, kept: true } => self.kept.push_back((index, self.cells_until)),
            Place::Cell { kept: false, .. } => {}
            Place::Segments { .. } => self.arena.published(self.cells_until),
        }
        if self.arena.holds_any() {
            self.arena.settle(&self.mapping, |until| self.producer.is_consumed(until));
        }
        ring
    }

    /// Whether the receiver still has cells of ours to read, and will say so when it has.
    pub fn waits_for_cells(&mut self) -> bool {
        self.cells_until > 0 && !self.producer.is_consumed(self.cells_until)
    }

    /// The last [`crate::inbox::Inbox::advise`] of the owner.
    pub fn advice(&self) -> u32 {
        self.producer.words().advice().load(Relaxed)
    }

    /// Announces that this process is about to sleep until there is room. Try to reserve once more afterwards.
    pub fn want_room(&mut self) {
        sleep::fall_asleep(&self.producer.words().wants_room());
    }

    /// Room for a payload of `len` bytes, at most [`Outbox::payload_max`]; `None` if the ring is full.
    #[inline(always)]
    pub fn reserve(&mut self, len: usize) -> Result<Option<Room>, Corrupt> {
        Ok(self.producer.reserve(len)?.map(|slot| self.room(slot)))
    }

    /// As [`Outbox::reserve`], without a look at how far the owner is; `None` says little.
    #[inline(always)]
    pub fn reserve_at_hand(&self, len: usize) -> Option<Room> {
        self.producer.reserve_at_hand(len).map(|slot| self.room(slot))
    }

    #[inline(always)]
    fn room(&self, slot: Slot) -> Room {
        // SAFETY: the slot is inside the ring, and the prefix inside the slot.
        let payload = unsafe { self.producer.words().at(slot.line).add(PREFIX) };
        Room { slot, payload }
    }

    /// Sends what was put into `room`, the last one reserved. True if the owner sleeps and its bell must be rung.
    #[inline(always)]
    #[must_use]
    pub fn publish(&mut self, room: Room, header: &[u64; HEADER_WORDS]) -> bool {
        for (i, value) in header.iter().enumerate() {
            // SAFETY: the header is inside the slot, in front of the payload.
            unsafe { &*room.payload.sub(PREFIX - 8 - 8 * i).cast::<AtomicU64>() }.store(*value, Relaxed);
        }
        self.producer.publish(room.slot);
        // SAFETY: page 0 is mapped.
        sleep::must_ring(unsafe { asleep(self.mapping.as_ptr()) }, self.covered)
    }
}
