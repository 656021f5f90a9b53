//! A sender's side of somebody's inbox ([`crate::layout`]).
//!
//! A sender maps it on first use, compares magic, version, sizes and nonce, and from then on writes only its own ring, its bit
//! and, when it rings, the asleep word. Setting the bit is the one read-modify-write of a connection.

use crate::cells::Cells;
use crate::layout::*;
use crate::ring::{Corrupt, LINE, PREFIX, Producer, Slot, payload_max};
use crate::sleep;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use sys::mem::Mapping;

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
    /// Position behind the last record that names cells.
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
        let bad = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        let bytes = sys::mem::fixed_size(fd)?;
        if bytes < PAGE {
            return bad("inbox is too small");
        }
        let mapping = Mapping::shared(fd, bytes)?;
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
        Ok(Outbox { producer, covered, identity, ring_bytes, cells, sender, cells_until: 0, mapping })
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

    /// Claims a cell: its number and the first of its [`CELL_BYTES`].
    pub fn claim_cell(&mut self) -> Option<(u32, *mut u8)> {
        let cell = self.cells.claim(self.sender)?;
        Some((cell as u32, self.cells.states().data(cell)))
    }

    /// Gives back a claimed cell that no record names.
    pub fn unclaim_cell(&mut self, cell: u32) {
        self.cells.free(cell as usize);
    }

    /// The record published last names cells.
    pub fn note_cells(&mut self) {
        self.cells_until = self.producer.position();
    }

    /// Whether the receiver still has cells of ours to read, and will say so when it has.
    pub fn waits_for_cells(&self) -> bool {
        self.cells_until > 0 && !self.producer.is_consumed(self.cells_until)
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
