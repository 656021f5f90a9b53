//! Which group of lanes each packet takes ([`crate::route`]).
//!
//! A context may have a class ([`Engine::set_class`]), which only this process as a sender needs to know. When the class changes, messages of one context
//! take two groups one after the other. So before the first one of the second group goes a packet `AFTER`, whose fence ([`crate::order::Fence`]) is the
//! last one of the first. It leaves when nothing waits for the first group that was posted before it, and the messages behind it wait with it.

use super::Engine;
use super::flows::{Queued, Reclassed};
use super::sending::own;
use crate::endpoint::{State, Way};
use crate::kind::{Kind, Part};
use crate::lanes::Class;
use crate::order::Fence;
use crate::route::Route;
use crate::transport::{Outcome, Transport};
use crate::wire::Header;
use base::Peer;
use base::ids::{ContextId, PLANE_MASK, Plane};

/// The kind of traffic of messages in the context of a header.
fn kind_of(context: u64) -> Class {
    if context & PLANE_MASK == Plane::PointToPoint as u64 { Class::PointToPoint } else { Class::Collectives }
}

impl<T: Transport> Engine<T> {
    /// Messages that are sent from now on in this context, with all its planes, are of this class; `None`: of that of their kind of traffic.
    pub fn set_class(&mut self, context: ContextId, class: Option<Class>) {
        let before = match class {
            Some(class) => self.classes.insert(context.0, class),
            None => self.classes.remove(&context.0),
        };
        if before == class {
            return;
        }
        let mut peers = self.endpoints.grouped();
        peers.extend(self.flows.peers());
        peers.sort_unstable_by_key(|peer| peer.0);
        peers.dedup();
        for peer in peers {
            for kind in [Class::PointToPoint, Class::Collectives] {
                let change = Reclassed { kind, before, after: class };
                let group = self.endpoints.route(peer, class, kind).envelope;
                self.queue(Way { peer, group }, Queued::Reclassed(change));
            }
        }
    }

    /// The class of the context of a header, if it has one.
    #[inline(always)]
    pub(super) fn class_of(&self, context: u64) -> Option<Class> {
        if self.classes.is_empty() { None } else { self.classes.get(&ContextId::of_plane(context).0).copied() }
    }

    /// The route of a message in the context of a header.
    #[inline(always)]
    pub(super) fn route(&self, peer: Peer, context: u64, class: Option<Class>) -> Route {
        self.endpoints.route(peer, class, kind_of(context))
    }

    /// The way of the protocols' own packets that belong to no context. All take one, so they keep their order.
    pub(super) fn own_way(&self, peer: Peer) -> Way {
        Way { peer, group: self.endpoints.route(peer, None, Class::Control).envelope }
    }

    /// The way of a packet for registered memory, or from there, with so many bytes.
    pub(super) fn one_sided_way(&self, peer: Peer, bytes: usize) -> Way {
        let route = self.endpoints.route(peer, None, Class::OneSided);
        let is_small = bytes <= self.endpoints.small_max();
        Way { peer, group: if is_small { route.envelope } else { route.payload } }
    }

    /// The way of a packet without a payload.
    fn way_of(&self, peer: Peer, header: &Header) -> Way {
        match header.kind {
            Kind::CANCEL | Kind::WITHDRAW => {
                let class = self.sends.get(header.token).and_then(|send| send.class);
                Way { peer, group: self.route(peer, header.context, class).envelope }
            }
            kind if kind.info().part == Part::OneSided => self.one_sided_way(peer, 0),
            Kind::RESUME => Way::first(peer),
            _ => self.own_way(peer),
        }
    }

    /// The lanes to a peer are there: what waits for it goes by their groups.
    pub(super) fn on_opened(&mut self, peer: Peer) {
        if self.flows.is_empty() {
            return;
        }
        let (packets, streams) = self.flows.take_all_of(peer);
        for waiting in packets {
            let way = match waiting.packet {
                Queued::Message(id) => match self.sends.get(id) {
                    Some(send) => {
                        let route = self.route(peer, send.to.envelope.context, send.class);
                        Way { peer, group: route.envelope }
                    }
                    None => continue,
                },
                Queued::Control(ref header, ..) => self.way_of(peer, header),
                Queued::Reply(reply) => self.one_sided_way(peer, reply.bytes()),
                Queued::Reclassed(change) => {
                    Way { peer, group: self.endpoints.route(peer, change.after, change.kind).envelope }
                }
            };
            self.flows.push_again(way, waiting);
        }
        for id in streams {
            let Some(send) = self.sends.get(id) else { continue };
            let group = self.route(peer, send.to.envelope.context, send.class).payload;
            self.flows.of(Way { peer, group }).streams.push_back(id);
        }
    }

    /// Sends the fence that a change of class needs, which waits under this serial number. False if it has to go on waiting.
    pub(super) fn send_reclassed(&mut self, peer: Peer, change: Reclassed, serial: u64) -> bool {
        let of = |class| self.endpoints.route(peer, class, change.kind).envelope;
        let (before, after) = (Way { peer, group: of(change.before) }, Way { peer, group: of(change.after) });
        // Without lanes there are no groups yet.
        if self.endpoints.state(peer) != State::Active || self.flows.holds_before(before, serial) {
            return false;
        }
        if before == after {
            return true;
        }
        let fence = Fence { group: before.group, count: self.endpoints.sent(before) };
        self.endpoints.try_control(after, &fence.on(own(Kind::AFTER, 0)), &[]) != Outcome::Again
    }
}
