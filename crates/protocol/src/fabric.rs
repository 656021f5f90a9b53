//! What the engine needs of the world: lanes to every peer, as one object.
//!
//! The engine never sees memory. `Source` and `Sink` describe the program's buffers and are only handed back to the
//! fabric, which copies. Incoming packets are tokens whose payload stays in the lane until [`Fabric::release`].

use crate::matching::Found;
use crate::wire::Header;
use base::Peer;

/// What a lane to one peer can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Largest payload, body included, of one packet.
    pub packet_max: usize,
    /// Largest message that is sent eagerly.
    pub eager_max: usize,
    /// Largest message whose data follow its envelope unasked; 0 for none. The lane must keep order.
    pub announce_max: usize,
    /// Smallest message worth pulling from the sender's memory; `usize::MAX` if single copy is not possible.
    pub pull_min: usize,
}

/// What became of an attempt to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The packet has left; the source may be reused.
    Done,
    /// No room now, or the lane isn't open yet: try again after `poll`.
    Again,
    /// The peer is gone.
    Lost,
}

/// What became of the payload handed to [`Fabric::deliver`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// It is in the sink.
    Complete,
    /// The lane goes on filling the sink and reports [`Event::Landed`] when all of it is there.
    Landing,
}

/// What a poll brings.
#[derive(Debug)]
pub enum Event<P> {
    /// A packet; must be given back by [`Fabric::release`] before the next poll, or left by [`Fabric::hold`].
    Packet(P),
    /// A payload whose delivery was `Landing` is complete.
    Landed {
        /// Who sent it.
        peer: Peer,
        /// The packet's header.
        header: Header,
        /// Bytes that were delivered.
        len: usize,
    },
    /// No packet will come from this peer any more, and none can be sent.
    Lost(Peer),
}

/// An incoming packet, header already copied out of foreign memory and validated.
pub trait Packet {
    /// Who sent it.
    fn peer(&self) -> Peer;
    /// What it is.
    fn header(&self) -> Header;
    /// Payload bytes after the header, body included.
    fn len(&self) -> usize;
    /// Whether there is no payload.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// All lanes of one process.
pub trait Fabric {
    /// Where the bytes of an outgoing message are.
    type Source;
    /// Where the bytes of an incoming message go.
    type Sink;
    /// A packet that has arrived.
    type Packet: Packet;
    /// An eager message that has arrived, on the short path.
    type Eager: Copy;
    /// Copied bytes of a message that nobody waits for yet.
    type Kept: Default;

    /// This process.
    fn me(&self) -> Peer;

    /// What the lane to `peer` can do; `None` while that isn't known yet (asking starts the discovery).
    fn limits(&mut self, peer: Peer) -> Option<Limits>;

    /// Sends a packet that consists of `header` and `body`.
    fn try_send(&mut self, peer: Peer, header: &Header, body: &[u8]) -> Outcome;

    /// As [`Fabric::try_send`], followed by bytes `from .. from + len` of `source`. `body` may be empty.
    fn try_send_from(
        &mut self,
        peer: Peer,
        header: &Header,
        body: &[u8],
        source: &Self::Source,
        from: usize,
        len: usize,
    ) -> Outcome;

    /// Sends all of `source` as one packet if the lane sends so much eagerly, is open and has room at hand. False: nothing has
    /// happened, the message needs the longer way.
    #[inline(always)]
    fn send_now(&mut self, _peer: Peer, _header: &Header, _source: &Self::Source) -> bool {
        false
    }

    /// A message of `len` bytes leaves for `peer` in another way than by [`Fabric::send_now`]: for counting.
    fn note_sent(&mut self, _peer: Peer, _context: u64, _len: usize) {}

    /// The next packet, if it is an eager message and at hand. Nothing is taken by looking.
    #[inline(always)]
    fn next_eager(&mut self) -> Option<(Found, Self::Eager)> {
        None
    }

    /// Takes the message that [`Fabric::next_eager`] has just shown to the start of `sink`, cut at its end.
    #[inline(always)]
    fn take_eager(&mut self, _eager: Self::Eager, _sink: &Self::Sink) {}

    /// Bytes of the message.
    fn source_len(&self, source: &Self::Source) -> usize;

    /// Bytes that the sink can take.
    fn sink_len(sink: &Self::Sink) -> usize;

    /// The address at which `peer` could pull the whole source, 0 if it is not contiguous.
    fn expose(&self, source: &Self::Source) -> u64;

    /// Copies `len` bytes at `address` in the memory of `peer` to the start of `sink`. False (having copied an unknown
    /// part) if that is not possible; the pair is then demoted and the message is streamed.
    fn pull(&mut self, peer: Peer, address: u64, sink: &Self::Sink, len: usize) -> bool;

    /// Whether `peer` should rather be asked to stream `len` bytes that could also be pulled.
    fn prefers_stream(&mut self, _peer: Peer, _len: usize) -> bool {
        false
    }

    /// `peer` has streamed `len` bytes since `since_ns` (of its clock, if nobody asked for them): how fast this was may change the
    /// preference.
    fn note_streamed(&mut self, _peer: Peer, _len: usize, _since_ns: u64) {}

    /// Whether `peer` has found that it rather pulls messages of `len` bytes that could also be announced.
    fn peer_pulls(&mut self, _peer: Peer, _len: usize) -> bool {
        false
    }

    /// A clock that only goes forward, the same one in all processes of a host.
    fn now_ns(&self) -> u64 {
        0
    }

    /// The next event, if any.
    fn poll(&mut self) -> Option<Event<Self::Packet>>;

    /// Copies the first bytes of the payload; `None` if it is shorter.
    fn body<const N: usize>(&mut self, packet: &Self::Packet) -> Option<[u8; N]>;

    /// Moves payload bytes `skip .. skip + len` to `sink` at `at`. `Landing` is only answered for `may_land`.
    fn deliver(
        &mut self,
        packet: &Self::Packet,
        skip: usize,
        sink: &Self::Sink,
        at: usize,
        len: usize,
        may_land: bool,
    ) -> Delivery;

    /// Appends a copy of the payload from `skip` on.
    fn stash(&mut self, packet: &Self::Packet, skip: usize, kept: &mut Self::Kept);

    /// Bytes that are kept.
    fn kept_len(kept: &Self::Kept) -> usize;

    /// Copies the first `len` kept bytes to the start of `sink`.
    fn unstash(&mut self, kept: &Self::Kept, len: usize, sink: &Self::Sink);

    /// Leaves a packet that nobody waits for in its lane, instead of [`Fabric::release`]: it is polled again after
    /// [`Fabric::resume`], or soon if nothing else comes. Gives back what must be taken now.
    fn hold(&mut self, packet: Self::Packet) -> Option<Self::Packet> {
        Some(packet)
    }

    /// What is held of `peer` can be delivered now.
    fn resume(&mut self, _peer: Peer) {}

    /// Gives the packet's room back to the lane.
    fn release(&mut self, packet: Self::Packet);
}
