//! The shared-memory lane: packets through the ring that a sender has in the receiver's inbox.
//!
//! A process has one [`ShmHub`] (its own inbox, its bell, what its peers may know of it) and one [`ShmLane`] per peer of its node
//! that it has sent to. Peers are numbered by their index on the node, the *slot*: the sender with slot `s` owns ring `s` of every
//! inbox. The descriptors go through the node agent: inbox, bell, memory ([`ShmHub::descriptors`]).
//!
//! The short path is straight code: reserve, copy, publish, look whether the peer sleeps. No system call, lock, allocation or
//! atomic read-modify-write.

use crate::buffer::{RecvBuf, SendBuf, copy_bytes};
use crate::calibrate::{self, MEM_MIN_RATE};
use crate::single_copy::{Probe, ProbeWord, SINGLE_COPY, SINGLE_COPY_ALLOW, SingleCopy};
use base::counters::{BELLS, PACKETS_REJECTED};
use base::{Peer, log};
use protocol::fabric::{Limits, Outcome};
use protocol::matching::{Envelope, Found, Pattern};
use protocol::wire::{HEADER_BYTES, Header, Kind};
use shm::inbox::{Inbox, Polled, Record};
use shm::layout::{HEADER_WORDS, Identity};
use shm::outbox::Outbox;
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use sys::wake::Bell;

base::config! {
    /// Size of the ring from one process of a node to another; a power of two.
    RING_BYTES: u64 = 65536, 4096..=1073741824, "bytes";
}

/// The descriptors that a peer left with its node agent.
#[derive(Debug)]
pub struct PeerFds {
    /// Its inbox.
    pub inbox: OwnedFd,
    /// Its bell.
    pub bell: OwnedFd,
    /// Its memory, if it could open it.
    pub memory: Option<OwnedFd>,
}

impl PeerFds {
    /// From what came with its card, in the order of [`ShmHub::descriptors`].
    pub fn from_vec(fds: Vec<OwnedFd>) -> Option<PeerFds> {
        let mut fds = fds.into_iter();
        Some(PeerFds { inbox: fds.next()?, bell: fds.next()?, memory: fds.next() })
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
}

impl ShmPacket {
    /// First byte of the payload, in memory that the sender can still change. Valid until the packet is released.
    #[inline]
    pub fn payload(&self) -> *const u8 {
        self.record.payload()
    }

    /// Bytes of the payload.
    #[inline]
    pub fn len(&self) -> usize {
        self.record.len()
    }

    /// Whether there is no payload.
    pub fn is_empty(&self) -> bool {
        self.record.is_empty()
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
    /// A hub for process `me` among `peers`, all ranks of the node including `me` in an order on which they agree.
    /// `rank_id` is the random identity in this process's card.
    pub fn create(me: Peer, peers: Vec<Peer>, rank_id: u128) -> io::Result<ShmHub> {
        let slot = peers.iter().position(|p| *p == me);
        let slot =
            slot.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "this rank is not on its own node"))?;
        let word = ProbeWord::random();
        if SINGLE_COPY_ALLOW.value() {
            sys::cma::allow_readers();
        }
        let identity = Identity { nonce: rank_id, probe_address: word.address(), probe_value: word.value() };
        let ring_bytes = (RING_BYTES.value() as usize).next_power_of_two();
        let inbox = Inbox::create(peers.len(), ring_bytes, &identity)?;
        let memory = sys::cma::own_memory().ok();
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
        match (header_of(&record), self.peers.get(sender)) {
            (Some(header), Some(peer)) => Some(ShmEvent::Packet(ShmPacket { peer: *peer, header, record })),
            _ => Some(self.reject(sender)),
        }
    }

    /// Takes the next packet straight to `sink` if it is the eager message that `pattern` accepts.
    #[inline(always)]
    pub fn receive_eager(&mut self, pattern: &Pattern, sink: &RecvBuf) -> Option<Found> {
        let record = self.inbox.peek_hot()?;
        let header = header_of(&record)?;
        let envelope = Envelope { context: header.context, source: header.source, tag: header.tag };
        if header.kind != Kind::Eager || !pattern.accepts(&envelope) {
            return None;
        }
        // SAFETY: the record's payload stays mapped until the release below, and `copy_in` cuts at the end of the sink.
        unsafe { sink.copy_in(0, record.payload(), record.len()) };
        if self.inbox.release_hot(&record) {
            self.wake(self.inbox.sender(&record));
        }
        Some(Found { envelope, length: record.len() as u64 })
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
        if self.inbox.release(&packet.record) {
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

#[inline(always)]
fn header_of(record: &Record) -> Option<Header> {
    let [a, b, c] = record.header().map(u64::to_le_bytes);
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
    bell: Rc<Bell>,
    limits: Limits,
    lost: bool,
    /// The last attempt to send found no room.
    blocked: bool,
    peer: Peer,
    single: SingleCopy,
}

impl ShmLane {
    /// Connects to `peer`, whose card says `rank_id` and, if somebody vouches for it, `pid`.
    pub fn open(hub: &ShmHub, peer: Peer, rank_id: u128, pid: Option<i32>, fds: PeerFds) -> io::Result<ShmLane> {
        let outbox = Outbox::open(fds.inbox.as_fd(), hub.slot, rank_id)?;
        let told = outbox.identity();
        let probe = Probe { address: told.probe_address, value: told.probe_value, pid, memory: fds.memory };
        let mut single = SingleCopy::probe(peer, probe);
        if single.name() == Some("mem") && SINGLE_COPY.value() == "auto" {
            let rate = hub.memory.as_ref().map_or(0.0, |memory| calibrate::mem_rate(memory.as_fd()));
            if rate < MEM_MIN_RATE.value() {
                single.reject(format!("{rate:.1} GB/s is less than FERRULE_MEM_MIN_RATE={}", MEM_MIN_RATE.value()));
            }
        }
        let limits = calibrate::shm_limits(outbox.payload_max(), single.name().is_some());
        let bell = Rc::new(Bell::from_fd(fds.bell));
        hub.learn_bell(peer, &bell);
        Ok(ShmLane { outbox, bell, limits, lost: false, blocked: false, peer, single })
    }

    /// What the lane can do now.
    #[inline(always)]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Single copy from this peer: in use or rejected, for `ferrule why`.
    pub fn single_copy(&self) -> &SingleCopy {
        &self.single
    }

    /// Before this process sleeps: if the ring was full, the peer rings when there is room. Try once more afterwards.
    pub fn arm(&mut self) {
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

    #[inline(always)]
    fn send(&mut self, header: &Header, body: &[u8], payload: Option<(&SendBuf, usize)>, len: usize) -> Outcome {
        if self.lost {
            return Outcome::Lost;
        }
        let room = match self.outbox.reserve(body.len() + len) {
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
        Outcome::Done
    }

    #[cold]
    fn wake(&self) {
        BELLS.add(1);
        self.bell.ring();
    }

    #[cold]
    fn lose(&mut self) -> Outcome {
        log!(Error, "rank {} wrote an impossible position into shared memory; its lane is closed", self.peer.0);
        self.lost = true;
        Outcome::Lost
    }

    /// Copies `len` bytes at `address` of the peer's memory to the start of `sink`; see [`SingleCopy::pull`].
    pub fn pull(&mut self, address: u64, sink: &RecvBuf, len: usize) -> bool {
        let done = self.single.pull(address, sink, len);
        if self.single.name().is_none() {
            self.limits.pull_min = usize::MAX;
        }
        done
    }
}
