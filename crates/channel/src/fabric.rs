//! The coordinator: one lane to every peer, resolved when it is first needed, and one poll over all of them.
//!
//! ```text
//! Unresolved ─ limits/send ─► Resolving ─ card ─► Shm | Net ─ peer gone ─► Lost
//! ```
//! The lane to a peer only decides how this process sends; packets are taken from every channel, whatever lane the peer chose.
//! Polling order: shared memory at every call, then the own queue, then sockets as often as they have had traffic, then
//! now and then the node agent. Nothing here blocks but [`ChannelFabric::close`].
//!
//! Invariant: a peer is reported `Lost` once, after everything that it had sent before has been polled.

use crate::bootstrap::{Bootstrap, Event as Told, JobInfo};
use crate::buffer::{RecvBuf, SendBuf};
use crate::locality;
use crate::self_::{self, SelfLane, SelfPacket};
use crate::shm::{ShmEvent, ShmHub, ShmLane, ShmPacket};
use crate::wait::{self, Waiter};
use crate::why::{self, Why};
use base::{Class, Error, Peer, Result, log};
use protocol::fabric::{Delivery, Event, Fabric, Limits, Outcome, Packet};
use protocol::wire::Header;
use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use sys::epoll::{Epoll, Interest};

base::config! {
    /// Prints the channel of each pair, and why not the others, when the program ends.
    WHY: bool = false;
}

/// How packets reach one peer.
#[derive(Debug)]
enum Lane {
    /// Nobody has asked yet.
    Unresolved,
    /// The peer's card has been asked for.
    Resolving,
    /// This process itself.
    Own,
    /// A ring in the peer's inbox.
    Shm(Box<ShmLane>),
    /// The peer is gone, or can't be reached.
    Lost,
}

/// An incoming packet of any lane.
#[derive(Debug)]
pub enum FabricPacket {
    /// From shared memory.
    Shm(ShmPacket),
    /// From this process.
    Own(Peer, SelfPacket),
}

impl Packet for FabricPacket {
    #[inline]
    fn peer(&self) -> Peer {
        match self {
            FabricPacket::Shm(packet) => packet.peer,
            FabricPacket::Own(me, _) => *me,
        }
    }
    #[inline]
    fn header(&self) -> Header {
        match self {
            FabricPacket::Shm(packet) => packet.header,
            FabricPacket::Own(_, packet) => packet.header,
        }
    }
    #[inline]
    fn len(&self) -> usize {
        match self {
            FabricPacket::Shm(packet) => packet.len(),
            FabricPacket::Own(_, packet) => packet.payload.len(),
        }
    }
}

/// Polls between two looks at the node agent.
const CONTROL_EVERY: u32 = 1024;
/// The same while cards are awaited.
const CONTROL_EVERY_RESOLVING: u32 = 8;
/// Polls in a row that only shared memory may serve.
const SHM_STREAK: u32 = 64;

const TOKEN_BELL: u64 = 1 << 32;
const TOKEN_CONTROL: u64 = 2 << 32;

/// All lanes of this process.
pub struct ChannelFabric {
    me: Peer,
    tick: u32,
    hub: Option<ShmHub>,
    lanes: Vec<Lane>,
    own: SelfLane,
    resolving: u32,
    bootstrap: Bootstrap,
    /// Peers that are reported lost when nothing of them is left to be read.
    gone: VecDeque<Peer>,
    events: VecDeque<Peer>,
    waiter: Waiter,
    epoll: Option<Rc<Epoll>>,
    reasons: HashMap<Peer, Why>,
    dump_requested: bool,
    control_lost: bool,
}

fn refused(what: &'static str, error: &std::io::Error) -> Error {
    log!(Error, "{what}: {error}");
    Error::new(Class::ERR_OTHER, what)
}

impl ChannelFabric {
    /// Opens the receiving sides and registers this process's card with the node agent. No exchange with peers.
    pub fn open(mut bootstrap: Bootstrap) -> Result<ChannelFabric> {
        let job = bootstrap.job().clone();
        let mut lanes: Vec<Lane> = Vec::new();
        lanes.resize_with(job.size as usize, || Lane::Unresolved);
        lanes[job.rank.0 as usize] = Lane::Own;
        let crowded = wait::is_crowded(job.local_ranks.len().max(1), !job.bound_cpus.is_empty());
        let (mut hub, mut epoll) = (None, None);
        if job.size > 1 {
            let set = Epoll::new().map_err(|e| refused("cannot create an epoll set", &e))?;
            if let Some(fd) = bootstrap.fd() {
                set.add(fd, TOKEN_CONTROL, Interest::READ)
                    .map_err(|e| refused("cannot watch the node agent's socket", &e))?;
            }
            let rank_id = u128::from_le_bytes(sys::mem::random().map_err(|e| refused("no random numbers", &e))?);
            hub = open_hub(&job, rank_id);
            let mut fds = Vec::new();
            if let Some(hub) = &hub {
                set.add(hub.bell(), TOKEN_BELL, Interest::READ).map_err(|e| refused("cannot watch the bell", &e))?;
                for fd in hub.descriptors() {
                    fds.push(fd.try_clone_to_owned().map_err(|e| refused("cannot duplicate a descriptor", &e))?);
                }
            }
            bootstrap.register(&locality::own_card(rank_id, Vec::new()), fds)?;
            epoll = Some(Rc::new(set));
        }
        Ok(ChannelFabric {
            me: job.rank,
            tick: 0,
            hub,
            lanes,
            own: SelfLane::default(),
            resolving: 0,
            bootstrap,
            gone: VecDeque::new(),
            events: VecDeque::new(),
            waiter: Waiter::new(crowded),
            epoll,
            reasons: HashMap::new(),
            dump_requested: false,
            control_lost: false,
        })
    }

    /// The job.
    pub fn job(&self) -> &JobInfo {
        self.bootstrap.job()
    }

    /// The node agent.
    pub fn bootstrap(&mut self) -> &mut Bootstrap {
        &mut self.bootstrap
    }

    /// How this process waits.
    #[inline]
    pub fn waiter(&mut self) -> &mut Waiter {
        &mut self.waiter
    }

    /// Prepares to sleep: from now on peers ring. Poll until nothing comes, then sleep on [`ChannelFabric::sleep_set`].
    pub fn arm(&mut self) {
        if let Some(hub) = &mut self.hub {
            hub.arm();
        }
    }

    /// What becomes readable when a sleeping process has to look; none for a process without peers. Shared, because a
    /// thread that sleeps leaves the fabric to others. Only between `arm` and `disarm`.
    pub fn sleep_set(&self) -> Option<Rc<Epoll>> {
        self.epoll.clone()
    }

    /// Active again.
    pub fn disarm(&mut self) {
        if let Some(hub) = &mut self.hub {
            hub.disarm();
        }
        // Whatever woke us is looked at by the next polls.
        self.tick = 0;
    }

    /// Whether somebody has asked to see the pending operations since the last call.
    pub fn take_dump_request(&mut self) -> bool {
        std::mem::take(&mut self.dump_requested)
    }

    /// Resolves the lane to every rank of this node, and waits for that: for `ferrule why`.
    pub fn resolve_node(&mut self) {
        for rank in self.job().local_ranks.clone() {
            let _ = self.limits(Peer(rank));
        }
    }

    /// The channel to `peer`, and why not the others.
    pub fn why(&self, peer: Peer) -> Why {
        let mut why = self.reasons.get(&peer).cloned().unwrap_or_default();
        match self.lanes.get(peer.0 as usize) {
            Some(Lane::Own) => why.channel = "self",
            Some(Lane::Shm(lane)) => {
                why.single_copy = lane.single_copy().name();
                why.rejected.extend(lane.single_copy().rejected().iter().cloned());
            }
            Some(Lane::Lost) => why.channel = "lost",
            _ => {}
        }
        why
    }

    /// The table of all pairs of this process that have been used.
    pub fn why_table(&self) -> Vec<String> {
        let job = self.job();
        let pairs = (0..job.size).map(Peer).filter(|p| !matches!(self.lanes[p.0 as usize], Lane::Unresolved));
        let host = |p: Peer| job.node_names[job.node_of[p.0 as usize] as usize].as_str();
        why::table(self.me, pairs.map(|p| (p, host(p), self.why(p))))
    }

    /// Ends all lanes: what was sent is on its way when this returns, or its receiver is gone.
    pub fn close(&mut self) -> Result {
        if WHY.value() {
            for line in self.why_table() {
                log!(Warn, "why: {line}");
            }
        }
        Ok(())
    }

    fn lane(&mut self, peer: Peer) -> &mut Lane {
        &mut self.lanes[peer.0 as usize]
    }

    #[cold]
    fn resolve(&mut self, peer: Peer) {
        if self.bootstrap.request_card(peer).is_ok() {
            *self.lane(peer) = Lane::Resolving;
            self.resolving += 1;
        } else {
            self.lose(peer);
        }
    }

    /// Builds the lane to a peer whose card has come.
    fn connect(&mut self, peer: Peer, card: &crate::bootstrap::Card, fds: Vec<OwnedFd>) {
        if !matches!(self.lane(peer), Lane::Resolving) {
            return;
        }
        self.resolving -= 1;
        let mut why = Why::default();
        let lane = locality::try_shm(self.hub.as_ref(), self.bootstrap.job(), (peer, card, fds), &mut why);
        match lane {
            Some(lane) => *self.lane(peer) = Lane::Shm(Box::new(lane)),
            None => {
                log!(Error, "there is no channel to rank {}: {:?}", peer.0, why.rejected);
                self.lose(peer);
            }
        }
        self.reasons.insert(peer, why);
    }

    /// No lane any more; reported by the next polls.
    fn lose(&mut self, peer: Peer) {
        match std::mem::replace(self.lane(peer), Lane::Lost) {
            Lane::Lost => return,
            Lane::Resolving => self.resolving -= 1,
            _ => {}
        }
        self.events.push_back(peer);
    }

    #[inline(never)]
    fn poll_slowly(&mut self) -> Option<Event<FabricPacket>> {
        if let Some(packet) = self.own.poll() {
            return Some(Event::Packet(FabricPacket::Own(self.me, packet)));
        }
        let every = if self.resolving > 0 { CONTROL_EVERY_RESOLVING } else { CONTROL_EVERY };
        if self.tick.is_multiple_of(every) {
            self.poll_control();
        }
        if let Some(hub) = &mut self.hub
            && let Some(event) = hub.poll()
        {
            match event {
                ShmEvent::Packet(packet) => return Some(Event::Packet(FabricPacket::Shm(packet))),
                ShmEvent::Lost(peer) => self.lose(peer),
            }
        }
        // Nothing was found anywhere: what dead peers had sent has been read.
        if let Some(peer) = self.gone.pop_front() {
            self.lose(peer);
        }
        self.events.pop_front().map(Event::Lost)
    }

    fn poll_control(&mut self) {
        if self.control_lost {
            return;
        }
        loop {
            match self.bootstrap.poll() {
                Ok(None) => return,
                Ok(Some(Told::Card { peer, card, fds })) if peer.0 < self.lanes.len() as u32 => {
                    self.connect(peer, &card, fds);
                }
                Ok(Some(Told::PeerGone { peer, host, why })) if peer.0 < self.lanes.len() as u32 => {
                    log!(Warn, "rank {} on {host} is gone: {why}", peer.0);
                    self.gone.push_back(peer);
                }
                Ok(Some(Told::Dump)) => self.dump_requested = true,
                Ok(Some(_)) => {}
                Err(error) => {
                    log!(Error, "no word from the node agent any more: {}", error.origin);
                    self.control_lost = true;
                }
            }
        }
    }
}

/// This process's inbox; none if shared memory is not allowed, not needed or not to be had.
fn open_hub(job: &JobInfo, rank_id: u128) -> Option<ShmHub> {
    if !locality::allowed().shm || job.local_ranks.len() < 2 {
        return None;
    }
    let peers = job.local_ranks.iter().map(|r| Peer(*r)).collect();
    ShmHub::create(job.rank, peers, rank_id)
        .map_err(|e| log!(Warn, "no shared memory with the ranks of this node: {e}"))
        .ok()
}

impl Fabric for ChannelFabric {
    type Source = SendBuf;
    type Sink = RecvBuf;
    type Packet = FabricPacket;

    fn me(&self) -> Peer {
        self.me
    }

    #[inline]
    fn limits(&mut self, peer: Peer) -> Option<Limits> {
        match self.lane(peer) {
            Lane::Shm(lane) => Some(lane.limits()),
            Lane::Own | Lane::Lost => Some(self_::LIMITS),
            Lane::Unresolved => {
                self.resolve(peer);
                None
            }
            Lane::Resolving => None,
        }
    }

    #[inline]
    fn try_send(&mut self, peer: Peer, header: &Header, body: &[u8]) -> Outcome {
        match self.lane(peer) {
            Lane::Shm(lane) => lane.try_send(header, body),
            Lane::Own => self.own.try_send(header, body, None),
            Lane::Unresolved => {
                self.resolve(peer);
                Outcome::Again
            }
            Lane::Resolving => Outcome::Again,
            Lane::Lost => Outcome::Lost,
        }
    }

    #[inline]
    fn try_send_from(
        &mut self,
        peer: Peer,
        header: &Header,
        body: &[u8],
        source: &SendBuf,
        from: usize,
        len: usize,
    ) -> Outcome {
        match self.lane(peer) {
            Lane::Shm(lane) => lane.try_send_from(header, body, source, from, len),
            Lane::Own => self.own.try_send(header, body, Some((source, from, len))),
            Lane::Unresolved => {
                self.resolve(peer);
                Outcome::Again
            }
            Lane::Resolving => Outcome::Again,
            Lane::Lost => Outcome::Lost,
        }
    }

    #[inline]
    fn source_len(&self, source: &SendBuf) -> usize {
        source.len()
    }

    #[inline]
    fn sink_len(&self, sink: &RecvBuf) -> usize {
        sink.len()
    }

    #[inline]
    fn expose(&self, source: &SendBuf) -> u64 {
        source.as_contiguous(0).map_or(0, |at| at.expose_provenance() as u64)
    }

    fn pull(&mut self, peer: Peer, address: u64, sink: &RecvBuf, len: usize) -> bool {
        if matches!(self.lane(peer), Lane::Unresolved) {
            self.resolve(peer);
        }
        match self.lane(peer) {
            Lane::Shm(lane) => lane.pull(address, sink, len),
            Lane::Own => self.own.pull(address, sink, len),
            _ => false,
        }
    }

    #[inline]
    fn poll(&mut self) -> Option<Event<FabricPacket>> {
        self.tick = self.tick.wrapping_add(1);
        if !self.tick.is_multiple_of(SHM_STREAK)
            && let Some(hub) = &mut self.hub
            && let Some(event) = hub.poll()
        {
            match event {
                ShmEvent::Packet(packet) => return Some(Event::Packet(FabricPacket::Shm(packet))),
                ShmEvent::Lost(peer) => self.lose(peer),
            }
        }
        self.poll_slowly()
    }

    #[inline]
    fn body<const N: usize>(&mut self, packet: &FabricPacket) -> Option<[u8; N]> {
        match packet {
            FabricPacket::Shm(packet) if packet.len() >= N => {
                // SAFETY: the payload has at least N bytes and stays mapped until the packet is released; it is copied out
                // as bytes, whatever they are.
                Some(unsafe { packet.payload().cast::<[u8; N]>().read_unaligned() })
            }
            FabricPacket::Shm(_) => None,
            FabricPacket::Own(_, packet) => packet.payload.first_chunk::<N>().copied(),
        }
    }

    #[inline]
    fn deliver(
        &mut self,
        packet: &FabricPacket,
        skip: usize,
        sink: &RecvBuf,
        at: usize,
        len: usize,
        _may_land: bool,
    ) -> Delivery {
        let (payload, present) = match packet {
            FabricPacket::Shm(packet) => (packet.payload(), packet.len()),
            FabricPacket::Own(_, packet) => (packet.payload.as_ptr(), packet.payload.len()),
        };
        let skip = skip.min(present);
        // SAFETY: the range is cut to the payload, which is valid until the packet is released.
        unsafe { sink.copy_in(at, payload.add(skip), len.min(present - skip)) };
        Delivery::Complete
    }

    fn stash(&mut self, packet: &FabricPacket) -> Box<[u8]> {
        match packet {
            FabricPacket::Shm(packet) => {
                let mut copy = Vec::with_capacity(packet.len());
                // SAFETY: room was reserved; the payload is valid until the packet is released.
                unsafe {
                    std::ptr::copy_nonoverlapping(packet.payload(), copy.as_mut_ptr(), packet.len());
                    copy.set_len(packet.len());
                }
                copy.into_boxed_slice()
            }
            FabricPacket::Own(_, packet) => packet.payload.clone(),
        }
    }

    fn unstash(&mut self, bytes: &[u8], sink: &RecvBuf) {
        // SAFETY: a slice is readable.
        unsafe { sink.copy_in(0, bytes.as_ptr(), bytes.len()) };
    }

    #[inline]
    fn release(&mut self, packet: FabricPacket) {
        match packet {
            FabricPacket::Shm(packet) => {
                if let Some(hub) = &mut self.hub {
                    hub.release(&packet);
                }
            }
            FabricPacket::Own(..) => {}
        }
    }
}
