//! Newtypes for the numbers that must not be mixed up.

use std::fmt;

/// A process as this one reaches it: the dense local index of its endpoint. Two processes may have different ones for a third process, so it
/// never travels: [`ProcId`] does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Peer(pub u32);

/// The rank of a process in the `MPI_COMM_WORLD` of its job: how the launcher numbers it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct WorldRank(pub u32);

impl WorldRank {
    /// More ranks no job has: a rank is an `int` of the program.
    pub const COUNT_MAX: u32 = i32::MAX as u32;
}

impl fmt::Display for WorldRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}", self.0)
    }
}

/// The random number of a job.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct JobId(pub u64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {:016x}", self.0)
    }
}

/// Names a process for ever, in all jobs that are connected, wherever it is. All processes agree on the order of these.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ProcId {
    /// Its job.
    pub job: JobId,
    /// Its rank there.
    pub rank: WorldRank,
}

impl ProcId {
    /// Length of the encoding.
    pub const BYTES: usize = 12;

    /// For a message: job and rank, little-endian.
    pub fn encode(self) -> [u8; ProcId::BYTES] {
        let mut bytes = [0; ProcId::BYTES];
        bytes[..8].copy_from_slice(&self.job.0.to_le_bytes());
        bytes[8..].copy_from_slice(&self.rank.0.to_le_bytes());
        bytes
    }

    /// The process in a message; `None` if no process has that rank.
    pub fn decode(bytes: &[u8; ProcId::BYTES]) -> Option<ProcId> {
        let job = u64::from_le_bytes(std::array::from_fn(|i| bytes[i]));
        let rank = u32::from_le_bytes(std::array::from_fn(|i| bytes[8 + i]));
        (rank < WorldRank::COUNT_MAX).then_some(ProcId { job: JobId(job), rank: WorldRank(rank) })
    }
}

impl fmt::Display for ProcId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.rank, self.job)
    }
}

/// The number of a process among those that make communicators with each other. No two processes share it that another one meets in
/// communicators; `protocol::realm` gives it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Proposer(pub u32);

impl Proposer {
    /// No process has this number.
    pub const NOBODY: Proposer = Proposer(u32::MAX);
}

/// Identifies a communicator's message space on the wire.
///
/// The high 32 bits are the number of the process that proposed it, the low 32 bits its counter. No process ever sees it in two communicators:
/// see [`Proposer`].
/// The lowest bits are the plane (see [`Plane`]) and are added by [`ContextId::plane`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ContextId(pub u64);

/// The separate message spaces inside one communicator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Plane {
    /// Messages of the program.
    PointToPoint = 0,
    /// Messages of collectives; the tag is the collective's sequence number.
    Collective = 1,
    /// Messages that create communicators.
    Management = 2,
    /// Messages by which partitioned sends and receives match.
    Partitioned = 3,
}

/// Bits of a context that are its plane, the lowest ones: room for eight.
const PLANE_BITS: u32 = 3;

/// The bits of a context that are its plane.
pub const PLANE_MASK: u64 = (1 << PLANE_BITS) - 1;

impl ContextId {
    /// Counters of communicators are below this. As many others from here on are not of communicators, see [`ContextId::meeting`].
    pub const COUNTERS: u32 = 1 << (31 - PLANE_BITS);

    /// The `counter`-th context proposed by `proposer`; the counter is below [`ContextId::COUNTERS`].
    pub fn new(proposer: Proposer, counter: u32) -> ContextId {
        debug_assert!(counter < ContextId::COUNTERS, "the context of another process");
        ContextId::numbered(proposer, counter)
    }

    /// A context of `host` that no communicator has, by a hash: where processes without a communicator meet.
    pub fn meeting(host: Proposer, hash: u32) -> ContextId {
        ContextId::numbered(host, ContextId::COUNTERS | (hash & (ContextId::COUNTERS - 1)))
    }

    fn numbered(proposer: Proposer, counter: u32) -> ContextId {
        ContextId((u64::from(proposer.0) << 32) | (u64::from(counter) << PLANE_BITS))
    }

    /// The context of a number that stands in message headers.
    pub fn of_plane(number: u64) -> ContextId {
        ContextId(number & !PLANE_MASK)
    }

    /// The number that stands in message headers for `plane` of this context.
    #[inline]
    pub fn plane(self, plane: Plane) -> u64 {
        self.0 | plane as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_travel_as_bytes() {
        let last = ProcId { job: JobId(u64::MAX), rank: WorldRank(WorldRank::COUNT_MAX - 1) };
        let first = ProcId { job: JobId(0x1234), rank: WorldRank(0) };
        for id in [first, last] {
            assert_eq!(ProcId::decode(&id.encode()), Some(id));
        }
        let beyond = ProcId { rank: WorldRank(WorldRank::COUNT_MAX), ..last };
        assert_eq!(ProcId::decode(&beyond.encode()), None);
        assert!(first < last);
        assert_eq!(first.to_string(), "rank 0 of job 0000000000001234");
    }

    #[test]
    fn contexts_of_a_process_stay_its_own() {
        let last = ContextId::new(Proposer(7), ContextId::COUNTERS - 1);
        for context in [last, ContextId::meeting(Proposer(7), u32::MAX), ContextId::meeting(Proposer(7), 0)] {
            assert_eq!(context.0 >> 32, 7);
            assert_eq!(ContextId::of_plane(context.plane(Plane::Management)), context);
        }
        assert!(ContextId::meeting(Proposer(7), 0).0 > last.0);
    }
}
