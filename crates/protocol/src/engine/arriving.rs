//! Messages that arrive in pieces.
//!
//! *Granted*: the receiver has matched a `RequestToSend` and asked for the data with `ClearToSend`; `Data` names the receiver's
//! operation and the generation of the grant. *Announced*: the sender did not wait to be asked; `Piece` names the sender's
//! operation. Pieces come in order, so what has arrived of an announced message that nobody waits for is its beginning.
//!
//! A granted message that could also be pulled is pulled after all if the sender is silent for [`TAKE_OVER_NS`]: it may have
//! gone to compute. What it sends later carries an old generation and is dropped; it learns from `Finished` that it can stop, and
//! not before that does its program get the buffer back.

use super::incoming::{completed, reject};
use super::{Completion, Content, Engine, Fetch, Receive, ReceiveState, Unexpected};
use crate::fabric::{Delivery, Fabric, Packet};
use crate::matching::{Envelope, Found};
use crate::wire::{Grant, Header, Kind, Offer};
use base::{Peer, counters};

/// Silence of a sender after which its message is pulled.
const TAKE_OVER_NS: u64 = 30_000;
/// Longest announced message that is accepted.
const ANNOUNCED_MAX: u64 = 1 << 24;

/// A message on its way into a receive.
#[derive(Clone, Copy)]
pub(super) struct Stream {
    pub(super) peer: Peer,
    pub(super) found: Found,
    /// Bytes that go into the buffer.
    pub(super) wanted: u64,
    /// Bytes that will come: more than `wanted` if an announced message is too long.
    pub(super) until: u64,
    pub(super) arrived: u64,
    generation: u32,
    /// How else the data can be had.
    offered: Option<Offered>,
    /// When it was asked for, or announced; 0 if that is no measure of its speed.
    since_ns: u64,
}

#[derive(Clone, Copy)]
struct Offered {
    /// The sender's operation.
    token: u32,
    address: u64,
}

/// An announced message that has not arrived in full.
pub(super) struct Announced {
    pub(super) peer: Peer,
    token: u32,
    target: Target,
}

enum Target {
    Receive(u32),
    Unexpected(u32),
}

impl<F: Fabric> Engine<F> {
    /// Asks the sender of a matched message to stream its first `wanted` bytes.
    pub(super) fn ask_for_stream(&mut self, fetch: Fetch, wanted: u64) {
        let Fetch { id, peer, found, token, address } = fetch;
        let Some(receive) = self.receives.get_mut(id) else { return };
        counters::RENDEZVOUS_STREAMED.add(1);
        self.generation = self.generation.wrapping_add(1).max(1);
        let offered = (address != 0).then_some(Offered { token, address });
        let since_ns = if address != 0 { self.fabric.now_ns() } else { 0 };
        let generation = self.generation;
        let until = wanted;
        receive.state =
            ReceiveState::Streaming(Stream { peer, found, wanted, until, arrived: 0, generation, offered, since_ns });
        if offered.is_some() {
            self.silent_ns = 0;
            self.impatient.push(id);
        }
        let grant = Grant { length: wanted, receive: u64::from(id) | u64::from(generation) << 32 };
        self.send_control(peer, Kind::ClearToSend, token, Some(grant));
    }

    /// A piece of a granted message.
    pub(super) fn on_data(&mut self, packet: F::Packet, header: &Header) {
        let peer = packet.peer();
        let place = self.fabric.body::<8>(&packet).map(u64::from_le_bytes);
        let len = packet.len().saturating_sub(size_of::<u64>()) as u64;
        let delivery = match (place, self.receives.get_mut(header.token)) {
            (Some(at), Some(Receive { sink, state: ReceiveState::Streaming(stream), .. }))
                if stream.expects(peer, header) && at.checked_add(len).is_some_and(|end| end <= stream.wanted) =>
            {
                Some(self.fabric.deliver(&packet, size_of::<u64>(), sink, at as usize, len as usize, true))
            }
            _ => None,
        };
        self.fabric.release(packet);
        match delivery {
            Some(Delivery::Complete) => self.on_landed(peer, header, len),
            Some(Delivery::Landing) => {}
            None if self.has_taken_over => counters::STALE_PIECES.add(1),
            None => reject(peer, header),
        }
    }

    /// `len` bytes of a granted message have reached their place.
    pub(super) fn on_landed(&mut self, peer: Peer, header: &Header, len: u64) {
        match self.receives.get(header.token) {
            Some(Receive { state: ReceiveState::Streaming(stream), .. }) if stream.expects(peer, header) => {
                self.advance(header.token, len);
            }
            _ => reject(peer, header),
        }
    }

    /// `len` more bytes of a message on its way into receive `id` are there.
    fn advance(&mut self, id: u32, len: u64) {
        let Some(receive) = self.receives.get_mut(id) else { return };
        let ReceiveState::Streaming(stream) = &mut receive.state else { return };
        stream.arrived += len;
        self.silent_ns = 0;
        if stream.arrived < stream.until {
            return;
        }
        let stream = *stream;
        receive.state = ReceiveState::Complete(stream.completion());
        if stream.since_ns != 0 {
            self.fabric.note_streamed(stream.peer, stream.wanted as usize, stream.since_ns);
        }
        if let Some(offered) = stream.offered {
            self.impatient.retain(|other| *other != id);
            self.send_control(stream.peer, Kind::Finished, offered.token, None);
        }
    }

    /// Nothing has come: if all senders have been silent for too long, pulls their messages. True if there were any. (As long as
    /// one stream flows, others of the same sender wait for their turn.)
    #[cold]
    pub(super) fn take_over(&mut self) -> bool {
        let now = self.fabric.now_ns();
        if self.silent_ns == 0 {
            self.silent_ns = now;
        }
        if now - self.silent_ns < TAKE_OVER_NS {
            return false;
        }
        let ids = std::mem::take(&mut self.impatient);
        ids.iter().for_each(|id| self.take_over_one(*id));
        !ids.is_empty()
    }

    /// Pulls the message of receive `id` if it is still streamed. If that fails, its stream goes on.
    fn take_over_one(&mut self, id: u32) {
        let Some(receive) = self.receives.get_mut(id) else { return };
        let ReceiveState::Streaming(stream) = receive.state else { return };
        let Some(offered) = stream.offered else { return };
        if self.fabric.pull(stream.peer, offered.address, &receive.sink, stream.wanted as usize) {
            self.has_taken_over = true;
            counters::RENDEZVOUS_PULLED.add(1);
            receive.state = ReceiveState::Complete(stream.completion());
            self.send_control(stream.peer, Kind::Finished, offered.token, None);
        }
    }

    /// A message whose pieces follow at once.
    pub(super) fn on_announce(&mut self, peer: Peer, header: &Header, offer: Offer) -> bool {
        let token = header.token;
        let repeated = self.announced.iter().any(|a| a.peer == peer && a.token == token);
        if repeated || offer.length == 0 || offer.length > ANNOUNCED_MAX {
            return false;
        }
        let envelope = Envelope { context: header.context, source: header.source, tag: header.tag };
        let found = Found { envelope, length: offer.length };
        let target = match self.matching.arrive(&envelope) {
            Some(id) => {
                self.begin_announced(id, peer, found, 0, offer.address);
                Target::Receive(id)
            }
            None => {
                counters::UNEXPECTED.add(1);
                let content = Content::Arriving(F::Kept::default());
                Target::Unexpected(self.keep(Unexpected { peer, found, token, content }))
            }
        };
        self.announced.push(Announced { peer, token, target });
        true
    }

    fn begin_announced(&mut self, id: u32, peer: Peer, found: Found, arrived: u64, since_ns: u64) {
        let Some(receive) = self.receives.get_mut(id) else { return };
        let wanted = found.length.min(F::sink_len(&receive.sink) as u64);
        receive.state = ReceiveState::Streaming(Stream {
            peer,
            found,
            wanted,
            until: found.length,
            arrived,
            generation: 0,
            offered: None,
            since_ns,
        });
    }

    /// A piece of an announced message.
    pub(super) fn on_piece(&mut self, mut packet: F::Packet, header: &Header) {
        let peer = packet.peer();
        let place = self.fabric.body::<8>(&packet).map(u64::from_le_bytes);
        let skip = size_of::<u64>();
        let len = packet.len().saturating_sub(skip) as u64;
        let index = self.announced.iter().position(|a| a.peer == peer && a.token == header.token);
        if index.is_some_and(|index| matches!(self.announced[index].target, Target::Unexpected(_))) {
            let Some(refused) = self.fabric.hold(packet) else { return };
            packet = refused;
        }
        let complete = index.and_then(|index| match self.announced[index].target {
            Target::Receive(id) => {
                let receive = self.receives.get_mut(id)?;
                let ReceiveState::Streaming(stream) = &receive.state else { return None };
                let at = stream.accepts_next(place, len)?;
                let fits = len.min(stream.wanted.saturating_sub(at));
                if fits > 0 {
                    self.fabric.deliver(&packet, skip, &receive.sink, at as usize, fits as usize, false);
                }
                let complete = at + len == stream.until;
                self.advance(id, len);
                Some(complete)
            }
            Target::Unexpected(id) => {
                let Unexpected { found, content: Content::Arriving(bytes), .. } = self.unexpected.get_mut(id)? else {
                    return None;
                };
                let at = F::kept_len(bytes);
                let end = at.checked_add(len as usize).filter(|end| *end as u64 <= found.length)?;
                if place != Some(at as u64) {
                    return None;
                }
                // It grows as pieces come: the announced length is only a claim.
                self.fabric.stash(&packet, skip, bytes);
                Some(end as u64 == found.length)
            }
        });
        self.fabric.release(packet);
        match (complete, index) {
            (Some(true), Some(index)) => drop(self.announced.swap_remove(index)),
            (Some(_), _) => {}
            (None, _) => reject(peer, header),
        }
    }

    /// Receive `id` has matched the announced message that was kept as `message`, of which `bytes` have arrived.
    pub(super) fn receive_arriving(&mut self, id: u32, message: u32, (peer, found): (Peer, Found), bytes: &F::Kept) {
        let arrived = F::kept_len(bytes);
        if arrived as u64 == found.length {
            return self.unstash(id, &found, bytes);
        }
        self.begin_announced(id, peer, found, arrived as u64, 0);
        if let Some(receive) = self.receives.get(id) {
            let fits = arrived.min(F::sink_len(&receive.sink));
            self.fabric.unstash(bytes, fits, &receive.sink);
        }
        let kept = |a: &&mut Announced| a.peer == peer && matches!(a.target, Target::Unexpected(m) if m == message);
        if let Some(announced) = self.announced.iter_mut().find(kept) {
            announced.target = Target::Receive(id);
            self.fabric.resume(peer);
        }
    }
}

impl Stream {
    fn expects(&self, peer: Peer, header: &Header) -> bool {
        self.peer == peer && self.generation != 0 && self.generation == header.tag as u32
    }

    /// Where the next piece goes; `None` if it isn't the next one, or too long.
    fn accepts_next(&self, place: Option<u64>, len: u64) -> Option<u64> {
        (place == Some(self.arrived) && self.arrived.checked_add(len)? <= self.until).then_some(self.arrived)
    }

    fn completion(&self) -> Completion {
        completed(&self.found, self.wanted)
    }
}
