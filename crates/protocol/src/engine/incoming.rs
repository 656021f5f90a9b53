//! The receiving half of the engine.

use super::{
    Completion, Content, Engine, Fetch, OpId, PEER_LOST, Receive, ReceiveState, Unexpected, WITHDRAWN, failed,
};
use crate::fabric::{Event, Fabric, Packet};
use crate::matching::{Envelope, Found, Pattern};
use crate::wire::{BODY_BYTES, Grant, Header, Kind, Offer};
use base::{Class, Error, Peer, counters, log};

const TRUNCATED: Error = Error::new(Class::ERR_TRUNCATE, "the message is longer than the receive buffer");

/// Room for so many unexpected messages is kept when there are none.
const UNEXPECTED_ROOM: usize = 256;

/// The outcome of a message of which `wanted` bytes were delivered.
#[inline]
pub(super) fn completed(found: &Found, wanted: u64) -> Completion {
    let error = if wanted < found.length { Some(TRUNCATED) } else { None };
    Completion { envelope: found.envelope, length: wanted, error, cancelled: false }
}

impl<F: Fabric> Engine<F> {
    /// The shortest way of a blocking receive: while no other receive is posted and no message waits, the next packet is most
    /// likely the awaited message. `None`, and nothing has happened, if it isn't, or is longer than `sink`.
    #[inline(always)]
    pub fn receive_now(&mut self, pattern: &Pattern, sink: &F::Sink) -> Option<Found> {
        if !self.is_quiet() {
            return None;
        }
        let (found, eager) = self.fabric.next_eager()?;
        if !pattern.accepts(&found.envelope) || found.length > F::sink_len(sink) as u64 {
            return None;
        }
        self.fabric.take_eager(eager, sink);
        Some(found)
    }

    /// As [`Engine::receive_now`], of a message of any length that may still be under way: it goes straight to `sink`, without an
    /// operation. `None` after `polls` polls, or as soon as something else happens: then the receive has to be posted.
    pub fn receive_soon(&mut self, pattern: &Pattern, sink: &F::Sink, polls: u32) -> Option<Completion> {
        for _ in 0..polls {
            if !self.is_quiet() {
                return None;
            }
            let found = match self.fabric.next_eager() {
                Some((found, eager)) if pattern.accepts(&found.envelope) => {
                    self.fabric.take_eager(eager, sink);
                    Some(found)
                }
                _ => match self.fabric.poll() {
                    Some(Event::Packet(packet)) => self.receive_packet(pattern, sink, packet),
                    Some(event) => {
                        self.on_event(event);
                        return None;
                    }
                    None => None,
                },
            };
            if let Some(found) = found {
                return Some(completed(&found, found.length.min(F::sink_len(sink) as u64)));
            }
        }
        None
    }

    /// Whether nothing is posted or kept, and nothing waits for a lane.
    #[inline]
    fn is_quiet(&self) -> bool {
        self.matching.is_empty() && !self.has_backlog()
    }

    /// Takes a packet to `sink` if it is an eager message that `pattern` accepts; handles any other.
    fn receive_packet(&mut self, pattern: &Pattern, sink: &F::Sink, packet: F::Packet) -> Option<Found> {
        let header = packet.header();
        let envelope = Envelope { context: header.context, source: header.source, tag: header.tag };
        if header.kind != Kind::Eager || !pattern.accepts(&envelope) {
            self.on_packet(packet);
            return None;
        }
        let length = packet.len();
        self.fabric.deliver(&packet, 0, sink, 0, length.min(F::sink_len(sink)), false);
        self.fabric.release(packet);
        Some(Found { envelope, length: length as u64 })
    }

    /// Takes the eager messages that come next and that receives are posted for to where they belong. True if there were any.
    #[inline]
    pub(super) fn receive_posted(&mut self) -> bool {
        let mut any = false;
        while self.matching.has_posted()
            && let Some((found, eager)) = self.fabric.next_eager()
            && let Some(id) = self.matching.arrive(&found.envelope)
            && let Some(receive) = self.receives.get_mut(id)
        {
            self.fabric.take_eager(eager, &receive.sink);
            let wanted = found.length.min(F::sink_len(&receive.sink) as u64);
            receive.state = ReceiveState::Complete(completed(&found, wanted));
            any = true;
        }
        any
    }

    #[inline]
    pub(super) fn on_packet(&mut self, packet: F::Packet) {
        let header = packet.header();
        match header.kind {
            Kind::Eager | Kind::EagerSync => self.on_eager(packet, &header),
            _ => self.on_protocol_packet(packet, &header),
        }
    }

    /// A whole message.
    #[inline]
    fn on_eager(&mut self, packet: F::Packet, header: &Header) {
        let (peer, length) = (packet.peer(), packet.len());
        let envelope = Envelope { context: header.context, source: header.source, tag: header.tag };
        let found = Found { envelope, length: length as u64 };
        let sync = header.kind == Kind::EagerSync;
        if let Some(id) = self.matching.arrive(&envelope)
            && let Some(receive) = self.receives.get_mut(id)
        {
            let wanted = length.min(F::sink_len(&receive.sink));
            self.fabric.deliver(&packet, 0, &receive.sink, 0, wanted, false);
            receive.state = ReceiveState::Complete(completed(&found, wanted as u64));
            self.fabric.release(packet);
            if sync {
                self.send_control(peer, Kind::SyncAck, header.token, None);
            }
            return;
        }
        counters::UNEXPECTED.add(1);
        let mut bytes = F::Kept::default();
        self.fabric.stash(&packet, 0, &mut bytes);
        let content = if sync { Content::SyncBytes(bytes) } else { Content::Bytes(bytes) };
        self.fabric.release(packet);
        self.keep(Unexpected { peer, found, token: header.token, content });
    }

    pub(super) fn keep(&mut self, message: Unexpected<F::Kept>) -> u32 {
        let envelope = message.found.envelope;
        let id = self.unexpected.insert(message);
        self.matching.keep(envelope, id);
        id
    }

    fn on_protocol_packet(&mut self, packet: F::Packet, header: &Header) {
        let peer = packet.peer();
        let accepted = match header.kind {
            Kind::Data => return self.on_data(packet, header),
            Kind::Piece => return self.on_piece(packet, header),
            Kind::Announce => self.body(&packet).is_some_and(|b| self.on_announce(peer, header, Offer::decode(&b))),
            Kind::RequestToSend => self.body(&packet).is_some_and(|body| {
                self.on_request_to_send(peer, header, Offer::decode(&body));
                true
            }),
            Kind::ClearToSend => {
                self.body(&packet).is_some_and(|body| self.on_clear_to_send(peer, header.token, Grant::decode(&body)))
            }
            Kind::Withdraw => {
                self.on_withdraw(peer, header.token);
                true
            }
            Kind::Finished | Kind::SyncAck => self.on_acknowledged(peer, header.token, header.kind),
            Kind::Goodbye | Kind::Eager | Kind::EagerSync => true,
        };
        self.fabric.release(packet);
        if !accepted {
            reject(peer, header);
        }
    }

    fn body(&mut self, packet: &F::Packet) -> Option<[u8; BODY_BYTES]> {
        self.fabric.body::<BODY_BYTES>(packet)
    }

    /// A message whose data stay with the sender for now.
    fn on_request_to_send(&mut self, peer: Peer, header: &Header, offer: Offer) {
        let envelope = Envelope { context: header.context, source: header.source, tag: header.tag };
        let found = Found { envelope, length: offer.length };
        match self.matching.arrive(&envelope) {
            Some(id) => self.fetch(Fetch { id, peer, found, token: header.token, address: offer.address }),
            None => {
                counters::UNEXPECTED.add(1);
                self.keep(Unexpected { peer, found, token: header.token, content: Content::Offered(offer.address) });
            }
        }
    }

    /// The sender takes a message back. If it has been matched, the answer to that is on its way.
    fn on_withdraw(&mut self, peer: Peer, token: u32) {
        let waits =
            |m: &Unexpected<F::Kept>| m.peer == peer && m.token == token && matches!(m.content, Content::Offered(_));
        let Some(message) = self.unexpected.iter_mut().map(|(_, m)| m).find(|m| waits(m)) else { return };
        message.content = Content::Withdrawn;
        self.send_control(peer, Kind::Finished, token, None);
    }

    /// Gets the data of a matched rendezvous message: pulls them, or asks the sender to stream.
    fn fetch(&mut self, fetch: Fetch) {
        let Fetch { id, peer, found, token, address } = fetch;
        let Some(receive) = self.receives.get_mut(id) else { return };
        let wanted = found.length.min(F::sink_len(&receive.sink) as u64);
        if address != 0 && wanted > 0 && self.fabric.limits(peer).is_none() {
            receive.state = ReceiveState::Matched { peer };
            return self.fetches.push(fetch);
        }
        let pulled = |fabric: &mut F, sink: &F::Sink| {
            address != 0
                && !fabric.prefers_stream(peer, wanted as usize)
                && fabric.pull(peer, address, sink, wanted as usize)
        };
        if wanted == 0 || pulled(&mut self.fabric, &receive.sink) {
            counters::RENDEZVOUS_PULLED.add(1);
            receive.state = ReceiveState::Complete(completed(&found, wanted));
            return self.send_control(peer, Kind::Finished, token, None);
        }
        self.ask_for_stream(fetch, wanted);
    }

    /// Tries again what waited for a lane to open. True if anything moved.
    pub(super) fn fetch_deferred(&mut self) -> bool {
        let deferred = std::mem::take(&mut self.fetches);
        let before = deferred.len();
        deferred.into_iter().for_each(|fetch| self.fetch(fetch));
        self.fetches.len() < before
    }

    /// Receives a message that arrived before.
    pub(super) fn receive_unexpected(
        &mut self,
        message: u32,
        pattern: Pattern,
        expected: Option<Peer>,
        sink: F::Sink,
    ) -> OpId {
        let Some(Unexpected { peer, found, token, content }) = self.unexpected.remove(message) else {
            unreachable!("matching names a message that is kept")
        };
        if self.unexpected.is_empty() {
            self.unexpected.shrink(UNEXPECTED_ROOM);
            self.matching.shrink(UNEXPECTED_ROOM);
        }
        let error = if matches!(content, Content::Withdrawn) { WITHDRAWN } else { PEER_LOST };
        let state = ReceiveState::Complete(failed(found.envelope, error));
        let id = self.receives.insert(Receive { sink, pattern, expected, state });
        match content {
            Content::Withdrawn => {}
            Content::Offered(_) if self.lost.contains(&peer) => {}
            Content::Arriving(bytes) if (F::kept_len(&bytes) as u64) < found.length && self.lost.contains(&peer) => {}
            Content::Arriving(bytes) => self.receive_arriving(id, message, (peer, found), &bytes),
            Content::Offered(address) => self.fetch(Fetch { id, peer, found, token, address }),
            Content::Bytes(bytes) => self.unstash(id, &found, &bytes),
            Content::SyncBytes(bytes) => {
                self.unstash(id, &found, &bytes);
                self.send_control(peer, Kind::SyncAck, token, None);
            }
        }
        OpId(id)
    }

    pub(super) fn unstash(&mut self, id: u32, found: &Found, bytes: &F::Kept) {
        let Some(receive) = self.receives.get_mut(id) else { return };
        let wanted = F::kept_len(bytes).min(F::sink_len(&receive.sink));
        self.fabric.unstash(bytes, wanted, &receive.sink);
        receive.state = ReceiveState::Complete(completed(found, wanted as u64));
    }
}

/// Counts a packet that nothing expects; the first one is also logged.
#[cold]
pub(super) fn reject(peer: Peer, header: &Header) {
    if counters::PACKETS_REJECTED.value() == 0 {
        let (kind, token) = (header.kind, header.token);
        log!(
            Warn,
            "dropped a {kind:?} packet of rank {}: operation {token} does not expect it; counting further ones",
            peer.0
        );
    }
    counters::PACKETS_REJECTED.add(1);
}
