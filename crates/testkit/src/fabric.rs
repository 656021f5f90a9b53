//! A fabric in the memory of one thread, under virtual time: every delay, refusal and death comes from a seed.
//!
//! Each pair of processes has a lane that keeps order; which lane delivers next is random. Sinks and sources are
//! shared vectors, so a test can look at them.

use crate::rng::Rng;
use base::Peer;
use protocol::fabric::{Delivery, Event, Fabric, Limits, Outcome, Packet};
use protocol::wire::Header;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

/// A buffer of a simulated program.
pub type Bytes = Rc<RefCell<Vec<u8>>>;

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
}

/// Longest time for which a packet is held.
const HOLD_POLLS: u64 = 50;

/// A packet in flight.
#[derive(Debug)]
pub struct Parcel {
    peer: Peer,
    header: Header,
    payload: Vec<u8>,
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
    limits: Limits,
    lanes: HashMap<(Peer, Peer), VecDeque<Parcel>>,
    /// Exposed sources by address.
    memory: HashMap<u64, Bytes>,
    dead: HashSet<Peer>,
    /// Polls so far, the measure of time: a microsecond each.
    polls: u64,
    /// Packets sent so far.
    pub packets: usize,
}

impl World {
    /// A world without packets.
    pub fn new(seed: u64, faults: Faults, limits: Limits) -> Rc<RefCell<World>> {
        let rng = Rng::new(seed);
        let world = World {
            rng,
            faults,
            limits,
            lanes: HashMap::new(),
            memory: HashMap::new(),
            dead: HashSet::new(),
            polls: 0,
            packets: 0,
        };
        Rc::new(RefCell::new(world))
    }

    /// A process dies; what it had sent still arrives.
    pub fn kill(&mut self, peer: Peer) {
        self.dead.insert(peer);
    }

    /// Puts a packet into a lane that no engine sent: hostile bytes.
    pub fn inject(&mut self, from: Peer, to: Peer, header: Header, payload: Vec<u8>) {
        self.lanes.entry((from, to)).or_default().push_back(Parcel { peer: from, header, payload });
    }
}

/// One process's view of the world.
pub struct SimFabric {
    me: Peer,
    size: u32,
    world: Rc<RefCell<World>>,
    landing: Option<(Peer, Header, usize)>,
    reported: HashSet<Peer>,
    /// Peers whose lanes are not looked at, and until when.
    held: HashMap<Peer, u64>,
}

impl SimFabric {
    /// The view of process `me` of `size`.
    pub fn new(me: Peer, size: u32, world: &Rc<RefCell<World>>) -> SimFabric {
        SimFabric { me, size, world: Rc::clone(world), landing: None, reported: HashSet::new(), held: HashMap::new() }
    }
}

/// A source that can be exposed: the identity of the vector is its address.
fn address_of(bytes: &Bytes) -> u64 {
    Rc::as_ptr(bytes) as *const u8 as u64
}

impl Fabric for SimFabric {
    type Source = Bytes;
    type Sink = Bytes;
    type Packet = Parcel;
    type Eager = ();
    type Kept = Vec<u8>;

    fn me(&self) -> Peer {
        self.me
    }

    fn limits(&mut self, _: Peer) -> Option<Limits> {
        let world = &mut *self.world.borrow_mut();
        (!world.rng.chance(world.faults.delay)).then_some(world.limits)
    }

    fn try_send(&mut self, peer: Peer, header: &Header, body: &[u8]) -> Outcome {
        let world = &mut *self.world.borrow_mut();
        if world.dead.contains(&peer) {
            return Outcome::Lost;
        }
        if world.rng.chance(world.faults.refuse) {
            return Outcome::Again;
        }
        world.packets += 1;
        let parcel = Parcel { peer: self.me, header: *header, payload: body.to_vec() };
        assert!(parcel.payload.len() <= world.limits.packet_max, "a packet is larger than the lane allows");
        world.lanes.entry((self.me, peer)).or_default().push_back(parcel);
        Outcome::Done
    }

    fn try_send_from(
        &mut self,
        peer: Peer,
        header: &Header,
        body: &[u8],
        source: &Bytes,
        from: usize,
        len: usize,
    ) -> Outcome {
        let payload = [body, &source.borrow()[from..from + len]].concat();
        self.try_send(peer, header, &payload)
    }

    fn source_len(&self, source: &Bytes) -> usize {
        source.borrow().len()
    }

    fn sink_len(sink: &Bytes) -> usize {
        sink.borrow().len()
    }

    fn expose(&self, source: &Bytes) -> u64 {
        self.world.borrow_mut().memory.insert(address_of(source), Rc::clone(source));
        address_of(source)
    }

    fn pull(&mut self, peer: Peer, address: u64, sink: &Bytes, len: usize) -> bool {
        let world = &mut *self.world.borrow_mut();
        if world.rng.chance(world.faults.pull_fails) || world.dead.contains(&peer) {
            return false;
        }
        let Some(source) = world.memory.get(&address) else { return false };
        sink.borrow_mut()[..len].copy_from_slice(&source.borrow()[..len]);
        true
    }

    fn prefers_stream(&mut self, _: Peer, _: usize) -> bool {
        let world = &mut *self.world.borrow_mut();
        world.rng.chance(world.faults.stream)
    }

    fn peer_pulls(&mut self, _: Peer, _: usize) -> bool {
        let world = &mut *self.world.borrow_mut();
        world.rng.chance(world.faults.stream)
    }

    fn now_ns(&self) -> u64 {
        self.world.borrow().polls * 1000
    }

    fn poll(&mut self) -> Option<Event<Parcel>> {
        let world = &mut *self.world.borrow_mut();
        world.polls += 1;
        if world.rng.chance(world.faults.delay) {
            return None;
        }
        if let Some((peer, header, len)) = self.landing.take() {
            return Some(Event::Landed { peer, header, len });
        }
        let start = world.rng.below(self.size as usize) as u32;
        for i in 0..self.size {
            let from = Peer((start + i) % self.size);
            if self.held.get(&from).is_some_and(|until| world.polls < *until) {
                continue;
            }
            if let Some(parcel) = world.lanes.get_mut(&(from, self.me)).and_then(VecDeque::pop_front) {
                return Some(Event::Packet(parcel));
            }
            if world.dead.contains(&from) && self.reported.insert(from) {
                return Some(Event::Lost(from));
            }
        }
        None
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
        sink.borrow_mut()[at..at + len].copy_from_slice(&packet.payload[skip..skip + len]);
        let world = &mut *self.world.borrow_mut();
        if may_land && world.rng.chance(world.faults.land) {
            self.landing = Some((packet.peer, packet.header, len));
            return Delivery::Landing;
        }
        Delivery::Complete
    }

    fn stash(&mut self, packet: &Parcel, skip: usize, kept: &mut Vec<u8>) {
        kept.extend_from_slice(&packet.payload[skip..]);
    }

    fn kept_len(kept: &Vec<u8>) -> usize {
        kept.len()
    }

    fn unstash(&mut self, kept: &Vec<u8>, len: usize, sink: &Bytes) {
        sink.borrow_mut()[..len].copy_from_slice(&kept[..len]);
    }

    fn hold(&mut self, packet: Parcel) -> Option<Parcel> {
        let world = &mut *self.world.borrow_mut();
        if !world.rng.chance(world.faults.hold) {
            return Some(packet);
        }
        self.held.insert(packet.peer, world.polls + HOLD_POLLS);
        world.lanes.entry((packet.peer, self.me)).or_default().push_front(packet);
        None
    }

    fn resume(&mut self, peer: Peer) {
        self.held.remove(&peer);
    }

    fn release(&mut self, _: Parcel) {}
}
