//! Ends of messages whose other end another interpreter runs.
//!
//! They are handed out in the order in which they are begun. Whoever takes one moves its bytes piece by piece, and ends it; the run goes on then. Messages of a route
//! are ended in the order of their numbers.

use super::{Half, Memory, Route, RunId, Runner, TOO_LONG};
use base::{Class, Error, Result};

/// One end of a message.
#[derive(Clone, Copy)]
pub struct Far {
    half: Half,
    /// Whose messages.
    pub route: Route,
    /// Its place among the messages of the route, from 1.
    pub number: u64,
    /// Bytes of the message, or room for so many.
    pub bytes: u64,
    /// Whether it is the sender's end.
    pub sends: bool,
}

impl Far {
    /// The run that has begun it.
    pub fn run(&self) -> RunId {
        self.half.items.run
    }
}

impl Runner {
    /// Keeps an end until it is taken.
    pub(super) fn leave_far(&mut self, route: Route, number: u64, half: Half, sends: bool) {
        // A datatype that isn't there has been refused before.
        let bytes = self.bytes(&half.items).unwrap_or(0);
        self.far.push(Far { half, route, number, bytes, sends });
    }

    /// The ends that have been begun since the last call.
    pub fn take_far(&mut self) -> Vec<Far> {
        std::mem::take(&mut self.far)
    }

    /// Reads bytes of a message that is sent, from `offset` on.
    pub fn read_far(&self, memory: &mut impl Memory, far: &Far, offset: u64, into: &mut [u8]) -> Result {
        let pieces = self.pieces(&far.half.items, offset, offset + into.len() as u64)?;
        memory.get_pieces(far.run(), &pieces, into)
    }

    /// Writes bytes of a message that is received, from `offset` on.
    pub fn write_far(&self, memory: &mut impl Memory, far: &Far, offset: u64, from: &[u8]) -> Result {
        let pieces = self.pieces(&far.half.items, offset, offset + from.len() as u64)?;
        memory.put_pieces(far.run(), &pieces, from)
    }

    /// Ends it: it is counted, and the run goes on. `total` is the length of the message, which may be more than there is room for.
    pub fn end_far(&mut self, memory: &mut impl Memory, far: &Far, total: u64, outcome: Result) {
        const GONE: Class = Class::ERR_PROC_ABORTED;
        if outcome.is_err_and(|error: Error| error.class == GONE) {
            // The owner is gone, or is about to learn from its agent who is.
            return;
        }
        let outcome = if !far.sends && total > far.bytes { outcome.and(Err(TOO_LONG)) } else { outcome };
        self.count(memory, far.half, far.sends, outcome);
    }
}
