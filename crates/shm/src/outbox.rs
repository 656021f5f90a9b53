//! A sender's side of somebody's inbox ([`crate::layout`]).
//!
//! A sender maps it on first use, compares magic, version, sizes and nonce, and from then on writes only its own ring, its bit
//! and, when it rings, the asleep word. Setting the bit is the one read-modify-write of a connection.

use crate::cells::{CellName, Cells};
use crate::layout::*;
use crate::ring::{Corrupt, LINE, PREFIX, Producer, Slot, payload_max};
use crate::sleep;
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
    ring_bytes: usize,
    cells: Cells<MappedCells>,
    sender: usize,
    /// Cells that it may keep.
    share: usize,
    /// Those that it keeps, and the positions behind the records that named them last; in that order.
    kept: VecDeque<(CellName, u64)>,
    /// Position behind the last record that names a cell.
    cells_until: u64,
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
        let [senders, ring_bytes, cells] = [AT_SENDERS, AT_RING_BYTES, AT_CELLS].map(|at| load(at) as usize);
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
        let cells = Cells::new(unsafe { MappedCells::new(mapping.as_ptr(), geometry) }, cells);
        let share = Some(cells.count() / (senders - 1).max(1)).filter(|share| *share >= SHARE_MIN).unwrap_or(0);
        let kept = VecDeque::with_capacity(share);
        Ok(Outbox { producer, covered, identity, ring_bytes, cells, sender, share, kept, cells_until: 0, mapping })
    }

    /// What the owner tells.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Largest payload of a record.
    pub fn payload_max(&self) -> usize {
        payload_max(self.ring_bytes / LINE)
    }

    /// Cells of the inbox, shared with its other senders.
    pub fn cells(&self) -> usize {
        self.cells.count()
    }

    /// A cell, and the first of its [`CELL_BYTES`]; [`Outbox::publish_cell`] must follow, or it stays claimed.
    pub fn claim_cell(&mut self) -> Option<(CellName, *mut u8)> {
        self.next_cell().map(|cell| (cell, self.cells.states().data(cell.index())))
    }

    /// New cells up to this sender's share, then the one of them that was sent first, then what others leave.
    fn next_cell(&mut self) -> Option<CellName> {
        if self.kept.len() < self.share
            && let Some(cell) = self.cells.claim(self.sender)
        {
            return Some(CellName::new(cell, true));
        }
        match self.kept.front() {
            Some((cell, until)) if self.producer.is_consumed(*until) => {
                let cell = *cell;
                self.kept.pop_front();
                Some(cell)
            }
            _ => self.cells.claim(self.sender).map(|cell| CellName::new(cell, false)),
        }
    }

    /// As [`Outbox::publish`], of a record that names the cell claimed last.
    #[must_use]
    pub fn publish_cell(&mut self, room: Room, header: &[u64; HEADER_WORDS], cell: CellName) -> bool {
        let ring = self.publish(room, header);
        self.cells_until = self.producer.position();
        if cell.is_kept() {
            self.kept.push_back((cell, self.cells_until));
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
        let Some(slot) = self.producer.reserve(len)? else { return Ok(None) };
        // SAFETY: the slot is inside the ring, and the prefix inside the slot.
        let payload = unsafe { self.producer.words().at(slot.line).add(PREFIX) };
        Ok(Some(Room { slot, payload }))
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
