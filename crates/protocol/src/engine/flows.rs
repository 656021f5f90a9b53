//! What waits for a lane, by peer and group of lanes: packets that find no room, in the order of the calls; streams; matched messages that can't be
//! fetched yet.
//!
//! Groups don't wait for each other. What is queued before the lanes are there waits in the first flow of the peer, and is sorted when they are
//! ([`Flows::take_all_of`]).

use super::Fetch;
use super::one_sided_target::Reply;
use crate::endpoint::Way;
use crate::kind::{BODY_MAX, Kind};
use crate::lanes::Class;
use crate::route::GROUPS_MAX;
use crate::wire::Header;
use base::Peer;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// A packet that waits for room.
#[derive(Clone, Copy)]
pub(super) enum Queued {
    /// The first packet of a send.
    Message(u32),
    /// A packet of the protocol itself: header, body and its length.
    Control(Header, [u8; BODY_MAX], usize),
    /// The answer to a `GET`.
    Reply(Reply),
    /// The messages of a context have another class from here on.
    Reclassed(Reclassed),
}

/// A change of a context's class.
#[derive(Clone, Copy)]
pub(super) struct Reclassed {
    /// What kind of traffic the messages are.
    pub(super) kind: Class,
    pub(super) before: Option<Class>,
    pub(super) after: Option<Class>,
}

/// A packet that waits, its place among all that ever did, and since when.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    pub(super) serial: u64,
    since_ns: u64,
    pub(super) packet: Queued,
}

/// What waits for the lanes of one group to one peer.
pub(super) struct Flow {
    pub(super) way: Way,
    /// While there is something, everything else queues behind it.
    queue: VecDeque<Waiting>,
    /// How much of it answers accesses of the peer.
    answers: usize,
    /// Sends that stream, in the order in which they began; only the first one sends.
    pub(super) streams: VecDeque<u32>,
    /// Matched rendezvous messages of the peer. In the first group.
    pub(super) fetches: Vec<Fetch>,
    /// Accesses to registered memory of the peer. In the first group.
    pub(super) accesses: Vec<u32>,
}

impl Queued {
    /// Whether it answers an access of the peer to memory of this process.
    fn is_answer(&self) -> bool {
        match self {
            Queued::Reply(_) => true,
            Queued::Control(header, ..) => header.kind == Kind::ACCESSED,
            Queued::Message(_) | Queued::Reclassed(_) => false,
        }
    }
}

impl Flow {
    fn push(&mut self, waiting: Waiting) {
        self.answers += usize::from(waiting.packet.is_answer());
        self.queue.push_back(waiting);
    }

    /// Queues a packet that is no answer before everything else.
    pub(super) fn push_first(&mut self, packet: Queued, since_ns: u64) {
        debug_assert!(!packet.is_answer());
        self.queue.push_front(Waiting { serial: 0, since_ns, packet });
    }

    /// The packet that goes next.
    pub(super) fn first(&mut self) -> Option<&mut Waiting> {
        self.queue.front_mut()
    }

    /// The first packet has gone: since when it had waited.
    pub(super) fn pop(&mut self) -> Option<u64> {
        let gone = self.queue.pop_front()?;
        self.answers -= usize::from(gone.packet.is_answer());
        Some(gone.since_ns)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.streams.is_empty() && self.fetches.is_empty() && self.accesses.is_empty()
    }
}

/// The flows of all peers for which something waits.
#[derive(Default)]
pub(super) struct Flows {
    busy: Vec<Flow>,
    /// Where a way's flow is.
    places: FxHashMap<Way, usize>,
    /// Packets that have waited so far.
    serial: u64,
}

impl Flows {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.busy.is_empty()
    }

    /// Number of flows; they have the numbers below it.
    pub(super) fn len(&self) -> usize {
        self.busy.len()
    }

    pub(super) fn at(&mut self, place: usize) -> &mut Flow {
        &mut self.busy[place]
    }

    /// The flow of a way for which something waits.
    #[inline]
    pub(super) fn get(&mut self, way: Way) -> Option<&mut Flow> {
        if self.busy.is_empty() {
            return None;
        }
        self.places.get(&way).map(|place| &mut self.busy[*place])
    }

    /// Whether a packet has to queue.
    #[inline]
    pub(super) fn holds(&mut self, way: Way) -> bool {
        self.get(way).is_some_and(|flow| !flow.queue.is_empty())
    }

    /// Whether a packet waits that began to before the one of this serial number.
    pub(super) fn holds_before(&mut self, way: Way, serial: u64) -> bool {
        self.get(way).and_then(Flow::first).is_some_and(|first| first.serial < serial)
    }

    /// How many answers to accesses of `peer` wait.
    pub(super) fn answers(&mut self, peer: Peer) -> usize {
        if self.busy.is_empty() {
            return 0;
        }
        ways(peer).map(|way| self.get(way).map_or(0, |flow| flow.answers)).sum()
    }

    /// The peers for whose accesses answers wait, and how many.
    pub(super) fn all_answers(&self) -> impl Iterator<Item = (Peer, usize)> {
        self.busy.iter().filter(|flow| flow.answers > 0).map(|flow| (flow.way.peer, flow.answers))
    }

    /// Peers for which something waits.
    pub(super) fn peers(&self) -> impl Iterator<Item = Peer> {
        self.busy.iter().map(|flow| flow.way.peer)
    }

    /// The flow of a way, to which something is added.
    pub(super) fn of(&mut self, way: Way) -> &mut Flow {
        let place = *self.places.entry(way).or_insert_with(|| {
            self.busy.push(Flow {
                way,
                queue: VecDeque::new(),
                answers: 0,
                streams: VecDeque::new(),
                fetches: Vec::new(),
                accesses: Vec::new(),
            });
            self.busy.len() - 1
        });
        &mut self.busy[place]
    }

    /// Queues a packet behind everything else that goes the same way.
    pub(super) fn push(&mut self, way: Way, packet: Queued, since_ns: u64) {
        self.serial += 1;
        let waiting = Waiting { serial: self.serial, since_ns, packet };
        self.of(way).push(waiting);
    }

    /// Queues again what [`Flows::take_all_of`] has given.
    pub(super) fn push_again(&mut self, way: Way, waiting: Waiting) {
        self.of(way).push(waiting);
    }

    /// Takes the packets that wait for a peer, in the order in which they began to, and its streams, out of their flows.
    pub(super) fn take_all_of(&mut self, peer: Peer) -> (Vec<Waiting>, Vec<u32>) {
        let (mut packets, mut streams) = (Vec::new(), Vec::new());
        for way in ways(peer) {
            let Some(flow) = self.get(way) else { continue };
            packets.extend(flow.queue.drain(..));
            streams.extend(flow.streams.drain(..));
            flow.answers = 0;
            if flow.is_empty() {
                self.remove(way);
            }
        }
        packets.sort_by_key(|waiting| waiting.serial);
        (packets, streams)
    }

    pub(super) fn remove_message(&mut self, peer: Peer, id: u32) {
        for way in ways(peer) {
            if let Some(flow) = self.get(way) {
                flow.queue.retain(|waiting| !matches!(waiting.packet, Queued::Message(other) if other == id));
            }
        }
    }

    /// Nothing waits this way any more.
    pub(super) fn remove(&mut self, way: Way) {
        if let Some(place) = self.places.remove(&way) {
            self.busy.swap_remove(place);
            if let Some(moved) = self.busy.get(place) {
                self.places.insert(moved.way, place);
            }
        }
    }

    /// Nothing waits for this peer any more.
    pub(super) fn remove_all_of(&mut self, peer: Peer) {
        ways(peer).for_each(|way| self.remove(way));
    }
}

/// All ways to a peer that there can be.
fn ways(peer: Peer) -> impl Iterator<Item = Way> {
    (0..GROUPS_MAX as u8).map(move |group| Way { peer, group })
}
