//! Messages that arrive in several packets.
//!
//! *Granted*: the receiver has matched a `REQUEST_TO_SEND` and asked for the data with `CLEAR_TO_SEND`; `DATA` names the receiver's
//! operation and the generation of the grant. *In fragments*: the sender did not wait to be asked; fragments have a token of their
//! message. They come in order, so what has arrived of a message that nobody receives yet is its beginning.
//!
//! A granted message that could also be pulled is pulled after all if the sender is silent for [`PULL_AFTER_NS`]: it may have
//! gone to compute. What it sends later carries an old generation and is dropped; it learns from `FINISHED` that it can stop, and
//! not before that does its program get the buffer back.

use super::eager::envelope;
use super::observer::{How, What};
use super::receiving::reject;
use super::{Buffer, Content, Engine, Fetch, Offered, Receive, ReceiveState, Unexpected};
use crate::kind::Kind;
use crate::matching::Found;
use crate::protocols::FRAGMENTED_MAX;
use crate::transport::{Delivery, Packet, Sink, Transport, UnexpectedPool};
use crate::wire::{Grant, Header, Offer};
use base::{Peer, counters};

/// Silence of a sender after which its message is pulled.
const PULL_AFTER_NS: u64 = 30_000;
/// Bytes of the body of `DATA` and of fragments: the offset.
const OFFSET_BYTES: usize = size_of::<u64>();

/// A message on its way into a receive.
#[derive(Clone, Copy)]
pub(super) struct Stream {
    pub(super) peer: Peer,
    pub(super) found: Found,
    /// Bytes that go into the buffer.
    pub(super) wanted: u64,
    /// Bytes that will come: more than `wanted` if a message in fragments is too long.
    pub(super) until: u64,
    pub(super) arrived: u64,
    /// Bytes of the pushed piece that is landing.
    landing: u64,
    generation: u32,
    /// How else the data can be had, and the sender's operation, which waits for `FINISHED` then.
    exposed: Option<(Offered, u32)>,
    /// When it was asked for, or its first fragment left; 0 if that is no measure of its speed.
    since_ns: u64,
}

/// Where the fragments of a message go that has not arrived in full.
#[derive(Clone, Copy)]
pub(super) enum Fragmented {
    Receive(u32),
    Unexpected(u32),
}

/// What has become of a fragment.
enum Placed {
    /// More follow.
    Middle,
    /// It was the last one.
    Last,
    /// Nothing expects it.
    Unexpected,
}

impl<T: Transport> Engine<T> {
    /// Asks the sender of a matched message to stream its first `wanted` bytes.
    pub(super) fn ask_for_stream(&mut self, fetch: Fetch, wanted: u64) {
        let Fetch { id, peer, found, token, offered } = fetch;
        let Some(receive) = self.receives.get_mut(id) else { return };
        counters::RENDEZVOUS_STREAMED.add(1);
        self.generation = self.generation.wrapping_add(1).max(1);
        let exposed = (offered.address != 0).then_some((offered, token));
        let since_ns = if exposed.is_some() { self.endpoints.transport().now_ns() } else { 0 };
        let generation = self.generation;
        let until = wanted;
        let stream = Stream { peer, found, wanted, until, arrived: 0, landing: 0, generation, exposed, since_ns };
        receive.state = ReceiveState::Streaming(Box::new(stream));
        if offered.can_be_pulled() {
            self.silent_ns = 0;
            self.pullable_streams.insert(id);
        }
        let grant = Grant { length: wanted, receive: u64::from(id) | u64::from(generation) << 32 };
        self.send_control(peer, Kind::CLEAR_TO_SEND, token, &grant.encode());
    }

    /// `DATA`: a part of a granted message.
    pub(super) fn on_data(&mut self, packet: T::Packet, header: &Header) {
        let peer = packet.peer();
        let transport = self.endpoints.transport();
        let place = transport.body::<OFFSET_BYTES>(&packet).map(u64::from_le_bytes);
        let len = packet.len().saturating_sub(OFFSET_BYTES) as u64;
        let delivery = match (place, self.receives.get_mut(header.token)) {
            (Some(at), Some(Receive { sink, state: ReceiveState::Streaming(stream), .. }))
                if stream.expects(peer, header) && at.checked_add(len).is_some_and(|end| end <= stream.wanted) =>
            {
                Some(transport.deliver(&packet, OFFSET_BYTES, sink, at as usize, len as usize, true))
            }
            _ => None,
        };
        transport.release(packet);
        match delivery {
            Some(Delivery::Complete) => {
                self.on_landed(peer, header, len);
                self.take_following(peer, header, header.token, 0);
            }
            // It is not pulled any more: the lane would write behind the pull.
            Some(Delivery::Landing) => _ = self.pullable_streams.remove(&header.token),
            None => {
                self.endpoints.end_turn(peer, header);
                match self.has_pulled_streams {
                    true => counters::STALE_PIECES.add(1),
                    false => reject(peer, header),
                }
            }
        }
    }

    /// `len` bytes of a granted or pushed message have reached their place.
    pub(super) fn on_landed(&mut self, peer: Peer, header: &Header, len: u64) {
        if header.kind == Kind::PUSHED {
            return self.on_pushed_landed(peer, header);
        }
        match self.receives.get(header.token) {
            Some(Receive { state: ReceiveState::Streaming(stream), .. }) if stream.expects(peer, header) => {
                self.advance(header.token, len);
            }
            _ => reject(peer, header),
        }
        self.endpoints.end_turn(peer, header);
    }

    /// After a piece of the message on its way into receive `id`: takes those that follow it and are at hand, but for the last `rest` bytes of the
    /// message. They skip all that is looked up for each packet, which would take as long as copying a piece.
    fn take_following(&mut self, peer: Peer, header: &Header, id: u32, rest: u64) {
        let Some(Receive { sink, state: ReceiveState::Streaming(stream), .. }) = self.receives.get(id) else { return };
        if stream.wanted < stream.until || !header.number.is_none() {
            return;
        }
        let place = stream.arrived as usize..(stream.wanted - rest) as usize;
        let taken = self.endpoints.transport().take_pieces(peer, header, sink, place);
        if taken > 0 {
            self.advance(id, taken as u64);
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
        let stream = **stream;
        receive.end_with(&stream.found, stream.wanted);
        if stream.since_ns != 0 {
            self.endpoints.note_streamed(stream.peer, stream.wanted as usize, stream.since_ns);
        }
        if let Some((_, token)) = stream.exposed {
            self.pullable_streams.remove(&id);
            self.send_control(stream.peer, Kind::FINISHED, token, &[]);
        }
    }

    /// Nothing has come: if all senders have been silent for too long, pulls their messages. True if there were any. (As long as
    /// one stream flows, others of the same sender wait for their turn.)
    #[cold]
    pub(super) fn pull_silent_streams(&mut self) -> bool {
        let now = self.endpoints.transport().now_ns();
        if self.silent_ns == 0 {
            self.silent_ns = now;
        }
        if now - self.silent_ns < PULL_AFTER_NS {
            return false;
        }
        let ids = std::mem::take(&mut self.pullable_streams);
        ids.iter().for_each(|id| self.pull_stream(*id));
        !ids.is_empty()
    }

    /// Pulls the message of receive `id` if it is still streamed. If that fails, its stream goes on.
    fn pull_stream(&mut self, id: u32) {
        let Some(receive) = self.receives.get_mut(id) else { return };
        let ReceiveState::Streaming(stream) = &receive.state else { return };
        let stream = **stream;
        let Some((offered, token)) = stream.exposed.filter(|(offered, _)| offered.can_be_pulled()) else { return };
        if self.endpoints.pull(stream.peer, offered.address, &receive.sink, stream.wanted as usize) {
            self.has_pulled_streams = true;
            counters::RENDEZVOUS_PULLED.add(1);
            receive.end_with(&stream.found, stream.wanted);
            self.note(What::Fetched, How::Pulled, stream.peer, &stream.found);
            self.send_control(stream.peer, Kind::FINISHED, token, &[]);
        }
    }

    /// `EAGER_FIRST`: a message whose other fragments follow at once.
    pub(super) fn on_first_fragment(&mut self, packet: T::Packet, header: &Header) {
        let (peer, token) = (packet.peer(), header.token);
        let Some(body) = self.take_body(packet) else { return reject(peer, header) };
        let Offer { length, address: since_ns } = Offer::decode(&body);
        let repeated = self.fragmented.contains_key(&(peer, token));
        if repeated || length == 0 || length > FRAGMENTED_MAX as u64 {
            return reject(peer, header);
        }
        let found = Found { envelope: envelope(header), length };
        let target = match self.matching.arrive(&found.envelope) {
            Some(id) => {
                self.note(What::Matched, How::Fragments, peer, &found);
                self.begin_fragments(id, peer, found, 0, since_ns);
                Fragmented::Receive(id)
            }
            None => {
                counters::UNEXPECTED.add(1);
                self.note(What::Unexpected, How::Fragments, peer, &found);
                let content = Content::Arriving(Default::default());
                Fragmented::Unexpected(self.keep(Unexpected { peer, found, token, content }))
            }
        };
        self.fragmented.insert((peer, token), target);
    }

    fn begin_fragments(&mut self, id: u32, peer: Peer, found: Found, arrived: u64, since_ns: u64) {
        let Some(receive) = self.receives.get_mut(id) else { return };
        let wanted = found.length.min(receive.sink.len() as u64);
        let until = found.length;
        let stream = Stream { peer, found, wanted, until, arrived, landing: 0, generation: 0, exposed: None, since_ns };
        receive.state = ReceiveState::Streaming(Box::new(stream));
    }

    /// `EAGER_MIDDLE`, `EAGER_LAST` and `PUSHED`.
    pub(super) fn on_fragment(&mut self, packet: T::Packet, header: &Header) {
        let (peer, token) = (packet.peer(), header.token);
        let target = self.fragmented.get(&(peer, token)).copied();
        let transport = self.endpoints.transport();
        let taken_now = match target {
            Some(Fragmented::Unexpected(_)) if header.kind == Kind::PUSHED => transport.gather(packet),
            // The turn of a packet with a number is over.
            Some(Fragmented::Unexpected(_)) if header.number.is_none() => transport.hold(packet),
            _ => Some(packet),
        };
        let Some(packet) = taken_now else { return };
        let placed = match target {
            Some(Fragmented::Receive(id)) => self.place_fragment(&packet, id, header.kind.info().lands),
            Some(Fragmented::Unexpected(id)) => self.store_fragment(&packet, id),
            None => Placed::Unexpected,
        };
        self.endpoints.transport().release(packet);
        match placed {
            Placed::Middle if header.kind == Kind::EAGER_MIDDLE => {
                if let Some(Fragmented::Receive(id)) = target {
                    // At least one byte comes with `EAGER_LAST`.
                    self.take_following(peer, header, id, 1);
                }
            }
            Placed::Middle if header.kind == Kind::PUSHED => {}
            Placed::Last if header.kind != Kind::EAGER_MIDDLE => drop(self.fragmented.remove(&(peer, token))),
            _ => reject(peer, header),
        }
    }

    /// The pushed piece that was landing is in its place.
    fn on_pushed_landed(&mut self, peer: Peer, header: &Header) {
        let Some(Fragmented::Receive(id)) = self.fragmented.get(&(peer, header.token)).copied() else {
            return reject(peer, header);
        };
        let landing = match self.receives.get_mut(id) {
            Some(Receive { state: ReceiveState::Streaming(stream), .. }) => std::mem::take(&mut stream.landing),
            _ => 0,
        };
        if let Placed::Last = self.advance_fragment(id, landing) {
            self.fragmented.remove(&(peer, header.token));
        }
    }

    /// Where a fragment begins, and its bytes.
    fn extent(&mut self, packet: &T::Packet) -> Option<(u64, u64)> {
        let place = self.endpoints.transport().body::<OFFSET_BYTES>(packet).map(u64::from_le_bytes)?;
        Some((place, packet.len().saturating_sub(OFFSET_BYTES) as u64))
    }

    /// Takes a fragment to the receive that it belongs to. While it lands, it isn't placed yet.
    fn place_fragment(&mut self, packet: &T::Packet, id: u32, may_land: bool) -> Placed {
        let extent = self.extent(packet);
        let Some(Receive { sink, state: ReceiveState::Streaming(stream), .. }) = self.receives.get_mut(id) else {
            return Placed::Unexpected;
        };
        let Some((at, len)) = extent.filter(|(at, len)| stream.is_next(*at, *len)) else { return Placed::Unexpected };
        let fits = len.min(stream.wanted.saturating_sub(at));
        let transport = self.endpoints.transport();
        if fits > 0
            && transport.deliver(packet, OFFSET_BYTES, sink, at as usize, fits as usize, may_land) == Delivery::Landing
        {
            stream.landing = len;
            return Placed::Middle;
        }
        self.advance_fragment(id, len)
    }

    /// `len` more bytes of a message in fragments are in their place.
    fn advance_fragment(&mut self, id: u32, len: u64) -> Placed {
        let is_last = self.receives.get(id).is_some_and(|receive| match &receive.state {
            ReceiveState::Streaming(stream) => stream.arrived + len == stream.until,
            _ => false,
        });
        self.advance(id, len);
        if is_last { Placed::Last } else { Placed::Middle }
    }

    /// Stores a fragment of a message that nobody receives yet. The buffer grows as fragments come: the length is only a claim.
    fn store_fragment(&mut self, packet: &T::Packet, id: u32) -> Placed {
        let extent = self.extent(packet);
        let Some(Unexpected { found, content: Content::Arriving(bytes), .. }) = self.unexpected.get_mut(id) else {
            return Placed::Unexpected;
        };
        let (length, arrived) = (found.length, T::Pool::len(bytes) as u64);
        let fits = |at: u64, len: u64| at == arrived && at.checked_add(len).is_some_and(|end| end <= length);
        let Some((at, len)) = extent.filter(|(at, len)| fits(*at, *len)) else { return Placed::Unexpected };
        let mut buffer = std::mem::take(bytes);
        self.store(packet, OFFSET_BYTES, &mut buffer);
        if let Some(Unexpected { content: Content::Arriving(bytes), .. }) = self.unexpected.get_mut(id) {
            *bytes = buffer;
        }
        if at + len == length { Placed::Last } else { Placed::Middle }
    }

    /// Receive `id` has matched a message in fragments that was unexpected, and of which `bytes` have arrived.
    pub(super) fn receive_arriving(&mut self, id: u32, sender: (Peer, u32), found: Found, bytes: &Buffer<T>) {
        let arrived = T::Pool::len(bytes);
        if arrived as u64 == found.length {
            return self.copy_out(id, &found, bytes);
        }
        let peer = sender.0;
        self.begin_fragments(id, peer, found, arrived as u64, 0);
        if let Some(receive) = self.receives.get(id) {
            self.pool.copy_out(bytes, arrived.min(receive.sink.len()), &receive.sink);
        }
        if let Some(target) = self.fragmented.get_mut(&sender) {
            *target = Fragmented::Receive(id);
            self.endpoints.transport().resume(peer);
        }
    }
}

impl Stream {
    fn expects(&self, peer: Peer, header: &Header) -> bool {
        self.peer == peer && self.generation != 0 && self.generation == header.tag as u32
    }

    /// Whether a fragment of `len` bytes at `at` is the next one, and not too long. None comes while one lands.
    fn is_next(&self, at: u64, len: u64) -> bool {
        self.landing == 0 && at == self.arrived && self.arrived.checked_add(len).is_some_and(|end| end <= self.until)
    }

    /// The sender's memory is out of reach from now on.
    pub(super) fn revoke(&mut self) {
        if let Some((offered, _)) = &mut self.exposed {
            offered.is_revoked = true;
        }
    }
}
