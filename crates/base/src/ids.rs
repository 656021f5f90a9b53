//! Newtypes for the numbers that must not be mixed up.

/// A process of the job: its rank in `MPI_COMM_WORLD`. Ranks in other communicators are plain `i32`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Peer(pub u32);

/// Identifies a communicator's message space on the wire.
///
/// Unique in the job: the high 32 bits are the world rank of the process that proposed it, the low 32 bits its counter.
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
}

/// Bits of a context that are its plane, the lowest ones: room for eight.
const PLANE_BITS: u32 = 3;

/// The bits of a context that are its plane.
pub const PLANE_MASK: u64 = (1 << PLANE_BITS) - 1;

impl ContextId {
    /// Counters of communicators are below this. As many others from here on are not of communicators, see [`ContextId::meeting`].
    pub const COUNTERS: u32 = 1 << (31 - PLANE_BITS);

    /// The `counter`-th context proposed by `proposer`; the counter is below [`ContextId::COUNTERS`].
    pub fn new(proposer: Peer, counter: u32) -> ContextId {
        debug_assert!(counter < ContextId::COUNTERS, "the context of another process");
        ContextId::numbered(proposer, counter)
    }

    /// A context of `host` that no communicator has, by a hash: where processes without a communicator meet.
    pub fn meeting(host: Peer, hash: u32) -> ContextId {
        ContextId::numbered(host, ContextId::COUNTERS | (hash & (ContextId::COUNTERS - 1)))
    }

    fn numbered(proposer: Peer, counter: u32) -> ContextId {
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
    fn contexts_of_a_process_stay_its_own() {
        let last = ContextId::new(Peer(7), ContextId::COUNTERS - 1);
        for context in [last, ContextId::meeting(Peer(7), u32::MAX), ContextId::meeting(Peer(7), 0)] {
            assert_eq!(context.0 >> 32, 7);
            assert_eq!(ContextId::of_plane(context.plane(Plane::Management)), context);
        }
        assert!(ContextId::meeting(Peer(7), 0).0 > last.0);
    }
}
