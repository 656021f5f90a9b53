//! An inbox, the owner's side: one process receives here from all processes of its node.
//!
//! The receiver makes the memory ([`crate::layout`]) and hands its descriptor to peers. It looks at the ring that was active last
//! first, then at some others in turn, at all of them before it sleeps.
//!
//! On a machine with several NUMA nodes the memory comes from the owner's ([`pages`]), though senders are the first to write there.

mod hold;
mod pages;

use crate::cells::{CellName, Cells, Place};
use crate::layout::*;
use crate::ring::{Arrived, Consumer, Corrupt, LINE, PREFIX};
use crate::sleep;
use hold::Hold;
use pages::Placement;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use sys::mem::Mapping;

/// Rings that a poll looks at beside the one that was last active.
const GLANCES: usize = 8;
/// Records taken from one ring before others get a turn.
const STREAK_MAX: u32 = 32;

/// Idle polls of a process with one active sender before it looks for new senders.
const ALONE_POLLS: u32 = 3;

/// The owner's side: it receives.
#[derive(Debug)]
pub struct Inbox {
    /// Active rings first, so that they go before the mapping they point into.
    rings: Vec<Ring>,
    /// Senders whose bit has been noticed.
    known: Vec<u64>,
    geometry: Geometry,
    /// Index of the ring that was active last.
    hot: usize,
    /// Records taken from it in a row.
    streak: u32,
    /// Idle polls until anything but the hot ring is looked at: more than 0 only while there is no other one.
    alone: u32,
    /// Where the next round over the other rings begins.
    next: usize,
    /// Threads that sleep or are about to: while there are any, every poll looks at everything.
    armed: u32,
    /// Polls that may find nothing while records are held; 0 if none are.
    patience: u32,
    cells: Cells<MappedCells>,
    segments: Cells<MappedCells>,
    placement: Placement,
    mapping: Mapping,
    fd: OwnedFd,
}

// SAFETY: the raw pointers lead into the mapping, which belongs to the process; all access goes through `&mut self`.
unsafe impl Send for Inbox {}

#[derive(Debug)]
struct Ring {
    sender: usize,
    consumer: Consumer<MappedWords>,
    hold: Hold,
}

/// A record that has arrived; it stays in the ring until [`Inbox::release`].
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Its first word in the ring; the payload is at [`PREFIX`].
    start: *const u8,
    len: u32,
    /// Index of the ring.
    ring: u32,
}

impl Record {
    /// A copy of the packet header, to be taken once: the sender may still write there.
    #[inline(always)]
    pub fn header(&self) -> [u64; HEADER_WORDS] {
        // SAFETY: the ring checked that the record lies inside; both sides access headers as atomic words.
        let word = |i: usize| unsafe { &*self.start.add(8 + 8 * i).cast::<AtomicU64>() }.load(Relaxed);
        [word(0), word(1), word(2)]
    }

    /// First byte of the payload; the sender may still write there. Valid until the release.
    #[inline(always)]
    pub fn payload(&self) -> *const u8 {
        self.start.wrapping_add(PREFIX)
    }

    /// Bytes of the payload.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there is no payload.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// What a poll finds.
#[derive(Debug)]
pub enum Polled {
    /// A record, to be released or held before the next poll.
    Record(Record),
    /// This sender wrote nonsense; its ring isn't looked at any more.
    Corrupt(usize),
}

impl Inbox {
    /// An inbox for `senders` senders with rings of `ring_bytes` (a power of two, at least 4096) and `cells`.
    pub fn create(senders: usize, ring_bytes: usize, cells: CellCounts, identity: &Identity) -> io::Result<Inbox> {
        let geometry = Geometry::new(senders, ring_bytes, cells)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "impossible size of an inbox"))?;
        let fd = sys::mem::sealed_memfd(c"ferrule-inbox", geometry.bytes())?;
        let mapping = Mapping::shared(fd.as_fd(), geometry.bytes())?;
        let barrier = sys::wake::register_barrier() && sys::wake::barrier_everywhere();
        Ok(Inbox::over(fd, mapping, geometry, barrier, identity))
    }

    /// As [`Inbox::create`], in a new file at `path`, which the caller removes.
    pub fn create_in_file(
        path: &std::path::Path,
        (senders, ring_bytes, cells): (usize, usize, CellCounts),
        identity: &Identity,
    ) -> io::Result<Inbox> {
        let geometry = Geometry::new(senders, ring_bytes, cells)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "impossible size of an inbox"))?;
        let file = sys::shared_file::create(path, geometry.bytes())?;
        let mapping = Mapping::of_file(&file)?;
        // A barrier ends at the own kernel, and a sandbox is one.
        Ok(Inbox::over(file.into(), mapping, geometry, false, identity))
    }

    /// As [`Inbox::create`], in the first bytes of a part of memory that kernels share, as large as that allows; also how large it is.
    pub fn create_in_region(
        file: std::fs::File,
        (offset, room): (u64, usize),
        (senders, ring_bytes, cells): (usize, usize, usize),
        identity: &Identity,
    ) -> io::Result<(Inbox, usize)> {
        let geometry = Geometry::within(room, senders, ring_bytes, cells)
            .ok_or_else(|| io::Error::new(io::ErrorKind::OutOfMemory, "its part of the region is too small"))?;
        let mapping = Mapping::of_part(&file, offset, geometry.bytes())?;
        // SAFETY: the mapping has so many bytes, and is reached by raw pointers and atomics only.
        unsafe { mapping.as_ptr().write_bytes(0, geometry.bytes()) };
        Ok((Inbox::over(file.into(), mapping, geometry, false, identity), geometry.bytes()))
    }

    /// `mapping` is new memory, all zeroes, of the geometry's size.
    fn over(fd: OwnedFd, mapping: Mapping, geometry: Geometry, barrier: bool, identity: &Identity) -> Inbox {
        let Geometry { senders, ring_bytes, cells } = geometry;
        let placement = Placement::of(&mapping, sys::topology::home_node());
        let values = [
            (AT_VERSION, VERSION),
            (AT_SENDERS, senders as u64),
            (AT_RING_BYTES, ring_bytes as u64),
            (AT_NONCE, identity.nonce as u64),
            (AT_NONCE + 8, (identity.nonce >> 64) as u64),
            (AT_FLAGS, if barrier { FLAG_BARRIER } else { 0 }),
            (AT_CELLS, cells.cells as u64),
            (AT_CELLS_OPEN, cells.cells as u64),
            (AT_SEGMENTS, cells.segments as u64),
            (AT_PROBE_ADDRESS, identity.probe_address),
            (AT_PROBE_VALUE, identity.probe_value),
            (AT_MAGIC, MAGIC),
        ];
        for (at, value) in values {
            // SAFETY: page 0 of our own mapping.
            unsafe { word(mapping.as_ptr(), at) }.store(value, SeqCst);
        }
        let known = vec![0; senders.div_ceil(64)];
        // SAFETY: the mapping has this geometry's size and lives in the same object.
        let states = unsafe { [MappedCells::cells, MappedCells::segments].map(|of| of(mapping.as_ptr(), geometry)) };
        let [cells, segments] = states;
        let cells = Cells::new(cells, geometry.cells.cells);
        let segments = Cells::new(segments, geometry.cells.segments);
        let rings = Vec::new();
        Inbox {
            rings,
            known,
            geometry,
            hot: 0,
            streak: 0,
            alone: 0,
            next: 0,
            armed: 0,
            patience: 0,
            cells,
            segments,
            placement,
            mapping,
            fd,
        }
    }

    /// The descriptor that peers get.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Senders that have connected and not been found corrupt.
    pub fn active(&self) -> usize {
        self.rings.len()
    }

    /// The next record of the ring that was active last, if there is one. Nothing is taken by looking; give it back by
    /// [`Inbox::release_hot`], or poll. The caller polls now and then all the same, so that other rings get their turn.
    #[inline(always)]
    pub fn peek_hot(&mut self) -> Option<Record> {
        let ring = self.rings.get_mut(self.hot)?;
        match ring.consumer.peek() {
            Ok(Some(at)) => Some(record(ring, self.hot, at)),
            _ => None,
        }
    }

    /// Gives the room of the record of [`Inbox::peek_hot`] back, as [`Inbox::release`].
    #[inline(always)]
    #[must_use]
    pub fn release_hot(&mut self, record: &Record) -> bool {
        self.streak += 1;
        self.release(record)
    }

    /// The next record of any ring, if there is one; the last one must have been released or held.
    #[inline]
    pub fn poll(&mut self) -> Option<Polled> {
        if self.streak < STREAK_MAX
            && let Some(ring) = self.rings.get_mut(self.hot)
        {
            match ring.consumer.peek() {
                Ok(Some(at)) => {
                    self.streak += 1;
                    return Some(Polled::Record(record(ring, self.hot, at)));
                }
                Ok(None) if self.alone > 0 => {
                    self.alone -= 1;
                    self.streak = 0;
                    return None;
                }
                Ok(None) => ring.hold = Hold::Open,
                Err(Corrupt) => return self.look(self.hot),
            }
        }
        self.poll_others()
    }

    /// The rings beside the hot one, and new senders.
    fn poll_others(&mut self) -> Option<Polled> {
        let skipped_hot = self.streak >= STREAK_MAX;
        self.streak = 0;
        let fresh = self.notice_senders();
        let others = self.rings.len().saturating_sub(1);
        let glances = if self.armed > 0 { others } else { others.min(GLANCES) };
        for _ in 0..glances {
            self.next = if self.next >= others { 0 } else { self.next + 1 };
            if self.next == self.hot {
                self.next = if self.next >= others { 0 } else { self.next + 1 };
            }
            if let Some(found) = self.look(self.next) {
                self.hot = self.next;
                return Some(found);
            }
        }
        self.alone = if others == 0 && self.armed == 0 { ALONE_POLLS } else { 0 };
        self.lose_patience();
        // The hot ring was passed over only because it had had its turn, or is the first one.
        if (skipped_hot || fresh) && self.hot < self.rings.len() { self.look(self.hot) } else { None }
    }

    #[inline]
    fn look(&mut self, index: usize) -> Option<Polled> {
        let ring = &mut self.rings[index];
        match ring.consumer.peek() {
            Ok(None) => {
                ring.hold = Hold::Open;
                None
            }
            Ok(Some(_)) if ring.hold == Hold::Held => None,
            Ok(Some(at)) => Some(Polled::Record(record(ring, index, at))),
            Err(Corrupt) => {
                let sender = ring.sender;
                self.drop_sender(sender);
                Some(Polled::Corrupt(sender))
            }
        }
    }

    /// Whether nothing of this sender is left to be read.
    pub fn is_drained(&mut self, sender: usize) -> bool {
        self.notice_senders();
        let ring = self.rings.iter_mut().find(|ring| ring.sender == sender);
        ring.is_none_or(|ring| !matches!(ring.consumer.peek(), Ok(Some(_))))
    }

    /// Never looks at this sender's ring again. Its outstanding record, if any, need not be released.
    pub fn drop_sender(&mut self, sender: usize) {
        self.rings.retain(|ring| ring.sender != sender);
        self.free_cells_of(sender);
        (self.hot, self.next) = (0, 0);
    }

    /// Frees the cells of a sender of which nothing more will come.
    pub fn free_cells_of(&mut self, sender: usize) {
        self.cells.free_all_of(sender);
        self.segments.free_all_of(sender);
    }

    /// Starts to look at the rings whose senders have set their bit. True if there are any.
    #[inline]
    fn notice_senders(&mut self) -> bool {
        let mut any = false;
        for index in 0..self.known.len() {
            // SAFETY: page 0 of our mapping holds SENDERS_MAX bits.
            let bits = unsafe { word(self.mapping.as_ptr(), AT_ACTIVE + 8 * index) }.load(Acquire);
            if bits & !self.known[index] != 0 {
                self.connect(index, bits & !self.known[index]);
                any = true;
            }
        }
        any
    }

    #[cold]
    fn connect(&mut self, index: usize, mut fresh: u64) {
        self.known[index] |= fresh;
        while fresh != 0 {
            let sender = index * 64 + fresh.trailing_zeros() as usize;
            fresh &= fresh - 1;
            if sender < self.geometry.senders {
                if self.placement == Placement::Touch {
                    self.touch(sender);
                }
                // SAFETY: the mapping lives as long as `rings`, and the sender's number was checked.
                let words = unsafe { MappedWords::new(self.mapping.as_ptr(), self.geometry, sender) };
                let consumer = Consumer::new(words, self.geometry.ring_bytes / LINE);
                self.rings.push(Ring { sender, consumer, hold: Hold::Open });
            }
        }
    }

    /// Gives a record's room back. True if its sender sleeps until there is room and must be woken.
    #[inline(always)]
    #[must_use]
    pub fn release(&mut self, record: &Record) -> bool {
        let Some(ring) = self.rings.get_mut(record.ring as usize) else { return false };
        ring.consumer.release(record.len) && sleep::must_ring(&ring.consumer.words().wants_room(), false)
    }

    /// As [`Inbox::release`], for a record that names a cell: its sender may wait for that rather than for room, so the release is
    /// published at once.
    #[must_use]
    pub fn release_with_cell(&mut self, record: &Record, cell: CellName) -> bool {
        if let Place::Cell { index, kept: false } = cell.place()
            && index < self.cells.count()
        {
            self.cells.free(index);
        }
        let Some(ring) = self.rings.get_mut(record.ring as usize) else { return false };
        ring.consumer.release_now(record.len);
        sleep::must_ring(&ring.consumer.words().wants_room(), false)
    }

    /// Advises a sender; what the bits mean is the lane's business.
    pub fn advise(&mut self, sender: usize, advice: u32) {
        if let Some(ring) = self.rings.iter().find(|ring| ring.sender == sender) {
            ring.consumer.words().advice().store(advice, Relaxed);
        }
    }

    /// Cells, for all senders together.
    pub fn cells(&self) -> usize {
        self.cells.count()
    }

    /// Segments, for all senders together.
    pub fn segments(&self) -> usize {
        self.segments.count()
    }

    /// First of `len` bytes of payload at `name`, `None` if there are not so many. Their sender may still write there. (Whether
    /// the sender holds the place is not looked at, which would cost a cache miss: one that lies spoils messages of others, as
    /// it could anyway.)
    #[inline]
    pub fn payload(&self, name: CellName, len: usize) -> Option<*const u8> {
        match name.place() {
            Place::Cell { index, .. } => {
                let exists = index < self.cells.count() && len <= CELL_BYTES;
                exists.then(|| self.cells.states().data(index).cast_const())
            }
            Place::Segments { line } => {
                let exists = line * LINE + len <= self.segments.count() * SEGMENT_BYTES;
                exists
                    .then(|| self.mapping.as_ptr().wrapping_add(self.geometry.segment_at(0) + line * LINE).cast_const())
            }
        }
    }

    /// Who sent this record.
    #[inline]
    pub fn sender(&self, record: &Record) -> usize {
        self.rings[record.ring as usize].sender
    }

    /// Announces that a thread of the owner is about to sleep. Poll once more afterwards, then sleep or [`Inbox::disarm`].
    pub fn arm(&mut self) {
        if self.segments.open() > 0 {
            self.close_segments();
        }
        self.armed += 1;
        self.alone = 0;
        self.hold_no_longer();
        // SAFETY: page 0 of our mapping.
        sleep::fall_asleep(unsafe { asleep(self.mapping.as_ptr()) });
    }

    /// Announces that this thread is active. True if no other thread sleeps; else their bell must go on ringing if it does.
    pub fn disarm(&mut self) -> bool {
        self.armed = self.armed.saturating_sub(1);
        if self.armed == 0 {
            // SAFETY: as above.
            sleep::awake(unsafe { asleep(self.mapping.as_ptr()) });
        }
        self.armed == 0
    }
}

#[inline(always)]
fn record(ring: &Ring, index: usize, at: Arrived) -> Record {
    Record { start: ring.consumer.words().at(at.line), len: at.len, ring: index as u32 }
}
