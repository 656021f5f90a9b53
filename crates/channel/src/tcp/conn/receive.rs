//! The receiving half of a connection.

use super::{AHEAD_BYTES, Conn, End, Landing, Link, Polled, Shown, would_block};
use crate::buffer::RecvBuf;
use crate::tcp::frame::{self, Corrupt, FRAME_BYTES, Front};
use crate::tcp::stream::is_not_genuine;
use protocol::kind::Kind;
use protocol::transport::Delivery;
use protocol::wire::Header;
use std::io;
use sys::sock::Piece;

impl Conn {
    /// The next packet or landed payload.
    #[inline]
    pub fn poll(&mut self) -> Polled {
        debug_assert!(self.link.rx.shown.is_none(), "the last packet was not released");
        loop {
            self.acknowledge_if_due();
            if let Some(token) = self.pop_sent() {
                return Polled::Sent(token);
            }
            if self.link.rx.landing.is_some() || self.link.rx.skip > 0 {
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
                Ok(false) => return self.nothing(),
                Err(end) => return Polled::Ended(end),
            }
        }
    }

    /// There is nothing to be read; of what was read before, sources may be over.
    fn nothing(&mut self) -> Polled {
        match (self.pop_sent(), &self.link.tx.broken) {
            (Some(token), _) => Polled::Sent(token),
            (None, None) => Polled::Nothing,
            (None, Some(why)) => Polled::Ended(End::Broken(why.clone())),
        }
    }

    /// Shows the packet at the front of the buffer if enough of it is there.
    #[inline]
    fn parse(&mut self) -> Result<Option<(Header, usize)>, End> {
        loop {
            let Link { sizes, rx, .. } = &mut self.link;
            let have = rx.end - rx.start;
            let Some(front) = rx.buffer[rx.start..rx.end].first_chunk::<FRAME_BYTES>() else { return Ok(None) };
            let (header, len) = match frame::decode(front, rx.sequence, sizes.packet_max).map_err(wrong)? {
                Front::Packet(header, len) => (header, len),
                Front::Acknowledgement(received) => {
                    self.on_acknowledgement(received)?;
                    continue;
                }
            };
            let present = len.min(have - FRAME_BYTES);
            if present < len {
                let lands = header.kind.info().lands;
                if !lands && len > sizes.eager_max {
                    return Err(wrong(Corrupt::Oversized(len as u32)));
                }
                // A packet that lands is shown as soon as it is known where it goes, others when they are complete.
                if !lands || present < size_of::<u64>() {
                    return Ok(None);
                }
            }
            rx.sequence = rx.sequence.wrapping_add(1);
            rx.bulk = len > AHEAD_BYTES && header.kind.info().lands;
            if sizes.is_awaited(header.kind, len) {
                rx.awaited = rx.received - (have - FRAME_BYTES) as u64 + len as u64;
                rx.acknowledge_at = rx.acknowledge_at.min(rx.awaited);
                self.acknowledge_if_due();
            }
            let rx = &mut self.link.rx;
            if header.kind == Kind::GOODBYE {
                rx.goodbye = true;
                rx.start += FRAME_BYTES + present;
                rx.skip = len - present;
                if rx.skip > 0 {
                    return Ok(None);
                }
                // Acknowledgements may follow.
                continue;
            }
            rx.shown = Some(Shown { at: rx.start + FRAME_BYTES, present, missing: len - present });
            return Ok(Some((header, len)));
        }
    }

    /// The peer has received so much; its frame is at the front of the buffer.
    fn on_acknowledgement(&mut self, received: u64) -> Result<(), End> {
        let Link { rx, tx, .. } = &mut self.link;
        rx.sequence = rx.sequence.wrapping_add(1);
        rx.start += FRAME_BYTES;
        tx.replay.acknowledge(received).map_err(|_| wrong(Corrupt::Acknowledgement))
    }

    /// Tells the peer how much was received, if enough was or the peer waits for it.
    #[inline]
    fn acknowledge_if_due(&mut self) {
        if self.link.rx.received >= self.link.rx.acknowledge_at {
            self.acknowledge();
        }
    }

    /// Reads once into the buffer. False if nothing was there.
    #[inline]
    fn fill(&mut self) -> Result<bool, End> {
        let limit = self.make_room();
        let rx = &mut self.link.rx;
        // SAFETY: `make_room` left `limit` initialised bytes behind `end`.
        let piece = Piece::new(unsafe { rx.buffer.as_ptr().add(rx.end) }, limit);
        // SAFETY: the piece is part of our buffer, to which no reference lives.
        match unsafe { self.stream.receive(&[piece]) } {
            Ok(0) => Err(self.ended("it closed the connection")),
            Ok(n) => {
                self.link.rx.end += n;
                self.link.rx.received += n as u64;
                Ok(true)
            }
            Err(error) if would_block(&error) => Ok(false),
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn ended(&self, why: &str) -> End {
        let rx = &self.link.rx;
        if rx.goodbye && rx.landing.is_none() && rx.start == rx.end { End::Goodbye } else { End::Broken(why.into()) }
    }

    #[cold]
    fn failed(&self, error: &io::Error) -> End {
        match self.ended(&error.to_string()) {
            End::Broken(why) if is_not_genuine(error) => End::NotGenuine(why),
            end => end,
        }
    }

    /// Makes room behind the buffered bytes; how many bytes to read now.
    #[inline]
    fn make_room(&mut self) -> usize {
        let capacity = FRAME_BYTES + self.link.sizes.eager_max + AHEAD_BYTES;
        let rx = &mut self.link.rx;
        if rx.buffer.is_empty() {
            rx.buffer = vec![0; capacity];
        }
        if rx.start == rx.end {
            (rx.start, rx.end) = (0, 0);
        } else if capacity - rx.start < FRAME_BYTES + self.link.sizes.eager_max {
            rx.buffer.copy_within(rx.start..rx.end, 0);
            (rx.start, rx.end) = (0, rx.end - rx.start);
        }
        let room = capacity - rx.end;
        if rx.bulk { room.min(AHEAD_BYTES) } else { room }
    }

    /// Moves a landing payload on. None if the caller should look at what follows.
    fn poll_landing(&mut self) -> Option<Polled> {
        if self.link.rx.skip > 0 {
            let dropped = self.link.rx.skip.min(self.link.rx.end - self.link.rx.start);
            self.link.rx.start += dropped;
            self.link.rx.skip -= dropped;
            if self.link.rx.skip > 0 {
                return self.fill_or_report();
            }
        }
        loop {
            let landing = self.link.rx.landing.as_ref()?;
            if landing.left == 0 {
                let landing = self.link.rx.landing.take()?;
                self.link.rx.skip = landing.trailing;
                self.acknowledge_if_due();
                return Some(match landing.gathered {
                    Some(payload) => Polled::Gathered(landing.header, payload),
                    None => Polled::Landed(landing.header, landing.len),
                });
            }
            let result = match landing.sink.as_contiguous(landing.at) {
                Some(at) => self.land(at),
                None => self.land_spread(),
            };
            match result {
                Ok(true) => {}
                Ok(false) => return Some(self.nothing()),
                Err(end) => return Some(Polled::Ended(end)),
            }
        }
    }

    fn fill_or_report(&mut self) -> Option<Polled> {
        match self.fill() {
            Ok(true) => None,
            Ok(false) => Some(self.nothing()),
            Err(end) => Some(Polled::Ended(end)),
        }
    }

    /// Reads straight into the sink, and what follows into the buffer.
    fn land(&mut self, at: *mut u8) -> Result<bool, End> {
        let ahead = self.make_room();
        let rx = &mut self.link.rx;
        let Some(landing) = &mut rx.landing else { return Ok(false) };
        debug_assert_eq!(rx.start, rx.end, "the buffer was delivered first");
        let room = landing.sink.len() - landing.at;
        let pieces = [Piece::new(at, landing.left.min(room)), Piece::new(rx.buffer.as_ptr(), ahead.min(AHEAD_BYTES))];
        // SAFETY: `at` has room for the bytes asked for (contract of `RecvBuf`; cut to its length), the second piece is
        // the start of our empty buffer.
        match unsafe { self.stream.receive(&pieces) } {
            Ok(0) => Err(self.ended("it closed the connection in the middle of a message")),
            Ok(n) => {
                let direct = n.min(landing.left);
                landing.at += direct;
                landing.left -= direct;
                rx.end += n - direct;
                rx.received += n as u64;
                Ok(true)
            }
            Err(error) if would_block(&error) => Ok(false),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Through the buffer into a sink that is not contiguous.
    fn land_spread(&mut self) -> Result<bool, End> {
        self.link.rx.bulk = false;
        if !self.fill()? {
            return Ok(false);
        }
        let rx = &mut self.link.rx;
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
        let shown = self.link.rx.shown?;
        self.link.rx.buffer.get(shown.at..shown.at + shown.present)?.first_chunk::<N>().copied()
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
        let Some(shown) = self.link.rx.shown else { return Delivery::Complete };
        let here = len.min(shown.present.saturating_sub(skip));
        // SAFETY: `at + skip + here` is inside the buffered part of the payload.
        unsafe { sink.copy_in(at, self.link.rx.buffer.as_ptr().add(shown.at + skip), here) };
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
        let Some(shown) = &mut self.link.rx.shown else { return Delivery::Complete };
        // What lies between the buffered bytes and the wanted ones is never asked for by the engine.
        let left = (len - here).min(shown.missing);
        let fits = skip <= shown.present && at.checked_add(len).is_some_and(|end| end <= sink.len());
        if may_land && fits {
            let trailing = shown.missing - left;
            shown.missing = 0;
            let (sink, at) = (sink.clone(), at + here);
            self.link.rx.landing = Some(Landing { sink, at, left, trailing, header, len, gathered: None });
            return Delivery::Landing;
        }
        // The engine lets all `Data` land, inside of their place.
        debug_assert!(false, "a packet that can't land was shown before all of it was there");
        self.link.tx.broken = Some("a packet of it has no place".into());
        Delivery::Complete
    }

    /// Collects the payload of the shown packet: [`Polled::Gathered`] follows. False if all of it is there.
    pub fn gather(&mut self, header: Header) -> bool {
        let rx = &mut self.link.rx;
        let Some(shown) = rx.shown.filter(|shown| shown.missing > 0) else { return false };
        let len = shown.present + shown.missing;
        let mut payload = vec![0; len].into_boxed_slice();
        payload[..shown.present].copy_from_slice(&rx.buffer[shown.at..shown.at + shown.present]);
        // SAFETY: the payload stays with the landing, and nobody touches it before that is over.
        let sink = unsafe { RecvBuf::contiguous(payload.as_mut_ptr(), len) };
        let gathered = Some(payload);
        rx.landing = Some(Landing { sink, at: shown.present, left: shown.missing, trailing: 0, header, len, gathered });
        rx.start = shown.at + shown.present;
        rx.shown = None;
        true
    }

    /// Gives the shown packet's room back.
    #[inline]
    pub fn release(&mut self) {
        if let Some(shown) = self.link.rx.shown.take() {
            self.link.rx.start = shown.at + shown.present;
            self.link.rx.skip = shown.missing;
        }
    }

    /// The program takes nothing any more: what is landing is dropped.
    pub fn discard(&mut self) {
        self.release();
        let rx = &mut self.link.rx;
        if let Some(landing) = rx.landing.take() {
            rx.skip = landing.left + landing.trailing;
        }
    }
}

fn wrong(corrupt: Corrupt) -> End {
    End::Wrong(format!("it sent {corrupt}"))
}
