//! A transport in the memory of one thread, under virtual time: every delay, refusal and death comes from a seed.
//!
//! Each pair of processes has a lane that keeps order, or several ([`World::use_lanes`]), each with delays of its own, which can be lost one by one
//! ([`World::lose_lane`]); which lane delivers next is random. Sinks and sources are shared vectors, so a test can look at them. A source that is
//! `Posted` is read when its packet is delivered, not before: who reuses it too early sends garbage.

use crate::memory::{Memory, What};
use crate::rng::Rng;
use base::Peer;
use base::ids::ProcId;
use protocol::memory::{Atomic, Key, Verbs};
use protocol::processes::SharedProcesses;
use protocol::transport::{
    Access, Caps, Delivery, Event, Outcome, Packet, Sink, Source, Token, Transport, UnexpectedPool,
};
use protocol::wire::Header;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

/// A buffer of a simulated program.
#[derive(Clone, Debug, Default)]
pub struct Bytes(Rc<RefCell<Vec<u8>>>);

impl Bytes {
    /// A buffer with these bytes.
    pub fn new(bytes: Vec<u8>) -> Bytes {
        Bytes(Rc::new(RefCell::new(bytes)))
    }

    /// A copy of the bytes.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.borrow().clone()
    }

    /// The program writes something else there.
    pub fn overwrite(&self, value: u8) {
        self.0.borrow_mut().fill(value);
    }

    pub(crate) fn part(&self, from: usize, len: usize) -> Vec<u8> {
        self.0.borrow()[from..from + len].to_vec()
    }

    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        self.0.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

impl Source for Bytes {
    fn len(&self) -> usize {
        self.0.borrow().len()
    }
}

impl Sink for Bytes {
    fn len(&self) -> usize {
        self.0.borrow().len()
    }
}

/// Unexpected buffers on the heap.
#[derive(Default)]
pub struct Heap;

impl UnexpectedPool for Heap {
    type Sink = Bytes;
    type Buffer = Vec<u8>;

    fn append(&self, buffer: &mut Vec<u8>, more: usize, mut fill: impl FnMut(usize, &Bytes)) {
        let piece = Bytes::new(vec![0; more]);
        fill(0, &piece);
        buffer.extend_from_slice(&piece.0.borrow());
    }

    fn len(buffer: &Vec<u8>) -> usize {
        buffer.len()
    }

    fn copy_out(&self, buffer: &Vec<u8>, len: usize, sink: &Bytes) {
        sink.0.borrow_mut()[..len].copy_from_slice(&buffer[..len]);
    }
}

/// What goes wrong, in percent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Sends refused with `Again`.
    pub refuse: usize,
    /// Polls that find nothing although something is there.
    pub delay: usize,
    /// Pulls that fail.
    pub pull_fails: usize,
    /// Deliveries that land later.
    pub land: usize,
    /// Messages that are rather streamed than pulled.
    pub stream: usize,
    /// Packets that nobody waits for yet that stay in their lane for up to [`HOLD_POLLS`].
    pub hold: usize,
    /// Sends without a copy whose source stays in use until the packet is delivered, and accesses that are done later.
    pub post: usize,
}

/// Packets that a lane takes before it is full.
const LANE_PACKETS: usize = 200;

/// Longest time for which a packet is held.
const HOLD_POLLS: u64 = 50;

/// Packets that a lane has delivered last and that come again when it is lost: their sender can't know that they have arrived.
const UNCERTAIN_PACKETS: usize = 3;

/// What a lane that is lost leaves in the place where a payload was landing.
const HALF_LANDED: u8 = 0xdd;

/// A packet in flight.
#[derive(Clone, Debug)]
pub struct Parcel {
    peer: Peer,
    /// Number of its lane.
    lane: usize,
    /// It has been delivered before.
    is_repeated: bool,
    header: Header,
    payload: Vec<u8>,
    /// The rest of the payload, and what to tell its sender when it has been read.
    posted: Option<(Bytes, usize, usize, Token)>,
}

/// Sender, receiver, and the number of the lane among theirs.
type LaneId = (Peer, Peer, usize);

impl Parcel {
    /// The same packet once more.
    fn again(self) -> Parcel {
        Parcel { is_repeated: true, ..self }
    }
}

impl Packet for Parcel {
    fn peer(&self) -> Peer {
        self.peer
    }
    fn header(&self) -> Header {
        self.header
    }
    fn len(&self) -> usize {
        self.payload.len()
    }
}

/// What all processes of the simulation share.
pub struct World {
    rng: Rng,
    faults: Faults,
    caps: Caps,
    lanes: HashMap<LaneId, VecDeque<Parcel>>,
    /// What came last out of each lane, if there are several.
    delivered: HashMap<LaneId, VecDeque<Parcel>>,
    /// How many lanes are opened together, and the most that ever were.
    lanes_of_a_pair: usize,
    lanes_max: usize,
    /// Lanes that are open.
    open: HashSet<LaneId>,
    /// Lanes that deliver nothing for the moment.
    stalled: HashSet<LaneId>,
    /// Lanes that have been lost and not been opened again.
    lost: HashSet<LaneId>,
    /// Losses that each process has not heard of: the peer, and the number of the lane if others live.
    losses: HashMap<Peer, VecDeque<(Peer, Option<usize>)>>,
    /// Exposed sources by address.
    exposed: HashMap<u64, Bytes>,
    memory: Memory,
    dead: HashSet<Peer>,
    /// How often each process has moved: lanes to an earlier address lead nowhere.
    addresses: HashMap<Peer, u64>,
    /// Processes that have sent hostile bytes: what they say of their lanes may be wrong.
    hostile: HashSet<Peer>,
    /// Lanes that each process has closed.
    suspended: HashMap<Peer, usize>,
    /// Posted sends that are over, by sender.
    sent: HashMap<Peer, Vec<Token>>,
    tokens: u64,
    /// Polls so far, the measure of time: a microsecond each.
    polls: u64,
    /// Packets sent so far.
    pub packets: usize,
}

impl World {
    /// A world without packets.
    pub fn new(seed: u64, faults: Faults, caps: Caps) -> Rc<RefCell<World>> {
        let rng = Rng::new(seed);
        let world = World {
            rng,
            faults,
            caps,
            lanes: HashMap::new(),
            delivered: HashMap::new(),
            lanes_of_a_pair: 1,
            lanes_max: 1,
            open: HashSet::new(),
            stalled: HashSet::new(),
            lost: HashSet::new(),
            losses: HashMap::new(),
            exposed: HashMap::new(),
            memory: Memory::default(),
            dead: HashSet::new(),
            addresses: HashMap::new(),
            hostile: HashSet::new(),
            suspended: HashMap::new(),
            sent: HashMap::new(),
            tokens: 0,
            polls: 0,
            packets: 0,
        };
        Rc::new(RefCell::new(world))
    }

    /// A process dies; what it had sent still arrives.
    pub fn kill(&mut self, peer: Peer) {
        self.dead.insert(peer);
        self.memory.forget(peer);
    }

    /// What all lanes do with registered memory from now on. At first nothing.
    pub fn offer_verbs(&mut self, verbs: Verbs) {
        self.memory.verbs = verbs;
    }

    /// A process moves: its memory and its address are others now.
    pub fn move_to_another_host(&mut self, peer: Peer) {
        *self.addresses.entry(peer).or_default() += 1;
        self.exposed.clear();
    }

    /// So many lanes are opened from now on between two processes. At first one.
    pub fn use_lanes(&mut self, count: usize) {
        self.lanes_of_a_pair = count;
        self.lanes_max = self.lanes_max.max(count);
    }

    /// A lane is lost in both directions; with the last one the processes lose each other. False, and nothing has happened, if it isn't open at both ends.
    pub fn lose_lane(&mut self, a: Peer, b: Peer, number: usize) -> bool {
        let ways = [(a, b, number), (b, a, number)];
        if a == b || !ways.iter().all(|way| self.open.contains(way)) {
            return false;
        }
        for way @ (from, to, _) in ways {
            self.open.remove(&way);
            self.lost.insert(way);
            let left: Vec<usize> = (0..self.lanes_max).filter(|n| self.open.contains(&(from, to, *n))).collect();
            let parcels = self.lanes.remove(&way).unwrap_or_default();
            let repeated = self.delivered.remove(&way).unwrap_or_default().into_iter().map(Parcel::again);
            let other = left.get(self.rng.below(left.len()));
            if let Some(other) = other {
                let lane = self.lanes.entry((from, to, *other)).or_default();
                lane.extend(repeated.chain(parcels).map(|parcel| Parcel { lane: *other, ..parcel }));
            }
            self.losses.entry(from).or_default().push_back((to, other.map(|_| number)));
        }
        true
    }

    /// Lanes that are open from one process to another.
    pub fn open_lanes(&self, from: Peer, to: Peer) -> usize {
        self.open.iter().filter(|(a, b, _)| (*a, *b) == (from, to)).count()
    }

    /// Whether a lane from one process to another delivers nothing from now on.
    pub fn stall_lane(&mut self, from: Peer, to: Peer, number: usize, stalls: bool) {
        if stalls {
            self.stalled.insert((from, to, number));
        } else {
            self.stalled.remove(&(from, to, number));
        }
    }

    /// Packets from one process to another that are under way.
    pub fn under_way(&self, from: Peer, to: Peer) -> usize {
        let of_pair = self.lanes.iter().filter(|((a, b, _), _)| (*a, *b) == (from, to));
        of_pair.map(|(_, lane)| lane.iter().filter(|parcel| !parcel.is_repeated).count()).sum()
    }

    /// Lanes that a process has closed so far.
    pub fn lanes_closed(&self, peer: Peer) -> usize {
        self.suspended.get(&peer).copied().unwrap_or(0)
    }

    fn address_of(&self, peer: Peer) -> u64 {
        self.addresses.get(&peer).copied().unwrap_or(0)
    }

    /// Puts a packet into a lane that no engine sent: hostile bytes.
    pub fn inject(&mut self, from: Peer, to: Peer, header: Header, payload: Vec<u8>) {
        self.hostile.insert(from);
        let parcel = Parcel { peer: from, lane: 0, is_repeated: false, header, payload, posted: None };
        self.lanes.entry((from, to, 0)).or_default().push_back(parcel);
    }

    /// Takes the next packet of a lane; now its source is read.
    fn take(&mut self, lane: LaneId) -> Option<Parcel> {
        let from = lane.0;
        let mut parcel = self.lanes.get_mut(&lane)?.pop_front()?;
        if let Some((source, at, len, token)) = parcel.posted.take() {
            parcel.payload.extend(source.part(at, len));
            self.sent.entry(from).or_default().push(token);
        }
        if self.lanes_max > 1 {
            let delivered = self.delivered.entry(lane).or_default();
            delivered.push_back(parcel.clone());
            if delivered.len() > UNCERTAIN_PACKETS {
                delivered.pop_front();
            }
        }
        Some(parcel)
    }
}

/// One process's view of the world.
pub struct SimTransport {
    me: Peer,
    size: u32,
    world: Rc<RefCell<World>>,
    landing: Option<Landing>,
    reported: HashSet<Peer>,
    /// Peers whose lanes are not looked at, and until when.
    held: HashMap<Peer, u64>,
    /// Lanes that were asked for.
    opening: Vec<Peer>,
    edge: Option<Edge>,
}

/// Where processes of several jobs are: the world numbers them, each process has endpoints of its own for them.
struct Edge {
    processes: SharedProcesses,
    /// The processes of the world in its order.
    world: Vec<ProcId>,
}

/// A payload that is on its way into its place.
struct Landing {
    lane: LaneId,
    header: Header,
    sink: Bytes,
    at: usize,
    len: usize,
}

/// The sending side to one peer.
#[derive(Debug)]
pub struct SimLane {
    peer: Peer,
    number: usize,
    /// Where the peer was when the lane was opened.
    address: u64,
}

impl SimTransport {
    /// The view of process `me` of `size`.
    pub fn new(me: Peer, size: u32, world: &Rc<RefCell<World>>) -> SimTransport {
        SimTransport {
            me,
            size,
            world: Rc::clone(world),
            landing: None,
            reported: HashSet::new(),
            held: HashMap::new(),
            opening: Vec::new(),
            edge: None,
        }
    }

    /// The view of a process that knows `processes`, in a world of processes of several jobs; `of` names them in the order of the world's numbers.
    pub fn among_jobs(processes: &SharedProcesses, of: Vec<ProcId>, world: &Rc<RefCell<World>>) -> SimTransport {
        let own = processes.borrow().own_id();
        let me = of.iter().position(|id| *id == own).expect("the process is in the world");
        let size = of.len() as u32;
        let edge = Some(Edge { processes: processes.clone(), world: of });
        SimTransport { edge, ..SimTransport::new(Peer(me as u32), size, world) }
    }

    /// The world's number of an endpoint.
    fn number(&self, peer: Peer) -> Peer {
        let Some(edge) = &self.edge else { return peer };
        let id = edge.processes.borrow().id(peer).expect("an endpoint is a process");
        Peer(edge.world.iter().position(|known| *known == id).expect("the process is in the world") as u32)
    }

    /// The endpoint of one of the world's numbers.
    fn endpoint(&self, number: Peer) -> Peer {
        let Some(edge) = &self.edge else { return number };
        edge.processes.borrow_mut().learn(edge.world[number.0 as usize]).expect("there is room for an endpoint")
    }

    fn send(
        &mut self,
        lane: &SimLane,
        header: &Header,
        payload: Vec<u8>,
        rest: Option<(Bytes, usize, usize)>,
    ) -> Outcome {
        let world = &mut *self.world.borrow_mut();
        let peer = lane.peer;
        assert_eq!(lane.address, world.address_of(peer), "a packet is sent to an address that the peer has left");
        if world.dead.contains(&peer) {
            return Outcome::Lost;
        }
        let id = (self.me, peer, lane.number);
        let is_full = world.lanes.entry(id).or_default().len() >= LANE_PACKETS;
        if is_full || world.lost.contains(&id) || world.rng.chance(world.faults.refuse) {
            return Outcome::Again;
        }
        world.packets += 1;
        let (header, number) = (*header, lane.number);
        let mut parcel = Parcel { peer: self.me, lane: number, is_repeated: false, header, payload, posted: None };
        let mut outcome = Outcome::Done;
        if let Some((source, from, len)) = rest {
            assert!(parcel.payload.len() + len <= world.caps.packet_max, "a packet is larger than the lane allows");
            if world.rng.chance(world.faults.post) {
                world.tokens += 1;
                let token = Token(world.tokens);
                parcel.posted = Some((source, from, len, token));
                outcome = Outcome::Posted(token);
            } else {
                parcel.payload.extend(source.part(from, len));
            }
        }
        world.lanes.entry(id).or_default().push_back(parcel);
        outcome
    }
}

impl SimTransport {
    fn access(&mut self, lane: &SimLane, target: (&Key, u64), what: What) -> Access {
        let world = &mut *self.world.borrow_mut();
        if world.dead.contains(&lane.peer) {
            return Access::Lost;
        }
        if world.rng.chance(world.faults.refuse) {
            return Access::Again;
        }
        let later = world.rng.chance(world.faults.post).then(|| {
            world.tokens += 1;
            Token(world.tokens)
        });
        world.memory.access((self.me, lane.peer), target, what, later)
    }
}

impl Transport for SimTransport {
    type Lane = SimLane;
    type Source = Bytes;
    type Sink = Bytes;
    type Region = Bytes;
    type Packet = Parcel;
    type Eager = ();
    type Pool = Heap;

    fn connect(&mut self, peer: Peer) {
        self.opening.push(self.number(peer));
    }

    fn close_lane(&mut self, _: Peer, lane: SimLane) {
        let peer = lane.peer;
        let world = &mut *self.world.borrow_mut();
        world.open.remove(&(self.me, peer, lane.number));
        let (left, incoming) = (world.under_way(self.me, peer), world.under_way(peer, self.me));
        // The peer may not have read the very last packet, by which this side has answered.
        let is_drained = left <= 1 && incoming == 0 || world.hostile.contains(&peer);
        assert!(is_drained, "{} -> {peer:?}: a lane with {left} and {incoming} packets is closed", self.me.0);
        assert_eq!(lane.address, world.address_of(peer), "the lane leads to an address that the peer has left");
        *world.suspended.entry(self.me).or_default() += 1;
    }

    fn caps(&self, _: &SimLane) -> Caps {
        self.world.borrow().caps
    }

    fn try_control(&mut self, lane: &mut SimLane, header: &Header, body: &[u8]) -> Outcome {
        self.send(lane, header, body.to_vec(), None)
    }

    fn try_bcopy(&mut self, lane: &mut SimLane, header: &Header, body: &[u8], source: &Bytes) -> Outcome {
        self.send(lane, header, [body, &source.bytes()].concat(), None)
    }

    fn try_zcopy(
        &mut self,
        lane: &mut SimLane,
        header: &Header,
        body: &[u8],
        source: &Bytes,
        from: usize,
        len: usize,
    ) -> Outcome {
        self.send(lane, header, body.to_vec(), Some((source.clone(), from, len)))
    }

    /// The identity of the vector is its address.
    fn expose(&mut self, _: &mut SimLane, source: &Bytes) -> u64 {
        let address = Rc::as_ptr(&source.0) as *const u8 as u64;
        self.world.borrow_mut().exposed.insert(address, source.clone());
        address
    }

    fn register(&mut self, region: Bytes) -> Key {
        self.world.borrow_mut().memory.register(self.me, region)
    }

    fn deregister(&mut self, key: &Key) -> bool {
        self.world.borrow_mut().memory.deregister(self.me, key)
    }

    fn registered(&self, number: u32, nonce: u64) -> Option<Bytes> {
        self.world.borrow().memory.registered(self.me, number, nonce)
    }

    fn verbs(&self, _: &SimLane) -> Verbs {
        self.world.borrow().memory.verbs
    }

    fn put(&mut self, lane: &mut SimLane, key: &Key, at: u64, source: &Bytes) -> Access {
        self.access(lane, (key, at), What::Put(source.clone()))
    }

    fn get(&mut self, lane: &mut SimLane, key: &Key, at: u64, sink: &Bytes) -> Access {
        self.access(lane, (key, at), What::Get(sink.clone()))
    }

    fn atomic(&mut self, lane: &mut SimLane, key: &Key, at: u64, atomic: &Atomic) -> Access {
        self.access(lane, (key, at), What::Atomic(*atomic))
    }

    fn flush(&mut self, lane: &mut SimLane) -> Access {
        if self.world.borrow().memory.is_busy(self.me, lane.peer) { Access::Again } else { Access::Done(0) }
    }

    fn pull(&mut self, lane: &mut SimLane, address: u64, sink: &Bytes, len: usize) -> bool {
        let world = &mut *self.world.borrow_mut();
        if world.rng.chance(world.faults.pull_fails) || world.dead.contains(&lane.peer) {
            return false;
        }
        let Some(source) = world.exposed.get(&address) else { return false };
        sink.0.borrow_mut()[..len].copy_from_slice(&source.0.borrow()[..len]);
        true
    }

    fn prefers_stream(&self, _: &SimLane, _: usize) -> bool {
        let world = &mut *self.world.borrow_mut();
        world.rng.chance(world.faults.stream)
    }

    fn peer_pulls(&self, _: &SimLane, _: usize) -> bool {
        let world = &mut *self.world.borrow_mut();
        world.rng.chance(world.faults.stream)
    }

    fn now_ns(&self) -> u64 {
        self.world.borrow().polls * 1000
    }

    fn poll(&mut self) -> Option<Event<Parcel, SimLane>> {
        let world = &mut *self.world.borrow_mut();
        world.polls += 1;
        if world.rng.chance(world.faults.delay) {
            return None;
        }
        if let Some(Landing { lane, header, sink, at, len }) = self.landing.take() {
            if !world.lost.contains(&lane) {
                return Some(Event::Landed { peer: self.endpoint(lane.0), header, len });
            }
            sink.write(at, &vec![HALF_LANDED; len]);
        }
        if let Some((peer, lane)) = world.losses.get_mut(&self.me).and_then(VecDeque::pop_front) {
            match lane {
                Some(number) => return Some(Event::LaneLost(self.endpoint(peer), number)),
                None if self.reported.insert(peer) => return Some(Event::Lost(self.endpoint(peer))),
                None => {}
            }
        }
        if let Some(token) = world.sent.get_mut(&self.me).and_then(Vec::pop) {
            return Some(Event::Sent(token));
        }
        if let Some((token, value)) = world.memory.next(self.me, &mut world.rng) {
            return Some(Event::Accessed(token, value));
        }
        // The dead are reported below, when all that they had sent has been polled.
        if let Some(peer) = self.opening.pop().filter(|peer| !world.dead.contains(peer)) {
            let address = world.address_of(peer);
            let open = |number| {
                world.open.insert((self.me, peer, number));
                world.lost.remove(&(self.me, peer, number));
                // What an earlier lane of this number has delivered is certain: it was drained.
                world.delivered.remove(&(self.me, peer, number));
                SimLane { peer, number, address }
            };
            return Some(Event::Opened(self.endpoint(peer), (0..world.lanes_of_a_pair).map(open).collect()));
        }
        let ways = self.size as usize * world.lanes_max;
        let start = world.rng.below(ways);
        for i in 0..ways {
            let way = (start + i) % ways;
            let (from, lane) = (Peer(way as u32 % self.size), way / self.size as usize);
            let is_delayed = world.lanes_max > 1 && world.rng.chance(world.faults.delay);
            if is_delayed || world.stalled.contains(&(from, self.me, lane)) {
                continue;
            }
            if self.held.get(&from).is_some_and(|until| world.polls < *until) {
                continue;
            }
            if let Some(mut parcel) = world.take((from, self.me, lane)) {
                parcel.peer = self.endpoint(from);
                return Some(Event::Packet(parcel));
            }
            let is_over = world.dead.contains(&from) && world.under_way(from, self.me) == 0;
            if is_over && self.reported.insert(from) {
                return Some(Event::Lost(self.endpoint(from)));
            }
        }
        None
    }

    fn detach(&mut self, packet: Parcel) -> Parcel {
        packet
    }

    fn body<const N: usize>(&mut self, packet: &Parcel) -> Option<[u8; N]> {
        packet.payload.first_chunk().copied()
    }

    fn deliver(
        &mut self,
        packet: &Parcel,
        skip: usize,
        sink: &Bytes,
        at: usize,
        len: usize,
        may_land: bool,
    ) -> Delivery {
        sink.0.borrow_mut()[at..at + len].copy_from_slice(&packet.payload[skip..skip + len]);
        let world = &mut *self.world.borrow_mut();
        if may_land && world.rng.chance(world.faults.land) {
            let lane = (self.number(packet.peer), self.me, packet.lane);
            self.landing = Some(Landing { lane, header: packet.header, sink: sink.clone(), at, len });
            return Delivery::Landing;
        }
        Delivery::Complete
    }

    fn hold(&mut self, packet: Parcel) -> Option<Parcel> {
        let from = self.number(packet.peer);
        let world = &mut *self.world.borrow_mut();
        if !world.rng.chance(world.faults.hold) {
            return Some(packet);
        }
        self.held.insert(from, world.polls + HOLD_POLLS);
        world.lanes.entry((from, self.me, packet.lane)).or_default().push_front(packet);
        None
    }

    fn gather(&mut self, packet: Parcel) -> Option<Parcel> {
        let from = self.number(packet.peer);
        let world = &mut *self.world.borrow_mut();
        if !world.rng.chance(world.faults.hold) {
            return Some(packet);
        }
        world.lanes.entry((from, self.me, packet.lane)).or_default().push_front(packet);
        None
    }

    fn resume(&mut self, peer: Peer) {
        self.held.remove(&self.number(peer));
    }

    fn release(&mut self, _: Parcel) {}
}
