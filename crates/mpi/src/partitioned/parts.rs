//! The messages of one activation: one for each partition of the sender.

use crate::cs::Section;
use crate::transfer::{self, Transfer};
use base::Error;
use protocol::engine::OpId;

/// How one message stands.
#[derive(Clone, Copy)]
enum Part {
    /// It has not been started.
    Waits,
    UnderWay(Transfer),
    Done,
}

/// All messages of one activation.
#[derive(Default)]
pub struct Parts {
    parts: Vec<Part>,
    /// Those before this one are done.
    done: usize,
    /// Those that have not been started.
    waiting: usize,
    bytes: u64,
    error: Option<Error>,
}

impl Parts {
    /// `count` messages that have not been started.
    pub fn begin(&mut self, count: usize) {
        self.parts.clear();
        self.parts.resize(count, Part::Waits);
        (self.done, self.waiting, self.bytes, self.error) = (0, count, 0, None);
    }

    pub fn has_started(&self, part: usize) -> bool {
        !matches!(self.parts[part], Part::Waits)
    }

    /// Whether all have been started.
    pub fn all_started(&self) -> bool {
        self.waiting == 0
    }

    pub fn start(&mut self, part: usize, transfer: Transfer) {
        self.parts[part] = Part::UnderWay(transfer);
        self.waiting -= 1;
    }

    /// Its outcome is this error, whatever the messages say.
    pub fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }

    /// Whether one message is there.
    pub fn is_done(&mut self, cs: &Section, part: usize) -> bool {
        let Part::UnderWay(transfer) = self.parts[part] else { return matches!(self.parts[part], Part::Done) };
        let Some(outcome) = transfer::test(cs, transfer) else { return false };
        self.parts[part] = Part::Done;
        match outcome {
            Ok(status) => self.bytes += status.bytes,
            Err(error) => self.fail(error),
        }
        true
    }

    /// Whether all that were started are there: bytes received or the first error.
    pub fn outcome(&mut self, cs: &Section) -> Option<Result<u64, Error>> {
        while self.done < self.parts.len() && (self.is_done(cs, self.done) || !self.has_started(self.done)) {
            self.done += 1;
        }
        if self.done < self.parts.len() {
            return None;
        }
        Some(self.error.map_or(Ok(self.bytes), Err))
    }

    /// A message that is under way.
    pub fn under_way(&self) -> Option<OpId> {
        match self.parts.get(self.done)? {
            Part::UnderWay(transfer) => transfer.op(),
            Part::Waits | Part::Done => None,
        }
    }
}
