//! The receiving half of a connection.

use super::{AHEAD_BYTES, Conn, End, Landing, Polled, Shown, would_block};
use crate::buffer::RecvBuf;
use crate::tcp::frame::{self, FRAME_BYTES};
use protocol::kind::Kind;
use protocol::transport::Delivery;
use protocol::wire::Header;
use std::os::fd::AsFd;
use sys::sock::{self, Piece};

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
            if header.kind != Kind::DATA && len > self.sizes.eager_max {
                return Err(End::Broken(format!("it sent {}", frame::Corrupt::Oversized(len as u32))));
            }
            // A small packet is shown when it is complete, `Data` as soon as it is known where it goes.
            if header.kind != Kind::DATA || present < size_of::<u64>() {
                return Ok(None);
            }
        }
        rx.sequence = rx.sequence.wrapping_add(1);
        rx.bulk = header.kind == Kind::DATA && len > AHEAD_BYTES;
        if header.kind == Kind::GOODBYE {
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

    /// Gives the shown packet's payload from `skip` on to `take`, in one or two pieces.
    pub fn stash(&mut self, skip: usize, mut take: impl FnMut(&[u8])) {
        let Some(shown) = self.rx.shown else { return };
        take(self.rx.buffer[shown.at..shown.at + shown.present].get(skip..).unwrap_or_default());
        if shown.missing > 0 {
            take(self.wait_for_rest().get(skip.saturating_sub(shown.present)..).unwrap_or_default());
        }
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
