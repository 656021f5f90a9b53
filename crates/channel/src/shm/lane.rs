//! The sending side to one peer, and single copy from it.

use super::heap::{self, Part};
use super::waker::Waker;
use super::{PeerFds, SPILL_BYTES, SPILLED, ShmHub, words_of};
use crate::buffer::{RecvBuf, SendBuf, copy_bytes};
use crate::calibrate::{self, MEM_MIN_RATE, RECORD_MAX};
use crate::profile::{Short, Table};
use crate::single_copy::{Probe, SINGLE_COPY, SingleCopy};
use base::counters::BELLS;
use base::{Peer, log};
use protocol::policy::burst::BURST_MESSAGE_BYTES;
use protocol::policy::non_temporal::{NonTemporal, Way};
use protocol::policy::streaming::{Preference, class_of};
use protocol::transport::{Caps, Outcome};
use protocol::wire::Header;
use shm::non_temporal::copy_non_temporal;
use shm::outbox::Outbox;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use sys::mem::Mapping;
use sys::wake::Bell;

/// Longest time that can be the measure of a stream.
const MEASURE_MAX_NS: u64 = 1_000_000_000;

/// The sending side to one peer, and single copy from it.
#[derive(Debug)]
pub struct ShmLane {
    outbox: Outbox,
    bell: Option<Rc<Waker>>,
    /// What the peer shares by parts.
    heap: Option<OwnedFd>,
    limits: Caps,
    lost: bool,
    /// The last attempt to send found no room.
    blocked: bool,
    /// Largest payload of a record.
    record_max: usize,
    /// Payloads above this go into cells.
    spill_from: usize,
    /// Longer messages go into segments that the peer lends.
    borrow_from: usize,
    /// Messages up to this are sent eagerly in a record.
    eager_inline: usize,
    /// Messages below this may leave at once; 0 if the lane is lost.
    short_end: usize,
    /// Counts those messages.
    counts: Option<Table>,
    /// All cells are in use by other senders: the next packet goes through the ring.
    denied: bool,
    peer: Peer,
    single: SingleCopy,
    /// This process's inbox has cells.
    has_cells: bool,
    /// There are more ranks than processors: the peer may not be running.
    oversubscribed: bool,
    preference: Preference,
    non_temporal: NonTemporal,
    /// What the peer was told of it.
    advised: u32,
    /// When the last stream from this peer was complete.
    streamed_ns: u64,
}

impl ShmLane {
    /// Connects to `peer`, whose endpoint address says `rank_id` and, if somebody vouches for it, `pid`.
    pub fn open(hub: &ShmHub, peer: Peer, rank_id: u128, pid: Option<i32>, fds: PeerFds) -> io::Result<ShmLane> {
        let outbox = match fds.in_file {
            true => Outbox::open_file(&fds.inbox.into(), hub.slot, rank_id)?,
            false => Outbox::open(fds.inbox.as_fd(), hub.slot, rank_id)?,
        };
        let bell = fds.bell.map(|fd| Rc::new(Waker::Bell(Bell::from_fd(fd))));
        let lane = ShmLane::over(hub, peer, outbox, (pid, fds.memory, bell));
        Ok(ShmLane { heap: fds.heap, ..lane })
    }

    /// Connects to a peer under another kernel, whose inbox is at `part` of memory that both share, as sender `slot`; it is rung at `addresses`.
    pub fn open_in_region(
        hub: &ShmHub,
        (peer, slot): (Peer, usize),
        rank_id: u128,
        (file, part): (&File, (u64, usize)),
        addresses: &[SocketAddr],
    ) -> io::Result<ShmLane> {
        let outbox = Outbox::open_in_region(file, part, slot, rank_id)?;
        let bell = hub.doorbell.as_ref().map(|socket| Rc::new(Waker::at(socket, addresses)));
        Ok(ShmLane::over(hub, peer, outbox, (None, None, bell)))
    }

    fn over(
        hub: &ShmHub,
        peer: Peer,
        mut outbox: Outbox,
        (pid, memory, bell): (Option<i32>, Option<OwnedFd>, Option<Rc<Waker>>),
    ) -> ShmLane {
        if hub.oversubscribed {
            outbox.stay_compact();
        }
        let told = outbox.identity();
        let probe = Probe { address: told.probe_address, value: told.probe_value, pid, memory };
        let mut single = SingleCopy::probe(hub.name(peer), probe);
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
        if let Some(bell) = &bell {
            hub.learn_bell(peer, bell);
        }
        let mut lane = ShmLane {
            outbox,
            bell,
            heap: None,
            limits,
            lost: false,
            blocked: false,
            record_max,
            spill_from,
            borrow_from: BURST_MESSAGE_BYTES.value() as usize,
            eager_inline: spill_from.min(limits.eager_max).min(record_max),
            short_end: 0,
            counts: None,
            denied: false,
            peer,
            single,
            has_cells: hub.inbox.cells() > 0,
            oversubscribed: hub.oversubscribed,
            preference,
            non_temporal: NonTemporal::default(),
            advised: 0,
            streamed_ns: 0,
        };
        lane.count_short(Short::NotCounted);
        lane
    }

    /// Maps a part of what the peer shares.
    pub fn map(&self, part: Part) -> io::Result<Mapping> {
        let fd = self
            .heap
            .as_ref()
            .ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "the peer passed no descriptor"))?;
        heap::map(fd.as_fd(), part)
    }

    /// How messages that leave at once ([`ShmLane::send_now`]) are counted from now on.
    pub fn count_short(&mut self, how: Short) {
        let (counts, end) = match how {
            Short::NotCounted => (None, self.eager_inline + 1),
            Short::Table(table) => (Some(table), (self.eager_inline + 1).min(Table::LENGTHS)),
            Short::Elsewhere => (None, 0),
        };
        self.counts = counts;
        self.short_end = if self.lost { 0 } else { end };
    }

    /// Whom it leads to.
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// What the lane can do now.
    #[inline(always)]
    pub fn limits(&self) -> Caps {
        if self.denied { self.limits_without_cells() } else { self.limits }
    }

    /// What a lane like this could do with single copy, or without.
    pub fn limits_if(&self, can_pull: bool) -> Caps {
        calibrate::shm_limits(self.record_max, self.outbox.cells(), can_pull)
    }

    #[cold]
    fn limits_without_cells(&self) -> Caps {
        Caps { pull_min: self.limits.pull_min, ..calibrate::shm_limits(self.record_max, 0, false) }
    }

    /// Single copy from this peer: in use or rejected, for `ferrule why`.
    pub fn single_copy(&self) -> &SingleCopy {
        &self.single
    }

    /// The same, to reach registered memory.
    pub fn single_copy_mut(&mut self) -> &mut SingleCopy {
        &mut self.single
    }

    /// Before this process sleeps: if the ring was full, the peer rings when there is room. Try once more afterwards.
    pub fn arm(&mut self) {
        self.outbox.rest();
        self.learn_piece_max();
        if std::mem::take(&mut self.blocked) && !self.lost {
            self.outbox.want_room();
        }
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

    /// Sends all of `source` as one eager record if there is room at hand, and counts it. False: nothing has happened.
    #[inline(always)]
    pub fn send_now(&mut self, header: &Header, source: &SendBuf) -> bool {
        let len = source.len();
        if len >= self.short_end {
            return false;
        }
        let Some(room) = self.outbox.reserve_at_hand(len) else { return false };
        // SAFETY: there is room for `len` bytes; nobody else has a pointer to it in this process.
        unsafe { source.copy_out(0, room.payload, len) };
        if let Some(counts) = &self.counts {
            // SAFETY: with a table, `short_end` is at most `Table::LENGTHS`.
            unsafe { counts.count(len) };
        }
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

    /// Packets are as large as there is room for now.
    fn learn_piece_max(&mut self) {
        if self.outbox.cells() > 0 {
            self.limits.packet_max = self.outbox.piece_max() + size_of::<u64>();
        }
    }

    /// As `send`, with the payload in a cell or segment.
    #[inline(never)]
    fn send_by_cell(
        &mut self,
        header: &Header,
        body: &[u8],
        payload: Option<(&SendBuf, usize)>,
        len: usize,
    ) -> Outcome {
        let Some((source, from)) = payload else { return Outcome::Again };
        debug_assert!(len <= self.outbox.piece_max(), "`limits` promise no more");
        let room = match self.outbox.reserve(body.len() + SPILL_BYTES) {
            Ok(Some(room)) => room,
            Ok(None) => {
                self.blocked = true;
                return Outcome::Again;
            }
            Err(shm::ring::Corrupt) => return self.lose(),
        };
        let Some((cell, data)) = self.outbox.claim_cell(len, source.len() > self.borrow_from) else {
            self.blocked = true;
            self.denied = !self.outbox.waits_for_cells();
            return Outcome::Again;
        };
        let tail = [cell.number(), len as u32];
        // SAFETY: the place is ours until a record names it, and has room for `len` bytes; there is room for body and tail.
        unsafe {
            match source.as_contiguous(from) {
                Some(src) => fill(&mut self.non_temporal, src, data, len.min(source.len() - from)),
                None => source.copy_out(from, data, len),
            }
            copy_bytes(body.as_ptr(), room.payload, body.len());
            copy_bytes(tail.as_ptr().cast(), room.payload.add(body.len()), SPILL_BYTES);
        }
        let [first, b, c] = words_of(header);
        if self.outbox.publish_cell(room, &[first | SPILLED, b, c], cell) {
            self.wake();
        }
        self.learn_piece_max();
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
        let name = self.single.name_of_peer();
        log!(Error, "{name} wrote an impossible position into shared memory; its lane is closed");
        (self.lost, self.short_end) = (true, 0);
        Outcome::Lost
    }

    /// Whether the peer rather pulls messages of `len` bytes from this process: it has found that, or it would have to run several times to read them.
    pub fn peer_pulls(&self, len: usize) -> bool {
        self.outbox.advice() & 1 << class_of(len) != 0 || self.oversubscribed && len > self.outbox.share_bytes()
    }

    /// Whether the peer should stream a message that could be pulled.
    pub fn prefers_stream(&self, len: usize) -> bool {
        !self.oversubscribed && self.has_cells && !self.preference.pulls(len)
    }

    /// The peer has streamed `len` bytes since `since_ns`; a clock of another time namespace is no measure.
    pub fn note_streamed(&mut self, len: usize, since_ns: u64) {
        if self.oversubscribed {
            return;
        }
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

/// Copies `len` bytes to memory that the peer reads, in the way that is faster now.
///
/// # Safety
/// `src` is readable and `dst` writable for `len` bytes; they don't overlap, and `dst` is aligned to 16 bytes.
unsafe fn fill(policy: &mut NonTemporal, src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: promised by the caller.
    unsafe {
        match policy.way(len) {
            Way::Cached => copy_bytes(src, dst, len),
            Way::NonTemporal => copy_non_temporal(src, dst, len),
            Way::Timed => {
                let start_ns = sys::clock::now_ns();
                copy_bytes(src, dst, len);
                policy.note(len, sys::clock::now_ns() - start_ns);
            }
        }
    }
}
