//! The message space of a communicator: what point-to-point communication knows of it.

use crate::group::Group;
use crate::handle::Handle;
use crate::owner::Owner;
use base::{ContextId, Peer};
use std::cell::{Cell, OnceCell};
use std::ptr::NonNull;
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
    /// The group of [`Space::direct`].
    direct: Cell<NonNull<Group>>,
    /// The empty group that takes its place in a revoked communicator.
    nobody: OnceCell<Rc<Group>>,
}

impl Space {
    /// A message space; this process has `rank` in `group`.
    pub(crate) fn new(
        owner: Rc<Owner>,
        context: ContextId,
        rank: i32,
        (group, remote): (Rc<Group>, Option<Rc<Group>>),
        session: Option<Rc<Owner>>,
    ) -> Space {
        let direct = Cell::new(NonNull::from(remote.as_deref().unwrap_or(&group)));
        Space { owner, context, rank, group, remote, session, direct, nobody: OnceCell::new() }
    }

    /// The group to which the short path sends: that of [`Space::peers`], or nobody if the communicator is revoked. So calls on a revoked
    /// communicator leave the short path, and those on others need no look for it.
    #[inline(always)]
    pub(super) fn direct(&self) -> &Group {
        // SAFETY: it points into `group`, `remote` or `nobody`, whose counts this space holds, or a clone of it its own ones. Nobody assigns these
        // fields, and what `nobody` holds once is never replaced.
        unsafe { self.direct.get().as_ref() }
    }

    /// The communicator is revoked.
    pub(crate) fn set_revoked(&self) {
        let nobody = self.nobody.get_or_init(|| Rc::new(Group::new(Vec::new())));
        self.direct.set(NonNull::from(&**nobody));
    }

    /// Whether the communicator is revoked.
    pub fn is_revoked(&self) -> bool {
        self.nobody.get().is_some()
    }

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
