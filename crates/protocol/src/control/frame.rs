//! Framing of a byte stream: a little-endian `u32` length, then that many bytes.

use super::codec::Wire;
use base::{Result, ensure};
use std::collections::VecDeque;
use std::ops::Range;

/// Longest frame that a rank may send to its agent, in bytes.
pub const RANK_LIMIT: usize = 4 << 20;
/// Longest frame between agents, and from an agent to a rank, in bytes.
pub const TREE_LIMIT: usize = 64 << 20;
/// Bytes before each frame's body.
pub const HEADER: usize = 4;

/// Appends `message` as a frame.
pub fn push<T: Wire>(out: &mut Vec<u8>, message: &T) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    message.put(out);
    let length = u32::try_from(out.len() - start - HEADER).expect("a control message is far below 4 GiB");
    out[start..start + HEADER].copy_from_slice(&length.to_le_bytes());
}

/// `message` as a frame.
pub fn frame<T: Wire>(message: &T) -> Vec<u8> {
    let mut out = Vec::new();
    push(&mut out, message);
    out
}

/// The body length that a header announces, if it is within `limit`.
pub fn body_length(header: [u8; HEADER], limit: usize) -> Result<usize> {
    let length = u32::from_le_bytes(header) as usize;
    ensure!(length > 0 && length <= limit, ERR_OTHER, "control frame is empty or longer than allowed");
    Ok(length)
}

/// Cuts a stream into frames.
#[derive(Default)]
pub struct Splitter {
    buffer: Vec<u8>,
    start: usize,
    /// Bytes fed so far.
    fed: u64,
    /// Where in the stream the last frame began.
    frame_start: u64,
}

impl Splitter {
    /// Adds bytes that have arrived.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.start > 0 && (self.start == self.buffer.len() || self.start > 1 << 16) {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
        self.fed += bytes.len() as u64;
    }

    /// Number of bytes fed so far: the position in the stream of what is fed next.
    pub fn position(&self) -> u64 {
        self.fed
    }

    /// Position in the stream of the last frame that [`Splitter::next_frame`] returned.
    pub fn frame_start(&self) -> u64 {
        self.frame_start
    }

    /// The body of the next whole frame; `None` until it has arrived, an error when its announced length breaks `limit`.
    pub fn next_frame(&mut self, limit: usize) -> Result<Option<&[u8]>> {
        let pending = &self.buffer[self.start..];
        let Some(header) = pending.first_chunk::<HEADER>() else { return Ok(None) };
        let length = body_length(*header, limit)?;
        if pending.len() < HEADER + length {
            return Ok(None);
        }
        let body = self.start + HEADER;
        self.frame_start = self.fed - (self.buffer.len() - self.start) as u64;
        self.start = body + length;
        Ok(Some(&self.buffer[body..body + length]))
    }

    /// How many bytes are missing to complete the header, or the frame once its header is there. For a reader that must not
    /// take bytes which belong to somebody else.
    pub fn missing(&self, limit: usize) -> Result<usize> {
        let pending = &self.buffer[self.start..];
        Ok(match pending.first_chunk::<HEADER>() {
            None => HEADER - pending.len(),
            Some(header) => (HEADER + body_length(*header, limit)?).saturating_sub(pending.len()),
        })
    }

    /// Whether no part of a frame is waiting.
    pub fn is_empty(&self) -> bool {
        self.start == self.buffer.len()
    }
}

/// Descriptors that came with a stream, each batch attached to one frame's first byte, until that frame is taken.
///
/// When a receiver's file limit makes the kernel drop a batch, its frame finds none instead of the next frame's.
pub struct Attached<T> {
    /// Range of the stream that was read together with the batch.
    batches: VecDeque<(Range<u64>, Vec<T>)>,
}

impl<T> Default for Attached<T> {
    fn default() -> Attached<T> {
        Attached { batches: VecDeque::new() }
    }
}

impl<T> Attached<T> {
    /// Notes a batch that came with the bytes `range` of the stream.
    pub fn push(&mut self, range: Range<u64>, batch: Vec<T>) {
        if !batch.is_empty() {
            self.batches.push_back((range, batch));
        }
    }

    /// The batch of the frame that began at `start`; none unless exactly `count` have arrived. Older batches are dropped.
    pub fn take(&mut self, start: u64, count: usize) -> Option<Vec<T>> {
        while self.batches.front().is_some_and(|b| b.0.end <= start) {
            self.batches.pop_front();
        }
        if count == 0 {
            return Some(Vec::new());
        }
        let here = self.batches.front().is_some_and(|b| b.0.contains(&start));
        let batch = if here { self.batches.pop_front()?.1 } else { Vec::new() };
        (batch.len() == count).then_some(batch)
    }

    /// Batches that wait.
    pub fn len(&self) -> usize {
        self.batches.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_any_cut() {
        let messages = [String::from("a"), "x".repeat(70_000), String::new() + "end"];
        let stream: Vec<u8> = messages.iter().flat_map(frame).collect();
        for step in [1, 3, 4, 7, 1000, stream.len()] {
            let (mut splitter, mut seen) = (Splitter::default(), Vec::new());
            for part in stream.chunks(step) {
                splitter.feed(part);
                while let Some(body) = splitter.next_frame(TREE_LIMIT).unwrap() {
                    seen.push(super::super::decode::<String>(body).unwrap());
                }
            }
            assert_eq!(seen, messages);
            assert!(splitter.is_empty());
        }
    }

    #[test]
    fn a_lost_batch_never_shifts_the_others() {
        // Frames begin at 0, 10 and 20, each with two descriptors; the second's were dropped.
        let mut attached = Attached::default();
        attached.push(0..10, vec!['a', 'b']);
        attached.push(15..30, vec!['e', 'f']);
        assert_eq!(attached.take(0, 2), Some(vec!['a', 'b']));
        assert_eq!(attached.take(10, 2), None);
        assert_eq!(attached.take(12, 0), Some(vec![]));
        assert_eq!(attached.take(20, 2), Some(vec!['e', 'f']));
        attached.push(30..40, vec!['g']);
        assert_eq!(attached.take(30, 2), None);
        assert!(attached.is_empty());
    }

    #[test]
    fn an_announced_length_is_checked_before_the_body_arrives() {
        let mut splitter = Splitter::default();
        splitter.feed(&u32::MAX.to_le_bytes());
        assert!(splitter.next_frame(RANK_LIMIT).is_err());
        let mut splitter = Splitter::default();
        splitter.feed(&[0; 4]);
        assert!(splitter.next_frame(RANK_LIMIT).is_err());
    }
}
