//! The transport over UCX (crate `ucx`): packets as active messages, put and get, one context and worker per class of lanes (decision 0035).
//!
//! [`UcxNet`] owns the workers and the links. `link.rs` has the states of a link, `peers.rs` opens and closes links, `packets.rs` sends and delivers,
//! `memory.rs` reaches registered memory. UCX keeps no order and has no limit; `flow.rs` adds both.
//!
//! Invariants: a peer is `Lost` once, after its packets have been read and all operations with the program's memory are over. Whoever doesn't know the
//! job key opens no direction, and names none.

pub mod devices;
mod flow;
mod link;
mod memory;
mod packets;
mod peers;
mod rails;
pub mod wire;

pub use rails::Wakeup;

use crate::buffer::RecvBuf;
use ::ucx::{Ended, Event, Message, Payload, Ucx, Worker};
use base::{Peer, counters, log};
use link::{Incoming, Link};
use protocol::control::endpoint_address::UcxAddress;
use protocol::lanes::LanePlan;
use protocol::processes::SharedProcesses;
use protocol::transport::{Caps, Token};
use protocol::wire::Header;
use rails::{Rails, WITHOUT_CLASS};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};
use wire::{Front, Kind};

base::config! {
    /// Whether ranks that share no memory use UCX: off, auto (where there are RDMA devices), on (over whatever UCX finds), or required (the job doesn't start without it).
    UCX: text = "off";
    /// The UCX library that is loaded, a path or a name that the dynamic linker knows; empty for libucp.so.0.
    UCX_LIBRARY: text = "";
    /// The transports that UCX may use, as in UCX_TLS; empty for its RDMA transports (`ib`) if FERRULE_UCX is auto, and for what the environment says otherwise.
    UCX_TRANSPORTS: text = "";
    /// InfiniBand service levels of classes of lanes, as `latency=1,bulk=2`; a class that isn't named has UCX_IB_SL of the environment.
    UCX_SERVICE_LEVELS: text = "";
    /// Traffic classes (the byte in the IP header, RoCE) of classes of lanes, as `latency=184,bulk=32`; a class that isn't named has UCX_IB_TRAFFIC_CLASS of the
    /// environment.
    UCX_TRAFFIC_CLASSES: text = "";
    /// Largest message that is sent over UCX without asking the receiver; the same on all ranks.
    UCX_EAGER_MAX: u64 = 16384, 256..=1048576, "bytes";
    /// Largest piece of a streamed message; the same on all ranks.
    UCX_PACKET_MAX: u64 = 4194304, 65536..=16777216, "bytes";
    /// Smallest piece that UCX carries from the sender's memory to the receiver's without a copy.
    UCX_ZERO_COPY_MIN: u64 = 32768, 4096..=16777216, "bytes";
    /// How long a peer is tried over UCX before TCP is used.
    UCX_CONNECT_TIMEOUT_MS: u64 = 10000, 1..=3600000, "ms";
}

/// Tokens of this transport have this bit and not that of TCP's.
const TOKEN: u64 = 1 << 62;
/// Polls between two looks at timers.
const ATTEND_EVERY: u32 = 64;
/// How long a sleep may be while timers run.
const TIMER: Duration = Duration::from_millis(5);

/// What a poll brings.
#[derive(Debug)]
pub enum UcxEvent {
    /// A packet, to be given back by [`UcxNet::release`] before the next poll.
    Packet(UcxPacket),
    /// A landing payload is complete.
    Landed {
        /// Who sent it.
        peer: Peer,
        /// The packet's header.
        header: Header,
        /// Bytes delivered.
        len: usize,
    },
    /// The source of a packet that was `Posted` is no longer in use.
    Sent(Token),
    /// An access that was `Posted` is over.
    Accessed(Token),
    /// The lanes to this peer are open, at these links.
    Opened(Peer, Vec<u32>),
    /// The peer can't be reached over UCX, and why; nothing was sent to it.
    Unreachable(Peer, String),
    /// The peer of this link asks for the registration of this number and nonce: [`UcxNet::answer_key`].
    KeyWanted(u32, (u32, u64)),
    /// The peer is gone, and why.
    Lost(Peer, String),
}

/// A packet that has arrived.
#[derive(Clone, Copy, Debug)]
pub struct UcxPacket {
    /// Who sent it.
    pub peer: Peer,
    /// What it is.
    pub header: Header,
    /// Bytes of its payload.
    pub len: usize,
}

/// Who this process is.
pub struct Identity {
    /// This process and those that it knows.
    pub processes: SharedProcesses,
    /// Random identity.
    pub rank_id: u128,
    /// Secret of the job.
    pub job_key: [u8; 16],
}

/// An operation under way.
enum Operation {
    /// A packet from the program's memory.
    Send,
    /// A payload to the program's memory; or to a place of our own first, from where it goes to that of the program.
    Land { header: Header, len: usize, by_way_of: Option<(Vec<u8>, RecvBuf, usize)> },
    /// A put, with the data if they had to be collected.
    Put { _data: Option<Vec<u8>> },
    /// A get, with the place if it has to be spread.
    Get { by_way_of: Option<(Vec<u8>, RecvBuf)> },
    /// Makes accesses visible.
    Flush,
    /// What was sent last before the endpoint is closed.
    LastFlush,
}

/// The packet that was shown.
struct Current {
    link: u32,
    front: Front,
    /// `None` while it lands.
    payload: Option<Payload>,
}

/// A peer whose links end.
struct Ending {
    why: String,
    since: Instant,
}

/// See the head of this file.
pub struct UcxNet {
    identity: Identity,
    key: [u8; 32],
    ucx: Ucx,
    plan: LanePlan,
    rails: Rails,
    links: Vec<Link>,
    by_lane: HashMap<(Peer, u8), u32>,
    /// The link of a direction, and whether this process sends over it.
    tokens: HashMap<u64, (u32, bool)>,
    operations: HashMap<u64, (u32, Operation)>,
    next_tag: u64,
    /// Links with packets to show.
    arrivals: VecDeque<u32>,
    events: VecDeque<UcxEvent>,
    current: Option<Current>,
    /// Links with timers, and peers that are failing or said to be dead.
    timed: Vec<u32>,
    failing: HashMap<Peer, Ending>,
    dead: HashMap<Peer, Instant>,
    /// What peers may reach: by number of the registration and worker.
    mapped: HashMap<(u32, usize), (::ucx::Mapping, Vec<u8>)>,
    tick: u32,
    has_logged_stranger: bool,
}

/// Stands for the settings that must be the same on all ranks.
fn format_number(plan: &LanePlan) -> u32 {
    let settings = [UCX_EAGER_MAX.value(), UCX_PACKET_MAX.value(), u64::from(plan.format_number())];
    let mixed = settings.iter().fold(17u64, |sum, value| sum.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(*value));
    (mixed ^ mixed >> 32) as u32
}

/// What a lane can do.
pub fn limits() -> Caps {
    let (eager_max, packet_max) = (UCX_EAGER_MAX.value() as usize, UCX_PACKET_MAX.value() as usize);
    Caps { packet_max, piece_min: packet_max, eager_max, fragments_max: 0, push_max: 0, pull_min: usize::MAX }
}

impl UcxNet {
    /// Opens a worker for each class of the plan over what `devices` found.
    pub fn open(identity: Identity, plan: LanePlan, found: devices::Found, wakeup: Wakeup) -> Result<UcxNet, String> {
        let ucx = found.ucx;
        let rails = Rails::open(found, &plan, wakeup)?;
        let key = wire::transport_key(&identity.job_key);
        Ok(UcxNet {
            identity,
            key,
            ucx,
            plan,
            rails,
            links: Vec::new(),
            by_lane: HashMap::new(),
            tokens: HashMap::new(),
            operations: HashMap::new(),
            next_tag: 0,
            arrivals: VecDeque::new(),
            events: VecDeque::new(),
            current: None,
            timed: Vec::new(),
            failing: HashMap::new(),
            dead: HashMap::new(),
            mapped: HashMap::new(),
            tick: 0,
            has_logged_stranger: false,
        })
    }

    /// Where peers reach this process.
    pub fn address(&self) -> UcxAddress {
        rails::address(self.ucx.version().minor, format_number(&self.plan), &self.rails)
    }

    /// Opens new workers: links that are opened from now on use them. Those before are closed when the links over them are. Where peers reach this process then.
    pub fn renew(&mut self) -> Result<UcxAddress, String> {
        self.rails.renew(&self.plan)?;
        Ok(self.address())
    }

    /// How many workers are open.
    pub fn worker_count(&self) -> usize {
        self.rails.places().count()
    }

    /// What a lane can do.
    pub fn limits(&self) -> Caps {
        limits()
    }

    /// Whether there is any link that could bring something, or an event.
    pub fn is_active(&self) -> bool {
        !self.links.is_empty() || !self.events.is_empty()
    }

    /// Whether the library has sent everything.
    pub fn is_flushed(&mut self) -> bool {
        self.rails.workers().all(|worker| worker.posted() == 0)
    }

    /// Arms the descriptors. True if there is something to do of which they don't tell.
    pub fn has_own_work(&mut self) -> bool {
        let is_busy = self.rails.workers().fold(false, |busy, worker| !worker.arm() | busy);
        is_busy || !self.events.is_empty() || !self.arrivals.is_empty()
    }

    /// How long a sleep may be while timers run.
    pub fn sleep_limit(&self) -> Option<Duration> {
        let has_timers = !self.timed.is_empty() || !self.failing.is_empty() || !self.dead.is_empty();
        has_timers.then_some(TIMER)
    }

    /// Whether the agent could tell why a peer doesn't answer.
    pub fn wants_news(&self) -> bool {
        !self.timed.is_empty() || !self.failing.is_empty()
    }

    fn link(&mut self, index: u32) -> &mut Link {
        &mut self.links[index as usize]
    }

    fn worker_of(&mut self, index: u32) -> &mut Worker {
        &mut self.rails[self.links[index as usize].worker].worker
    }

    /// The links with a peer, in the order of their lanes.
    fn links_of(&self, peer: Peer) -> Vec<u32> {
        (0..self.plan.lanes() as u8).filter_map(|lane| self.by_lane.get(&(peer, lane)).copied()).collect()
    }

    /// A number for an operation of a link.
    fn tag(&mut self) -> u64 {
        self.next_tag = (self.next_tag + 1) & (TOKEN - 1);
        TOKEN | self.next_tag
    }

    /// The next event.
    pub fn poll(&mut self) -> Option<UcxEvent> {
        if let Some(event) = self.next() {
            return Some(event);
        }
        for rail in self.rails.places() {
            self.rails[rail].worker.progress();
            while let Some(event) = self.rails[rail].worker.event() {
                self.on_event(rail, event);
            }
        }
        self.tick = self.tick.wrapping_add(1);
        if self.tick.is_multiple_of(ATTEND_EVERY) || !self.failing.is_empty() || self.rails.has_old() {
            self.attend(Instant::now());
        }
        self.next()
    }

    /// What is at hand.
    fn next(&mut self) -> Option<UcxEvent> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        while let Some(index) = self.arrivals.pop_front() {
            let link = self.link(index);
            link.is_queued = false;
            // It comes again when the payload has landed.
            if link.is_landing {
                continue;
            }
            let Some(Incoming { front, payload }) = link.order.take() else { continue };
            let peer = link.peer;
            self.queue(index);
            let Some(header) = front.header else {
                self.on_left(index);
                continue;
            };
            let len = front.body().len() + payload.len();
            self.current = Some(Current { link: index, front, payload: Some(payload) });
            return Some(UcxEvent::Packet(UcxPacket { peer, header, len }));
        }
        None
    }

    /// Notes that a link has packets to show, if it has.
    fn queue(&mut self, index: u32) {
        let link = self.link(index);
        if !link.is_queued && link.order.first().is_some() {
            link.is_queued = true;
            self.arrivals.push_back(index);
        }
    }

    fn on_event(&mut self, rail: usize, event: Event) {
        match event {
            Event::Message(message) => self.on_message(rail, message),
            Event::Ended(ended) => self.on_ended(ended),
            Event::Failed(tag, status) => {
                let index = tag as u32;
                if self.link(index).incarnation == (tag >> 32) as u32 {
                    self.on_failed(index, status.to_string());
                }
            }
            Event::Closed(tag) => {
                let link = self.link(tag as u32);
                if link.incarnation == (tag >> 32) as u32 {
                    link.leaves_endpoint = false;
                    self.on_closed(tag as u32);
                }
            }
        }
    }

    fn on_message(&mut self, rail: usize, message: Message) {
        let Some(front) = Front::decode(message.header()) else { return self.reject(rail, message.payload, "garbage") };
        if front.kind == Kind::Hello {
            return self.on_hello_bytes(rail, message.payload);
        }
        let Some((index, is_own)) = self.tokens.get(&front.token).copied() else {
            return self.reject(rail, message.payload, "it belongs to no link");
        };
        if self.link(index).worker != rail {
            return self.reject(rail, message.payload, "it came over another lane");
        }
        match (front.kind, is_own) {
            (Kind::Packet | Kind::Close, false) => {
                let wrong =
                    self.link(index).order.arrived(front.sequence, Incoming { front, payload: message.payload });
                match wrong {
                    Some(Incoming { payload, .. }) => self.reject(rail, payload, "it has an impossible number"),
                    None => self.queue(index),
                }
            }
            (Kind::Acknowledgement, true) => {
                if !self.link(index).window.acknowledge(front.sequence) {
                    self.reject(rail, Payload::none(), "it acknowledges more than was sent");
                }
                self.rails[rail].worker.release(message.payload);
            }
            (Kind::Ready, true) => {
                self.rails[rail].worker.release(message.payload);
                self.on_ready(index);
            }
            (Kind::KeyWanted, false) => {
                let name = self.facts(rail, &message.payload);
                self.rails[rail].worker.release(message.payload);
                self.events.extend(name.map(|facts| UcxEvent::KeyWanted(index, facts.name)));
            }
            (Kind::Key, true) => self.on_key(index, message.payload),
            _ => self.reject(rail, message.payload, "it goes the wrong way"),
        }
    }

    /// Drops what nobody in the job sends.
    #[cold]
    fn reject(&mut self, rail: usize, payload: Payload, why: &str) {
        self.rails[rail].worker.release(payload);
        counters::PACKETS_REJECTED.add(1);
        if !std::mem::replace(&mut self.has_logged_stranger, true) {
            log!(Warn, "a message over UCX was dropped: {why}; more are only counted");
        }
    }

    /// An operation is over.
    fn on_ended(&mut self, Ended { tag, result }: Ended) {
        let Some((index, operation)) = self.operations.remove(&tag) else { return };
        if !matches!(operation, Operation::LastFlush | Operation::Flush) {
            self.link(index).posted -= 1;
        }
        if let Err(status) = result {
            // The peer is lost now, or the link was closed: nobody waits for the rest.
            self.link(index).is_landing = false;
            return self.on_failed(index, status.to_string());
        }
        match operation {
            Operation::Send => self.events.push_back(UcxEvent::Sent(Token(tag))),
            Operation::Put { .. } => self.events.push_back(UcxEvent::Accessed(Token(tag))),
            Operation::Get { by_way_of } => {
                if let Some((bytes, sink)) = by_way_of {
                    // SAFETY: all of the bytes were read.
                    unsafe { sink.copy_in(0, bytes.as_ptr(), bytes.len()) };
                }
                self.events.push_back(UcxEvent::Accessed(Token(tag)));
            }
            Operation::Land { header, len, by_way_of } => self.on_landed(index, header, len, by_way_of),
            Operation::Flush => self.on_flushed(index),
            Operation::LastFlush => self.leave_endpoint(index),
        }
    }
}

/// Which endpoint of a link: names it in events.
fn endpoint_tag(index: u32, link: &Link) -> u64 {
    u64::from(index) | u64::from(link.incarnation) << 32
}

impl Drop for UcxNet {
    /// What was sent leaves, as far as that takes no time: a program that ends without `MPI_Finalize` doesn't wait.
    fn drop(&mut self) {
        let end = Instant::now() + Duration::from_millis(100);
        while !self.is_flushed() && Instant::now() < end {
            for worker in self.rails.workers() {
                worker.progress();
            }
        }
    }
}
