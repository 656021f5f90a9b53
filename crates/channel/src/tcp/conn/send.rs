//! The sending half of a connection.

use super::replay::Run;
use super::{Conn, Front, Link, Sender, Sizes, would_block};
use crate::buffer::SendBuf;
use crate::tcp::frame::{self, FRAME_BYTES};
use crate::tcp::stream::Stream;
use protocol::kind::{BODY_MAX, Kind};
use protocol::transport::Outcome;
use protocol::wire::Header;
use std::io;
use sys::sock::{self, Piece};

/// What the kernel takes into one buffer, from which the network device makes segments.
const BUFFER_BYTES: usize = 65_200;

impl Sizes {
    /// Whether the payload of a packet stays in the program's memory until it is acknowledged.
    #[inline]
    pub(super) fn is_held(&self, kind: Kind, len: usize) -> bool {
        len > self.eager_max && self.replay_max > 0 && kind.info().lands
    }

    /// Whether the sender of a packet waits for its acknowledgement.
    #[inline]
    pub(super) fn is_awaited(&self, kind: Kind, len: usize) -> bool {
        self.is_held(kind, len) || kind == Kind::GOODBYE && self.replay_max > 0
    }
}

impl Conn {
    /// Sends a packet. `Again` also once the connection is broken: the next poll tells.
    #[inline]
    pub fn send(&mut self, header: &Header, body: &[u8], source: Option<(&SendBuf, usize, usize)>) -> Outcome {
        let len = source.map_or(0, |(_, _, len)| len);
        if self.link.tx.full || !self.link.has_room(body.len() + len, header.kind) {
            return Outcome::Again;
        }
        let front = Front::new(header, body, len, self.link.tx.sequence);
        let sent = match push(&mut self.stream, self.link.sizes.write_max, &front, source) {
            Ok(n) => n,
            Err(error) => {
                self.refused(&error);
                return Outcome::Again;
            }
        };
        self.link.tx.sequence = self.link.tx.sequence.wrapping_add(1);
        let outcome = self.link.keep(header.kind, &front, sent, source);
        self.link.tx.full |= self.stream.has_unsent();
        outcome
    }

    /// Sends a frame that acknowledges all that was received.
    #[cold]
    pub(super) fn acknowledge(&mut self) {
        self.link.acknowledged_now();
        let Link { rx, tx, .. } = &mut self.link;
        tx.replay.copy(&frame::acknowledgement(rx.received, tx.sequence));
        tx.sequence = tx.sequence.wrapping_add(1);
        if !tx.full {
            self.push_kept();
        }
    }

    /// The kernel took nothing.
    #[cold]
    fn refused(&mut self, error: &io::Error) {
        self.link.tx.full = true;
        if !would_block(error) {
            self.link.tx.broken = Some(error.to_string());
        }
    }

    /// Goes on with what the kernel had no room for.
    pub fn flush(&mut self) {
        if self.link.tx.full && self.link.tx.broken.is_none() {
            self.push_kept();
        }
    }

    /// Gives the kernel what it takes of the replay buffer.
    fn push_kept(&mut self) {
        let Conn { stream, link, .. } = self;
        let mut pushed = stream.flush();
        while pushed.is_ok()
            && let Some(run) = link.tx.replay.next()
        {
            pushed = push_run(stream, link.sizes.write_max, run).map(|n| link.taken(n));
        }
        match pushed {
            Ok(()) => link.tx.full = stream.has_unsent(),
            Err(error) => self.refused(&error),
        }
    }

    /// Whether the kernel has taken everything, or never will.
    pub fn is_flushed(&self) -> bool {
        self.link.tx.broken.is_some() || self.link.tx.replay.is_taken() && !self.stream.has_unsent()
    }
}

fn push_run(stream: &mut Stream, write_max: usize, run: Run<'_>) -> io::Result<usize> {
    const NONE: Front = Front { bytes: [0; FRAME_BYTES + BODY_MAX], len: 0 };
    match run {
        // SAFETY: the piece is part of the replay buffer.
        Run::Copied(bytes) => unsafe { stream.send(&[Piece::new(bytes.as_ptr(), bytes.len())]) },
        Run::Held(source, from, len) => {
            let most = piece(stream, write_max, len);
            push_piece(stream, &NONE, 0, Some((source, from, len)), most)
        }
    }
}

/// Gives the kernel what it takes of `front` and source, in pieces of [`Sizes::write_max`] bytes.
///
/// [`Sizes::write_max`]: super::Sizes::write_max
fn push(
    stream: &mut Stream,
    write_max: usize,
    front: &Front,
    source: Option<(&SendBuf, usize, usize)>,
) -> io::Result<usize> {
    let left = front.len + source.map_or(0, |(_, _, len)| len);
    let most = piece(stream, write_max, left);
    let mut pushed = push_piece(stream, front, 0, source, most)?;
    while pushed < left {
        match push_piece(stream, front, pushed, source, most) {
            Ok(n) => pushed += n,
            // An error that lasts comes again.
            Err(_) => break,
        }
    }
    Ok(pushed)
}

/// How much of `left` bytes the kernel is given at once. Segments grow with the connection's window.
#[inline]
fn piece(stream: &Stream, write_max: usize, left: usize) -> usize {
    let (most, around) = stream.write_limits(write_max);
    if left + around <= most {
        return left;
    }
    sock::segment_bytes(stream.fd()).map_or(most, |segment| whole_segments(most, segment)) - around
}

fn push_piece(
    stream: &mut Stream,
    front: &Front,
    sent: usize,
    source: Option<(&SendBuf, usize, usize)>,
    most: usize,
) -> io::Result<usize> {
    let first = &front.bytes[sent.min(front.len)..front.len];
    let room = most.saturating_sub(first.len());
    let first = Piece::new(first.as_ptr(), first.len());
    let Some((source, from, len)) = source.filter(|(_, _, len)| *len > 0) else {
        // SAFETY: the piece is part of `front`.
        return unsafe { stream.send(&[first]) };
    };
    let skip = sent.saturating_sub(front.len);
    let now = (len - skip).min(room);
    if let Some(at) = source.as_contiguous(from + skip) {
        // SAFETY: the source's bytes are readable (contract of `SendBuf`), `first` is part of `front`.
        return unsafe { stream.send(&[first, Piece::new(at, now)]) };
    }
    let mut packed = Vec::with_capacity(now);
    // SAFETY: capacity was reserved; `copy_out` writes all of it because the range is inside the message.
    unsafe {
        source.copy_out(from + skip, packed.as_mut_ptr(), now);
        packed.set_len(now);
        stream.send(&[first, Piece::new(packed.as_ptr(), packed.len())])
    }
}

impl Link {
    /// Whether the replay buffer takes a packet with so many bytes behind the frame.
    #[inline]
    fn has_room(&self, len: usize, kind: Kind) -> bool {
        let copied = self.tx.replay.copied();
        let more = FRAME_BYTES + if self.sizes.is_held(kind, len) { BODY_MAX } else { len };
        copied == 0 || copied + more <= self.sizes.replay_max
    }

    /// Keeps a packet of which the kernel has taken the first `sent` bytes.
    #[inline]
    fn keep(&mut self, kind: Kind, front: &Front, sent: usize, source: Option<(&SendBuf, usize, usize)>) -> Outcome {
        let Sender { replay, full, token, .. } = &mut self.tx;
        // Without reconnects only what the kernel has not taken.
        let skip = if self.sizes.replay_max == 0 { sent } else { 0 };
        if skip > 0 {
            replay.forget(skip);
        }
        replay.copy(&front.bytes[skip.min(front.len)..front.len]);
        let mut outcome = Outcome::Done;
        if let Some((source, from, len)) = source {
            let is_large = front.len - FRAME_BYTES + len > self.sizes.eager_max && kind.info().lands;
            let skip = skip.saturating_sub(front.len);
            let (from, len) = (from + skip, len - skip);
            if is_large && len > 0 {
                replay.hold(source, from, len, *token);
                outcome = Outcome::Posted(*token);
                token.0 += 1;
            } else {
                replay.copy_source(source, from, len);
            }
        }
        replay.take(sent - skip);
        *full = !replay.is_taken();
        outcome
    }

    /// The kernel has taken `len` bytes more of the replay buffer.
    fn taken(&mut self, len: usize) {
        self.tx.replay.take(len);
        if self.sizes.replay_max == 0 {
            self.tx.replay.acknowledge_taken();
        }
    }
}

impl Front {
    #[inline]
    fn new(header: &Header, body: &[u8], len: usize, sequence: u32) -> Front {
        let mut bytes = [0; FRAME_BYTES + BODY_MAX];
        bytes[..FRAME_BYTES].copy_from_slice(&frame::encode(header, body.len() + len, sequence));
        bytes[FRAME_BYTES..FRAME_BYTES + body.len()].copy_from_slice(body);
        Front { bytes, len: FRAME_BYTES + body.len() }
    }
}

/// The largest number of bytes up to `most` that fills the kernel's buffers with whole segments: what is left over would travel in a segment and
/// a buffer of its own, which takes as long as a full one.
pub(super) fn whole_segments(most: usize, segment: usize) -> usize {
    let buffer = segment * (BUFFER_BYTES / segment).max(1);
    [buffer, segment].into_iter().find(|unit| *unit <= most).map_or(most, |unit| most - most % unit)
}
