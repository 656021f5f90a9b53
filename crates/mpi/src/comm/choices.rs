//! What the processes of a communicator must agree on to choose the same algorithms.
//!
//! It is fixed when the communicator is made, from what its members share: a world has its job's, a communicator that is made from another one
//! inherits. Two groups that merge tell each other theirs on the way.

use crate::cs::Section;
use crate::inside::Inside;
use std::cell::Cell;

/// The collectives that choose among algorithms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "MPI's names")]
pub enum Collective {
    Barrier,
    Bcast,
    Reduce,
    Allreduce,
    Gather,
    Scatter,
    Allgather,
    Alltoall,
    ReduceScatter,
    Scan,
}

/// Number of these collectives.
pub const COLLECTIVES: usize = Collective::Scan as usize + 1;

/// See the head of this file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choices {
    /// Whether a node has more ranks than allowed CPUs.
    pub oversubscribed: bool,
    /// For each collective, the place of the algorithm that a setting forces, plus one; 0 if rules choose.
    pub forced: [u8; COLLECTIVES],
    /// Segments of pipelined collectives.
    pub segment_bytes: u32,
    /// Fan-out of the tree barrier.
    pub barrier_fanout: u32,
    /// The least bytes of a non-blocking collective that workers run; or [`OFFLOAD_ALL`], or [`OFFLOAD_NEVER`].
    pub offload_min: u32,
}

/// Workers run all non-blocking collectives, also those whose sizes not all processes know.
pub const OFFLOAD_ALL: u32 = 0;
/// Workers run none, or there are none.
pub const OFFLOAD_NEVER: u32 = u32::MAX;

impl Choices {
    /// CPUs enough, and rules choose.
    pub const DEFAULT: Choices = Choices {
        oversubscribed: false,
        forced: [0; COLLECTIVES],
        segment_bytes: 64 << 10,
        barrier_fanout: 4,
        offload_min: OFFLOAD_NEVER,
    };

    /// The choices of two groups that become one; `self` is of the group that decides where both can't be right.
    pub fn merge(self, other: Choices) -> Choices {
        Choices { oversubscribed: self.oversubscribed || other.oversubscribed, ..self }
    }

    /// As words for a message.
    pub fn words(&self) -> [u64; 3] {
        let mut bytes = [0; 16];
        bytes[..COLLECTIVES].copy_from_slice(&self.forced);
        bytes[COLLECTIVES] = self.oversubscribed.into();
        bytes[COLLECTIVES + 1..COLLECTIVES + 5].copy_from_slice(&self.offload_min.to_le_bytes());
        let [forced, rest] = [0, 8].map(|at| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i])));
        [forced, rest, u64::from(self.segment_bytes) << 32 | u64::from(self.barrier_fanout)]
    }

    /// The choices that [`Choices::words`] has written.
    pub fn from_words([forced, rest, sizes]: [u64; 3]) -> Choices {
        let bytes: [u8; 16] = std::array::from_fn(|i| ([forced, rest][i / 8] >> (8 * (i % 8))) as u8);
        Choices {
            oversubscribed: bytes[COLLECTIVES] != 0,
            forced: std::array::from_fn(|i| bytes[i]),
            // Zero would make an endless number of parts.
            segment_bytes: ((sizes >> 32) as u32).max(1),
            barrier_fanout: (sizes as u32).max(1),
            offload_min: u32::from_le_bytes(std::array::from_fn(|i| bytes[COLLECTIVES + 1 + i])),
        }
    }
}

/// What all processes of the job share.
static OF_JOB: Inside<Cell<Choices>> = Inside::new(Cell::new(Choices::DEFAULT));

/// What communicators without a parent take over: their processes are of one job.
pub fn of_job(cs: &Section) -> Choices {
    OF_JOB.get(cs).get()
}

/// Learns what the processes of the job share.
pub(crate) fn set_job(cs: &Section, choices: Choices) {
    OF_JOB.get(cs).set(choices);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_travel_as_words() {
        let forced = std::array::from_fn(|i| 3 * i as u8);
        let some =
            Choices { oversubscribed: true, forced, segment_bytes: 1 << 30, barrier_fanout: 4096, offload_min: 70_000 };
        for choices in [Choices::DEFAULT, some, Choices { oversubscribed: false, ..some }] {
            assert_eq!(Choices::from_words(choices.words()), choices);
        }
        assert_eq!(Choices::from_words([0; 3]).segment_bytes, 1);
    }

    #[test]
    fn two_groups_come_to_the_same() {
        let low = Choices { forced: [1; COLLECTIVES], ..Choices::DEFAULT };
        let high = Choices { oversubscribed: true, segment_bytes: 7, ..Choices::DEFAULT };
        assert_eq!(low.merge(high), Choices { oversubscribed: true, ..low });
    }
}
