//! The receiving side: the inbox of this process, and what its peers need to reach it.

use super::heap::Heap;
use super::waker::Waker;
use super::{CELLS, RING_BYTES, SPILL_BYTES, SPILLED, ShmEvent, ShmPacket, decode, header_of, words_of};
use crate::buffer::RecvBuf;
use crate::single_copy::{ProbeWord, SINGLE_COPY_ALLOW};
use base::counters::{BELLS, PACKETS_REJECTED};
use base::{Peer, log};
use protocol::control::rank::Region;
use protocol::matching::Found;
use protocol::policy::burst::{BURST_BYTES, Burst};
use protocol::policy::holding::HOLD_POLLS;
use protocol::processes::{Name, SharedProcesses};
use protocol::wire::{Header, eager_envelope};
use shm::cells::CellName;
use shm::inbox::{Inbox, Polled, Record};
use shm::layout::{CellCounts, Identity, SEGMENT_BYTES, SEGMENTS_MAX};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use sys::wake::Bell;

/// The most pieces that are taken between two polls: others get their turn.
const PIECES_MAX: usize = 16;
/// Payload of the record of a piece: its place in the message, and the cell.
const PIECE_BYTES: usize = size_of::<u64>() + SPILL_BYTES;
/// The most datagrams that are taken from a doorbell at a time.
const DATAGRAMS_MAX: usize = 64;

/// The receiving side of a process, and what peers need to reach it.
#[derive(Debug)]
pub struct ShmHub {
    pub(super) inbox: Inbox,
    burst: Burst,
    bell: Bell,
    /// What this process shares by parts with peers under its kernel.
    pub(crate) heap: Option<Heap>,
    /// Peers probe single copy on it.
    _word: ProbeWord,
    pub(super) memory: Option<OwnedFd>,
    processes: SharedProcesses,
    /// The processes of this node by slot.
    peers: Vec<Peer>,
    pub(super) slot: usize,
    /// Bells of the peers that a lane was opened to, by slot.
    bells: RefCell<Vec<PeerBell>>,
    /// See [`ShmHub::take_peer_without_lane`].
    peer_without_lane: Option<Peer>,
    /// At which peers under other kernels ring.
    pub(super) doorbell: Option<Rc<UdpSocket>>,
    /// There are more ranks than processors.
    pub(super) oversubscribed: bool,
}

/// How a peer is woken that waits for room in its ring.
#[derive(Clone, Debug)]
enum PeerBell {
    Unknown,
    /// Not known, but it has to be rung.
    Awaited,
    Known(Rc<Waker>),
}

impl ShmHub {
    /// A hub for this process among `peers`, all those under this kernel including itself in an order on which they agree.
    /// `rank_id` is the random identity in this process's endpoint address; `oversubscribed`: there are more ranks than processors.
    pub fn create(
        processes: &SharedProcesses,
        peers: Vec<Peer>,
        rank_id: u128,
        oversubscribed: bool,
    ) -> io::Result<ShmHub> {
        ShmHub::create_in(None, processes, peers, rank_id, oversubscribed)
    }

    /// The same, with the inbox in a new file.
    pub fn create_in(
        file: Option<&Path>,
        processes: &SharedProcesses,
        peers: Vec<Peer>,
        rank_id: u128,
        oversubscribed: bool,
    ) -> io::Result<ShmHub> {
        let me = processes.borrow().me();
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
            // All of a file takes room from the beginning: nothing is lent.
            Some(path) => Inbox::create_in_file(path, (peers.len(), ring_bytes, cell_counts(true)), &identity)?,
            None => Inbox::create(peers.len(), ring_bytes, cell_counts(oversubscribed), &identity)?,
        };
        let memory = if SINGLE_COPY_ALLOW.value() { sys::cma::own_memory().ok() } else { None };
        let bells = RefCell::new(vec![PeerBell::Unknown; peers.len()]);
        Ok(ShmHub {
            burst: Burst::new(peers.len(), inbox.segments(), SEGMENT_BYTES),
            inbox,
            bell: Bell::new()?,
            heap: Some(Heap::create()?),
            _word: word,
            memory,
            processes: processes.clone(),
            peers,
            slot,
            bells,
            peer_without_lane: None,
            doorbell: None,
            oversubscribed,
        })
    }

    /// A hub for what `peers` under other kernels send: the inbox is in this process's part of memory that they share. Also offset and bytes
    /// of the inbox.
    pub fn create_in_region(
        part: &Region,
        processes: &SharedProcesses,
        peers: Vec<Peer>,
        rank_id: u128,
    ) -> io::Result<(ShmHub, (u64, u64))> {
        let path = Path::new(OsStr::from_bytes(&part.path));
        let file = shm::region::Region::open_file(path, part.id)?;
        let word = ProbeWord::random();
        let identity = Identity { nonce: rank_id, probe_address: 0, probe_value: 0 };
        let ring_bytes = (RING_BYTES.value() as usize).next_power_of_two();
        let room = usize::try_from(part.len).map_err(|_| io::ErrorKind::InvalidInput)?;
        let sizes = (peers.len(), ring_bytes, CELLS.value() as usize);
        let (inbox, bytes) = Inbox::create_in_region(file, (part.offset, room), sizes, &identity)?;
        let bells = RefCell::new(vec![PeerBell::Unknown; peers.len()]);
        let hub = ShmHub {
            burst: Burst::new(peers.len(), inbox.segments(), SEGMENT_BYTES),
            inbox,
            bell: Bell::new()?,
            heap: None,
            _word: word,
            memory: None,
            processes: processes.clone(),
            peers,
            slot: 0,
            bells,
            peer_without_lane: None,
            doorbell: None,
            oversubscribed: false,
        };
        Ok((hub, (part.offset, bytes as u64)))
    }

    /// From now on peers of a region wake this process by a datagram to `address`, if that is free. A lost one does no harm: sleeps are
    /// short (`FILE_SLEEP_US`).
    pub fn open_doorbell(&mut self, address: SocketAddr) -> io::Result<BorrowedFd<'_>> {
        let socket = UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        let doorbell: &UdpSocket = self.doorbell.insert(Rc::new(socket));
        Ok(doorbell.as_fd())
    }

    /// What the agent passes on to peers under this kernel: inbox, bell, heap and, if there is one, memory.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let fixed = [self.inbox.fd(), self.bell.as_fd()];
        let heap = self.heap.as_ref().map(Heap::fd);
        fixed.into_iter().chain(heap).chain(self.memory.as_ref().map(AsFd::as_fd)).collect()
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

    /// The next packet; the last one must have been released or held.
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
        let exists = self.inbox.payload(cell, spilled as usize).is_some();
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
        let Some(data) = self.inbox.payload(packet.cell, packet.spilled as usize) else { return };
        let len = len.min((packet.spilled as usize).saturating_sub(skip));
        if len > 0 {
            // SAFETY: the range is cut to what is there, which stays mapped.
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

    /// See [`protocol::transport::Transport::take_pieces`]. Leaves what is anything else, or broken, to [`ShmHub::poll`].
    pub fn take_pieces(&mut self, peer: Peer, header: &Header, sink: &RecvBuf, place: Range<usize>) -> usize {
        let [first, b, c] = words_of(header);
        let Range { start, end } = place;
        let mut at = start;
        for _ in 0..PIECES_MAX {
            let Some(record) = self.inbox.peek_hot() else { break };
            let sender = self.inbox.sender(&record);
            if record.header() != [first | SPILLED, b, c]
                || record.len() != PIECE_BYTES
                || self.peers.get(sender) != Some(&peer)
            {
                break;
            }
            // SAFETY: the record has so many bytes; copied out once, then checked.
            let body = unsafe { record.payload().cast::<[u32; PIECE_BYTES / 4]>().read_unaligned() };
            let (place, cell, len) =
                (u64::from(body[0]) | u64::from(body[1]) << 32, CellName::from_number(body[2]), body[3] as usize);
            if place != at as u64 || len == 0 || len > end.saturating_sub(at) {
                break;
            }
            let Some(data) = self.inbox.payload(cell, len) else { break };
            // SAFETY: so many bytes stay mapped, and `copy_in` cuts at the end of the sink.
            unsafe { sink.copy_in(at, data, len) };
            if self.release_with_cell(&record, cell, len) {
                self.wake(sender);
            }
            at += len;
        }
        at - start
    }

    /// Gives up the ring of a sender that broke the format.
    #[cold]
    fn reject(&mut self, sender: usize) -> ShmEvent {
        self.inbox.drop_sender(sender);
        PACKETS_REJECTED.add(1);
        let peer = self.peers[sender];
        let name = self.name(peer);
        log!(Error, "{name} wrote an impossible record into shared memory; its lane is closed");
        ShmEvent::Lost(peer)
    }

    /// How messages for humans name a peer.
    pub(super) fn name(&self, peer: Peer) -> Name {
        self.processes.borrow().name(peer)
    }

    /// Gives the packet's room back, and wakes its sender if it waits for room.
    #[inline]
    pub fn release(&mut self, packet: &ShmPacket) {
        let wake = match packet.spilled {
            0 => self.inbox.release(&packet.record),
            _ => self.release_with_cell(&packet.record, packet.cell, packet.spilled as usize),
        };
        if wake {
            self.wake(self.inbox.sender(&packet.record));
        }
    }

    /// Gives back the room of a record, and of its `len` bytes in a cell. True if its sender must be woken.
    #[must_use]
    fn release_with_cell(&mut self, record: &Record, cell: CellName, len: usize) -> bool {
        let sender = self.inbox.sender(record);
        if let Some(lend) = self.burst.received(sender, len, sys::clock::now_ns) {
            self.inbox.lend(lend.segments, lend.share);
        }
        self.inbox.release_with_cell(record, cell)
    }

    /// Leaves the packet where it is, and does not look at what its sender sends until [`ShmHub::resume`] or for a few idle polls.
    /// False: it must be released now.
    pub fn hold(&mut self, packet: &ShmPacket) -> bool {
        self.inbox.hold(&packet.record, HOLD_POLLS.value() as u32)
    }

    /// What is held of `peer` can be used now.
    pub fn resume(&mut self, peer: Peer) {
        if let Some(sender) = self.peers.iter().position(|p| *p == peer) {
            self.inbox.resume(sender);
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
            self.peer_without_lane = self.peers.get(sender).copied();
        }
    }

    /// A peer that must be woken, but to which there is no lane: its bell rings when one is opened.
    #[inline]
    pub fn take_peer_without_lane(&mut self) -> Option<Peer> {
        self.peer_without_lane.take()
    }

    /// A lane to `peer` is opened; its bell is known from now on.
    pub(super) fn learn_bell(&self, peer: Peer, bell: &Rc<Waker>) {
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
        self.burst.rest();
        self.inbox.arm();
    }

    /// This thread is active again. The last one of those that slept silences the bell: it woke them all.
    pub fn disarm(&mut self) {
        if self.inbox.disarm() {
            self.bell.silence();
            if let Some(doorbell) = &self.doorbell {
                // Who rang doesn't matter, nor what they sent: everything is looked at now. Many datagrams don't hold this process up.
                let _ = (0..DATAGRAMS_MAX).take_while(|_| doorbell.recv(&mut [0; 8]).is_ok()).count();
            }
        }
    }
}

/// Room of an inbox by the settings. Ranks that share processors stream nothing that could be pulled.
fn cell_counts(oversubscribed: bool) -> CellCounts {
    let cells = CELLS.value() as usize;
    let segments = (BURST_BYTES.value() as usize / SEGMENT_BYTES).min(SEGMENTS_MAX);
    CellCounts { cells, segments: if oversubscribed || cells == 0 { 0 } else { segments } }
}
