//! A sender's side of somebody's inbox ([`crate::layout`]).
//!
//! A sender maps it on first use, compares magic, version, sizes and nonce, and from then on writes only its own ring, its bit
//! and, when it rings, the asleep word. Setting the bit is the one read-modify-write of a connection.

use crate::cells::{CellName, Cells};
use crate::far::Far;
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
    cells: Cells<MappedCells>,
    geometry: Geometry,
    sender: usize,
    /// Cells that are open, at the last look.
    open: usize,
    /// Cells that it may keep.
    share: usize,
    /// Those that it keeps, and the positions behind the records that named them last; in that order.
    kept: VecDeque<(CellName, u64)>,
    /// Position behind the last record that names a cell.
    cells_until: u64,
    /// Cells that were read are used again before new ones.
    is_compact: bool,
    /// It keeps cells that are not always open.
    has_flooded: bool,
    far: Far,
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
        let [always, most] = [AT_CELLS_ALWAYS, AT_CELLS].map(|at| load(at) as usize);
        let cells = CellCounts { always, most };
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
        let cells = Cells::new(unsafe { MappedCells::new(mapping.as_ptr(), geometry) }, most);
        let mut outbox = Outbox {
            producer,
            covered,
            identity,
            cells,
            geometry,
            sender,
            open: 0,
            share: 0,
            kept: VecDeque::new(),
            cells_until: 0,
            is_compact: false,
            has_flooded: false,
            far: Far::default(),
            mapping,
        };
        outbox.learn_open(always);
        Ok(outbox)
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

    /// A cell, and the first of its [`CELL_BYTES`]; [`Outbox::publish_cell`] must follow, or it stays claimed.
    pub fn claim_cell(&mut self) -> Option<(CellName, *mut u8)> {
        self.next_cell().map(|cell| (cell, self.cells.states().data(cell.index())))
    }

    /// Puts `len` bytes at `src` into the cell at `data`, the way that is faster now.
    ///
    /// # Safety
    /// `src` is readable for `len` bytes, at most [`CELL_BYTES`]; `data` is that of the cell claimed last.
    #[inline]
    pub unsafe fn fill_cell(&mut self, data: *mut u8, src: *const u8, len: usize) {
        // SAFETY: promised by the caller; cells begin at multiples of their size in a page.
        unsafe { self.far.copy(src, data, len) }
    }

    /// New cells up to this sender's share, then the one of them that was sent first, then what others leave. Compact: new cells
    /// only if that one is unread.
    fn next_cell(&mut self) -> Option<CellName> {
        let open = self.cells.open();
        if open != self.open {
            self.learn_open(open);
        }
        let first_until = self.kept.front().filter(|_| self.is_compact).map(|(_, until)| *until);
        if self.kept.len() < self.share
            && !first_until.is_some_and(|until| self.producer.is_consumed(until))
            && let Some(cell) = self.cells.claim(self.sender)
        {
            self.has_flooded |= cell >= self.geometry.cells.always;
            return Some(CellName::new(cell, true));
        }
        while let Some((cell, until)) = self.kept.front().copied()
            && self.producer.is_consumed(until)
        {
            self.kept.pop_front();
            if cell.index() < self.open && self.kept.len() < self.share {
                return Some(cell);
            }
            self.give_back(cell);
        }
        self.cells.claim(self.sender).map(|cell| CellName::new(cell, false))
    }

    /// The owner has opened or closed cells: an equal share of them is this sender's.
    #[cold]
    fn learn_open(&mut self, open: usize) {
        if open > self.geometry.cells.always {
            // One system call instead of a fault per page. If it fails, the faults come.
            let _ =
                self.mapping.populate(self.geometry.cell_at(self.geometry.cells.always)..self.geometry.cell_at(open));
        }
        let share = open / (self.geometry.senders - 1).max(1);
        self.share = if share >= SHARE_MIN { share } else { 0 };
        self.open = open;
    }

    /// Keeps a cell no longer.
    #[cold]
    fn give_back(&mut self, cell: CellName) {
        let remove = |cells| remove_cells(&self.mapping, self.geometry, cells);
        self.cells.give_back(self.sender, cell.index(), remove);
    }

    /// Before this process sleeps: gives back the cells that are not always open, as far as their receiver has read them.
    pub fn rest(&mut self) {
        if !std::mem::take(&mut self.has_flooded) {
            return;
        }
        for (cell, until) in std::mem::take(&mut self.kept) {
            let flooded = cell.index() >= self.geometry.cells.always;
            if flooded && self.producer.is_consumed(until) {
                self.give_back(cell);
            } else {
                self.kept.push_back((cell, until));
                self.has_flooded |= flooded;
            }
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
