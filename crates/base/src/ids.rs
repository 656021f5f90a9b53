//! Newtypes for the numbers that must not be mixed up.

/// A process of the job: its rank in `MPI_COMM_WORLD`. Ranks in other communicators are plain `i32`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Peer(pub u32);

/// Identifies a communicator's message space on the wire.
///
/// Unique in the job: the high 32 bits are the world rank of the process that proposed it, the low 32 bits its counter.
/// The two lowest bits are the plane (see [`Plane`]) and are added by [`ContextId::plane`].
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
}

/// The bits of a context that are its plane.
pub const PLANE_MASK: u64 = 3;

impl ContextId {
    /// The `counter`-th context proposed by `proposer`.
    pub fn new(proposer: Peer, counter: u32) -> ContextId {
        ContextId((u64::from(proposer.0) << 32) | (u64::from(counter) << 2))
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
