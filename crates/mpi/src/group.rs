//! Groups (MPI-5.0, 7.3): ordered sets of processes.

use crate::handle::{Handle, Named};
use base::Peer;
use std::cell::Cell;

/// An ordered set of processes. Immutable.
pub struct Group {
    handle: Cell<Handle>,
    members: Members,
}

enum Members {
    /// World ranks `0..n`.
    Identity(u32),
    List(Box<[Peer]>),
}

impl Named for Group {
    fn handle_cell(&self) -> &Cell<Handle> {
        &self.handle
    }
}

impl Group {
    /// The first `size` processes of the job.
    pub fn identity(size: u32) -> Group {
        Group { handle: Cell::default(), members: Members::Identity(size) }
    }

    /// The processes in this order; all different.
    pub fn new(members: Vec<Peer>) -> Group {
        Group { handle: Cell::default(), members: Members::List(members.into()) }
    }

    /// Number of members.
    #[inline]
    pub fn size(&self) -> i32 {
        match &self.members {
            Members::Identity(n) => *n as i32,
            Members::List(list) => list.len() as i32,
        }
    }

    /// The process with this rank, which must be in range.
    #[inline]
    pub fn peer(&self, rank: i32) -> Peer {
        match &self.members {
            Members::Identity(_) => Peer(rank as u32),
            Members::List(list) => list[rank as usize],
        }
    }

    /// The rank of a process.
    pub fn rank_of(&self, peer: Peer) -> Option<i32> {
        match &self.members {
            Members::Identity(n) => (peer.0 < *n).then_some(peer.0 as i32),
            Members::List(list) => list.iter().position(|&p| p == peer).map(|i| i as i32),
        }
    }
}
