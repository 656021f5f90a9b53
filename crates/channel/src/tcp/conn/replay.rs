//! The replay buffer: what was sent, or waits to be, until the peer's process has acknowledged it.
//!
//! Outgoing bytes are one stream with positions from 0, which goes on over broken connections:
//! ```text
//! 0 ..... acknowledged ............ taken ............ end
//!           │   the kernel has it     │  the kernel     │
//!           │                         │  has no room    │
//! ```
//! After a reconnect the peer says how much it has received; everything from there on counts as not taken. Small packets are copied into
//! `copies`; pieces of large messages stay in the program's memory (`held`) until they are acknowledged.

use crate::buffer::SendBuf;
use protocol::transport::Token;
use std::collections::VecDeque;

/// Part of the stream that lies in the program's memory.
struct Held {
    start: u64,
    len: usize,
    source: SendBuf,
    from: usize,
    token: Token,
}

impl Held {
    fn end(&self) -> u64 {
        self.start + self.len as u64
    }

    /// How much of it lies in `from .. to`.
    fn within(&self, from: u64, to: u64) -> u64 {
        self.end().min(to).saturating_sub(self.start.max(from))
    }
}

/// Consecutive bytes of the stream.
pub(super) enum Run<'a> {
    /// Copied bytes.
    Copied(&'a [u8]),
    /// So many bytes of a source from a place on.
    Held(&'a SendBuf, usize, usize),
}

/// A position that the peer can't have received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrongPosition;

/// See the head of this file.
#[derive(Default)]
pub(super) struct Replay {
    acknowledged: u64,
    taken: u64,
    end: u64,
    copies: VecDeque<u8>,
    held: VecDeque<Held>,
    /// Sources that are no longer in use.
    over: VecDeque<Token>,
}

impl Replay {
    /// Whether the kernel has taken all.
    pub fn is_taken(&self) -> bool {
        self.taken == self.end
    }

    /// Whether the peer's process has all.
    pub fn is_acknowledged(&self) -> bool {
        self.acknowledged == self.end
    }

    /// Bytes that were copied.
    pub fn copied(&self) -> usize {
        self.copies.len()
    }

    /// Bytes from `position` on that the kernel has taken.
    pub fn sent_after(&self, position: u64) -> u64 {
        self.taken.saturating_sub(position)
    }

    /// Adds bytes that the kernel has taken and that are not kept, when nothing else is.
    #[inline]
    pub fn forget(&mut self, len: usize) {
        debug_assert!(self.is_acknowledged());
        self.end += len as u64;
        (self.taken, self.acknowledged) = (self.end, self.end);
    }

    /// Adds bytes.
    #[inline]
    pub fn copy(&mut self, bytes: &[u8]) {
        self.copies.extend(bytes);
        self.end += bytes.len() as u64;
    }

    /// Adds a copy of bytes `from .. from + len` of `source`.
    #[inline]
    pub fn copy_source(&mut self, source: &SendBuf, from: usize, len: usize) {
        match source.as_contiguous(from) {
            _ if len == 0 => {}
            // SAFETY: the source's bytes are readable (contract of `SendBuf`); nothing else runs meanwhile.
            Some(at) => self.copy(unsafe { std::slice::from_raw_parts(at, len) }),
            None => {
                let mut packed = vec![0; len];
                // SAFETY: there is room for `len` bytes.
                unsafe { source.copy_out(from, packed.as_mut_ptr(), len) };
                self.copy(&packed);
            }
        }
    }

    /// Adds bytes `from .. from + len` of `source`, which stay where they are.
    pub fn hold(&mut self, source: &SendBuf, from: usize, len: usize, token: Token) {
        self.held.push_back(Held { start: self.end, len, source: source.clone(), from, token });
        self.end += len as u64;
    }

    /// The kernel has taken `len` bytes more.
    #[inline]
    pub fn take(&mut self, len: usize) {
        self.taken += len as u64;
        debug_assert!(self.taken <= self.end);
    }

    /// What the kernel gets next.
    pub fn next(&self) -> Option<Run<'_>> {
        let (mut copied, mut until) = (self.taken - self.acknowledged, self.end);
        for held in &self.held {
            if self.taken < held.start {
                until = held.start;
                break;
            }
            if self.taken < held.end() {
                let skip = (self.taken - held.start) as usize;
                return Some(Run::Held(&held.source, held.from + skip, held.len - skip));
            }
            copied -= held.within(self.acknowledged, self.taken);
        }
        let (at, len) = (copied as usize, (until - self.taken) as usize);
        let (first, second) = self.copies.as_slices();
        let bytes = match first.get(at..) {
            Some(bytes) if !bytes.is_empty() => bytes,
            _ => second.get(at - first.len()..)?,
        };
        (len > 0).then(|| Run::Copied(&bytes[..len.min(bytes.len())]))
    }

    /// The peer's process has received everything before `position`.
    pub fn acknowledge(&mut self, position: u64) -> Result<(), WrongPosition> {
        if position > self.taken {
            return Err(WrongPosition);
        }
        if position <= self.acknowledged {
            // Overtaken by what was said at a reconnect.
            return Ok(());
        }
        let mut copied = position - self.acknowledged;
        while let Some(held) = self.held.front() {
            copied -= held.within(self.acknowledged, position);
            if held.end() > position {
                break;
            }
            self.over.push_back(held.token);
            self.held.pop_front();
        }
        self.copies.drain(..copied as usize);
        if self.copies.is_empty() && self.copies.capacity() > KEPT_BYTES {
            self.copies = VecDeque::new();
        }
        self.acknowledged = position;
        Ok(())
    }

    /// What the kernel has taken is not kept.
    pub fn acknowledge_taken(&mut self) {
        // The position is one of ours, so it can't be wrong.
        let _ = self.acknowledge(self.taken);
    }

    /// Whether a peer can have received so much and no more.
    pub fn may_resume(&self, position: u64) -> bool {
        (self.acknowledged..=self.taken).contains(&position)
    }

    /// Everything from `position` on is to be sent again.
    pub fn resume(&mut self, position: u64) -> Result<(), WrongPosition> {
        if !self.may_resume(position) {
            return Err(WrongPosition);
        }
        self.acknowledge(position)?;
        self.taken = position;
        Ok(())
    }

    /// All sources, when nothing will be sent any more.
    pub fn into_sources(self) -> impl Iterator<Item = Token> {
        self.over.into_iter().chain(self.held.into_iter().map(|held| held.token))
    }

    /// The next source that is no longer in use.
    #[inline]
    pub fn pop_over(&mut self) -> Option<Token> {
        self.over.pop_front()
    }
}

/// Memory of an empty replay buffer.
const KEPT_BYTES: usize = 512 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The stream from `taken` on.
    fn rest(replay: &mut Replay, most: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while out.len() < most {
            let run = match replay.next() {
                None => break,
                Some(Run::Copied(bytes)) => bytes.to_vec(),
                Some(Run::Held(source, from, len)) => {
                    let mut bytes = vec![0; len];
                    // SAFETY: room for `len` bytes.
                    unsafe { source.copy_out(from, bytes.as_mut_ptr(), len) };
                    bytes
                }
            };
            assert!(!run.is_empty(), "an empty run");
            let n = run.len().min(most - out.len());
            replay.take(n);
            out.extend_from_slice(&run[..n]);
        }
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        /// Against a plain vector: whatever is added, taken, acknowledged and repeated, the stream stays the same.
        #[test]
        fn the_stream_is_what_was_added(steps in prop::collection::vec((0u8..5, 1usize..300), 1..80)) {
            let memory: Vec<u8> = (0..1000u32).map(|i| ((i * 7) >> 2) as u8).collect();
            // SAFETY: `memory` lives on.
            let source = unsafe { SendBuf::contiguous(memory.as_ptr(), memory.len()) };
            let (mut replay, mut model, mut ends) = (Replay::default(), Vec::new(), Vec::new());
            for (n, (step, size)) in steps.iter().enumerate() {
                match step {
                    0 => {
                        replay.copy(&memory[n..n + size]);
                        model.extend_from_slice(&memory[n..n + size]);
                    }
                    1 => {
                        replay.hold(&source, n, *size, Token(ends.len() as u64));
                        model.extend_from_slice(&memory[n..n + size]);
                        ends.push(model.len() as u64);
                    }
                    2 => {
                        let at = replay.taken as usize;
                        prop_assert_eq!(&rest(&mut replay, *size), &model[at..model.len().min(at + size)]);
                    }
                    3 => {
                        let to = replay.acknowledged + *size as u64;
                        prop_assert_eq!(replay.acknowledge(to).is_ok(), to <= replay.taken);
                    }
                    _ => {
                        let to = replay.acknowledged + *size as u64 / 2;
                        prop_assert_eq!(replay.resume(to).is_ok(), to <= replay.taken);
                    }
                }
            }
            let at = replay.taken as usize;
            prop_assert_eq!(&rest(&mut replay, usize::MAX), &model[at..]);
            replay.acknowledge(model.len() as u64).unwrap();
            let over: Vec<u64> = std::iter::from_fn(|| replay.pop_over()).map(|t| t.0).collect();
            prop_assert_eq!(over, (0..ends.len() as u64).collect::<Vec<_>>());
            prop_assert!(replay.is_taken() && replay.is_acknowledged() && replay.copied() == 0);
        }
    }

    #[test]
    fn impossible_positions_are_refused() {
        let mut replay = Replay::default();
        replay.copy(&[1; 10]);
        replay.take(8);
        assert_eq!(replay.acknowledge(9), Err(WrongPosition));
        assert_eq!(replay.acknowledge(5), Ok(()));
        assert_eq!(replay.acknowledge(4), Ok(()), "an old word changes nothing");
        assert_eq!(replay.resume(4), Err(WrongPosition), "that much is gone");
        assert_eq!(replay.resume(9), Err(WrongPosition), "that was never sent");
        assert_eq!(replay.resume(5), Ok(()));
        assert_eq!(rest(&mut replay, 100).len(), 5);
    }
}
