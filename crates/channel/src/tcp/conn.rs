//! One open connection: packets in both directions over a stream.
//!
//! Receiving: bytes come into a buffer and packets are parsed in place. The payload of a large `Data` packet goes
//! straight from the kernel into its sink: the packet is shown as soon as its offset is there, and what `deliver` doesn't
//! find in the buffer lands later.
//! Sending: a packet goes from the program's memory to the kernel in one call. If the kernel takes only a part, the rest of a
//! `Data` packet is sent later from where it is — the answer is `Again`, and the engine's identical retry gets
//! `Done` when all has left — and the rest of any other packet is copied, so that queues stay shorter than one eager packet.
//!
//! Invariant: a sink or source is only touched while its operation lives, that is until the engine has been told `Landed`, `Done` or
//! that the peer is lost; after an error nothing is transferred any more.

mod receive;
mod send;

use super::frame::FRAME_BYTES;
use crate::buffer::{RecvBuf, SendBuf};
use protocol::kind::BODY_MAX;
use protocol::wire::Header;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

/// Sizes of a connection; those of packets are equal on all ranks of the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Largest payload of a packet that isn't `Data`.
    pub eager_max: usize,
    /// Largest payload of `Data`.
    pub packet_max: usize,
    /// Most bytes that the kernel is given at once; less if that makes whole segments.
    pub write_max: usize,
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
}

/// What [`Conn::poll`] found.
#[derive(Debug)]
pub enum Polled {
    /// A packet: header and payload length.
    Packet(Header, usize),
    /// All of a landing payload is there: header and delivered bytes.
    Landed(Header, usize),
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
}

/// Identity of a `Data` packet: token, offset, length.
type DataId = (u32, [u8; 8], usize);

struct Started {
    id: DataId,
    source: SendBuf,
    from: usize,
    len: usize,
    front: Front,
    sent: usize,
}

/// Frame and body.
#[derive(Clone, Copy)]
struct Front {
    bytes: [u8; FRAME_BYTES + BODY_MAX],
    len: usize,
}

#[derive(Default)]
struct Sender {
    sequence: u32,
    /// The rest of a packet that the kernel has not taken, from `queue_at` on.
    queue: Vec<u8>,
    queue_at: usize,
    started: Option<Box<Started>>,
    /// `Data` packets that have left since their sender was told `Again`.
    finished: Vec<DataId>,
    /// The kernel did not take everything.
    full: bool,
    broken: Option<String>,
}

/// An open connection to one peer.
pub struct Conn {
    stream: TcpStream,
    sizes: Sizes,
    rx: Receiver,
    tx: Sender,
    /// Token of the descriptor in the epoll set is watched for writing too.
    pub watched_for_writing: bool,
}

fn would_block(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl Conn {
    /// A connection over an authenticated stream.
    pub fn new(stream: TcpStream, sizes: Sizes) -> Conn {
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
        };
        Conn { stream, sizes, rx, tx: Sender::default(), watched_for_writing: false }
    }

    /// Its descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// The stream.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether something waits until the kernel takes more.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.tx.full
    }

    /// Why nothing can be sent any more.
    pub fn send_error(&self) -> Option<&str> {
        self.tx.broken.as_deref()
    }
}

#[cfg(test)]
mod tests;
