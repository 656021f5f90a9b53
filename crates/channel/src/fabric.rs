//! The coordinator: one lane to every peer, resolved when it is first needed, and one poll over all of them.
//!
//! ```text
//! Unresolved ─ limits/send ─► Resolving ─ endpoint address ─► Shm | Net ─ peer gone ─► Lost
//! ```
//! The lane to a peer only decides how this process sends; packets are taken from every channel, whatever lane the peer chose.
//! Polling order: shared memory at every call, then the own queue, then sockets as often as they have had traffic, then
//! now and then the node agent. Nothing here blocks but [`ChannelFabric::close`].
//!
//! Invariant: a peer is reported `Lost` once, after everything that it had sent before has been polled.

mod counts;
mod lanes;
mod open;
mod poll;
mod startup;

use crate::bootstrap::{Bootstrap, EndpointAddress, JobInfo};
use crate::kept::{self, SharedPool};
use crate::profile::{Call, Profile};
use crate::self_::{SelfLane, SelfPacket};
use crate::shm::{ShmHub, ShmLane, ShmPacket};
use crate::tcp::{Net, NetPacket};
use crate::wait::{self, Waiter};
use crate::why::{self, Why};
use crate::{exchange, locality};
use base::log::Level;
use base::{Class, Error, Peer, Result, log};
use protocol::fabric::Packet;
use protocol::wire::Header;
use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
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
    /// The peer's endpoint address has been asked for.
    Resolving,
    /// This process itself.
    Own,
    /// A ring in the peer's inbox.
    Shm(Box<ShmLane>),
    /// A slot of [`Net`].
    Net(u32),
    /// The peer is gone, or can't be reached.
    Lost,
}

/// An incoming packet of any lane.
#[derive(Debug)]
pub enum FabricPacket {
    /// From shared memory.
    Shm(ShmPacket),
    /// From memory shared with another kernel.
    Region(ShmPacket),
    /// From this process.
    Own(Peer, SelfPacket),
    /// From a socket.
    Net(NetPacket),
}

impl Packet for FabricPacket {
    #[inline]
    fn peer(&self) -> Peer {
        match self {
            FabricPacket::Shm(packet) | FabricPacket::Region(packet) => packet.peer,
            FabricPacket::Own(me, _) => *me,
            FabricPacket::Net(packet) => packet.peer,
        }
    }
    #[inline]
    fn header(&self) -> Header {
        match self {
            FabricPacket::Shm(packet) | FabricPacket::Region(packet) => packet.header,
            FabricPacket::Own(_, packet) => packet.header,
            FabricPacket::Net(packet) => packet.header,
        }
    }
    #[inline]
    fn len(&self) -> usize {
        match self {
            FabricPacket::Shm(packet) | FabricPacket::Region(packet) => packet.len(),
            FabricPacket::Own(_, packet) => packet.payload.len(),
            FabricPacket::Net(packet) => packet.len,
        }
    }
}

const TOKEN_BELL: u64 = 1 << 32;
const TOKEN_CONTROL: u64 = 2 << 32;
const TOKEN_DOORBELL: u64 = 6 << 32;

/// All lanes of this process.
pub struct ChannelFabric {
    me: Peer,
    tick: u32,
    hub: Option<ShmHub>,
    /// What peers under other kernels of this host send.
    region: Option<Box<ShmHub>>,
    lanes: Vec<Lane>,
    own: SelfLane,
    net: Option<Box<Net>>,
    /// Polls between two polls of the sockets; 1 when they are busy.
    net_every: u32,
    resolving: u32,
    bootstrap: Bootstrap,
    /// Peers that are reported lost when nothing of them is left to be read.
    gone: VecDeque<Peer>,
    events: VecDeque<Peer>,
    waiter: Waiter,
    epoll: Arc<Epoll>,
    armed: u32,
    reasons: HashMap<Peer, Why>,
    dump_requested: bool,
    control_lost: bool,
    /// What an exchange has told of the others, by rank; empty if endpoint addresses are asked for on first use.
    directory: Vec<Option<Box<EndpointAddress>>>,
    /// What this process has registered.
    address: Option<Box<EndpointAddress>>,
    /// Where messages wait that nobody waits for.
    pool: SharedPool,
    /// Where messages are counted.
    profile: Option<Box<Profile>>,
    /// What messages of collectives belong to.
    call: Call,
}

fn refused(what: &'static str, error: &std::io::Error) -> Error {
    log!(Error, "{what}: {error}");
    Error::new(Class::ERR_OTHER, what)
}

impl ChannelFabric {
    /// Opens the receiving sides and registers this process's endpoint address with the node agent. No exchange with peers.
    pub fn open(bootstrap: Bootstrap) -> Result<ChannelFabric> {
        let job = bootstrap.job().clone();
        let mut lanes: Vec<Lane> = Vec::new();
        lanes.resize_with(job.size as usize, || Lane::Unresolved);
        lanes[job.rank.0 as usize] = Lane::Own;
        let waiter = Waiter::new(ranks_per_cpu(&job));
        let epoll = Arc::new(Epoll::new().map_err(|e| refused("cannot create an epoll set", &e))?);
        let mut fabric = ChannelFabric {
            me: job.rank,
            tick: 0,
            hub: None,
            region: None,
            lanes,
            own: SelfLane::default(),
            net: None,
            net_every: 1,
            resolving: 0,
            bootstrap,
            gone: VecDeque::new(),
            events: VecDeque::new(),
            waiter,
            epoll,
            armed: 0,
            reasons: HashMap::new(),
            dump_requested: false,
            control_lost: false,
            directory: Vec::new(),
            address: None,
            pool: SharedPool::default(),
            profile: None,
            call: None,
        };
        if job.profile.on {
            fabric.begin_profile(job.size, job.profile.detail);
        }
        if job.size > 1 {
            fabric.open_lanes(&job)?;
        }
        exchange::start(&mut fabric)?;
        if WHY.value() {
            fabric.resolve_all();
        }
        Ok(fabric)
    }

    /// Opens the receiving sides and tells the node agent.
    fn open_lanes(&mut self, job: &JobInfo) -> Result {
        if let Some(fd) = self.bootstrap.fd() {
            self.epoll
                .add(fd, TOKEN_CONTROL, Interest::READ)
                .map_err(|e| refused("cannot watch the node agent's socket", &e))?;
        }
        let rank_id = u128::from_le_bytes(sys::mem::random().map_err(|e| refused("no random numbers", &e))?);
        let mut fds = Vec::new();
        let (hub, inbox_file) = open::hub(job, rank_id, self.waiter.crowded());
        self.hub = hub;
        if let Some(hub) = &self.hub {
            self.epoll.add(hub.bell(), TOKEN_BELL, Interest::READ).map_err(|e| refused("cannot watch the bell", &e))?;
            for fd in hub.descriptors() {
                fds.push(fd.try_clone_to_owned().map_err(|e| refused("cannot duplicate a descriptor", &e))?);
            }
        }
        let region_part = self.open_region(job, rank_id);
        self.net = open::net(job, &self.epoll);
        self.open_doorbell();
        let addresses = self.net.as_ref().map_or(Vec::new(), |net| net.addresses().to_vec());
        let ids = exchange::own_ids(job);
        let mut address = locality::own_address(rank_id, addresses);
        address.inbox_file = inbox_file;
        address.region_part = region_part;
        address.extra = exchange::ids_for_neighbors(job, &ids);
        if let Some(net) = &mut self.net {
            net.ids().own = ids;
        }
        self.bootstrap.count_as_exchange(true);
        self.bootstrap.register(&address, fds)?;
        self.address = Some(Box::new(address));
        Ok(())
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

    /// Prepares to sleep: from now on peers ring. Poll until nothing comes, then wait until [`ChannelFabric::sleep_set`]
    /// is readable.
    pub fn arm(&mut self) {
        self.armed += 1;
        self.pool.borrow_mut().rest();
        for lane in &mut self.lanes {
            if let Lane::Shm(lane) = lane {
                lane.arm();
            }
        }
        self.hubs().for_each(ShmHub::arm);
        if let Some(net) = &mut self.net {
            net.arm();
        }
    }

    fn hubs(&mut self) -> impl Iterator<Item = &mut ShmHub> {
        self.hub.iter_mut().chain(self.region.as_deref_mut())
    }

    /// Readable when something may have come; for [`wait::sleep`] between `arm` and `disarm`. Shared, because a thread that
    /// sleeps leaves the fabric to others.
    pub fn sleep_set(&self) -> Option<Arc<Epoll>> {
        Some(self.epoll.clone())
    }

    /// How long a sleep may be at most, if timers run.
    pub fn sleep_limit(&self) -> Option<Duration> {
        let net = self.net.as_ref().and_then(|net| net.sleep_limit());
        let file = match &self.address {
            Some(address) if !address.inbox_file.is_empty() || self.region.is_some() => {
                Some(Duration::from_micros(locality::FILE_SLEEP_US.value()))
            }
            _ => None,
        };
        let kept = self.pool.borrow().is_warm().then_some(kept::REST);
        net.into_iter().chain(file).chain(kept).min()
    }

    /// Active again.
    pub fn disarm(&mut self) {
        if self.armed == 0 {
            return;
        }
        self.armed -= 1;
        self.waiter.woke(sys::clock::now_ns());
        self.hubs().for_each(ShmHub::disarm);
        if let Some(net) = &mut self.net
            && self.armed == 0
        {
            net.disarm();
        }
        // The next poll looks everywhere.
        self.tick = u32::MAX;
    }

    /// Whether somebody has asked since the last call what this rank waits for.
    pub fn take_dump_request(&mut self) -> bool {
        std::mem::take(&mut self.dump_requested)
    }

    /// Opens the lanes to all ranks, to see which channels they get.
    pub fn resolve_all(&mut self) {
        for rank in 0..self.job().size {
            if matches!(self.lane(Peer(rank)), Lane::Unresolved) {
                self.resolve(Peer(rank));
            }
        }
    }

    /// The channel to `peer`, and why not the others.
    pub fn why(&self, peer: Peer) -> Why {
        let mut why = self.reasons.get(&peer).cloned().unwrap_or_default();
        match self.lanes.get(peer.0 as usize) {
            Some(Lane::Own) => why.channel = "self",
            // Memory of another kernel is out of reach.
            Some(Lane::Shm(_)) if why.channel == locality::IVSHMEM => {}
            Some(Lane::Shm(lane)) => {
                why.single_copy = lane.single_copy().name();
                why.rejected.extend(lane.single_copy().rejected().iter().cloned());
            }
            Some(Lane::Net(_)) => why.channel = "tcp",
            Some(Lane::Lost) => why.channel = "lost",
            _ => {}
        }
        why
    }

    /// The table of all pairs of this process whose lanes were opened.
    pub fn why_table(&self) -> Vec<String> {
        let job = self.job();
        let pairs = (0..job.size).map(Peer).filter(|p| !matches!(self.lanes[p.0 as usize], Lane::Unresolved));
        why::table(self.me, pairs.map(|p| (p, self.host(p), self.why(p))))
    }

    /// Ends all lanes: what was sent is on its way when this returns, or its receiver is gone.
    pub fn close(&mut self) -> Result {
        self.end_profile();
        if WHY.value() {
            for line in self.why_table() {
                base::log::write(Level::Info, format_args!("why: {line}"));
            }
        }
        if let Some(net) = &mut self.net {
            net.close();
        }
        if self.address.as_ref().is_some_and(|address| !address.inbox_file.is_empty()) {
            let _ = std::fs::remove_file(open::path_of(&self.job().inbox_file));
        }
        Ok(())
    }

    fn host(&self, peer: Peer) -> &str {
        let job = self.bootstrap.job();
        let node = job.node_of.get(peer.0 as usize).and_then(|n| job.node_names.get(*n as usize));
        node.map_or("an unknown host", String::as_str)
    }

    fn lane(&mut self, peer: Peer) -> &mut Lane {
        &mut self.lanes[peer.0 as usize]
    }

    /// Tells `peer` what was learnt about its messages, if that is new.
    fn advise(&mut self, peer: Peer) {
        if let (Some(Lane::Shm(lane)), Some(hub)) = (self.lanes.get_mut(peer.0 as usize), &mut self.hub)
            && let Some(advice) = lane.new_advice()
        {
            hub.advise(peer, advice);
        }
    }

    #[cold]
    fn resolve(&mut self, peer: Peer) {
        if self.connect_by_directory(peer) {
            return;
        }
        if self.bootstrap.request_address(peer).is_ok() {
            *self.lane(peer) = Lane::Resolving;
            self.resolving += 1;
        } else {
            self.lose(peer);
        }
    }

    /// Whether `peer` was in the exchange and is reached without descriptors, so that nobody must be asked.
    fn connect_by_directory(&mut self, peer: Peer) -> bool {
        if self.may_be_near(peer) {
            return false;
        }
        let Some(address) = self.directory.get(peer.0 as usize).cloned().flatten() else { return false };
        *self.lane(peer) = Lane::Resolving;
        self.resolving += 1;
        self.connect(peer, &address, Vec::new(), "");
        true
    }

    /// Whether shared memory will be tried.
    fn may_be_near(&self, peer: Peer) -> bool {
        self.hub.is_some() && self.job().local_ranks.contains(&peer.0)
    }

    /// Builds the lane to a peer whose endpoint address has come.
    fn connect(&mut self, peer: Peer, address: &EndpointAddress, fds: Vec<OwnedFd>, far: &str) {
        if !matches!(self.lane(peer), Lane::Resolving) {
            return;
        }
        self.resolving -= 1;
        if let Some(net) = &mut self.net {
            exchange::note_neighbors_id(self.me, peer, address, net.ids());
        }
        let mut why = Why::default();
        let job = self.bootstrap.job();
        let lane = locality::try_shm(self.hub.as_ref(), job, (peer, address, fds), far, &mut why)
            .or_else(|| locality::try_region(self.region.as_deref(), job, (peer, address), &mut why));
        match (lane, &mut self.net) {
            (Some(lane), _) => {
                *self.lane(peer) = Lane::Shm(Box::new(lane));
                self.tell_lane(peer);
            }
            (None, Some(net)) => {
                let slot = net.dial(peer, address.tcp.clone());
                *self.lane(peer) = Lane::Net(slot);
            }
            (None, None) => {
                why.reject("tcp", "not allowed by FERRULE_CHANNELS, or no listener could be opened");
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
        self.hubs().for_each(|hub| hub.forget(peer));
        self.events.push_back(peer);
    }
}

/// How many ranks of this node, or of all nodes under its kernel, share a processor.
fn ranks_per_cpu(job: &JobInfo) -> usize {
    let node = job.node_of.get(job.rank.0 as usize);
    let own = job.node_of.iter().filter(|n| Some(*n) == node).count();
    wait::ranks_per_cpu(own.max(1), !job.bound_cpus.is_empty(), (job.local_ranks.len(), job.node_cpus as usize))
}
