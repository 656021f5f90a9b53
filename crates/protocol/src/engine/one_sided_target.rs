//! The side whose memory others put to, get from and change.

use super::Engine;
use super::flows::Queued;
use super::one_sided::{PLACE_BYTES, REFUSED_BIT, payload_max};
use super::sending::own;
use crate::endpoint::State;
use crate::kind::Kind;
use crate::memory::{CHANGE_BYTES, RANGE_BYTES, Target, is_inside};
use crate::transport::{Outcome, Packet, Region, Transport};
use crate::wire::{BODY_BYTES, Header};
use base::Peer;

/// Answers to one peer that may wait for room. A peer that keeps to its own limits ([`super::one_sided`]) never has half as many accesses under way; what
/// one beyond them asks is dropped.
pub(super) const ANSWERS_MAX: usize = 4096;

/// What a `GET` still has to get.
#[derive(Clone, Copy)]
pub(super) struct Reply {
    token: u32,
    target: Target,
    len: u64,
    /// What the `GET` has asked for.
    whole: u64,
}

impl Reply {
    /// Bytes of all of it.
    pub(super) fn bytes(&self) -> usize {
        usize::try_from(self.whole).unwrap_or(usize::MAX)
    }
}

impl<T: Transport> Engine<T> {
    /// Whether a peer asks for more than it takes answers.
    fn is_flooded_by(&mut self, peer: Peer) -> bool {
        self.flows.answers(peer) >= ANSWERS_MAX
    }

    /// `PUT`: bytes for memory of this process.
    pub(super) fn on_put(&mut self, packet: T::Packet, packet_header: &Header) {
        let peer = packet.peer();
        if self.is_flooded_by(peer) {
            return self.refuse_packet(packet);
        }
        let transport = self.endpoints.transport();
        let Some(body) = transport.body::<RANGE_BYTES>(&packet) else { return self.refuse_packet(packet) };
        let (target, whole) = Target::decode_range(&body);
        let len = packet.len() - RANGE_BYTES;
        let region = find(transport, &target, whole).filter(|_| len as u64 <= whole);
        if let Some(region) = &region {
            transport.deliver(&packet, RANGE_BYTES, &region.sink(), target.at as usize, len, false);
        }
        transport.release(packet);
        self.answer(peer, packet_header.token, len as u64, region.map(|_| 0));
    }

    /// `ATOMIC`: changes a number in memory of this process.
    pub(super) fn on_atomic(&mut self, packet: T::Packet, packet_header: &Header) {
        let peer = packet.peer();
        if self.is_flooded_by(peer) {
            return self.refuse_packet(packet);
        }
        let transport = self.endpoints.transport();
        let Some(body) = transport.body::<CHANGE_BYTES>(&packet) else { return self.refuse_packet(packet) };
        transport.release(packet);
        let value = Target::decode_atomic(&body).and_then(|(target, atomic)| {
            let region = transport.registered(target.number, target.nonce)?;
            atomic.fits(region.len() as u64, target.at).then(|| region.atomic(target.at as usize, &atomic))
        });
        self.answer(peer, packet_header.token, 1, value);
    }

    /// `GET`: the peer wants bytes of this process's memory.
    pub(super) fn on_get(&mut self, packet: T::Packet, packet_header: &Header) {
        let peer = packet.peer();
        if self.is_flooded_by(peer) {
            return self.refuse_packet(packet);
        }
        let transport = self.endpoints.transport();
        let Some(body) = transport.body::<RANGE_BYTES>(&packet) else { return self.refuse_packet(packet) };
        transport.release(packet);
        let (target, len) = Target::decode_range(&body);
        let reply = Reply { token: packet_header.token, target, len, whole: len };
        let way = self.one_sided_way(peer, reply.bytes());
        let left = match self.flows.holds(way) {
            true => Some(reply),
            false => self.send_reply(peer, reply),
        };
        if let Some(left) = left {
            self.queue(way, Queued::Reply(left));
        }
    }

    /// Sends what a `GET` has asked for; what is left if there is no room.
    pub(super) fn send_reply(&mut self, peer: Peer, mut reply: Reply) -> Option<Reply> {
        let way = self.one_sided_way(peer, reply.bytes());
        while reply.len > 0 {
            let caps = self.endpoints.caps(peer);
            if caps.is_none() && self.endpoints.state(peer) == State::Lost {
                return None;
            }
            let Some(caps) = caps else { return Some(reply) };
            // Looked up each time: the registration may end while the answer waits.
            let Some(region) = find(self.endpoints.transport(), &reply.target, reply.len) else {
                self.answer(peer, reply.token, reply.len, None);
                return None;
            };
            let len = payload_max(&caps, PLACE_BYTES).min(reply.len);
            let source = region.source(reply.target.at as usize, len as usize);
            let body = reply.target.at.to_le_bytes();
            match self.endpoints.try_bcopy(way, &own(Kind::GOT, reply.token), &body, &source) {
                // A source that is copied is never `Posted`.
                Outcome::Done | Outcome::Posted(_) => {}
                Outcome::Again => return Some(reply),
                Outcome::Lost => return None,
            }
            reply.target.at += len;
            reply.len -= len;
        }
        None
    }

    pub(super) fn answer(&mut self, peer: Peer, token: u32, len: u64, value: Option<u64>) {
        let first = (len & !REFUSED_BIT) | if value.is_none() { REFUSED_BIT } else { 0 };
        let mut body = [0; BODY_BYTES];
        body[..8].copy_from_slice(&first.to_le_bytes());
        body[8..].copy_from_slice(&value.unwrap_or(0).to_le_bytes());
        let way = self.one_sided_way(peer, 0);
        self.send_own(way, own(Kind::ACCESSED, token), &body);
    }
}

/// The registered memory that a packet names, if it has so many bytes there.
fn find<T: Transport>(transport: &T, target: &Target, len: u64) -> Option<T::Region> {
    let region = transport.registered(target.number, target.nonce)?;
    is_inside(region.len() as u64, target.at, len).then_some(region)
}
