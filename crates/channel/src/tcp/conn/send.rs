//! The sending half of a connection.

use super::{Conn, DataId, Front, Started, would_block};
use crate::buffer::SendBuf;
use crate::tcp::frame::{self, FRAME_BYTES};
use protocol::kind::{BODY_MAX, Kind};
use protocol::transport::Outcome;
use protocol::wire::Header;
use std::io;
use std::os::fd::AsFd;
use sys::sock::{self, Piece};

/// What the kernel takes into one buffer, from which the network device makes segments.
const BUFFER_BYTES: usize = 65_200;

impl Conn {
    /// Sends a packet.
    #[inline]
    pub fn send(&mut self, header: &Header, body: &[u8], source: Option<(&SendBuf, usize, usize)>) -> Outcome {
        if self.tx.full {
            return self.send_when_full(header, body, source);
        }
        if header.kind == Kind::DATA && !self.tx.finished.is_empty() && self.take_finished(header, body, source) {
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
            Some((source, from, len)) if header.kind == Kind::DATA => {
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
            () if header.kind == Kind::DATA && self.take_finished(header, body, source) => Outcome::Done,
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

    /// Gives the kernel what it takes of `front` and source from byte `sent` of both on, in pieces of [`Sizes::write_max`] bytes.
    ///
    /// [`Sizes::write_max`]: super::Sizes::write_max
    fn push(&mut self, front: &Front, sent: usize, source: Option<(&SendBuf, usize, usize)>) -> io::Result<usize> {
        let left = front.len + source.map_or(0, |(_, _, len)| len) - sent;
        let most = if left > self.sizes.write_max { self.piece() } else { left };
        let mut pushed = self.push_piece(front, sent, source, most)?;
        while pushed < left {
            match self.push_piece(front, sent + pushed, source, most) {
                Ok(n) => pushed += n,
                // An error that lasts comes again.
                Err(_) => break,
            }
        }
        Ok(pushed)
    }

    /// How much the kernel is given at once. Segments grow with the connection's window.
    fn piece(&self) -> usize {
        let most = self.sizes.write_max;
        sock::segment_bytes(self.stream.as_fd()).map_or(most, |segment| whole_segments(most, segment))
    }

    fn push_piece(
        &mut self,
        front: &Front,
        sent: usize,
        source: Option<(&SendBuf, usize, usize)>,
        most: usize,
    ) -> io::Result<usize> {
        let first = &front.bytes[sent.min(front.len)..front.len];
        let room = most - first.len();
        let first = Piece::new(first.as_ptr(), first.len());
        let Some((source, from, len)) = source.filter(|(_, _, len)| *len > 0) else {
            // SAFETY: the piece is part of `front`.
            return unsafe { sock::send(self.stream.as_fd(), &[first]) };
        };
        let skip = sent.saturating_sub(front.len);
        let now = (len - skip).min(room);
        if let Some(at) = source.as_contiguous(from + skip) {
            // SAFETY: the source's bytes are readable (contract of `SendBuf`), `first` is part of `front`.
            return unsafe { sock::send(self.stream.as_fd(), &[first, Piece::new(at, now)]) };
        }
        let mut packed = Vec::with_capacity(now);
        // SAFETY: capacity was reserved; `copy_out` writes all of it because the range is inside the message.
        unsafe {
            source.copy_out(from + skip, packed.as_mut_ptr(), now);
            packed.set_len(now);
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

fn data_id(header: &Header, body: &[u8], len: usize) -> DataId {
    (header.token, body.try_into().unwrap_or_default(), len)
}
