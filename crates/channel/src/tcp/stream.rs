//! The bytes of one connection, bare or in records (`record.rs`).
//!
//! Protected, bytes are copied into a record, sealed there and given to the kernel; what it doesn't take waits here, at most one record, and
//! until it has gone nothing more is taken. What has come is opened in a buffer of the largest record's size, and copied out of it.

use super::record::{self, AROUND_BYTES, HEADER_BYTES, NotGenuine, RECORD_MAX, Seals, TAG_BYTES};
use std::io;
use std::net::TcpStream;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use sys::sock::{self, Piece};

/// A connection's stream of bytes.
pub enum Stream {
    /// As the kernel carries it.
    Plain(TcpStream),
    /// In records.
    Sealed(Box<Sealed>),
}

/// A stream in records.
pub struct Sealed {
    stream: TcpStream,
    seals: Seals,
    /// The last record, and how much of it the kernel has.
    out: Vec<u8>,
    sent: usize,
    /// What has come: data of the record that was opened last, then what follows it up to `end`.
    buffer: Vec<u8>,
    opened: Range<usize>,
    start: usize,
    end: usize,
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Stream {
        Stream::Plain(stream)
    }
}

impl Stream {
    /// A stream whose records `seals` protects.
    pub fn sealed(stream: TcpStream, seals: Seals) -> Stream {
        let (out, buffer) = (Vec::new(), Vec::new());
        Stream::Sealed(Box::new(Sealed { stream, seals, out, sent: 0, buffer, opened: 0..0, start: 0, end: 0 }))
    }

    /// The socket.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(stream) => stream,
            Stream::Sealed(sealed) => &sealed.stream,
        }
    }

    /// Its descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }

    /// Most bytes that the kernel is given at once, and how many of them are not the caller's.
    pub fn write_limits(&self, most: usize) -> (usize, usize) {
        match self {
            Stream::Plain(_) => (most, 0),
            Stream::Sealed(_) => (most.clamp(AROUND_BYTES + 1, RECORD_MAX), AROUND_BYTES),
        }
    }

    /// Takes what there is room for, without waiting.
    ///
    /// # Safety
    /// Each piece must be readable memory for the call.
    #[inline]
    pub unsafe fn send(&mut self, pieces: &[Piece]) -> io::Result<usize> {
        // SAFETY: promised by the caller.
        unsafe {
            match self {
                Stream::Plain(stream) => sock::send(stream.as_fd(), pieces),
                Stream::Sealed(sealed) => sealed.send(pieces),
            }
        }
    }

    /// Receives what is there into `pieces`, without waiting; 0 is the end of the stream. A record that is not genuine is an error that
    /// [`is_not_genuine`] knows.
    ///
    /// # Safety
    /// Each piece must be writable memory that nobody holds a reference to for the call.
    #[inline]
    pub unsafe fn receive(&mut self, pieces: &[Piece]) -> io::Result<usize> {
        // SAFETY: promised by the caller.
        unsafe {
            match self {
                Stream::Plain(stream) => sock::receive(stream.as_fd(), pieces),
                Stream::Sealed(sealed) => sealed.receive(pieces),
            }
        }
    }

    /// Whether bytes were taken that the kernel doesn't have.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        match self {
            Stream::Plain(_) => false,
            Stream::Sealed(sealed) => sealed.sent < sealed.out.len(),
        }
    }

    /// Gives the kernel what it doesn't have; an error if it doesn't take all of that.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(_) => Ok(()),
            Stream::Sealed(sealed) => sealed.flush(),
        }
    }
}

/// Whether an error only says that the kernel has nothing, or no room.
pub(super) fn would_block(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Whether an error of [`Stream::receive`] says that a record was not genuine.
pub fn is_not_genuine(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<NotGenuine>())
}

impl Sealed {
    /// See [`Stream::send`].
    unsafe fn send(&mut self, pieces: &[Piece]) -> io::Result<usize> {
        self.flush()?;
        self.out.clear();
        self.out.extend_from_slice(&[0; HEADER_BYTES]);
        for piece in pieces {
            let len = piece.len().min(RECORD_MAX - TAG_BYTES - self.out.len());
            if len > 0 {
                // SAFETY: the piece is readable, as the caller promises, and nothing else runs meanwhile.
                self.out.extend_from_slice(unsafe { std::slice::from_raw_parts(piece.as_ptr(), len) });
            }
        }
        let taken = self.out.len() - HEADER_BYTES;
        if taken == 0 {
            self.out.clear();
            return Ok(0);
        }
        self.seals.seal(&mut self.out);
        self.sent = 0;
        match self.flush() {
            Err(error) if !would_block(&error) => Err(error),
            _ => Ok(taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.out.len() {
            let left = &self.out[self.sent..];
            // SAFETY: the piece is part of our record.
            self.sent += unsafe { sock::send(self.stream.as_fd(), &[Piece::new(left.as_ptr(), left.len())]) }?;
        }
        Ok(())
    }

    /// See [`Stream::receive`].
    unsafe fn receive(&mut self, pieces: &[Piece]) -> io::Result<usize> {
        while self.opened.is_empty() {
            if self.open_next()? {
                continue;
            }
            let rest = &mut self.buffer[self.end..];
            // SAFETY: the piece is part of our buffer, to which no reference is in use.
            match unsafe { sock::receive(self.stream.as_fd(), &[Piece::new(rest.as_mut_ptr(), rest.len())]) }? {
                0 => return Ok(0),
                n => self.end += n,
            }
        }
        let mut got = 0;
        for piece in pieces {
            let len = piece.len().min(self.opened.len());
            // SAFETY: the piece is writable, as the caller promises, and not part of our buffer.
            unsafe {
                std::ptr::copy_nonoverlapping(self.buffer[self.opened.start..].as_ptr(), piece.as_ptr().cast_mut(), len)
            };
            self.opened.start += len;
            got += len;
        }
        Ok(got)
    }

    /// Opens the next record if it is there. If not, there is room behind `end`.
    fn open_next(&mut self) -> io::Result<bool> {
        let wrong = |error: NotGenuine| io::Error::new(io::ErrorKind::InvalidData, error);
        let here = self.end - self.start;
        let length = record::length(&self.buffer[self.start..self.end]).map_err(wrong)?;
        if let Some(length) = length.filter(|length| *length <= here) {
            let record = self.start..self.start + length;
            self.start = record.end;
            self.seals.open(&mut self.buffer[record.clone()]).map_err(wrong)?;
            self.opened = record.start + HEADER_BYTES..record.end - TAG_BYTES;
            return Ok(true);
        }
        if self.buffer.is_empty() {
            self.buffer = vec![0; RECORD_MAX];
        }
        if here == 0 || RECORD_MAX - self.start < length.unwrap_or(RECORD_MAX) {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, here);
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests;
