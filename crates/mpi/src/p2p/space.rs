//! The message space of a communicator: what point-to-point communication knows of it.

use crate::group::Group;
use crate::handle::Handle;
use crate::owner::Owner;
use base::{ContextId, Peer};
use std::rc::Rc;

/// Where messages travel, and between whom.
#[derive(Clone)]
pub struct Space {
    /// The communicator, for errors and requests.
    pub owner: Rc<Owner>,
    /// Context of the messages; the same number on every member, on both sides of an inter-communicator.
    pub context: ContextId,
    /// Rank of this process in the local group.
    pub rank: i32,
    /// The local group.
    pub group: Rc<Group>,
    /// The remote group of an inter-communicator.
    pub remote: Option<Rc<Group>>,
    /// The session that the communicator comes from; none in the World Model.
    pub session: Option<Rc<Owner>>,
}

impl Space {
    /// The program's handle.
    #[inline]
    pub fn handle(&self) -> Handle {
        self.owner.handle.get()
    }

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
}
