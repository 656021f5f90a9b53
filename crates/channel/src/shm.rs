//! The shared-memory lane: packets through the ring that a sender has in the receiver's inbox.
//!
//! A process has one [`ShmHub`] (its own inbox, its bell, what its peers may know of it) and one [`ShmLane`] per peer of its node
//! that it has sent to. Peers are numbered by their index on the node, the *slot*: the sender with slot `s` owns ring `s` of every
//! inbox. The descriptors go through the node agent: inbox, bell, memory ([`ShmHub::descriptors`]).
//!
//! What is larger than a record should be goes through a cell of the receiver's inbox: the record then holds the packet's body, the
//! number of the cell, and how many bytes are in it ([`SPILLED`]).
//!
//! The short path is straight code: reserve, copy, publish, look whether the peer sleeps. No system call, lock, allocation or
//! atomic read-modify-write.

use crate::buffer::{RecvBuf, SendBuf, copy_bytes};
use crate::calibrate::{self, MEM_MIN_RATE, Preference, RECORD_MAX, class_of};
use crate::single_copy::{Probe, ProbeWord, SINGLE_COPY, SINGLE_COPY_ALLOW, SingleCopy};
use base::counters::{BELLS, PACKETS_REJECTED};
use base::{Peer, log};
use protocol::fabric::{Limits, Outcome};
use protocol::matching::Found;
use protocol::wire::{HEADER_BYTES, Header, eager_envelope};
use shm::cells::CellName;
use shm::inbox::{Inbox, Polled, Record};
use shm::layout::{CELL_BYTES, CellCounts, HEADER_WORDS, Identity};
use shm::outbox::Outbox;
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use sys::wake::Bell;

base::config! {
    /// Size of the ring from one process of a node to another; a power of two.
    RING_BYTES: u64 = 65536, 4096..=1073741824, "bytes";
    /// Cells of 8 KiB in which a process receives large messages from its node; 0 for none.
    CELLS: u64 = 104, 0..=4096, "";
    /// As CELLS, while large messages stream into a process that has a processor of its own; given back when it waits.
    CELLS_FLOOD: u64 = 320, 0..=4096, "";
}

/// Bit of a header's first byte: the rest of the payload is in a cell. No kind of packet has it, so what doesn't know it refuses
/// the record.
const SPILLED: u64 = 0x80;
/// Longest time that can be the measure of a stream.
const MEASURE_MAX_NS: u64 = 1_000_000_000;
/// What such a record ends with: number of the cell, bytes in it.
const SPILL_BYTES: usize = 8;

/// The descriptors that a peer left with its node agent.
#[derive(Debug)]
pub struct PeerFds {
    /// Its inbox.
    pub inbox: OwnedFd,
    /// Whether that is an ordinary file.
    pub in_file: bool,
    /// Its bell; none if it passed no descriptors. It doesn't sleep for long then.
    pub bell: Option<OwnedFd>,
    /// Its memory, if it could open it.
    pub memory: Option<OwnedFd>,
}

impl PeerFds {
    /// From what came with its card, in the order of [`ShmHub::descriptors`].
    pub fn from_vec(fds: Vec<OwnedFd>) -> Option<PeerFds> {
        let mut fds = fds.into_iter();
        Some(PeerFds { inbox: fds.next()?, in_file: false, bell: Some(fds.next()?), memory: fds.next() })
    }

    /// From the file of its inbox, when no descriptors pass between it and this process.
    pub fn from_file(file: std::fs::File) -> PeerFds {
        PeerFds { inbox: file.into(), in_file: true, bell: None, memory: None }
    }
}

/// A packet in the inbox; to be given back by [`ShmHub::release`] before the next poll.
#[derive(Debug)]
pub struct ShmPacket {
    /// Who sent it.
    pub peer: Peer,
    /// What it is.
    pub header: Header,
    record: Record,
    /// Bytes of the payload in the record itself.
    inline: u32,
    /// Bytes of the payload in a cell, behind those.
    spilled: u32,
    cell: CellName,
}

impl ShmPacket {
    /// Bytes of the payload.
    #[inline]
    pub fn len(&self) -> usize {
        self.inline as usize + self.spilled as usize
    }

    /// Whether there is no payload.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first bytes of the payload; `None` if there are not so many in front of the cell.
    #[inline]
    pub fn body<const N: usize>(&self) -> Option<[u8; N]> {
        if (self.inline as usize) < N {
            return None;
        }
        // SAFETY: the payload has at least N bytes and stays mapped until the packet is released; it is copied out
        // as bytes, whatever they are.
        Some(unsafe { self.record.payload().cast::<[u8; N]>().read_unaligned() })
    }
}

/// What a poll of the hub brings.
#[derive(Debug)]
pub enum ShmEvent {
    /// A packet.
    Packet(ShmPacket),
    /// This peer wrote nonsense; nothing is read from it any more. Logged.
    Lost(Peer),
}

/// The receiving side of a process, and what peers need to reach it.
#[derive(Debug)]
pub struct ShmHub {
    inbox: Inbox,
    bell: Bell,
    /// Peers probe single copy on it.
    _word: ProbeWord,
    memory: Option<OwnedFd>,
    /// The processes of this node by slot.
    peers: Vec<Peer>,
    slot: usize,
    /// Bells of the peers that a lane was opened to, by slot.
    bells: RefCell<Vec<PeerBell>>,
    /// See [`ShmHub::take_stranger`].
    stranger: Option<Peer>,
}

/// How a peer is woken that waits for room in its ring.
#[derive(Clone, Debug)]
enum PeerBell {
    Unknown,
    /// Not known, but it has to be rung.
    Awaited,
    Known(Rc<Bell>),
}

impl ShmHub {
    /// A hub for process `me` among `peers`, all ranks under this kernel including `me` in an order on which they agree.
    /// `rank_id` is the random identity in this process's card; `crowded`: there are more ranks than processors.
    pub fn create(me: Peer, peers: Vec<Peer>, rank_id: u128, crowded: bool) -> io::Result<ShmHub> {
        ShmHub::create_in(None, me, peers, rank_id, crowded)
    }

    /// The same, with the inbox in a new file.
    pub fn create_in(
        file: Option<&Path>,
        me: Peer,
        peers: Vec<Peer>,
        rank_id: u128,
        crowded: bool,
    ) -> io::Result<ShmHub> {
        let slot = peers.iter().position(|p| *p == me);
        let slot =
            slot.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "this rank is not under its own kernel"))?;
        let word = ProbeWord::random();
        if SINGLE_COPY_ALLOW.value() {
            sys::cma::allow_readers();
        }
        let identity = Identity { nonce: rank_id, probe_address: word.address(), probe_value: word.value() };
        let ring_bytes = (RING_BYTES.value() as usize).next_power_of_two();
        let inbox = match file {
            // All of a file takes room from the beginning: no cells for floods.
            Some(path) => Inbox::create_in_file(path, (peers.len(), ring_bytes, cell_counts(true)), &identity)?,
            None => Inbox::create(peers.len(), ring_bytes, cell_counts(crowded), &identity)?,
        };
        let memory = if SINGLE_COPY_ALLOW.value() { sys::cma::own_memory().ok() } else { None };
        let bells = RefCell::new(vec![PeerBell::Unknown; peers.len()]);
        Ok(ShmHub { inbox, bell: Bell::new()?, _word: word, memory, peers, slot, bells, stranger: None })
    }

    /// What the agent passes on to peers: inbox, bell and, if there is one, memory.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let fixed = [self.inbox.fd(), self.bell.as_fd()];
        fixed.into_iter().chain(self.memory.as_ref().map(AsFd::as_fd)).collect()
    }

    /// Whether any peer has sent something so far.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.inbox.active() > 0
    }

    /// Becomes readable when a peer wakes this process.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// The next packet; the last one must have been released.
    #[inline]
    pub fn poll(&mut self) -> Option<ShmEvent> {
        let record = match self.inbox.poll()? {
            Polled::Record(record) => record,
            Polled::Corrupt(sender) => return Some(self.reject(sender)),
        };
        let sender = self.inbox.sender(&record);
        let Some(peer) = self.peers.get(sender).copied() else { return Some(self.reject(sender)) };
        let packet = match header_of(&record) {
            Some(header) => {
                let inline = record.len() as u32;
                Some(ShmPacket { peer, header, record, inline, spilled: 0, cell: CellName::default() })
            }
            None => self.spilled(peer, record),
        };
        Some(packet.map_or_else(|| self.reject(sender), ShmEvent::Packet))
    }

    /// A packet whose payload goes on in a cell; `None` if it isn't one.
    #[inline(never)]
    fn spilled(&mut self, peer: Peer, record: Record) -> Option<ShmPacket> {
        let [first, b, c] = record.header();
        let header = (first & SPILLED != 0).then(|| decode([first & !SPILLED, b, c])).flatten()?;
        let inline = record.len().checked_sub(SPILL_BYTES)?;
        // SAFETY: the record has so many bytes; copied out once, then checked.
        let tail: [u32; 2] = unsafe { record.payload().add(inline).cast::<[u32; 2]>().read_unaligned() };
        let (cell, spilled) = (CellName::from_number(tail[0]), tail[1]);
        let exists = self.inbox.cell(cell).is_some() && spilled as usize <= CELL_BYTES;
        exists.then_some(ShmPacket { peer, header, record, inline: inline as u32, spilled, cell })
    }

    /// Copies payload bytes `skip .. skip + len`, as far as there are so many, to `sink` at `at`.
    #[inline]
    pub fn deliver(&self, packet: &ShmPacket, skip: usize, sink: &RecvBuf, at: usize, len: usize) {
        let inline = packet.inline as usize;
        let first = len.min(inline.saturating_sub(skip));
        if first > 0 || packet.spilled == 0 {
            // SAFETY: the range is cut to the record, which stays mapped until the packet is released.
            unsafe { sink.copy_in(at, packet.record.payload().wrapping_add(skip.min(inline)), first) };
        }
        if packet.spilled > 0 {
            self.deliver_cell(packet, (skip + first).saturating_sub(inline), sink, at + first, len - first);
        }
    }

    /// As [`ShmHub::deliver`], of the bytes in the cell.
    fn deliver_cell(&self, packet: &ShmPacket, skip: usize, sink: &RecvBuf, at: usize, len: usize) {
        let Some(data) = self.inbox.cell(packet.cell) else { return };
        let len = len.min((packet.spilled as usize).saturating_sub(skip));
        if len > 0 {
            // SAFETY: the range is cut to what is in the cell, which stays mapped.
            unsafe { sink.copy_in(at, data.add(skip), len) };
        }
    }

    /// The next packet, if it is an eager message and in the ring that was active last.
    #[inline(always)]
    pub fn next_eager(&mut self) -> Option<(Found, Record)> {
        let record = self.inbox.peek_hot()?;
        let envelope = eager_envelope(record.header())?;
        Some((Found { envelope, length: record.len() as u64 }, record))
    }

    /// Takes the packet last shown by [`ShmHub::next_eager`].
    #[inline(always)]
    pub fn take_eager(&mut self, record: &Record, sink: &RecvBuf) {
        // SAFETY: the record's payload stays mapped until the release below, and `copy_in` cuts at the end of the sink.
        unsafe { sink.copy_in(0, record.payload(), record.len()) };
        if self.inbox.release_hot(record) {
            self.wake(self.inbox.sender(record));
        }
    }

    /// Gives up the ring of a sender that broke the format.
    #[cold]
    fn reject(&mut self, sender: usize) -> ShmEvent {
        self.inbox.drop_sender(sender);
        PACKETS_REJECTED.add(1);
        let peer = self.peers[sender];
        log!(Error, "rank {} wrote an impossible record into shared memory; its lane is closed", peer.0);
        ShmEvent::Lost(peer)
    }

    /// Gives the packet's room back, and wakes its sender if it waits for room.
    #[inline]
    pub fn release(&mut self, packet: &ShmPacket) {
        let wake = match packet.spilled {
            0 => self.inbox.release(&packet.record),
            _ => self.inbox.release_with_cell(&packet.record, packet.cell),
        };
        if wake {
            self.wake(self.inbox.sender(&packet.record));
        }
    }

    /// Rings a peer's bell, now or when it is known.
    #[cold]
    fn wake(&mut self, sender: usize) {
        let bell = &mut self.bells.borrow_mut()[sender];
        if let PeerBell::Known(bell) = bell {
            BELLS.add(1);
            bell.ring();
        } else {
            *bell = PeerBell::Awaited;
            self.stranger = self.peers.get(sender).copied();
        }
    }

    /// A peer that must be woken, but to which there is no lane: its bell rings when one is opened.
    #[inline]
    pub fn take_stranger(&mut self) -> Option<Peer> {
        self.stranger.take()
    }

    /// A lane to `peer` is opened; its bell is known from now on.
    fn learn_bell(&self, peer: Peer, bell: &Rc<Bell>) {
        let Some(slot) = self.peers.iter().position(|p| *p == peer) else { return };
        let known = std::mem::replace(&mut self.bells.borrow_mut()[slot], PeerBell::Known(Rc::clone(bell)));
        if matches!(known, PeerBell::Awaited) {
            bell.ring();
        }
    }

    /// Whether nothing of `peer` is left to be read.
    pub fn is_drained(&mut self, peer: Peer) -> bool {
        self.peers.iter().position(|p| *p == peer).is_none_or(|sender| self.inbox.is_drained(sender))
    }

    /// Tells `peer` of which classes of sizes it should offer messages to be pulled, rather than send them at once.
    pub fn advise(&mut self, peer: Peer, classes: u32) {
        if let Some(sender) = self.peers.iter().position(|p| *p == peer) {
            self.inbox.advise(sender, classes);
        }
    }

    /// Nothing more comes from `peer`: others get the cells that it held.
    pub fn forget(&mut self, peer: Peer) {
        if let Some(sender) = self.peers.iter().position(|p| *p == peer) {
            self.inbox.free_cells_of(sender);
        }
    }

    /// Prepares to sleep: from now on senders ring. Poll once more before sleeping.
    pub fn arm(&mut self) {
        self.inbox.arm();
    }

    /// This thread is active again. The last one of those that slept silences the bell: it woke them all.
    pub fn disarm(&mut self) {
        if self.inbox.disarm() {
            self.bell.silence();
        }
    }
}

/// Cells of an inbox by the settings. Ranks that share processors stream nothing that could be pulled.
fn cell_counts(crowded: bool) -> CellCounts {
    let always = CELLS.value() as usize;
    let most = if crowded || always == 0 { always } else { always.max(CELLS_FLOOD.value() as usize) };
    CellCounts { always, most }
}

#[inline(always)]
fn header_of(record: &Record) -> Option<Header> {
    decode(record.header())
}

#[inline(always)]
fn decode(words: [u64; HEADER_WORDS]) -> Option<Header> {
    let [a, b, c] = words.map(u64::to_le_bytes);
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&a);
    bytes[8..16].copy_from_slice(&b);
    bytes[16..].copy_from_slice(&c);
    Header::decode(&bytes)
}

#[inline(always)]
fn words_of(header: &Header) -> [u64; HEADER_WORDS] {
    let bytes = header.encode();
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    [word(0), word(8), word(16)]
}

/// The sending side to one peer, and single copy from it.
#[derive(Debug)]
pub struct ShmLane {
    outbox: Outbox,
    bell: Option<Rc<Bell>>,
    limits: Limits,
    lost: bool,
    /// The last attempt to send found no room.
    blocked: bool,
    /// Largest payload of a record.
    record_max: usize,
    /// Payloads above this go into cells.
    spill_from: usize,
    /// Messages up to this are sent eagerly in a record.
    eager_inline: usize,
    /// All cells are in use by other senders: the next packet goes through the ring.
    denied: bool,
    peer: Peer,
    single: SingleCopy,
    /// This process's inbox has cells.
    has_cells: bool,
    preference: Preference,
    /// What the peer was told of it.
    advised: u32,
    /// When the last stream from this peer was complete.
    streamed_ns: u64,
}

impl ShmLane {
    /// Connects to `peer`, whose card says `rank_id` and, if somebody vouches for it, `pid`.
    pub fn open(hub: &ShmHub, peer: Peer, rank_id: u128, pid: Option<i32>, fds: PeerFds) -> io::Result<ShmLane> {
        let outbox = match fds.in_file {
            true => Outbox::open_file(&fds.inbox.into(), hub.slot, rank_id)?,
            false => Outbox::open(fds.inbox.as_fd(), hub.slot, rank_id)?,
        };
        let told = outbox.identity();
        let probe = Probe { address: told.probe_address, value: told.probe_value, pid, memory: fds.memory };
        let mut single = SingleCopy::probe(peer, probe);
        if single.name() == Some("mem") && SINGLE_COPY.value() == "auto" {
            let rate = hub.memory.as_ref().map_or(0.0, |memory| calibrate::mem_rate(memory.as_fd()));
            if rate < MEM_MIN_RATE.value() {
                single.reject(format!("{rate:.1} GB/s is less than FERRULE_MEM_MIN_RATE={}", MEM_MIN_RATE.value()));
            }
        }
        let record_max = outbox.payload_max();
        let spill_from = if outbox.cells() > 0 { (RECORD_MAX.value() as usize).min(record_max) } else { usize::MAX };
        let limits = calibrate::shm_limits(record_max, outbox.cells(), single.name().is_some());
        let preference = Preference::new(hub.inbox.cells() > 0, single.name().is_some());
        let bell = fds.bell.map(|fd| Rc::new(Bell::from_fd(fd)));
        if let Some(bell) = &bell {
            hub.learn_bell(peer, bell);
        }
        Ok(ShmLane {
            outbox,
            bell,
            limits,
            lost: false,
            blocked: false,
            record_max,
            spill_from,
            eager_inline: spill_from.min(limits.eager_max).min(record_max),
            denied: false,
            peer,
            single,
            has_cells: hub.inbox.cells() > 0,
            preference,
            advised: 0,
            streamed_ns: 0,
        })
    }

    /// What the lane can do now.
    #[inline(always)]
    pub fn limits(&self) -> Limits {
        if self.denied { self.limits_without_cells() } else { self.limits }
    }

    /// What a lane like this could do with single copy, or without.
    pub fn limits_if(&self, can_pull: bool) -> Limits {
        calibrate::shm_limits(self.record_max, self.outbox.cells(), can_pull)
    }

    #[cold]
    fn limits_without_cells(&self) -> Limits {
        Limits { pull_min: self.limits.pull_min, ..calibrate::shm_limits(self.record_max, 0, false) }
    }

    /// Single copy from this peer: in use or rejected, for `ferrule why`.
    pub fn single_copy(&self) -> &SingleCopy {
        &self.single
    }

    /// Before this process sleeps: if the ring was full, the peer rings when there is room. Try once more afterwards.
    pub fn arm(&mut self) {
        self.outbox.rest();
        if std::mem::take(&mut self.blocked) && !self.lost {
            self.outbox.want_room();
        }
    }

    /// The peer is gone: nothing is sent any more.
    pub fn mark_lost(&mut self) {
        self.lost = true;
    }

    /// Sends a packet of `header` and `body`.
    #[inline]
    pub fn try_send(&mut self, header: &Header, body: &[u8]) -> Outcome {
        self.send(header, body, None, 0)
    }

    /// Sends a packet of `header`, `body` and bytes `from .. from + len` of `source`; at most `packet_max` in all.
    #[inline(always)]
    pub fn try_send_from(
        &mut self,
        header: &Header,
        body: &[u8],
        source: &SendBuf,
        from: usize,
        len: usize,
    ) -> Outcome {
        self.send(header, body, Some((source, from)), len)
    }

    /// Sends all of `source` as one eager record if there is room at hand. False: nothing has happened.
    #[inline(always)]
    pub fn send_now(&mut self, header: &Header, source: &SendBuf) -> bool {
        let len = source.len();
        if self.lost || len > self.eager_inline {
            return false;
        }
        let Some(room) = self.outbox.reserve_at_hand(len) else { return false };
        // SAFETY: there is room for `len` bytes; nobody else has a pointer to it in this process.
        unsafe { source.copy_out(0, room.payload, len) };
        if self.outbox.publish(room, &words_of(header)) {
            self.wake();
        }
        true
    }

    #[inline(always)]
    fn send(&mut self, header: &Header, body: &[u8], payload: Option<(&SendBuf, usize)>, len: usize) -> Outcome {
        if self.lost {
            return Outcome::Lost;
        }
        let total = body.len() + len;
        let spills = total > self.spill_from && payload.is_some();
        if spills && (!self.denied || total > self.record_max) {
            return self.send_by_cell(header, body, payload, len);
        }
        let room = match self.outbox.reserve(total) {
            Ok(Some(room)) => room,
            Ok(None) => {
                self.blocked = true;
                return Outcome::Again;
            }
            Err(shm::ring::Corrupt) => return self.lose(),
        };
        // SAFETY: there is room for `body` and `len` bytes behind it; nobody else has a pointer to it in this process.
        unsafe {
            if !body.is_empty() {
                copy_bytes(body.as_ptr(), room.payload, body.len());
            }
            if let Some((source, from)) = payload {
                source.copy_out(from, room.payload.add(body.len()), len);
            }
        }
        if self.outbox.publish(room, &words_of(header)) {
            self.wake();
        }
        if spills {
            self.denied = false;
        }
        Outcome::Done
    }

    /// As `send`, with the payload in a cell.
    #[inline(never)]
    fn send_by_cell(
        &mut self,
        header: &Header,
        body: &[u8],
        payload: Option<(&SendBuf, usize)>,
        len: usize,
    ) -> Outcome {
        let Some((source, from)) = payload else { return Outcome::Again };
        debug_assert!(len <= CELL_BYTES, "`limits` promise no more");
        let room = match self.outbox.reserve(body.len() + SPILL_BYTES) {
            Ok(Some(room)) => room,
            Ok(None) => {
                self.blocked = true;
                return Outcome::Again;
            }
            Err(shm::ring::Corrupt) => return self.lose(),
        };
        let Some((cell, data)) = self.outbox.claim_cell() else {
            self.blocked = true;
            self.denied = !self.outbox.waits_for_cells();
            return Outcome::Again;
        };
        let tail = [cell.number(), len as u32];
        // SAFETY: the cell is ours until a record names it and holds any packet's payload; there is room for body and tail.
        unsafe {
            source.copy_out(from, data, len.min(CELL_BYTES));
            copy_bytes(body.as_ptr(), room.payload, body.len());
            copy_bytes(tail.as_ptr().cast(), room.payload.add(body.len()), SPILL_BYTES);
        }
        let [first, b, c] = words_of(header);
        if self.outbox.publish_cell(room, &[first | SPILLED, b, c], cell) {
            self.wake();
        }
        Outcome::Done
    }

    #[cold]
    fn wake(&self) {
        if let Some(bell) = &self.bell {
            BELLS.add(1);
            bell.ring();
        }
    }

    #[cold]
    fn lose(&mut self) -> Outcome {
        log!(Error, "rank {} wrote an impossible position into shared memory; its lane is closed", self.peer.0);
        self.lost = true;
        Outcome::Lost
    }

    /// Whether the peer has found that it rather pulls messages of `len` bytes from this process.
    pub fn peer_pulls(&self, len: usize) -> bool {
        self.outbox.advice() & 1 << class_of(len) != 0
    }

    /// Whether the peer should stream a message that could be pulled. On a `crowded` node it shouldn't: it may not even be running.
    pub fn prefers_stream(&self, len: usize, crowded: bool) -> bool {
        !crowded && self.has_cells && !self.preference.pulls(len)
    }

    /// The peer has streamed `len` bytes since `since_ns`; a clock of another time namespace is no measure.
    pub fn note_streamed(&mut self, len: usize, since_ns: u64) {
        let now = sys::clock::now_ns();
        // Streams that were begun together come one after the other: only this one's own time counts.
        if (now.saturating_sub(MEASURE_MAX_NS)..=now).contains(&since_ns) {
            self.preference.note_streamed(len, now - since_ns.max(self.streamed_ns));
        }
        self.streamed_ns = now;
    }

    /// Copies `len` bytes at `address` of the peer's memory to the start of `sink`; see [`SingleCopy::pull`].
    pub fn pull(&mut self, address: u64, sink: &RecvBuf, len: usize) -> bool {
        let start = sys::clock::now_ns();
        let done = self.single.pull(address, sink, len);
        if done {
            self.preference.note_pulled(len, sys::clock::now_ns() - start);
        }
        if self.single.name().is_none() {
            self.limits.pull_min = usize::MAX;
            self.preference.cannot_pull();
        }
        done
    }

    /// What the peer should know of [`Preference::pulled_classes`], if that has changed.
    pub fn new_advice(&mut self) -> Option<u32> {
        let advice = self.preference.pulled_classes();
        (std::mem::replace(&mut self.advised, advice) != advice).then_some(advice)
    }
}
