//! What waits for a lane, by peer: packets that find no room, in the order of the calls; streams; matched messages that can't be fetched yet.

use super::Fetch;
use super::one_sided_target::Reply;
use crate::kind::{BODY_MAX, Kind};
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
}

/// What waits for the lane to one peer.
pub(super) struct Flow {
    pub(super) peer: Peer,
    /// While there is something, everything else queues behind it.
    queue: VecDeque<Queued>,
    /// How much of it answers accesses of the peer.
    answers: usize,
    /// Sends that stream, in the order in which they began; only the first one sends.
    pub(super) streams: VecDeque<u32>,
    /// Matched rendezvous messages of the peer.
    pub(super) fetches: Vec<Fetch>,
    /// Accesses to registered memory of the peer.
    pub(super) accesses: Vec<u32>,
}

impl Queued {
    /// Whether it answers an access of the peer to memory of this process.
    fn is_answer(&self) -> bool {
        match self {
            Queued::Reply(_) => true,
            Queued::Control(header, ..) => header.kind == Kind::ACCESSED,
            Queued::Message(_) => false,
        }
    }
}

impl Flow {
    /// Queues a packet behind everything else.
    pub(super) fn push(&mut self, packet: Queued) {
        self.answers += usize::from(packet.is_answer());
        self.queue.push_back(packet);
    }

    /// Queues a packet that is no answer before everything else.
    pub(super) fn push_first(&mut self, packet: Queued) {
        debug_assert!(!packet.is_answer());
        self.queue.push_front(packet);
    }

    /// The packet that goes next.
    pub(super) fn first(&mut self) -> Option<&mut Queued> {
        self.queue.front_mut()
    }

    /// The first packet has gone.
    pub(super) fn pop(&mut self) {
        let gone = self.queue.pop_front();
        self.answers -= usize::from(gone.is_some_and(|packet| packet.is_answer()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.streams.is_empty() && self.fetches.is_empty() && self.accesses.is_empty()
    }
}

/// The flows of all peers for which something waits.
#[derive(Default)]
pub(super) struct Flows {
    busy: Vec<Flow>,
    /// Where a peer's flow is.
    places: FxHashMap<Peer, usize>,
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

    /// The flow of a peer for which something waits.
    #[inline]
    pub(super) fn get(&mut self, peer: Peer) -> Option<&mut Flow> {
        if self.busy.is_empty() {
            return None;
        }
        self.places.get(&peer).map(|place| &mut self.busy[*place])
    }

    /// Whether a packet to `peer` has to queue.
    #[inline]
    pub(super) fn holds(&mut self, peer: Peer) -> bool {
        self.get(peer).is_some_and(|flow| !flow.queue.is_empty())
    }

    /// How many answers to accesses of `peer` wait.
    pub(super) fn answers(&mut self, peer: Peer) -> usize {
        self.get(peer).map_or(0, |flow| flow.answers)
    }

    /// The peers for whose accesses answers wait, and how many.
    pub(super) fn all_answers(&self) -> impl Iterator<Item = (Peer, usize)> {
        self.busy.iter().filter(|flow| flow.answers > 0).map(|flow| (flow.peer, flow.answers))
    }

    /// The flow of a peer, to which something is added.
    pub(super) fn of(&mut self, peer: Peer) -> &mut Flow {
        let place = *self.places.entry(peer).or_insert_with(|| {
            self.busy.push(Flow {
                peer,
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

    pub(super) fn remove_message(&mut self, peer: Peer, id: u32) {
        if let Some(flow) = self.get(peer) {
            flow.queue.retain(|item| !matches!(item, Queued::Message(other) if *other == id));
        }
    }

    /// Nothing waits for this peer any more.
    pub(super) fn remove(&mut self, peer: Peer) {
        if let Some(place) = self.places.remove(&peer) {
            self.busy.swap_remove(place);
            if let Some(moved) = self.busy.get(place) {
                self.places.insert(moved.peer, place);
            }
        }
    }
}
