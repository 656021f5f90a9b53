//! One open connection: packets in both directions over a stream.
//!
//! Receiving: bytes come into a buffer and packets are parsed in place. The payload of a large packet of data goes
//! straight from the kernel into its sink: the packet is shown as soon as its offset is there, and what `deliver` doesn't
//! find in the buffer lands later. If nobody has a place for it, it is gathered in memory of the connection.
//! Sending: a packet goes from the program's memory to the kernel in one call. What the peer's process hasn't acknowledged stays in the replay
//! buffer (`replay.rs`): small packets as copies, made once the kernel has them; pieces of large messages stay where they are, so their sends
//! are `Posted`.
//!
//! A [`Link`] is what outlives a broken connection. Both directions are streams of bytes: the reader goes on with the byte after the last one
//! that it has read, in the middle of a frame or of a landing payload if need be, so nothing is lost, doubled or reordered.
//!
//! Invariant: a sink or source is only touched while its operation lives, that is until the engine has been told `Landed`, `Sent` or
//! that the peer is lost; after that nothing is transferred any more.

mod receive;
mod replay;
mod send;

use super::frame::FRAME_BYTES;
use super::stream::{Stream, would_block};
use crate::buffer::RecvBuf;
use protocol::kind::BODY_MAX;
use protocol::transport::Token;
use protocol::wire::Header;
use replay::Replay;
pub use replay::WrongPosition;
use std::net::TcpStream;
use std::os::fd::BorrowedFd;

/// Sizes of a connection; those of packets are equal on all ranks of the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Largest payload of a packet that doesn't land.
    pub eager_max: usize,
    /// Largest payload of one that does: of `Data` and of pushed messages.
    pub packet_max: usize,
    /// Most bytes that the kernel is given at once; less if that makes whole segments.
    pub write_max: usize,
    /// Bytes of copied packets that the peer may leave unacknowledged; 0 keeps nothing, and a broken connection is the end.
    pub replay_max: usize,
}

/// Most bytes that are received before they are acknowledged.
const ACKNOWLEDGED_MAX: usize = 256 << 10;

impl Sizes {
    /// Bytes that are received before they are acknowledged: so few that a sender whose replay buffer is full is always answered.
    fn acknowledge_every(&self) -> u64 {
        (self.replay_max / 4).min(ACKNOWLEDGED_MAX) as u64
    }
}

/// Bytes read ahead behind a payload that lands in the program's memory: the next frame's front and a little.
const AHEAD_BYTES: usize = 4096;

/// Why a connection ended.
#[derive(Debug)]
pub enum End {
    /// The peer said goodbye before.
    Goodbye,
    /// The stream ended or failed without a goodbye.
    Broken(String),
    /// Somebody has changed the stream on its way.
    NotGenuine(String),
    /// The peer breaks the format.
    Wrong(String),
}

/// What [`Conn::poll`] found.
#[derive(Debug)]
pub enum Polled {
    /// A packet: header and payload length.
    Packet(Header, usize),
    /// All of a landing payload is there: header and delivered bytes.
    Landed(Header, usize),
    /// All of the payload of a packet that is gathered.
    Gathered(Header, Box<[u8]>),
    /// The source of a packet that was `Posted` is no longer in use.
    Sent(Token),
    /// Nothing now.
    Nothing,
    /// Nothing any more.
    Ended(End),
}

/// The packet that was shown last and not released.
#[derive(Clone, Copy, Default)]
struct Shown {
    /// Place of its payload in the buffer.
    at: usize,
    /// Payload bytes in the buffer.
    present: usize,
    /// Payload bytes that are neither in the buffer nor landing.
    missing: usize,
}

struct Landing {
    sink: RecvBuf,
    at: usize,
    left: usize,
    /// Bytes behind the landing ones that belong to the packet.
    trailing: usize,
    header: Header,
    len: usize,
    /// The payload, which no operation has a place for: the sink is in it.
    gathered: Option<Box<[u8]>>,
}

struct Receiver {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    sequence: u32,
    shown: Option<Shown>,
    landing: Option<Landing>,
    /// Bytes of the stream to be dropped.
    skip: usize,
    /// Whether the last packet was large `Data`, so that the next probably is too.
    bulk: bool,
    goodbye: bool,
    /// Bytes of the stream that were read.
    received: u64,
    /// When `received` gets here the peer is told.
    acknowledge_at: u64,
    /// End of the last packet for whose acknowledgement the peer waits.
    awaited: u64,
}

/// Frame and body.
#[derive(Clone, Copy)]
struct Front {
    bytes: [u8; FRAME_BYTES + BODY_MAX],
    len: usize,
}

struct Sender {
    sequence: u32,
    replay: Replay,
    /// The kernel did not take everything.
    full: bool,
    broken: Option<String>,
    /// Of the next packet that is `Posted`.
    token: Token,
}

/// Both directions to one peer, whatever connection carries them.
pub struct Link {
    sizes: Sizes,
    rx: Receiver,
    tx: Sender,
}

/// An open connection to one peer.
pub struct Conn {
    stream: Stream,
    link: Link,
    /// Token of the descriptor in the epoll set is watched for writing too.
    pub watched_for_writing: bool,
}

impl Link {
    /// A link over which nothing has travelled.
    fn new(sizes: Sizes, tokens: Token) -> Link {
        let rx = Receiver {
            buffer: Vec::new(),
            start: 0,
            end: 0,
            sequence: 0,
            shown: None,
            landing: None,
            skip: 0,
            bulk: false,
            goodbye: false,
            received: 0,
            acknowledge_at: 0,
            awaited: 0,
        };
        let tx = Sender { sequence: 0, replay: Replay::default(), full: false, broken: None, token: tokens };
        let mut link = Link { sizes, rx, tx };
        link.acknowledged_now();
        link
    }

    /// Bytes that this process has received: where the peer has to go on.
    pub fn received(&self) -> u64 {
        self.rx.received
    }

    /// Bytes that have been sent after the first `received` ones.
    pub fn sent_after(&self, received: u64) -> u64 {
        self.tx.replay.sent_after(received)
    }

    /// Whether the peer can have received so much and no more.
    pub fn may_resume(&self, received: u64) -> bool {
        self.tx.replay.may_resume(received)
    }

    /// Whether nothing waits for the peer.
    pub fn is_acknowledged(&self) -> bool {
        self.tx.replay.is_acknowledged()
    }

    /// Sources that nobody needs any more, in the order of their packets.
    pub fn into_sources(self) -> impl Iterator<Item = Token> {
        self.tx.replay.into_sources()
    }

    /// Whether the peer has said goodbye: it wants nothing any more.
    pub fn is_finished(&self) -> bool {
        self.rx.goodbye
    }

    /// The peer has just been told how much was received.
    fn acknowledged_now(&mut self) {
        let (every, rx) = (self.sizes.acknowledge_every(), &mut self.rx);
        rx.acknowledge_at = match rx.received + every {
            _ if every == 0 => u64::MAX,
            regular if rx.awaited > rx.received => regular.min(rx.awaited),
            regular => regular,
        };
    }
}

impl Conn {
    /// A connection over an authenticated stream, the first of its pair. Tokens of `Posted` packets count up from `tokens`.
    pub fn new(stream: impl Into<Stream>, sizes: Sizes, tokens: Token) -> Conn {
        Conn { stream: stream.into(), link: Link::new(sizes, tokens), watched_for_writing: false }
    }

    /// Goes on with `link` over an authenticated stream, at the other end of which the peer has received so many bytes.
    pub fn resume(stream: Stream, mut link: Link, received: u64) -> Result<Conn, WrongPosition> {
        link.tx.replay.resume(received)?;
        link.tx.full = !link.tx.replay.is_taken();
        link.tx.broken = None;
        link.acknowledged_now();
        Ok(Conn { stream, link, watched_for_writing: false })
    }

    /// Gives the connection up and keeps the link.
    pub fn into_link(self) -> Link {
        self.link
    }

    /// The link that it carries.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// The next source that is no longer in use.
    pub fn pop_sent(&mut self) -> Option<Token> {
        self.link.tx.replay.pop_over()
    }

    /// Its descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.fd()
    }

    /// Its socket.
    pub fn socket(&self) -> &TcpStream {
        self.stream.socket()
    }

    /// Whether something waits until the kernel takes more.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.link.tx.full
    }

    /// Why nothing can be sent any more.
    pub fn send_error(&self) -> Option<&str> {
        self.link.tx.broken.as_deref()
    }
}

#[cfg(test)]
mod tests;
