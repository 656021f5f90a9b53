//! What comes from peers with several lanes: each packet is shown in its turn, once.
//!
//! What comes before its turn is taken out of its lane and kept. A packet whose payload may land ([`crate::kind::Info::lands`]) carries its own address, so
//! it is shown when it comes; whoever takes it says when all of it is in its place ([`Endpoints::end_turn`]), because its lane may be lost before.
//! Acknowledgements are made and taken here.

use super::{Endpoints, State};
use crate::kind::Kind;
use crate::order::{Arrivals, Number, Place};
use crate::transport::{Outcome, Packet, Transport};
use crate::wire::Header;
use base::{Peer, counters};
use rustc_hash::FxHashMap;

/// See the head of this file.
pub(super) struct Incoming<P> {
    /// By sender.
    arrivals: FxHashMap<Peer, Arrivals<P>>,
    /// Senders of whom a waiting packet's turn has come, or who are to be told how much was seen.
    due: Vec<Peer>,
}

impl<P> Default for Incoming<P> {
    fn default() -> Incoming<P> {
        Incoming { arrivals: FxHashMap::default(), due: Vec::new() }
    }
}

impl<P> Incoming<P> {
    /// Whether [`Endpoints::next_due`] has something to do.
    #[inline(always)]
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    fn note_due(&mut self, peer: Peer) {
        let is_due = self.arrivals.get(&peer).is_some_and(|arrivals| arrivals.is_due());
        if is_due && !self.due.contains(&peer) {
            self.due.push(peer);
        }
    }
}

impl<T: Transport> Endpoints<T> {
    /// A packet with a number; it is given back if it is to be shown now.
    #[cold]
    pub(super) fn arrange(&mut self, packet: T::Packet) -> Option<T::Packet> {
        let (peer, header) = (packet.peer(), packet.header());
        let arrivals = self.incoming.arrivals.entry(peer).or_default();
        match arrivals.place(header.number) {
            Place::Seen => {
                counters::PACKETS_REPEATED.add(1);
                self.transport.release(packet);
                None
            }
            Place::Next | Place::Ahead(_) if header.kind.info().lands => Some(packet),
            Place::Next => {
                arrivals.advance();
                self.incoming.note_due(peer);
                self.unless_acknowledgement(packet)
            }
            Place::Ahead(count) => {
                arrivals.wait(count, self.transport.detach(packet));
                None
            }
        }
    }

    /// The next packet that has waited for its turn. Acknowledges what is due on the way.
    #[cold]
    pub(super) fn next_due(&mut self) -> Option<T::Packet> {
        let mut place = 0;
        while let Some(&peer) = self.incoming.due.get(place) {
            while let Some(packet) = self.incoming.arrivals.get_mut(&peer).and_then(Arrivals::pop) {
                if let Some(packet) = self.unless_acknowledgement(packet) {
                    return Some(packet);
                }
            }
            match self.acknowledge(peer) {
                true => drop(self.incoming.due.swap_remove(place)),
                false => place += 1,
            }
        }
        None
    }

    /// The packet, if the engine is to see it.
    fn unless_acknowledgement(&mut self, packet: T::Packet) -> Option<T::Packet> {
        let (peer, header) = (packet.peer(), packet.header());
        if header.kind != Kind::RECEIVED {
            return Some(packet);
        }
        self.transport.release(packet);
        self.acknowledged(peer, header.context);
        None
    }

    /// Tells the peer how much has been seen, if it is time. False if there is no room. A peer that is being suspended needs no window.
    fn acknowledge(&mut self, peer: Peer) -> bool {
        let count = self.incoming.arrivals.get(&peer).and_then(Arrivals::to_acknowledge);
        let Some(count) = count else { return true };
        if matches!(self.state(peer), State::Draining | State::Suspended) {
            return true;
        }
        let header = Header { kind: Kind::RECEIVED, number: Number::NONE, source: 0, tag: 0, token: 0, context: count };
        let outcome = self.try_acknowledge(peer, &header);
        if outcome == Outcome::Done
            && let Some(arrivals) = self.incoming.arrivals.get_mut(&peer)
        {
            arrivals.acknowledged(count);
        }
        outcome != Outcome::Again
    }

    /// The payload of a packet that may land is in its place, or has none.
    #[inline]
    pub(crate) fn end_turn(&mut self, peer: Peer, header: &Header) {
        if !header.number.is_none() {
            self.end_numbered(peer, header.number);
        }
    }

    #[cold]
    fn end_numbered(&mut self, peer: Peer, number: Number) {
        if let Some(arrivals) = self.incoming.arrivals.get_mut(&peer) {
            arrivals.done(number);
            self.incoming.note_due(peer);
        }
    }

    /// Nothing comes from a peer that is gone.
    pub(super) fn forget_arrivals(&mut self, peer: Peer) {
        self.incoming.due.retain(|other| *other != peer);
        for packet in self.incoming.arrivals.remove(&peer).into_iter().flat_map(Arrivals::into_waiting) {
            self.transport.release(packet);
        }
    }
}
