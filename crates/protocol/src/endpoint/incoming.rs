//! What comes from peers with several lanes: each packet is shown in the turn of its group ([`crate::route`]), once, and behind its fence
//! ([`crate::order::Fence`]).
//!
//! What comes before its turn is taken out of its lane and kept. A packet whose payload may land ([`crate::kind::Info::lands`]) carries its own address, so
//! it is shown when it comes; whoever takes it says when all of it is in its place ([`Endpoints::end_turn`]), because its lane may be lost before.
//! Acknowledgements are made and taken here. That of a group goes over the same group, so groups don't wait for each other.

use super::{Endpoints, State, Way};
use crate::kind::Kind;
use crate::order::{Arrivals, Fence, Number, Place};
use crate::route::GROUPS_MAX;
use crate::transport::{Outcome, Packet, Transport};
use crate::wire::Header;
use base::{Peer, counters};
use rustc_hash::FxHashMap;

/// See the head of this file.
pub(super) struct Incoming<P> {
    /// By sender and group, up to the last one of which something has come.
    arrivals: FxHashMap<Peer, Vec<Arrivals<P>>>,
    /// Senders of whom a waiting packet's turn has come, or who are to be told how much was seen.
    due: Vec<Peer>,
}

/// How far each group is.
#[derive(PartialEq, Eq)]
struct Expected([u64; GROUPS_MAX]);

impl Expected {
    fn of<P>(groups: &[Arrivals<P>]) -> Expected {
        // Nothing has come of groups that aren't there.
        let nothing = Arrivals::<P>::default().expected();
        Expected(std::array::from_fn(|at| groups.get(at).map_or(nothing, Arrivals::expected)))
    }

    /// Whether all has been seen that must have been before this packet.
    fn allows(&self, header: &Header) -> bool {
        let Fence { group, count } = Fence::of(header);
        self.0[usize::from(group)] >= count
    }
}

impl<P: Packet> Incoming<P> {
    /// Whether [`Endpoints::next_due`] has something to do.
    #[inline(always)]
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    fn note_due(&mut self, peer: Peer) {
        let is_due = self.arrivals.get(&peer).is_some_and(|groups| groups.iter().any(Arrivals::is_due));
        if is_due && !self.due.contains(&peer) {
            self.due.push(peer);
        }
    }

    /// All groups of a peer; there is at least the one of this number.
    fn groups(&mut self, peer: Peer, group: u8) -> &mut Vec<Arrivals<P>> {
        let groups = self.arrivals.entry(peer).or_default();
        if groups.len() <= usize::from(group) {
            groups.resize_with(usize::from(group) + 1, Arrivals::default);
        }
        groups
    }

    /// The next packet of a peer that has waited for its turn.
    fn pop(&mut self, peer: Peer) -> Option<P> {
        let groups = self.arrivals.get_mut(&peer)?;
        loop {
            let before = Expected::of(groups);
            for at in 0..groups.len() {
                let expected = Expected::of(groups);
                let packet = groups[at].pop(|packet| expected.allows(&packet.header()));
                if packet.is_some() {
                    return packet;
                }
            }
            // One group may have come to where another one waits for it.
            if Expected::of(groups) == before {
                return None;
            }
        }
    }
}

impl<P> Default for Incoming<P> {
    fn default() -> Incoming<P> {
        Incoming { arrivals: FxHashMap::default(), due: Vec::new() }
    }
}

impl<T: Transport> Endpoints<T> {
    /// A packet with a number; it is given back if it is to be shown now.
    #[cold]
    pub(super) fn arrange(&mut self, packet: T::Packet) -> Option<T::Packet> {
        let (peer, header) = (packet.peer(), packet.header());
        let groups = self.incoming.groups(peer, header.number.group());
        let is_free = Expected::of(groups).allows(&header);
        let arrivals = &mut groups[usize::from(header.number.group())];
        match arrivals.place(header.number) {
            Place::Seen => {
                counters::PACKETS_REPEATED.add(1);
                self.transport.release(packet);
                None
            }
            Place::Next | Place::Ahead(_) if header.kind.info().lands => Some(packet),
            Place::Next if is_free => {
                arrivals.advance();
                self.incoming.note_due(peer);
                self.unless_own(packet)
            }
            Place::Next => {
                arrivals.wait(arrivals.expected(), self.transport.detach(packet));
                None
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
            while let Some(packet) = self.incoming.pop(peer) {
                if let Some(packet) = self.unless_own(packet) {
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
    fn unless_own(&mut self, packet: T::Packet) -> Option<T::Packet> {
        let (peer, header) = (packet.peer(), packet.header());
        if !matches!(header.kind, Kind::RECEIVED | Kind::AFTER) {
            return Some(packet);
        }
        self.transport.release(packet);
        if header.kind == Kind::RECEIVED {
            self.acknowledged(peer, &header);
        }
        None
    }

    /// Tells the peer how much has been seen of each group, if it is time. False if there is no room.
    fn acknowledge(&mut self, peer: Peer) -> bool {
        let groups = self.incoming.arrivals.get(&peer).map_or(0, Vec::len);
        let mut all = true;
        for group in 0..groups as u8 {
            all &= self.acknowledge_group(peer, group);
        }
        all
    }

    /// A peer that is being suspended needs no window.
    fn acknowledge_group(&mut self, peer: Peer, group: u8) -> bool {
        let count = self.incoming.groups(peer, group)[usize::from(group)].to_acknowledge();
        let Some(count) = count else { return true };
        if matches!(self.state(peer), State::Draining | State::Suspended) {
            return true;
        }
        let (kind, number, source) = (Kind::RECEIVED, Number::NONE, u32::from(group));
        let header = Header { kind, number, source, tag: 0, token: 0, context: count };
        let outcome = self.try_acknowledge(Way { peer, group }, &header);
        if outcome == Outcome::Done {
            self.incoming.groups(peer, group)[usize::from(group)].acknowledged(count);
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
        let group = usize::from(number.group());
        if let Some(arrivals) = self.incoming.arrivals.get_mut(&peer).and_then(|groups| groups.get_mut(group)) {
            arrivals.done(number);
            self.incoming.note_due(peer);
        }
    }

    /// Nothing comes from a peer that is gone.
    pub(super) fn forget_arrivals(&mut self, peer: Peer) {
        self.incoming.due.retain(|other| *other != peer);
        let groups = self.incoming.arrivals.remove(&peer).into_iter().flatten();
        for packet in groups.flat_map(Arrivals::into_waiting) {
            self.transport.release(packet);
        }
    }
}
