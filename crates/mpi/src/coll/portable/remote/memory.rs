//! What an interpreter needs of the processes whose schedules it runs: their memory, and a place where progress is noted.

use super::{End, RunId};
use base::Result;

/// How far a run has come: what is before this step is done, and of the step itself the parts before this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Position {
    /// Step.
    pub step: u32,
    /// Part of the step.
    pub part: u32,
}

/// What has been done of a run: where it stands, and of each endpoint how many messages have been received and sent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Where it stands.
    pub position: Position,
    /// By endpoint: received, sent.
    pub messages: Vec<[u64; 2]>,
}

/// The memory of the owners. Addresses are those of the owner, and lie in the regions that its schedule lists.
pub trait Memory {
    /// Reads from `address` of the owner of a run.
    fn get(&mut self, run: RunId, address: u64, into: &mut [u8]) -> Result;
    /// Writes to `address` of the owner of a run.
    fn put(&mut self, run: RunId, address: u64, from: &[u8]) -> Result;
    /// Reads several pieces (address, bytes), which fill `into` one after the other.
    fn get_pieces(&mut self, run: RunId, pieces: &[(u64, usize)], into: &mut [u8]) -> Result {
        let mut at = 0;
        pieces.iter().try_for_each(|(address, len)| {
            at += len;
            self.get(run, *address, &mut into[at - len..at])
        })
    }
    /// Writes several pieces, which are `from` one after the other.
    fn put_pieces(&mut self, run: RunId, pieces: &[(u64, usize)], from: &[u8]) -> Result {
        let mut at = 0;
        pieces.iter().try_for_each(|(address, len)| {
            at += len;
            self.put(run, *address, &from[at - len..at])
        })
    }
    /// As [`Memory::put`], of something that can't be computed again afterwards. The run stands after `position` then.
    fn put_once(&mut self, run: RunId, _position: Position, address: u64, from: &[u8]) -> Result {
        self.put(run, address, from)
    }
    /// A run has come there.
    fn came_to(&mut self, _run: RunId, _position: Position) {}
    /// The run has received its `count`-th message from this endpoint, or if `sends` it has sent it: the buffer isn't needed any more.
    fn counted(&mut self, _end: End, _sends: bool, _count: u64) {}
    /// Whether the schedule of a process is run here, too, now or later. Messages with others are left to [`Runner::take_far`].
    fn is_here(&self, _process: u64) -> bool {
        true
    }
}
