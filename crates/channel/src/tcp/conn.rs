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

use super::frame::{self, FRAME_BYTES};
use crate::buffer::{RecvBuf, SendBuf};
use protocol::fabric::{Delivery, Outcome};
use protocol::wire::{BODY_BYTES, Header, Kind};
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use sys::sock::{self, Piece};

/// Sizes of a connection; equal on all ranks of the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Largest payload of a packet that isn't `Data`.
    pub eager_max: usize,
    /// Largest payload of `Data`.
    pub packet_max: usize,
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
    bytes: [u8; FRAME_BYTES + BODY_BYTES],
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

// Sending.
impl Conn {
    /// Sends a packet.
    #[inline]
    pub fn send(&mut self, header: &Header, body: &[u8], source: Option<(&SendBuf, usize, usize)>) -> Outcome {
        if self.tx.full {
            return self.send_when_full(header, body, source);
        }
        if header.kind == Kind::Data && !self.tx.finished.is_empty() && self.take_finished(header, body, source) {
            return Outcome::Done;
        }
        let len = source.map_or(0, |(_, _, len)| len);
        let front = Front::new(header, body, len, self.tx.sequence);
        let sent = match self.push(&front, 0, source) {
            Ok(n) => n,
            Err(error) if would_block(&error) => {
                self.tx.full = true;
                return Outcome::Again;
            }
            Err(error) => {
                self.tx.broken = Some(error.to_string());
                self.tx.full = true;
                return Outcome::Lost;
            }
        };
        self.tx.sequence = self.tx.sequence.wrapping_add(1);
        if sent == front.len + len {
            return Outcome::Done;
        }
        self.tx.full = true;
        match source {
            Some((source, from, len)) if header.kind == Kind::Data => {
                let id = data_id(header, body, len);
                self.tx.started = Some(Box::new(Started { id, source: source.clone(), from, len, front, sent }));
                Outcome::Again
            }
            _ => {
                self.keep_rest(&front, sent, source);
                Outcome::Done
            }
        }
    }

    #[cold]
    fn send_when_full(&mut self, header: &Header, body: &[u8], source: Option<(&SendBuf, usize, usize)>) -> Outcome {
        match () {
            () if self.tx.broken.is_some() => Outcome::Lost,
            () if header.kind == Kind::Data && self.take_finished(header, body, source) => Outcome::Done,
            () => Outcome::Again,
        }
    }

    fn take_finished(&mut self, header: &Header, body: &[u8], source: Option<(&SendBuf, usize, usize)>) -> bool {
        let id = data_id(header, body, source.map_or(0, |(_, _, len)| len));
        match self.tx.finished.iter().position(|f| *f == id) {
            Some(at) => {
                self.tx.finished.swap_remove(at);
                true
            }
            None => false,
        }
    }

    /// Gives the kernel what it takes of `front` and source from byte `sent` of both on.
    fn push(&mut self, front: &Front, sent: usize, source: Option<(&SendBuf, usize, usize)>) -> io::Result<usize> {
        let first = &front.bytes[sent.min(front.len)..front.len];
        let first = Piece::new(first.as_ptr(), first.len());
        let Some((source, from, len)) = source.filter(|(_, _, len)| *len > 0) else {
            // SAFETY: the piece is part of `front`.
            return unsafe { sock::send(self.stream.as_fd(), &[first]) };
        };
        let skip = sent.saturating_sub(front.len);
        if let Some(at) = source.as_contiguous(from + skip) {
            // SAFETY: the source's bytes are readable (contract of `SendBuf`), `first` is part of `front`.
            return unsafe { sock::send(self.stream.as_fd(), &[first, Piece::new(at, len - skip)]) };
        }
        let mut packed = Vec::with_capacity(len - skip);
        // SAFETY: capacity was reserved; `copy_out` writes all of it because the range is inside the message.
        unsafe {
            source.copy_out(from + skip, packed.as_mut_ptr(), len - skip);
            packed.set_len(len - skip);
            sock::send(self.stream.as_fd(), &[first, Piece::new(packed.as_ptr(), packed.len())])
        }
    }

    /// Copies what the kernel has not taken.
    #[cold]
    fn keep_rest(&mut self, front: &Front, sent: usize, source: Option<(&SendBuf, usize, usize)>) {
        let queue = &mut self.tx.queue;
        queue.extend_from_slice(&front.bytes[sent.min(front.len)..front.len]);
        if let Some((source, from, len)) = source {
            let skip = sent.saturating_sub(front.len);
            queue.reserve(len - skip);
            // SAFETY: room was reserved; the range is inside the message, so all of it is written.
            unsafe {
                source.copy_out(from + skip, queue.as_mut_ptr().add(queue.len()), len - skip);
                queue.set_len(queue.len() + len - skip);
            }
        }
    }

    /// Goes on with what the kernel had no room for. True if anything left.
    pub fn flush(&mut self) -> bool {
        if !self.tx.full || self.tx.broken.is_some() {
            return false;
        }
        match self.flush_some() {
            Ok(moved) => moved,
            Err(error) if would_block(&error) => false,
            Err(error) => {
                self.tx.broken = Some(error.to_string());
                true
            }
        }
    }

    fn flush_some(&mut self) -> io::Result<bool> {
        let waiting = &self.tx.queue[self.tx.queue_at..];
        if !waiting.is_empty() {
            // SAFETY: the piece is part of the queue.
            let n = unsafe { sock::send(self.stream.as_fd(), &[Piece::new(waiting.as_ptr(), waiting.len())]) }?;
            self.tx.queue_at += n;
            if self.tx.queue_at < self.tx.queue.len() {
                return Ok(n > 0);
            }
            (self.tx.queue, self.tx.queue_at) = (Vec::new(), 0);
        }
        if let Some(mut started) = self.tx.started.take() {
            let result = self.push(&started.front, started.sent, Some((&started.source, started.from, started.len)));
            started.sent += *result.as_ref().unwrap_or(&0);
            if started.sent < started.front.len + started.len {
                self.tx.started = Some(started);
                return result.map(|n| n > 0);
            }
            self.tx.finished.push(started.id);
        }
        self.tx.full = false;
        Ok(true)
    }

    /// Whether the queues are empty.
    pub fn is_flushed(&self) -> bool {
        self.tx.broken.is_some() || (self.tx.queue_at == self.tx.queue.len() && self.tx.started.is_none())
    }
}

impl Front {
    #[inline]
    fn new(header: &Header, body: &[u8], len: usize, sequence: u32) -> Front {
        let mut bytes = [0; FRAME_BYTES + BODY_BYTES];
        bytes[..FRAME_BYTES].copy_from_slice(&frame::encode(header, body.len() + len, sequence));
        bytes[FRAME_BYTES..FRAME_BYTES + body.len()].copy_from_slice(body);
        Front { bytes, len: FRAME_BYTES + body.len() }
    }
}

fn data_id(header: &Header, body: &[u8], len: usize) -> DataId {
    (header.token, body.try_into().unwrap_or_default(), len)
}

// Receiving.
impl Conn {
    /// The next packet or landed payload.
    #[inline]
    pub fn poll(&mut self) -> Polled {
        debug_assert!(self.rx.shown.is_none(), "the last packet was not released");
        loop {
            if self.rx.landing.is_some() || self.rx.skip > 0 {
                if let Some(polled) = self.poll_landing() {
                    return polled;
                }
                continue;
            }
            match self.parse() {
                Ok(Some((header, len))) => return Polled::Packet(header, len),
                Ok(None) => {}
                Err(end) => return Polled::Ended(end),
            }
            match self.fill() {
                Ok(true) => {}
                Ok(false) => return Polled::Nothing,
                Err(end) => return Polled::Ended(end),
            }
        }
    }

    /// Shows the packet at the front of the buffer if enough of it is there.
    #[inline]
    fn parse(&mut self) -> Result<Option<(Header, usize)>, End> {
        let rx = &mut self.rx;
        let have = rx.end - rx.start;
        let Some(front) = rx.buffer[rx.start..rx.end].first_chunk::<FRAME_BYTES>() else { return Ok(None) };
        let (header, len) = frame::decode(front, rx.sequence, self.sizes.packet_max)
            .map_err(|corrupt| End::Broken(format!("it sent {corrupt}")))?;
        let present = len.min(have - FRAME_BYTES);
        if present < len {
            if header.kind != Kind::Data && len > self.sizes.eager_max {
                return Err(End::Broken(format!("it sent {}", frame::Corrupt::Oversized(len as u32))));
            }
            // A small packet is shown when it is complete, `Data` as soon as it is known where it goes.
            if header.kind != Kind::Data || present < size_of::<u64>() {
                return Ok(None);
            }
        }
        rx.sequence = rx.sequence.wrapping_add(1);
        rx.bulk = header.kind == Kind::Data && len > AHEAD_BYTES;
        if header.kind == Kind::Goodbye {
            rx.goodbye = true;
            rx.start += FRAME_BYTES + present;
            rx.skip = len - present;
            return Ok(None);
        }
        rx.shown = Some(Shown { at: rx.start + FRAME_BYTES, present, missing: len - present });
        Ok(Some((header, len)))
    }

    /// Reads once into the buffer. False if nothing was there.
    #[inline]
    fn fill(&mut self) -> Result<bool, End> {
        let limit = self.make_room();
        let rx = &mut self.rx;
        // SAFETY: `make_room` left `limit` initialised bytes behind `end`.
        let piece = Piece::new(unsafe { rx.buffer.as_ptr().add(rx.end) }, limit);
        // SAFETY: the piece is part of our buffer, to which no reference lives.
        match unsafe { sock::receive(self.stream.as_fd(), &[piece]) } {
            Ok(0) => Err(self.ended("it closed the connection")),
            Ok(n) => {
                self.rx.end += n;
                Ok(true)
            }
            Err(error) if would_block(&error) => Ok(false),
            Err(error) => Err(self.ended(&error.to_string())),
        }
    }

    fn ended(&self, why: &str) -> End {
        let rx = &self.rx;
        if rx.goodbye && rx.landing.is_none() && rx.start == rx.end { End::Goodbye } else { End::Broken(why.into()) }
    }

    /// Makes room behind the buffered bytes; how many bytes to read now.
    #[inline]
    fn make_room(&mut self) -> usize {
        let capacity = FRAME_BYTES + self.sizes.eager_max + AHEAD_BYTES;
        let rx = &mut self.rx;
        if rx.buffer.is_empty() {
            rx.buffer = vec![0; capacity];
        }
        if rx.start == rx.end {
            (rx.start, rx.end) = (0, 0);
        } else if capacity - rx.start < FRAME_BYTES + self.sizes.eager_max {
            rx.buffer.copy_within(rx.start..rx.end, 0);
            (rx.start, rx.end) = (0, rx.end - rx.start);
        }
        let room = capacity - rx.end;
        if rx.bulk { room.min(AHEAD_BYTES) } else { room }
    }

    /// Moves a landing payload on. None if the caller should look at what follows.
    fn poll_landing(&mut self) -> Option<Polled> {
        if self.rx.skip > 0 {
            let dropped = self.rx.skip.min(self.rx.end - self.rx.start);
            self.rx.start += dropped;
            self.rx.skip -= dropped;
            if self.rx.skip > 0 {
                return self.fill_or_report();
            }
        }
        loop {
            let landing = self.rx.landing.as_ref()?;
            if landing.left == 0 {
                let (header, len) = (landing.header, landing.len);
                self.rx.skip = landing.trailing;
                self.rx.landing = None;
                return Some(Polled::Landed(header, len));
            }
            let result = match landing.sink.as_contiguous(landing.at) {
                Some(at) => self.land(at),
                None => self.land_spread(),
            };
            match result {
                Ok(true) => {}
                Ok(false) => return Some(Polled::Nothing),
                Err(end) => {
                    self.rx.landing = None;
                    return Some(Polled::Ended(end));
                }
            }
        }
    }

    fn fill_or_report(&mut self) -> Option<Polled> {
        match self.fill() {
            Ok(true) => None,
            Ok(false) => Some(Polled::Nothing),
            Err(end) => Some(Polled::Ended(end)),
        }
    }

    /// Reads straight into the sink, and what follows into the buffer.
    fn land(&mut self, at: *mut u8) -> Result<bool, End> {
        let ahead = self.make_room();
        let rx = &mut self.rx;
        let Some(landing) = &mut rx.landing else { return Ok(false) };
        debug_assert_eq!(rx.start, rx.end, "the buffer was delivered first");
        let room = landing.sink.len() - landing.at;
        let pieces = [Piece::new(at, landing.left.min(room)), Piece::new(rx.buffer.as_ptr(), ahead.min(AHEAD_BYTES))];
        // SAFETY: `at` has room for the bytes asked for (contract of `RecvBuf`; cut to its length), the second piece is
        // the start of our empty buffer.
        match unsafe { sock::receive(self.stream.as_fd(), &pieces) } {
            Ok(0) => Err(self.ended("it closed the connection in the middle of a message")),
            Ok(n) => {
                let direct = n.min(landing.left);
                landing.at += direct;
                landing.left -= direct;
                rx.end += n - direct;
                Ok(true)
            }
            Err(error) if would_block(&error) => Ok(false),
            Err(error) => Err(self.ended(&error.to_string())),
        }
    }

    /// Through the buffer into a sink that is not contiguous.
    fn land_spread(&mut self) -> Result<bool, End> {
        self.rx.bulk = false;
        if !self.fill()? {
            return Ok(false);
        }
        let rx = &mut self.rx;
        let Some(landing) = &mut rx.landing else { return Ok(false) };
        let n = landing.left.min(rx.end - rx.start);
        // SAFETY: `n` bytes lie at `start` of the buffer.
        unsafe { landing.sink.copy_in(landing.at, rx.buffer.as_ptr().add(rx.start), n) };
        rx.start += n;
        landing.at += n;
        landing.left -= n;
        Ok(true)
    }

    /// The first bytes of the shown packet's payload.
    #[inline]
    pub fn body<const N: usize>(&self) -> Option<[u8; N]> {
        let shown = self.rx.shown?;
        self.rx.buffer.get(shown.at..shown.at + shown.present)?.first_chunk::<N>().copied()
    }

    /// Moves payload bytes `skip .. skip + len` of the shown packet to `sink` at `at`.
    #[inline]
    pub fn deliver(
        &mut self,
        header: Header,
        skip: usize,
        (sink, at, len): (&RecvBuf, usize, usize),
        may_land: bool,
    ) -> Delivery {
        let Some(shown) = self.rx.shown else { return Delivery::Complete };
        let here = len.min(shown.present.saturating_sub(skip));
        // SAFETY: `at + skip + here` is inside the buffered part of the payload.
        unsafe { sink.copy_in(at, self.rx.buffer.as_ptr().add(shown.at + skip), here) };
        if here == len || shown.missing == 0 {
            return Delivery::Complete;
        }
        self.deliver_rest(header, skip, (sink, at, len), here, may_land)
    }

    fn deliver_rest(
        &mut self,
        header: Header,
        skip: usize,
        (sink, at, len): (&RecvBuf, usize, usize),
        here: usize,
        may_land: bool,
    ) -> Delivery {
        let Some(shown) = &mut self.rx.shown else { return Delivery::Complete };
        // What lies between the buffered bytes and the wanted ones is never asked for by the engine.
        let left = (len - here).min(shown.missing);
        let fits = skip <= shown.present && at.checked_add(len).is_some_and(|end| end <= sink.len());
        if may_land && fits {
            let trailing = shown.missing - left;
            shown.missing = 0;
            self.rx.landing = Some(Landing { sink: sink.clone(), at: at + here, left, trailing, header, len });
            return Delivery::Landing;
        }
        let rest = self.wait_for_rest();
        let from = (skip + here).saturating_sub(self.rx.shown.map_or(0, |s| s.present)).min(rest.len());
        // SAFETY: the range is inside `rest`.
        unsafe { sink.copy_in(at + here, rest[from..].as_ptr(), left.min(rest.len() - from)) };
        Delivery::Complete
    }

    /// A copy of the shown packet's payload.
    pub fn stash(&mut self) -> Box<[u8]> {
        let Some(shown) = self.rx.shown else { return Box::default() };
        let mut copy = self.rx.buffer[shown.at..shown.at + shown.present].to_vec();
        if shown.missing > 0 {
            copy.extend_from_slice(&self.wait_for_rest());
        }
        copy.into_boxed_slice()
    }

    /// Waits for what is missing of the shown packet. The engine only makes us do so for packets that it can't place.
    #[cold]
    fn wait_for_rest(&mut self) -> Vec<u8> {
        let Some(shown) = &mut self.rx.shown else { return Vec::new() };
        let mut rest = vec![0; std::mem::take(&mut shown.missing)];
        let mut have = 0;
        while have < rest.len() {
            let piece = Piece::new(rest[have..].as_mut_ptr(), rest.len() - have);
            // SAFETY: the piece is the unfilled part of `rest`.
            match unsafe { sock::receive(self.stream.as_fd(), &[piece]) } {
                Ok(0) => break,
                Ok(n) => have += n,
                Err(error) if would_block(&error) => {
                    let _ = sock::wait_one(self.stream.as_fd(), true, false, 1000);
                }
                Err(_) => break,
            }
        }
        // On an early end the next poll sees the same end of the stream.
        rest.truncate(have);
        rest
    }

    /// Gives the shown packet's room back.
    #[inline]
    pub fn release(&mut self) {
        if let Some(shown) = self.rx.shown.take() {
            self.rx.start = shown.at + shown.present;
            self.rx.skip = shown.missing;
        }
    }

    /// Reads and drops what is there; whether the stream has ended. For closing.
    pub fn drain(&mut self) -> bool {
        self.rx.shown = None;
        self.rx.landing = None;
        let mut bytes = [0u8; 16 << 10];
        loop {
            // SAFETY: `bytes` is ours.
            match unsafe { sock::receive(self.stream.as_fd(), &[Piece::new(bytes.as_mut_ptr(), bytes.len())]) } {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return !would_block(&error),
            }
        }
    }
}

#[cfg(test)]
#[path = "conn_tests.rs"]
mod tests;
