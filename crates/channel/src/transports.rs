//! All transports of a process as one: itself, shared memory, memory that VMs share, UCX, TCP.
//!
//! A [`Lane`] says how packets reach one peer; [`connect`](protocol::transport::Transport::connect) finds out which it is (`finder`), by proof. It only decides how this
//! process sends; packets are taken from every transport, whatever lane the peer chose. Polling order: shared memory at every call, then
//! the own queue, then sockets as often as they have had traffic, then now and then the node agent. Nothing here blocks but `close`.
//!
//! Invariant: a peer is reported `Lost` once everything that it had sent before has been polled.

mod epoch;
mod inboxes;
pub mod jobs;
mod lanes;
mod poll;
mod ucx_lanes;

pub use epoch::{has_step, hear_agent, tell_of_steps};

use crate::bootstrap::{EndpointAddress, JobInfo, SharedBootstrap};
use crate::finder::Finder;
use crate::locality;
use crate::memory::{self, Registered};
use crate::profile::{SharedProfile, Short};
use crate::self_::{SelfLane, SelfPacket};
use crate::shm::heap::{Heap, Part};
use crate::shm::{ShmHub, ShmLane, ShmPacket};
use crate::tcp::{Net, NetPacket, ids};
use crate::ucx::{UcxNet, UcxPacket};
use crate::why::{self, Why};
use base::{Class, ContextId, Error, Peer, Result, log};
use protocol::control::endpoint_address::UcxAddress;
use protocol::control::epoch::Order;
use protocol::control::report::LaneUse;
use protocol::endpoint::{Endpoints, LaneCount};
use protocol::memory::Verbs;
use protocol::processes::SharedProcesses;
use protocol::transport::Packet;
use protocol::wire::Header;
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use sys::epoll::{Epoll, Interest};
use sys::mem::Mapping;
use sys::wake::Bell;

/// How packets reach one peer. Endpoints keep it in a box of its own.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a second box would cost the short path a load")]
pub enum Lane {
    /// This process itself.
    Own,
    /// A ring in the peer's inbox.
    Shm(ShmLane),
    /// A slot of [`Net`]; a peer has one or several.
    Net(u32),
    /// A link of [`UcxNet`]; a peer has one or several.
    Ucx(u32),
}

/// An incoming packet of any transport.
#[derive(Debug)]
pub enum AnyPacket {
    /// From shared memory.
    Shm(ShmPacket),
    /// From memory shared with another kernel.
    Region(ShmPacket),
    /// In private memory: from this process, or of that sender and taken out of its lane.
    Own(Peer, SelfPacket),
    /// From a socket.
    Net(NetPacket),
    /// Over UCX.
    Ucx(UcxPacket),
}

impl Packet for AnyPacket {
    #[inline]
    fn peer(&self) -> Peer {
        match self {
            AnyPacket::Shm(packet) | AnyPacket::Region(packet) => packet.peer,
            AnyPacket::Own(peer, _) => *peer,
            AnyPacket::Net(packet) => packet.peer,
            AnyPacket::Ucx(packet) => packet.peer,
        }
    }
    #[inline]
    fn header(&self) -> Header {
        match self {
            AnyPacket::Shm(packet) | AnyPacket::Region(packet) => packet.header,
            AnyPacket::Own(_, packet) => packet.header,
            AnyPacket::Net(packet) => packet.header,
            AnyPacket::Ucx(packet) => packet.header,
        }
    }
    #[inline]
    fn len(&self) -> usize {
        match self {
            AnyPacket::Shm(packet) | AnyPacket::Region(packet) => packet.len(),
            AnyPacket::Own(_, packet) => packet.payload.len(),
            AnyPacket::Net(packet) => packet.len,
            AnyPacket::Ucx(packet) => packet.len,
        }
    }
}

const TOKEN_BELL: u64 = 1 << 32;
const TOKEN_CONTROL: u64 = 2 << 32;
const TOKEN_DOORBELL: u64 = 6 << 32;
const TOKEN_UCX: u64 = 7 << 32;

/// What happens to endpoints, to be polled.
enum Change {
    Opened(Peer, Vec<Lane>),
    Lost(Peer),
    Suspend(Vec<Peer>),
    Resume(Vec<Peer>),
    Revoked(ContextId),
}

/// See the head of this file.
pub struct Transports {
    me: Peer,
    job: Rc<JobInfo>,
    processes: SharedProcesses,
    epoll: Arc<Epoll>,
    tick: u32,
    hub: Option<ShmHub>,
    /// What peers under other kernels of this host send.
    region: Option<Box<ShmHub>>,
    own: SelfLane,
    registered: Registered,
    net: Option<Box<Net>>,
    /// Polls between two polls of the sockets; 1 when they are busy.
    net_every: u32,
    ucx: Option<Box<UcxNet>>,
    /// Why there is none.
    no_ucx: String,
    /// Polls between two polls of UCX.
    ucx_every: u32,
    /// Where peers that are tried over UCX are reached otherwise.
    instead_of_ucx: HashMap<Peer, Vec<SocketAddr>>,
    finder: Finder,
    /// Peers that are reported lost when nothing of them is left to be read.
    gone: VecDeque<Peer>,
    /// Peers that were reported lost: the node agent and a transport may both notice it.
    lost: HashSet<Peer>,
    changes: VecDeque<Change>,
    /// Where peers whose endpoints are suspended go on.
    moved: HashMap<Peer, Vec<SocketAddr>>,
    /// The same over UCX.
    moved_over_ucx: HashMap<Peer, Box<UcxAddress>>,
    /// Lanes into inboxes of peers whose endpoints are suspended.
    parked: HashMap<Peer, Box<Lane>>,
    /// The step of a migration epoch that is to be answered when no endpoint is being suspended any more.
    ordered: Option<Order>,
    /// This process has been told to suspend endpoints, and not all others have done it yet.
    draining: bool,
    /// Rung when a step has come that needs progress.
    step_bell: Option<Arc<Bell>>,
    /// A `Publish` that waits until this host has a network again.
    unpublished: Option<Box<epoch::Unpublished>>,
    /// Threads that are about to sleep, or asleep.
    armed: u32,
    /// Peers may be unable to wake this process, so its sleeps are short.
    sleeps_shortly: bool,
    profile: SharedProfile,
    /// Somebody observes messages, so that none may leave on the short path.
    observed: bool,
}

fn refused(what: &'static str, error: &std::io::Error) -> Error {
    log!(Error, "{what}: {error}");
    Error::new(Class::ERR_OTHER, what)
}

impl Transports {
    /// Opens the receiving sides, which `epoll` watches from then on, and registers this process's endpoint address with the node agent.
    /// No exchange with peers.
    pub fn open(
        bootstrap: SharedBootstrap,
        epoll: &Arc<Epoll>,
        oversubscribed: bool,
        profile: SharedProfile,
    ) -> Result<Transports> {
        let job = bootstrap.borrow().job().clone();
        let processes = bootstrap.borrow().processes().clone();
        let me = processes.borrow().me();
        let mut transports = Transports {
            me,
            job: Rc::clone(&job),
            processes,
            epoll: Arc::clone(epoll),
            tick: 0,
            hub: None,
            region: None,
            own: SelfLane::default(),
            registered: Registered::default(),
            net: None,
            net_every: 1,
            ucx: None,
            no_ucx: String::new(),
            ucx_every: 1,
            instead_of_ucx: HashMap::new(),
            finder: Finder::new(Rc::clone(&job), bootstrap),
            gone: VecDeque::new(),
            lost: HashSet::new(),
            changes: VecDeque::new(),
            moved: HashMap::new(),
            moved_over_ucx: HashMap::new(),
            parked: HashMap::new(),
            ordered: None,
            draining: false,
            step_bell: None,
            unpublished: None,
            armed: 0,
            sleeps_shortly: false,
            profile,
            observed: false,
        };
        if job.size > 1 {
            transports.open_receiving(epoll, oversubscribed)?;
        }
        Ok(transports)
    }

    /// Opens the receiving sides and tells the node agent.
    fn open_receiving(&mut self, epoll: &Arc<Epoll>, oversubscribed: bool) -> Result {
        let job = Rc::clone(&self.job);
        self.finder.watch(epoll, TOKEN_CONTROL).map_err(|e| refused("cannot watch the node agent's socket", &e))?;
        let rank_id = u128::from_le_bytes(sys::mem::random().map_err(|e| refused("no random numbers", &e))?);
        let mut fds: Vec<OwnedFd> = Vec::new();
        let (hub, inbox_file) = inboxes::hub(&job, &self.processes, rank_id, oversubscribed);
        self.hub = hub;
        if let Some(hub) = &self.hub {
            epoll.add(hub.bell(), TOKEN_BELL, Interest::READ).map_err(|e| refused("cannot watch the bell", &e))?;
            for fd in hub.descriptors() {
                fds.push(fd.try_clone_to_owned().map_err(|e| refused("cannot duplicate a descriptor", &e))?);
            }
        }
        let region_part = self.open_region(rank_id);
        self.net = inboxes::net(&job, &self.processes, epoll);
        self.open_ucx(rank_id, epoll)?;
        self.open_doorbell(epoll);
        let addresses = self.net.as_ref().map_or(Vec::new(), |net| net.addresses().to_vec());
        let mut address = locality::own_address(rank_id, addresses);
        address.ucx = self.ucx.as_ref().map(|ucx| Box::new(ucx.address()));
        let own_ids = ids::own_ids(&job);
        self.sleeps_shortly = !inbox_file.is_empty() || self.region.is_some();
        address.inbox_file = inbox_file;
        address.region_part = region_part;
        address.extra = ids::ids_for_neighbors(&job, &own_ids);
        if let Some(net) = &mut self.net {
            net.ids().own = own_ids;
        }
        self.finder.register(address, fds)
    }

    /// This process.
    pub fn me(&self) -> Peer {
        self.me
    }

    /// The job.
    pub fn job(&self) -> &Rc<JobInfo> {
        &self.job
    }

    /// The processes that this one knows.
    pub fn processes(&self) -> &SharedProcesses {
        &self.processes
    }

    /// What finds out how peers are reached.
    pub fn finder(&mut self) -> &mut Finder {
        &mut self.finder
    }

    /// The sockets, if there are any.
    pub fn net(&mut self) -> Option<&mut Net> {
        self.net.as_deref_mut()
    }

    fn hubs(&mut self) -> impl Iterator<Item = &mut ShmHub> {
        self.hub.iter_mut().chain(self.region.as_deref_mut())
    }

    /// Whether shared memory will be tried.
    pub fn may_be_near(&self, peer: Peer) -> bool {
        let rank = self.processes.borrow().rank(peer);
        self.hub.is_some() && rank.is_some_and(|rank| self.job.local_ranks.contains(&rank.0))
    }

    /// A peer that is reached over the network, and whose endpoint is suspended, goes on at these addresses: they are used when the endpoint is resumed.
    pub fn moves(&mut self, peer: Peer, addresses: Vec<SocketAddr>) {
        self.moved.insert(peer, addresses);
    }

    /// Opens the lanes to a peer that has moved. False if it hasn't.
    fn open_where_it_is(&mut self, peer: Peer) -> bool {
        if self.open_ucx_where_it_is(peer) {
            return true;
        }
        let (Some(addresses), Some(net)) = (self.moved.remove(&peer), &mut self.net) else { return false };
        net.move_to(peer, &addresses);
        let lanes = net_lanes(net, peer, &addresses);
        self.changes.push_back(Change::Opened(peer, lanes));
        true
    }

    /// Takes the connection of a peer that has called this process for its lane, if there is one.
    pub fn adopt_connection(&mut self, peer: Peer) -> bool {
        let Some(net) = self.net.as_mut().filter(|net| net.is_connected(peer)) else { return false };
        let lanes = net_lanes(net, peer, &[]);
        self.changes.push_back(Change::Opened(peer, lanes));
        true
    }

    /// Builds the lane to a peer whose endpoint address is known.
    fn open_lane(&mut self, peer: Peer, address: &EndpointAddress, fds: Vec<OwnedFd>, far: &str) {
        let mut why = Why::default();
        let Some(rank) = self.processes.borrow().rank(peer) else {
            why.reject("shm", "it is of another job");
            self.open_net(peer, &address.tcp, &mut why);
            return self.finder.note_reasons(peer, why);
        };
        if let Some(net) = &mut self.net {
            ids::note_neighbors_id(self.job.rank, rank, address, net.ids());
        }
        let near = locality::try_shm(self.hub.as_ref(), &self.job, (peer, rank, address, fds), far, &mut why)
            .or_else(|| locality::try_region(self.region.as_deref(), &self.job, (peer, rank, address), &mut why));
        if let Some(mut lane) = near {
            lane.count_short(self.short(peer));
            self.changes.push_back(Change::Opened(peer, vec![Lane::Shm(lane)]));
        } else if !self.try_ucx(peer, address, &mut why) {
            self.open_net(peer, &address.tcp, &mut why);
        }
        self.finder.note_reasons(peer, why);
    }

    /// What becomes of short messages to `peer`.
    fn short(&self, peer: Peer) -> Short {
        if self.observed { Short::Elsewhere } else { self.profile.short(peer) }
    }

    /// Opens lanes over TCP.
    fn open_net(&mut self, peer: Peer, addresses: &[SocketAddr], why: &mut Why) {
        match &mut self.net {
            Some(net) => {
                let lanes = net_lanes(net, peer, addresses);
                self.changes.push_back(Change::Opened(peer, lanes));
            }
            None => {
                why.reject("tcp", "not allowed by FERRULE_CHANNELS, or no listener could be opened");
                log!(Error, "there is no channel to {}: {:?}", self.processes.borrow().name(peer), why.rejected);
                self.lose(peer);
            }
        }
    }

    /// No lane any more; reported once, by the next polls.
    fn lose(&mut self, peer: Peer) {
        self.parked.remove(&peer);
        self.hubs().for_each(|hub| hub.forget(peer));
        if self.lost.insert(peer) {
            self.changes.push_back(Change::Lost(peer));
        }
    }

    /// Whether the kernel has everything that was sent.
    pub fn is_flushed(&mut self) -> bool {
        self.net.as_ref().is_none_or(|net| net.is_flushed()) && self.ucx.as_mut().is_none_or(|ucx| ucx.is_flushed())
    }

    /// How long a sleep may be at most.
    pub fn sleep_limit(&self) -> Option<Duration> {
        let net = self.net.as_ref().and_then(|net| net.sleep_limit());
        let file = self.sleeps_shortly.then(|| Duration::from_micros(locality::FILE_SLEEP_US.value()));
        let ucx = self.ucx.as_ref().and_then(|ucx| ucx.sleep_limit());
        let unpublished = self.unpublished.as_ref().map(|_| epoch::LISTEN_PAUSE);
        net.into_iter().chain(file).chain(ucx).chain(unpublished).min()
    }

    /// Whether this process tells what is true of its whole host.
    fn is_first_of_host(&self) -> bool {
        self.job.local_ranks.first() == Some(&self.job.rank.0)
    }

    fn host(&self, peer: Peer) -> &str {
        let node = self.processes.borrow().rank(peer).and_then(|rank| self.job.node_of.get(rank.0 as usize));
        let node = node.and_then(|n| self.job.node_names.get(*n as usize));
        node.map_or("an unknown host", String::as_str)
    }
}

/// The lanes to a peer over the network: one for each connection.
fn net_lanes(net: &mut Net, peer: Peer, addresses: &[SocketAddr]) -> Vec<Lane> {
    net.dial(peer, addresses).into_iter().map(Lane::Net).collect()
}

/// Prepares to sleep: from now on peers ring. Poll until nothing comes before sleeping.
pub fn arm(endpoints: &mut Endpoints<Transports>) {
    let (transports, lanes) = endpoints.lanes();
    for (_, lane) in lanes {
        if let Lane::Shm(lane) = lane {
            lane.arm();
        }
    }
    transports.armed += 1;
    transports.hubs().for_each(ShmHub::arm);
    if let Some(net) = &mut transports.net {
        net.arm();
    }
}

/// Active again. False if nothing was armed.
pub fn disarm(transports: &mut Transports) -> bool {
    if transports.armed == 0 {
        return false;
    }
    transports.armed -= 1;
    transports.hubs().for_each(ShmHub::disarm);
    if let Some(net) = &mut transports.net
        && transports.armed == 0
    {
        net.disarm();
    }
    // The next poll looks everywhere.
    transports.tick = u32::MAX;
    true
}

/// Tells all lanes how to count their short messages from now on.
pub fn tell_lanes(endpoints: &mut Endpoints<Transports>) {
    let (transports, lanes) = endpoints.lanes();
    for (peer, lane) in lanes {
        if let Lane::Shm(lane) = lane {
            lane.count_short(transports.short(peer));
        }
    }
}

/// Somebody observes messages from now on, or no longer: while it is so, no message leaves on the short path.
pub fn observe(endpoints: &mut Endpoints<Transports>, on: bool) {
    endpoints.transport().observed = on;
    tell_lanes(endpoints);
}

/// Whether there is something to do of which no bell and no socket tells: packets to this process itself, bytes that
/// a connection had no room for or has read ahead.
pub fn have_own_work(endpoints: &mut Endpoints<Transports>) -> bool {
    let transports = endpoints.transport();
    transports.own.has_packets()
        || transports.net.as_ref().is_some_and(|net| net.has_own_work())
        || transports.ucx.as_mut().is_some_and(|ucx| ucx.has_own_work())
}

/// What this process shares by parts with peers under its kernel; none if there are no such peers.
pub fn heap(endpoints: &mut Endpoints<Transports>) -> Option<&mut Heap> {
    endpoints.transport().hub.as_mut()?.heap.as_mut()
}

/// Whether the lane to `peer` may become one of shared memory.
pub fn may_be_near(endpoints: &mut Endpoints<Transports>, peer: Peer) -> bool {
    endpoints.transport().may_be_near(peer)
}

/// Maps a part of what `peer` shares; an error if its lane isn't open, or isn't one of this kernel's shared memory.
pub fn map_part(endpoints: &Endpoints<Transports>, peer: Peer, part: Part) -> std::io::Result<Mapping> {
    match endpoints.lane(peer) {
        Some(Lane::Shm(lane)) => lane.map(part),
        _ => Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "the peer is not reached through shared memory")),
    }
}

/// What the open lane to `peer` does by itself with registered memory.
pub fn verbs(endpoints: &Endpoints<Transports>, peer: Peer) -> Verbs {
    endpoints.lane(peer).map_or(Verbs::NONE, verbs_of)
}

fn verbs_of(lane: &Lane) -> Verbs {
    match lane {
        Lane::Own => Verbs::ALL,
        Lane::Shm(lane) => memory::verbs(lane.single_copy()),
        Lane::Ucx(_) => Verbs { put: true, get: true, atomic: false },
        Lane::Net(_) => Verbs::NONE,
    }
}

/// What the classes of a pair follow from: see [`protocol::lanes::LanePlan::class`].
fn pair_of(endpoints: &mut Endpoints<Transports>, peer: Peer) -> u64 {
    let transports = endpoints.transport();
    let other = transports.processes.borrow().id(peer).map_or(0, |id| u64::from(id.rank.0));
    u64::from(transports.job.rank.0) + other
}

/// The channel to `peer`, and why not the others.
pub fn why(endpoints: &mut Endpoints<Transports>, peer: Peer) -> Why {
    let mut why = endpoints.transport().finder.reasons(peer);
    let pair = pair_of(endpoints, peer);
    why.lanes = endpoints.lane_counts(peer, pair);
    match (endpoints.state(peer), endpoints.lane(peer)) {
        (protocol::endpoint::State::Lost, _) => why.channel = "lost",
        (_, Some(Lane::Own)) => why.channel = "self",
        // Memory of another kernel is out of reach.
        (_, Some(Lane::Shm(_))) if why.channel == locality::IVSHMEM => {}
        (_, Some(Lane::Shm(lane))) => {
            why.single_copy = lane.single_copy().name();
            why.rejected.extend(lane.single_copy().rejected().iter().cloned());
        }
        (_, Some(Lane::Net(_))) => why.channel = "tcp",
        (_, Some(Lane::Ucx(_))) => why.channel = "ucx",
        (_, None) => {}
    }
    why
}

/// The processes of the own job whose lanes were opened.
fn used(endpoints: &mut Endpoints<Transports>) -> Vec<Peer> {
    let processes = endpoints.transport().processes.clone();
    let processes = processes.borrow();
    processes.own_job().filter(|p| endpoints.state(*p) != protocol::endpoint::State::Idle).collect()
}

/// What was sent over the lanes of each class, to all peers that have several.
pub fn lanes_used(endpoints: &mut Endpoints<Transports>) -> Vec<LaneUse> {
    let counts: Vec<LaneCount> = used(endpoints)
        .into_iter()
        .flat_map(|peer| {
            let pair = pair_of(endpoints, peer);
            endpoints.lane_counts(peer, pair)
        })
        .collect();
    why::by_class(&counts)
}

/// The table of all pairs of this process whose lanes were opened.
fn why_table(endpoints: &mut Endpoints<Transports>) -> Vec<String> {
    let used = used(endpoints);
    let reasons: Vec<Why> = used.iter().map(|peer| why(endpoints, *peer)).collect();
    let processes = endpoints.transport().processes.clone();
    let processes = processes.borrow();
    let transports = &*endpoints.transport();
    let pairs =
        used.iter().zip(reasons).filter_map(|(peer, why)| Some((processes.rank(*peer)?, transports.host(*peer), why)));
    why::table(transports.job.rank, pairs)
}

/// Ends all lanes: what was sent is on its way when this returns, or its receiver is gone.
pub fn close(endpoints: &mut Endpoints<Transports>) {
    if why::WHY.value() {
        for line in why_table(endpoints) {
            base::log::write(base::log::Level::Info, format_args!("why: {line}"));
        }
    }
    let transports = endpoints.transport();
    if let Some(net) = &mut transports.net {
        net.close();
    }
    if let Some(ucx) = &mut transports.ucx {
        ucx.close();
    }
    if !transports.finder.inbox_file().is_empty() {
        let _ = std::fs::remove_file(inboxes::path_of(&transports.job.inbox_file));
    }
}
