//! Communicators (MPI-5.0, chapter 7): the object. Creation, attributes, names live beside this file.

use crate::handle::{Handle, Named};
use crate::group::Group;
use base::{ContextId, Peer};
use std::cell::Cell;
use std::rc::Rc;

/// An intra- or inter-communicator. Immutable but for the cells.
pub struct Comm {
    /// The program's handle.
    pub handle: Cell<Handle>,
    /// Message space; the same number on every member, on both sides of an inter-communicator.
    pub context: ContextId,
    /// The local group.
    pub group: Rc<Group>,
    /// The remote group of an inter-communicator.
    pub remote: Option<Rc<Group>>,
    /// An intra-communicator of the local group, for the collectives of an inter-communicator.
    pub local: Option<Rc<Comm>>,
    /// Rank of this process in the local group.
    pub rank: i32,
    /// Sequence number of the next collective; its message tag.
    collective_sequence: Cell<u32>,
}

impl Named for Comm {
    fn handle_cell(&self) -> &Cell<Handle> {
        &self.handle
    }
}

impl Comm {
    /// Processes in the local group.
    #[inline]
    pub fn size(&self) -> i32 {
        self.group.size()
    }

    /// Processes in the group that messages go to: the remote group of an inter-communicator, else the local group.
    #[inline]
    pub fn peer_size(&self) -> i32 {
        self.peers().size()
    }

    /// The group whose ranks name sources and destinations.
    #[inline]
    pub fn peers(&self) -> &Group {
        self.remote.as_deref().unwrap_or(&self.group)
    }

    /// Whether this is an inter-communicator.
    #[inline]
    pub fn is_inter(&self) -> bool {
        self.remote.is_some()
    }

    /// The process that `rank` names as source or destination.
    #[inline]
    pub fn peer(&self, rank: i32) -> Peer {
        self.peers().peer(rank)
    }

    /// The tag of the next collective on this communicator; every member calls collectives in the same order.
    #[inline]
    pub fn next_collective_tag(&self) -> i32 {
        let sequence = self.collective_sequence.get();
        self.collective_sequence.set(sequence.wrapping_add(1));
        (sequence & 0x7fff_ffff) as i32
    }
}
