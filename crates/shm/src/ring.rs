//! A ring of records between one producer and one consumer that don't trust each other.
//!
//! ```text
//! record, aligned to 64 bytes:  | word: tag:32 len:32 | header: 24 bytes | payload: len bytes | …up to the next 64
//! ```
//! A message of up to 32 bytes is one cache line: the word that says "ready" travels with the data. The word is written
//! last; the consumer waits for a word whose tag is that of the position it has reached (positions count lines and never
//! go back, the tag is their low half). So nothing has to be cleared behind the consumer. A stale payload could by chance
//! look like a ready word: the producer, and only it, writes there, so it looks before it publishes the record in front
//! and clears such a word first.
//!
//! Records never wrap: a record with length [`PAD`] fills the end. The consumer publishes its position lazily.
//!
//! Invariants: the consumer reads only lines in `consumed..published`, the producer writes only others;
//! `published - consumed <= lines`. A record with its padding needs at most half of the ring, the unpublished part of
//! what was consumed is at most an eighth: so a producer that waits for room gets it.
//!
//! The logic knows memory only as [`Words`]: the product gives it mapped memory, loom its model of it. What the other
//! side wrote is read once, checked, and only the checked copy is used; [`Corrupt`] says that it made no sense.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Bytes of a line: the unit of positions, and what processors hand to each other.
pub const LINE: usize = 64;
/// Bytes in front of the payload: word and header.
pub const PREFIX: usize = 32;
/// Length that marks a record without meaning, up to the end of the ring.
const PAD: u32 = u32::MAX;

/// The words of a ring that order the two sides.
pub trait Words {
    /// The first word of line `line`.
    fn load(&self, line: usize, order: std::sync::atomic::Ordering) -> u64;
    /// Writes the first word of line `line`.
    fn store(&self, line: usize, value: u64, order: std::sync::atomic::Ordering);
    /// The consumer's published position.
    fn load_consumed(&self, order: std::sync::atomic::Ordering) -> u64;
    /// Publishes the consumer's position.
    fn store_consumed(&self, value: u64, order: std::sync::atomic::Ordering);
}

/// The other side wrote something impossible; the ring can't be used any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corrupt;

/// Lines of a record with `len` bytes of payload.
#[inline]
const fn lines_of(len: usize) -> usize {
    // A shift, because `div_ceil` also looks at the remainder.
    (len + (PREFIX + LINE - 1)) >> LINE.trailing_zeros()
}

/// Largest payload in a ring of `lines` lines.
pub const fn payload_max(lines: usize) -> usize {
    lines / 4 * LINE - PREFIX
}

/// The word of a record of `len` bytes at `position`.
#[inline]
const fn ready(position: u64, len: u32) -> u64 {
    position << 32 | len as u64
}

/// Whether `word` says that the record at `position` is ready.
#[inline]
const fn is_ready(word: u64, position: u64) -> bool {
    (word >> 32) as u32 == position as u32
}

/// The sending end.
#[derive(Debug)]
pub struct Producer<W> {
    words: W,
    /// Lines of the ring, a power of two.
    lines: usize,
    /// Where the next record goes. Starts at `lines`, so that zeroed memory is not ready.
    position: u64,
    /// Below this position is room: the last seen consumed position plus `lines`.
    limit: u64,
    /// Below this position is room without a look at anything else: `limit`, or the end of the ring if that comes first.
    easy: u64,
}

/// Room for a record; to be filled and published.
#[derive(Debug)]
pub struct Slot {
    /// First line of the record; its payload starts [`PREFIX`] bytes on.
    pub line: usize,
    lines: usize,
    len: u32,
}

impl<W: Words> Producer<W> {
    /// The producer of a ring of `lines` lines (a power of two, at least 4) that nobody has used yet.
    pub fn new(words: W, lines: usize) -> Producer<W> {
        assert!(lines.is_power_of_two() && lines >= 4);
        let (position, end) = (lines as u64, 2 * lines as u64);
        Producer { words, lines, position, limit: end, easy: end }
    }

    /// The words that it was made with.
    pub fn words(&self) -> &W {
        &self.words
    }

    /// As if so much had already been sent that the next position is `position`, a multiple of the ring's lines.
    #[doc(hidden)]
    pub fn skip_to(&mut self, position: u64) {
        self.position = position;
        (self.limit, self.easy) = (position + self.lines as u64, position + self.lines as u64);
    }

    /// Room for a record of `len` bytes, `None` if there is none now. At most [`payload_max`] bytes.
    /// What was reserved but not published is forgotten.
    #[inline(always)]
    pub fn reserve(&mut self, len: usize) -> Result<Option<Slot>, Corrupt> {
        match self.reserve_at_hand(len) {
            Some(slot) => Ok(Some(slot)),
            None => self.reserve_slowly(lines_of(len), len as u32),
        }
    }

    /// [`Producer::reserve`] of room that is known and not at the end of the ring.
    #[inline(always)]
    pub fn reserve_at_hand(&self, len: usize) -> Option<Slot> {
        debug_assert!(len <= payload_max(self.lines));
        let lines = lines_of(len);
        let slot = Slot { line: self.position as usize & (self.lines - 1), lines, len: len as u32 };
        (self.position + lines as u64 <= self.easy).then_some(slot)
    }

    /// [`Producer::reserve`] when the known room is too small or the end of the ring is near.
    #[cold]
    #[inline(never)]
    fn reserve_slowly(&mut self, lines: usize, len: u32) -> Result<Option<Slot>, Corrupt> {
        assert!(lines <= self.lines / 4, "a record of {lines} lines doesn't go into a ring of {}", self.lines);
        let line = self.position as usize & (self.lines - 1);
        let pad = if line + lines > self.lines { self.lines - line } else { 0 };
        if self.position + (pad + lines) as u64 > self.limit {
            self.learn_limit()?;
            if self.position + (pad + lines) as u64 > self.limit {
                return Ok(None);
            }
        }
        if pad > 0 {
            self.publish(Slot { line, lines: pad, len: PAD });
        }
        let end_of_lap = (self.position | (self.lines as u64 - 1)) + 1;
        self.easy = self.limit.min(end_of_lap);
        Ok(Some(Slot { line: self.position as usize & (self.lines - 1), lines, len }))
    }

    /// The position behind the last published record.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Whether everything below `position` was consumed, as far as the consumer has said.
    pub fn is_consumed(&mut self, position: u64) -> bool {
        position + self.lines as u64 <= self.limit || {
            // An impossible position is `reserve`'s to report.
            let _ = self.learn_limit();
            position + self.lines as u64 <= self.limit
        }
    }

    /// Looks how far the consumer is.
    fn learn_limit(&mut self) -> Result<(), Corrupt> {
        // SYNC(ring.consumed): the consumer's reads of what is overwritten from here on are done.
        let consumed = match self.words.load_consumed(Acquire) {
            // Not written yet: positions begin after one lap.
            0 => self.lines as u64,
            consumed => consumed,
        };
        let oldest = self.position - self.lines as u64;
        if consumed < oldest || consumed > self.position {
            return Err(Corrupt);
        }
        self.limit = consumed + self.lines as u64;
        Ok(())
    }

    /// Hands the filled record to the consumer. `slot` is the last one reserved.
    #[inline(always)]
    pub fn publish(&mut self, slot: Slot) {
        let next = self.position + slot.lines as u64;
        let next_line = next as usize & (self.lines - 1);
        // Only this side writes ring words, so Relaxed sees the present one.
        if is_ready(self.words.load(next_line, Relaxed), next) {
            self.words.store(next_line, !next << 32, Relaxed);
        }
        // SYNC(ring.ready): header, payload and the cleared word behind them are visible to whoever sees this word.
        self.words.store(slot.line, ready(self.position, slot.len), Release);
        self.position = next;
    }
}

/// The receiving end.
#[derive(Debug)]
pub struct Consumer<W> {
    words: W,
    lines: usize,
    position: u64,
    published: u64,
    /// Published since the last release said so.
    news: bool,
}

/// A record that has arrived; its size is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrived {
    /// First line of the record; its payload starts [`PREFIX`] bytes on.
    pub line: usize,
    /// Bytes of payload, all inside the ring.
    pub len: u32,
}

impl<W: Words> Consumer<W> {
    /// The consumer of a ring of `lines` lines (a power of two, at least 4) that nobody has used yet.
    pub fn new(words: W, lines: usize) -> Consumer<W> {
        assert!(lines.is_power_of_two() && lines >= 4);
        Consumer { words, lines, position: lines as u64, published: lines as u64, news: false }
    }

    /// The words that it was made with.
    pub fn words(&self) -> &W {
        &self.words
    }

    /// As if so much had already been received that the next position is `position`, a multiple of the ring's lines.
    #[doc(hidden)]
    pub fn skip_to(&mut self, position: u64) {
        (self.position, self.published) = (position, position);
    }

    /// The oldest record that has not been released. The same one until [`Consumer::release`].
    #[inline(always)]
    pub fn peek(&mut self) -> Result<Option<Arrived>, Corrupt> {
        let line = self.position as usize & (self.lines - 1);
        // SYNC(ring.ready): the record was written before this word.
        let word = self.words.load(line, Acquire);
        if !is_ready(word, self.position) {
            return Ok(None);
        }
        let len = word as u32;
        if len == PAD {
            return self.skip_pad(line);
        }
        if lines_of(len as usize) > self.lines - line {
            return Err(Corrupt);
        }
        Ok(Some(Arrived { line, len }))
    }

    #[cold]
    #[inline(never)]
    fn skip_pad(&mut self, line: usize) -> Result<Option<Arrived>, Corrupt> {
        if line == 0 {
            return Err(Corrupt);
        }
        self.advance(self.lines - line);
        // At line 0 a second pad is refused, so this goes one level deep.
        self.peek()
    }

    /// Gives the room of the record last peeked at, whose payload had `len` bytes, back to the producer. True if the
    /// producer can see more room than before: it may be waiting for that.
    #[inline(always)]
    pub fn release(&mut self, len: u32) -> bool {
        self.advance(lines_of(len as usize));
        std::mem::take(&mut self.news)
    }

    /// As [`Consumer::release`], and the producer can see it at once.
    pub fn release_now(&mut self, len: u32) {
        self.position += lines_of(len as usize) as u64;
        self.publish();
        self.news = false;
    }

    #[inline(always)]
    fn advance(&mut self, lines: usize) {
        self.position += lines as u64;
        if self.position - self.published > self.lines as u64 / 8 {
            self.news = true;
            self.publish();
        }
    }

    #[inline(always)]
    fn publish(&mut self) {
        self.published = self.position;
        // SYNC(ring.consumed): all reads of the released records are done before the producer sees this.
        self.words.store_consumed(self.position, Release);
    }
}
