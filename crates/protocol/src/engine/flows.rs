//! What waits for a lane, by peer: packets that find no room, in the order of the calls; streams; matched messages that can't be fetched yet.

use super::Fetch;
use super::one_sided_target::Reply;
use crate::kind::BODY_MAX;
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
    pub(super) queue: VecDeque<Queued>,
    /// Sends that stream, in the order in which they began; only the first one sends.
    pub(super) streams: VecDeque<u32>,
    /// Matched rendezvous messages of the peer.
    pub(super) fetches: Vec<Fetch>,
    /// Accesses to registered memory of the peer.
    pub(super) accesses: Vec<u32>,
}

impl Flow {
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

    /// The flow of a peer, to which something is added.
    pub(super) fn of(&mut self, peer: Peer) -> &mut Flow {
        let place = *self.places.entry(peer).or_insert_with(|| {
            self.busy.push(Flow {
                peer,
                queue: VecDeque::new(),
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
