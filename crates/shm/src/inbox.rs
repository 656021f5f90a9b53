//! An inbox: the memory in which one process receives from all processes of its node.
//!
//! ```text
//! page 0: magic, version, sizes, nonce, flags, probe word │ asleep │ bitmap of active senders
//! then:   one line per sender: position up to which its ring was consumed │ whether the sender sleeps until there is room
//! then:   one ring per sender, at a fixed place; no page of it exists before it is used
//! ```
//! The receiver makes it and hands its descriptor to peers; a sender maps it on first use, compares magic, version, sizes
//! and nonce, and from then on writes only its own ring, its bit and, when it rings, the asleep word. Setting the bit is
//! the one read-modify-write of a connection.
//!
//! A peer can write anything anywhere here: every value is copied out once and checked, the worst it can do is garbage in
//! messages or a lost lane.

use crate::ring::{Arrived, Consumer, Corrupt, LINE, PREFIX, Producer, Slot, Words, payload_max};
use crate::sleep::{self, OneToOne};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{self, Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};
use sys::mem::Mapping;

/// Words of a packet header.
pub const HEADER_WORDS: usize = 3;
/// Most senders of an inbox.
pub const SENDERS_MAX: usize = 4096;

const MAGIC: u64 = u64::from_le_bytes(*b"ferrule\x01");
const VERSION: u64 = 1;
const PAGE: usize = 4096;

// Places in page 0, in bytes.
const AT_MAGIC: usize = 0;
const AT_VERSION: usize = 8;
const AT_SENDERS: usize = 16;
const AT_RING_BYTES: usize = 24;
const AT_NONCE: usize = 32;
const AT_FLAGS: usize = 48;
const AT_PROBE_ADDRESS: usize = 56;
const AT_PROBE_VALUE: usize = 64;
const AT_ASLEEP: usize = 128;
const AT_ACTIVE: usize = 192;

/// Flag: the owner's barrier before it sleeps also runs on registered senders.
const FLAG_BARRIER: u64 = 1;

/// Rings that a poll looks at beside the one that was last active.
const GLANCES: usize = 8;
/// Records taken from one ring before others get a turn.
const STREAK_MAX: u32 = 32;

/// Idle polls of a process with one active sender before it looks for new senders.
const ALONE_POLLS: u32 = 3;

/// What a process tells its peers through its inbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Random identity of the owner, known to peers from another source.
    pub nonce: u128,
    /// Where in the owner's private memory `probe_value` lies.
    pub probe_address: u64,
    /// A random word.
    pub probe_value: u64,
}

/// Sizes of an inbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Geometry {
    senders: usize,
    ring_bytes: usize,
}

impl Geometry {
    fn new(senders: usize, ring_bytes: usize) -> Option<Geometry> {
        let sound = (1..=SENDERS_MAX).contains(&senders)
            && ring_bytes.is_power_of_two()
            && (PAGE..=1 << 30).contains(&ring_bytes);
        sound.then_some(Geometry { senders, ring_bytes })
    }

    fn consumed_at(self, sender: usize) -> usize {
        PAGE + sender * LINE
    }

    fn ring_at(self, sender: usize) -> usize {
        (PAGE + self.senders * LINE).next_multiple_of(PAGE) + sender * self.ring_bytes
    }

    fn bytes(self) -> usize {
        self.ring_at(self.senders)
    }
}

/// One ring in mapped memory.
#[derive(Debug)]
struct MappedWords {
    ring: *mut u8,
    consumed: *const AtomicU64,
}

impl MappedWords {
    /// Ring `sender` of an inbox.
    ///
    /// # Safety
    /// `area` is mapped for `geometry.bytes()` as long as the result is used; `sender < geometry.senders`.
    unsafe fn new(area: *mut u8, geometry: Geometry, sender: usize) -> MappedWords {
        // SAFETY: both places are inside the area by the definition of `Geometry::bytes`, and 64-byte aligned.
        unsafe {
            MappedWords {
                ring: area.add(geometry.ring_at(sender)),
                consumed: area.add(geometry.consumed_at(sender)).cast(),
            }
        }
    }

    /// Whether the sender sleeps until there is room.
    fn wants_room(&self) -> OneToOne<'_> {
        // SAFETY: the line of the consumed position is mapped, aligned, and has room for another word.
        OneToOne(unsafe { &*self.consumed.add(1).cast::<AtomicU32>() })
    }

    #[inline]
    fn at(&self, line: usize) -> *mut u8 {
        // SAFETY: the ring logic only names lines below the number of lines.
        unsafe { self.ring.add(line * LINE) }
    }

    #[inline]
    fn word(&self, line: usize) -> &AtomicU64 {
        // SAFETY: mapped and aligned (`new`), and only accessed atomically by both sides.
        unsafe { &*self.at(line).cast::<AtomicU64>() }
    }
}

impl Words for MappedWords {
    #[inline]
    fn load(&self, line: usize, order: Ordering) -> u64 {
        self.word(line).load(order)
    }
    #[inline]
    fn store(&self, line: usize, value: u64, order: Ordering) {
        self.word(line).store(value, order);
    }
    #[inline]
    fn load_consumed(&self, order: Ordering) -> u64 {
        // SAFETY: mapped and aligned (`new`).
        unsafe { &*self.consumed }.load(order)
    }
    #[inline]
    fn store_consumed(&self, value: u64, order: Ordering) {
        // SAFETY: as above.
        unsafe { &*self.consumed }.store(value, order);
    }
}

/// A 64-bit word of page 0 of an area.
///
/// # Safety
/// `area` is mapped for at least a page for the lifetime `'a`; `at` is a multiple of 8 below the page size.
unsafe fn word<'a>(area: *mut u8, at: usize) -> &'a AtomicU64 {
    // SAFETY: promised by the caller.
    unsafe { &*area.add(at).cast::<AtomicU64>() }
}

/// The asleep word of an area.
///
/// # Safety
/// As for [`word`].
#[inline]
unsafe fn asleep<'a>(area: *mut u8) -> &'a AtomicU32 {
    // SAFETY: promised by the caller.
    unsafe { &*area.add(AT_ASLEEP).cast::<AtomicU32>() }
}

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
    mapping: Mapping,
    fd: OwnedFd,
}

// SAFETY: the raw pointers lead into the mapping, which belongs to the process; all access goes through `&mut self`.
unsafe impl Send for Inbox {}

#[derive(Debug)]
struct Ring {
    sender: usize,
    consumer: Consumer<MappedWords>,
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
    #[inline]
    pub fn header(&self) -> [u64; HEADER_WORDS] {
        // SAFETY: the ring checked that the record lies inside; both sides access headers as atomic words.
        let word = |i: usize| unsafe { &*self.start.add(8 + 8 * i).cast::<AtomicU64>() }.load(Relaxed);
        [word(0), word(1), word(2)]
    }

    /// First byte of the payload; the sender may still write there. Valid until the release.
    #[inline]
    pub fn payload(&self) -> *const u8 {
        self.start.wrapping_add(PREFIX)
    }

    /// Bytes of the payload.
    #[inline]
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
    /// A record, to be released before the next poll.
    Record(Record),
    /// This sender wrote nonsense; its ring isn't looked at any more.
    Corrupt(usize),
}

impl Inbox {
    /// An inbox for `senders` senders with rings of `ring_bytes` (a power of two, at least 4096).
    pub fn create(senders: usize, ring_bytes: usize, identity: &Identity) -> io::Result<Inbox> {
        let geometry = Geometry::new(senders, ring_bytes)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "impossible size of an inbox"))?;
        let fd = sys::mem::sealed_memfd(c"ferrule-inbox", geometry.bytes())?;
        let mapping = Mapping::shared(fd.as_fd(), geometry.bytes())?;
        let barrier = sys::wake::register_barrier() && sys::wake::barrier_everywhere();
        let values = [
            (AT_VERSION, VERSION),
            (AT_SENDERS, senders as u64),
            (AT_RING_BYTES, ring_bytes as u64),
            (AT_NONCE, identity.nonce as u64),
            (AT_NONCE + 8, (identity.nonce >> 64) as u64),
            (AT_FLAGS, if barrier { FLAG_BARRIER } else { 0 }),
            (AT_PROBE_ADDRESS, identity.probe_address),
            (AT_PROBE_VALUE, identity.probe_value),
            (AT_MAGIC, MAGIC),
        ];
        for (at, value) in values {
            // SAFETY: page 0 of our own mapping.
            unsafe { word(mapping.as_ptr(), at) }.store(value, SeqCst);
        }
        let known = vec![0; senders.div_ceil(64)];
        Ok(Inbox { rings: Vec::new(), known, geometry, hot: 0, streak: 0, alone: 0, next: 0, armed: 0, mapping, fd })
    }

    /// The descriptor that peers get.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Senders that have connected and not been found corrupt.
    pub fn active(&self) -> usize {
        self.rings.len()
    }

    /// The record that [`Inbox::poll`] would find at its first look, if there is one. Nothing is taken by looking; give it
    /// back by [`Inbox::release_hot`], or poll.
    #[inline(always)]
    pub fn peek_hot(&mut self) -> Option<Record> {
        if self.streak >= STREAK_MAX {
            return None;
        }
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

    /// The next record of any ring, if there is one; the last one must have been released.
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
                Ok(None) => {}
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
        // The hot ring was passed over only because it had had its turn, or is the first one.
        if (skipped_hot || fresh) && self.hot < self.rings.len() { self.look(self.hot) } else { None }
    }

    #[inline]
    fn look(&mut self, index: usize) -> Option<Polled> {
        let ring = &mut self.rings[index];
        match ring.consumer.peek() {
            Ok(None) => None,
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
        (self.hot, self.next) = (0, 0);
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
                // SAFETY: the mapping lives as long as `rings`, and the sender's number was checked.
                let words = unsafe { MappedWords::new(self.mapping.as_ptr(), self.geometry, sender) };
                self.rings.push(Ring { sender, consumer: Consumer::new(words, self.geometry.ring_bytes / LINE) });
            }
        }
    }

    /// Gives a record's room back. True if its sender sleeps until there is room and must be woken.
    #[inline]
    #[must_use]
    pub fn release(&mut self, record: &Record) -> bool {
        let Some(ring) = self.rings.get_mut(record.ring as usize) else { return false };
        ring.consumer.release(record.len) && sleep::must_ring(&ring.consumer.words().wants_room(), false)
    }

    /// Who sent this record.
    #[inline]
    pub fn sender(&self, record: &Record) -> usize {
        self.rings[record.ring as usize].sender
    }

    /// Announces that a thread of the owner is about to sleep. Poll once more afterwards, then sleep or [`Inbox::disarm`].
    pub fn arm(&mut self) {
        self.armed += 1;
        self.alone = 0;
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

#[inline]
fn record(ring: &Ring, index: usize, at: Arrived) -> Record {
    Record { start: ring.consumer.words().at(at.line), len: at.len, ring: index as u32 }
}

/// The sender's side of somebody's inbox.
#[derive(Debug)]
pub struct Outbox {
    producer: Producer<MappedWords>,
    /// The owner's barrier also covers this process.
    covered: bool,
    identity: Identity,
    ring_bytes: usize,
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
        let Some(geometry) = Geometry::new(load(AT_SENDERS) as usize, load(AT_RING_BYTES) as usize) else {
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
        let producer = Producer::new(words, geometry.ring_bytes / LINE);
        Ok(Outbox { producer, covered, identity, ring_bytes: geometry.ring_bytes, mapping })
    }

    /// What the owner tells.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Largest payload of a record.
    pub fn payload_max(&self) -> usize {
        payload_max(self.ring_bytes / LINE)
    }

    /// Announces that this process is about to sleep until there is room. Try to reserve once more afterwards.
    pub fn want_room(&mut self) {
        sleep::fall_asleep(&self.producer.words().wants_room());
    }

    /// Room for a payload of `len` bytes, at most [`Outbox::payload_max`]; `None` if the ring is full.
    #[inline]
    pub fn reserve(&mut self, len: usize) -> Result<Option<Room>, Corrupt> {
        let Some(slot) = self.producer.reserve(len)? else { return Ok(None) };
        // SAFETY: the slot is inside the ring, and the prefix inside the slot.
        let payload = unsafe { self.producer.words().at(slot.line).add(PREFIX) };
        Ok(Some(Room { slot, payload }))
    }

    /// Sends what was put into `room`, the last one reserved. True if the owner sleeps and its bell must be rung.
    #[inline]
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
