//! What the engine needs of a transport: lanes that carry packets, and memory that it may read and write at a peer.
//!
//! A [`Transport`] is one way to carry packets, or several as one: the product's sum of self, shared memory and TCP, or the simulated one of
//! `testkit`. It has no policy: [`Caps`] say what a lane can do, the engine decides what is done. It never blocks.
//!
//! The engine never sees memory. [`Source`] and [`Sink`] describe the program's buffers and are only handed back to the transport, which copies.
//! Incoming packets are tokens whose payload stays in the lane until [`Transport::release`].

use crate::matching::Found;
use crate::memory::{Atomic, Key, Verbs};
use crate::wire::Header;
use base::{ContextId, Peer};
use std::ops::Range;

/// What a lane can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caps {
    /// Largest payload, body included, of one packet.
    pub packet_max: usize,
    /// Smallest piece into which a message is cut; of a larger message an eighth, at most `packet_max`: so the receiver copies one
    /// piece while the sender fills the next, and a piece costs little.
    pub piece_min: usize,
    /// Largest message that is sent eagerly in one packet.
    pub eager_max: usize,
    /// Largest message that is sent eagerly in several packets (fragments); 0 for none. The lane must keep order.
    pub fragments_max: usize,
    /// Largest message that is pushed: sent without being asked for, in packets that land; 0 for none. The lane must keep order.
    pub push_max: usize,
    /// Smallest message worth pulling from the sender's memory ([`Transport::pull`]); `usize::MAX` if that is not possible.
    pub pull_min: usize,
}

/// Bytes of a stream's packet beside its piece: the place of the piece.
const PLACE_BYTES: usize = size_of::<u64>();

impl Caps {
    /// Largest piece of a message of `whole` bytes.
    pub fn piece_max(&self, whole: u64) -> usize {
        let eighth = usize::try_from(whole / 8).unwrap_or(usize::MAX);
        (self.packet_max - PLACE_BYTES)
            .min(eighth.checked_next_power_of_two().unwrap_or(usize::MAX).max(self.piece_min))
    }
}

/// Names a send whose source the transport still uses; unique among those of one transport that are under way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Token(pub u64);

/// What became of an attempt to send, read or write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It has been done; the source may be reused.
    Done,
    /// It will be done. The source is in use until [`Event::Sent`] with this token, or until the peer is lost.
    Posted(Token),
    /// Nothing has happened: there is no room now, or the lane isn't open yet. Try again after a poll.
    Again,
    /// The peer is gone.
    Lost,
}

/// What became of an attempt to reach registered memory of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// It has been done; of an atomic, the number before it.
    Done(u64),
    /// It will be done. Source or sink is in use until [`Event::Accessed`] with this token, or until the peer is lost.
    Posted(Token),
    /// Nothing has happened. Try again after a poll.
    Again,
    /// The key names no memory of the peer, or not so much of it. Nothing was touched.
    Refused,
    /// The lane can't do this (any more), and says so by its [`Verbs`]. A part may have been done; it may be done again by packets.
    Unable,
    /// The peer is gone.
    Lost,
}

/// What became of the payload handed to [`Transport::deliver`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// It is in the sink.
    Complete,
    /// The lane goes on filling the sink and reports [`Event::Landed`] when all of it is there.
    Landing,
}

/// What a poll brings.
#[derive(Debug)]
pub enum Event<P, L> {
    /// A packet; must be given back by [`Transport::release`] before the next poll, or left by [`Transport::hold`].
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
    /// A send that was `Posted` is over; its source may be reused.
    Sent(Token),
    /// An access that was `Posted` is over: done, with the number before it of an atomic, or refused.
    Accessed(Token, Option<u64>),
    /// The lanes to this peer are there, one or several with equal [`Caps`], as [`Transport::connect`] asked, or because the peer waits for one.
    /// They have the numbers from 0 on. Packets of each keep their order.
    Opened(Peer, Vec<L>),
    /// Of several lanes to this peer, the one of this number is gone. What it had sent and may not have arrived comes over another one, some of it
    /// perhaps for the second time; nothing comes or lands over the lost lane at that end any more. Posted sends and accesses end as if
    /// nothing had happened. The last lane is lost with the peer.
    LaneLost(Peer, usize),
    /// This process has to open a lane to the peer, who waits for an answer that needs one.
    Wanted(Peer),
    /// The endpoints of these peers are to be suspended; [`Transport::settled`] follows.
    Suspend(Vec<Peer>),
    /// Those that are suspended are to be resumed, others when their suspension is over; [`Transport::settled`] follows.
    Resume(Vec<Peer>),
    /// No packet will come from this peer any more, and none can be sent.
    Lost(Peer),
    /// The communicator of this context is revoked.
    Revoked(ContextId),
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

/// Where the bytes of an outgoing message are.
pub trait Source: Clone {
    /// Bytes of the message.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Where the bytes of an incoming message go. A clone is the same place.
pub trait Sink: Clone {
    /// Bytes that fit.
    fn len(&self) -> usize;
    /// Whether nothing fits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Memory of this process that peers may read and write while it is registered.
pub trait Region: Clone {
    /// As of the transport.
    type Source: Source;
    /// As of the transport.
    type Sink: Sink;

    /// Bytes.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// A part of it, to be sent.
    fn source(&self, at: usize, len: usize) -> Self::Source;
    /// All of it, to be written.
    fn sink(&self) -> Self::Sink;
    /// Changes the number at `at`, which [fits](Atomic::fits), in one step; the number before.
    fn atomic(&self, at: usize, atomic: &Atomic) -> u64;
}

/// Memory for messages that arrive before their receives.
pub trait UnexpectedPool: Default {
    /// As of the transport.
    type Sink: Sink;
    /// The bytes of one message.
    type Buffer: Default;

    /// Makes room for `more` bytes at the end of `buffer`, which `fill` puts there: it gets the place of each piece in what is new, and
    /// the piece.
    fn append(&self, buffer: &mut Self::Buffer, more: usize, fill: impl FnMut(usize, &Self::Sink));
    /// Bytes that are there.
    fn len(buffer: &Self::Buffer) -> usize;
    /// Copies the first `len` bytes to the start of `sink`.
    fn copy_out(&self, buffer: &Self::Buffer, len: usize, sink: &Self::Sink);
}

/// See the head of this file.
pub trait Transport: 'static {
    /// The sending side to one peer, as the endpoint keeps it.
    type Lane;
    /// Where the bytes of an outgoing message are.
    type Source: Source;
    /// Where the bytes of an incoming message go.
    type Sink: Sink;
    /// Memory that peers may read and write.
    type Region: Region<Source = Self::Source, Sink = Self::Sink>;
    /// A packet that has arrived.
    type Packet: Packet + 'static;
    /// An eager message that has arrived, on the short path.
    type Eager: Copy;
    /// Where messages wait that nobody receives yet.
    type Pool: UnexpectedPool<Sink = Self::Sink>;

    /// Starts to open a lane to `peer`, unless that is under way: [`Event::Opened`] or [`Event::Lost`] follows.
    fn connect(&mut self, peer: Peer);

    /// The endpoint of `peer` is suspended: nothing is under way in this lane, one of those that were opened, in either direction. What holds the peer's address or
    /// memory must go; [`Transport::connect`] opens another lane, perhaps to another address.
    fn close_lane(&mut self, peer: Peer, lane: Self::Lane);

    /// After [`Event::Suspend`] or [`Event::Resume`]: no endpoint is being suspended any more; so many are suspended.
    fn settled(&mut self, _suspended: usize) {}

    /// What the lane can do now.
    fn caps(&self, lane: &Self::Lane) -> Caps;

    /// Sends all of `source` as one packet if the lane has room at hand and sends so much eagerly. False: nothing has happened, the
    /// message needs the longer way. An associated function, so that the short path needs nothing but the lane.
    #[inline(always)]
    fn try_short(_lane: &mut Self::Lane, _header: &Header, _source: &Self::Source) -> bool {
        false
    }

    /// Sends a packet that consists of `header` and `body`. Never `Posted`.
    fn try_control(&mut self, lane: &mut Self::Lane, header: &Header, body: &[u8]) -> Outcome;

    /// As [`Transport::try_control`], followed by all of `source`, which may be reused afterwards. Never `Posted`.
    fn try_bcopy(&mut self, lane: &mut Self::Lane, header: &Header, body: &[u8], source: &Self::Source) -> Outcome;

    /// As [`Transport::try_control`], followed by bytes `from .. from + len` of `source`, which may stay in use: `Posted`.
    fn try_zcopy(
        &mut self,
        lane: &mut Self::Lane,
        header: &Header,
        body: &[u8],
        source: &Self::Source,
        from: usize,
        len: usize,
    ) -> Outcome;

    /// The address at which the lane's peer can pull all of `source` by [`Transport::pull`] until its message is over; 0 if it can't.
    fn expose(&mut self, lane: &mut Self::Lane, source: &Self::Source) -> u64;

    /// Copies `len` bytes at `address`, which the lane's peer has exposed, to the start of `sink`. False (having copied an unknown part)
    /// if that is not possible; the caps then say so and the message is streamed.
    fn pull(&mut self, lane: &mut Self::Lane, address: u64, sink: &Self::Sink, len: usize) -> bool;

    /// From now on peers may read and write the region by the key, until [`Transport::deregister`].
    fn register(&mut self, region: Self::Region) -> Key;

    /// Ends a registration: the key names nothing any more. Accesses of peers must be over, as at the end of an MPI window; one that isn't
    /// may still be carried out. False if there is no such registration.
    fn deregister(&mut self, key: &Key) -> bool;

    /// What this process has registered so.
    fn registered(&self, number: u32, nonce: u64) -> Option<Self::Region>;

    /// What the lane can do with registered memory now.
    fn verbs(&self, _lane: &Self::Lane) -> Verbs {
        Verbs::NONE
    }

    /// Writes all of `source` to what the peer has registered, at `at`. Others may see it only after [`Transport::flush`].
    fn put(&mut self, _lane: &mut Self::Lane, _key: &Key, _at: u64, _source: &Self::Source) -> Access {
        Access::Unable
    }

    /// Reads what the peer has registered, from `at` on, into all of `sink`.
    fn get(&mut self, _lane: &mut Self::Lane, _key: &Key, _at: u64, _sink: &Self::Sink) -> Access {
        Access::Unable
    }

    /// Changes a number that the peer has registered in one step, as seen by all who do it by the same means.
    fn atomic(&mut self, _lane: &mut Self::Lane, _key: &Key, _at: u64, _atomic: &Atomic) -> Access {
        Access::Unable
    }

    /// Whether all accesses so far are visible at the peer: `Done`, `Again` or `Lost`.
    fn flush(&mut self, _lane: &mut Self::Lane) -> Access {
        Access::Done(0)
    }

    /// Whether the lane's peer should rather be asked to stream `len` bytes that could also be pulled.
    fn prefers_stream(&self, _lane: &Self::Lane, _len: usize) -> bool {
        false
    }

    /// The lane's peer has streamed `len` bytes since `since_ns` (of its clock, if nobody asked for them): how fast this was may change
    /// the preference.
    fn note_streamed(&mut self, _lane: &mut Self::Lane, _len: usize, _since_ns: u64) {}

    /// Whether the lane's peer has found that it rather pulls messages of `len` bytes that could also be sent as fragments.
    fn peer_pulls(&self, _lane: &Self::Lane, _len: usize) -> bool {
        false
    }

    /// A clock that only goes forward, the same one in all processes of a host.
    fn now_ns(&self) -> u64 {
        0
    }

    /// The next packet, if it is an eager message and at hand. Nothing is taken by looking.
    #[inline(always)]
    fn next_eager(&mut self) -> Option<(Found, Self::Eager)> {
        None
    }

    /// Takes the message that [`Transport::next_eager`] has just shown to the start of `sink`, cut at its end.
    #[inline(always)]
    fn take_eager(&mut self, _eager: Self::Eager, _sink: &Self::Sink) {}

    /// After a packet of `peer` with a piece of a message: takes the pieces that follow it and are at hand. Each has the same header, and a body
    /// which says the place where the one before it ends; all lie in `place` of `sink`. Bytes that were taken.
    fn take_pieces(&mut self, _peer: Peer, _header: &Header, _sink: &Self::Sink, _place: Range<usize>) -> usize {
        0
    }

    /// The next event, if any.
    fn poll(&mut self) -> Option<Event<Self::Packet, Self::Lane>>;

    /// Takes a packet, all of which is there, out of its lane, so that it can be kept over polls.
    fn detach(&mut self, packet: Self::Packet) -> Self::Packet;

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

    /// Leaves a packet that nobody waits for in its lane, instead of [`Transport::release`]: it is polled again after
    /// [`Transport::resume`], or soon if nothing else comes. Gives back what must be taken now.
    fn hold(&mut self, packet: Self::Packet) -> Option<Self::Packet> {
        Some(packet)
    }

    /// Collects the payload of a packet of which not all is there, instead of [`Transport::release`]: then it is polled again, whole. Gives back a packet that is whole.
    fn gather(&mut self, packet: Self::Packet) -> Option<Self::Packet> {
        Some(packet)
    }

    /// What is held of `peer` can be delivered now.
    fn resume(&mut self, _peer: Peer) {}

    /// Gives the packet's room back to the lane.
    fn release(&mut self, packet: Self::Packet);
}
