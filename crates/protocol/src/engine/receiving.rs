//! The receiving half of the engine: messages whose data stay with the sender, unexpected messages, and how receives end.

use super::eager::envelope;
use super::observer::{How, What};
use super::{
    Buffer, Completion, Content, Engine, Fetch, Offered, OpId, PEER_LOST, Receive, ReceiveState, Unexpected, WITHDRAWN,
    envelope_of, failed,
};
use crate::endpoint::Way;
use crate::kind::Kind;
use crate::matching::{Found, Pattern};
use crate::transport::{Packet, Sink, Transport, UnexpectedPool};
use crate::wire::{BODY_BYTES, Header, Offer};
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

impl<S> Receive<S> {
    /// Its message has been delivered, up to `room` bytes of it.
    #[inline(always)]
    pub(super) fn end_with(&mut self, found: &Found, room: u64) {
        if found.length <= room {
            (self.state, self.found) = (ReceiveState::Received, *found);
        } else {
            self.state = ReceiveState::Ended(Box::new(completed(found, room)));
        }
    }

    /// How it has ended, if it has.
    #[inline]
    pub(super) fn outcome(&self) -> Option<Completion> {
        match self.state {
            ReceiveState::Received => Some(completed(&self.found, self.found.length)),
            ReceiveState::Ended(ref completion) => Some(**completion),
            ReceiveState::Interrupted => Some(failed(envelope_of(&self.pattern), PEER_LOST)),
            ReceiveState::Posted | ReceiveState::Matched { .. } | ReceiveState::Streaming(_) => None,
        }
    }
}

impl<T: Transport> Engine<T> {
    /// Lets a message wait for its receive.
    pub(super) fn keep(&mut self, message: Unexpected<Buffer<T>>) -> u32 {
        let envelope = message.found.envelope;
        let id = self.unexpected.insert(message);
        self.matching.keep(&envelope, id);
        id
    }

    /// The body of a packet that has nothing else, and gives the packet back.
    pub(super) fn take_body(&mut self, packet: T::Packet) -> Option<[u8; BODY_BYTES]> {
        let transport = self.endpoints.transport();
        let body = transport.body::<BODY_BYTES>(&packet);
        transport.release(packet);
        body
    }

    /// `REQUEST_TO_SEND`: a message whose data stay with the sender for now.
    pub(super) fn on_request_to_send(&mut self, packet: T::Packet, header: &Header) {
        let peer = packet.peer();
        let Some(body) = self.take_body(packet) else { return reject(peer, header) };
        let Offer { length, address } = Offer::decode(&body);
        let found = Found { envelope: envelope(header), length };
        let offered = Offered { address, is_revoked: false };
        match self.matching.arrive(&found.envelope) {
            Some(id) => {
                self.note(What::Matched, How::Rendezvous, peer, &found);
                self.fetch(Fetch { id, peer, found, token: header.token, offered });
            }
            None => {
                counters::UNEXPECTED.add(1);
                self.note(What::Unexpected, How::Rendezvous, peer, &found);
                let id = self.keep(Unexpected { peer, found, token: header.token, content: Content::Offered(offered) });
                self.offered.insert((peer, header.token), id);
            }
        }
    }

    /// Gets the data of a matched rendezvous message: pulls them, or asks the sender to stream.
    pub(super) fn fetch(&mut self, fetch: Fetch) {
        let Fetch { id, peer, found, token, offered } = fetch;
        let Some(receive) = self.receives.get_mut(id) else { return };
        let wanted = found.length.min(receive.sink.len() as u64);
        if offered.address != 0 && wanted > 0 && self.endpoints.caps(peer).is_none() {
            receive.state = ReceiveState::Matched { peer };
            return self.flows.of(Way::first(peer)).fetches.push(fetch);
        }
        let may_pull = offered.can_be_pulled() && !self.endpoints.prefers_stream(peer, wanted as usize);
        if wanted == 0 || may_pull && self.endpoints.pull(peer, offered.address, &receive.sink, wanted as usize) {
            counters::RENDEZVOUS_PULLED.add(1);
            receive.end_with(&found, wanted);
            self.note(What::Fetched, How::Pulled, peer, &found);
            return self.send_control(peer, Kind::FINISHED, token, &[]);
        }
        self.note(What::Fetched, How::Streamed, peer, &found);
        self.ask_for_stream(fetch, wanted);
    }

    /// Tries again what waited for a lane to open. True if anything moved.
    pub(super) fn fetch_deferred(&mut self, place: usize) -> bool {
        let flow = self.flows.at(place);
        let peer = flow.way.peer;
        if flow.fetches.is_empty() || self.endpoints.caps(peer).is_none() {
            return false;
        }
        std::mem::take(&mut flow.fetches).into_iter().for_each(|fetch| self.fetch(fetch));
        true
    }

    /// Receives a message that arrived before.
    pub(super) fn receive_unexpected(
        &mut self,
        message: u32,
        pattern: Pattern,
        expected: Option<Peer>,
        sink: T::Sink,
    ) -> OpId {
        let Some(Unexpected { peer, found, token, content }) = self.unexpected.remove(message) else {
            unreachable!("matching names a message that is kept")
        };
        if matches!(content, Content::Offered(_)) {
            self.offered.remove(&(peer, token));
        }
        self.shrink_unexpected();
        self.note(What::Matched, How::of(&content), peer, &found);
        let state = ReceiveState::Matched { peer };
        let id = self.receives.insert(Receive { sink, pattern, expected, state, found });
        let is_lost = self.lost.contains(&peer);
        match content {
            Content::Withdrawn => self.fail_receive(id, found.envelope, WITHDRAWN),
            Content::Offered(_) if is_lost => self.fail_receive(id, found.envelope, PEER_LOST),
            Content::Arriving(bytes) if is_lost && (T::Pool::len(&bytes) as u64) < found.length => {
                self.fail_receive(id, found.envelope, PEER_LOST);
            }
            Content::Arriving(bytes) => self.receive_arriving(id, (peer, token), found, &bytes),
            Content::Offered(offered) => self.fetch(Fetch { id, peer, found, token, offered }),
            Content::Bytes(bytes) => self.copy_out(id, &found, &bytes),
            Content::SyncBytes(bytes) => {
                self.copy_out(id, &found, &bytes);
                self.send_control(peer, Kind::SYNC_ACK, token, &[]);
            }
        }
        OpId(id)
    }

    /// Gives memory back when no message is left.
    #[inline]
    pub(super) fn shrink_unexpected(&mut self) {
        if self.unexpected.is_empty() {
            self.unexpected.shrink(UNEXPECTED_ROOM);
            self.matching.shrink(UNEXPECTED_ROOM);
            self.offered.shrink_to(UNEXPECTED_ROOM);
        }
    }

    /// Completes a receive with a message of which all is in an unexpected buffer.
    pub(super) fn copy_out(&mut self, id: u32, found: &Found, bytes: &Buffer<T>) {
        let Some(receive) = self.receives.get_mut(id) else { return };
        let wanted = T::Pool::len(bytes).min(receive.sink.len());
        self.pool.copy_out(bytes, wanted, &receive.sink);
        receive.end_with(found, wanted as u64);
    }
}

impl Offered {
    /// Whether the receiver can pull the data.
    pub(super) fn can_be_pulled(&self) -> bool {
        self.address != 0 && !self.is_revoked
    }
}

/// Counts a packet that nothing expects; the first one is also logged.
#[cold]
pub(super) fn reject(peer: Peer, header: &Header) {
    if counters::PACKETS_REJECTED.value() == 0 {
        let (kind, token) = (header.kind, header.token);
        log!(
            Warn,
            "dropped a {kind:?} packet from endpoint {}: operation {token} does not expect it; counting further ones",
            peer.0
        );
    }
    counters::PACKETS_REJECTED.add(1);
}
