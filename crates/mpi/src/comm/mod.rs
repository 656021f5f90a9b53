//! Communicators (MPI-5.0, chapter 7): the object, its handle, its end.
//!
//! A communicator is immutable but for its cells. It lives on through `Rc` while operations are under way, also after the
//! program has freed it. Context ids are unique for the life of the job, so none is ever reused ([`agree`]).

pub mod agree;
mod create;
mod duplicate;
mod hints;
mod inter;
mod split;
mod split_type;

pub(crate) use create::from_members;
pub use create::{create, create_from_group, create_group};
pub use duplicate::{dup, dup_with_info, idup, idup_with_info};
pub use hints::{Hints, MEMORY_KINDS, get_info, set_info};
pub use inter::{intercomm_create, intercomm_create_from_groups, intercomm_merge};
pub use split::split;
pub use split_type::{COMM_TYPE_HW_GUIDED, COMM_TYPE_HW_UNGUIDED, COMM_TYPE_RESOURCE_GUIDED, COMM_TYPE_SHARED};
pub use split_type::{hardware_info, split_type};

use crate::attr::{self, AttrSet, Attributed, ObjectKind};
use crate::coll::choices::Choices;
use crate::coll::internal::barrier;
use crate::errhandler::{Errhandler, Target};
use crate::group::{self, Group};
use crate::handle::{Handle, Named};
use crate::runtime::rt;
use crate::session::Session;
use crate::topo::Topology;
use crate::{errhandler, init};
use base::{ContextId, Peer, Result, ensure, fail};
use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::c_void;
use std::rc::Rc;

/// `MPI_COMM_NULL`.
pub const COMM_NULL: Handle = Handle(0x100);
/// `MPI_COMM_WORLD`.
pub const COMM_WORLD: Handle = Handle(0x101);
/// `MPI_COMM_SELF`.
pub const COMM_SELF: Handle = Handle(0x102);

/// `MPI_MAX_OBJECT_NAME`, with the terminating zero.
pub const MAX_OBJECT_NAME: usize = 128;

/// Tags from here to `i32::MAX` are those of non-blocking and persistent collectives.
const NONBLOCKING: u32 = 1 << 30;

/// An intra- or inter-communicator.
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
    /// The other side, for the communicator in `local`: its collectives are parts of larger ones, which are in vain without the others.
    others: Option<Rc<Group>>,
    /// Rank of this process in the local group.
    pub rank: i32,
    /// Buffer for buffered sends.
    pub buffer: crate::p2p::buffered::Slot,
    /// The session that the communicator comes from; none in the World Model.
    pub session: Option<Rc<Session>>,
    /// Hints (7.4.4).
    pub hints: RefCell<Hints>,
    /// Sequence number of the next collective; its message tag.
    collective_sequence: Cell<u32>,
    /// The same for non-blocking and persistent collectives.
    nonblocking_sequence: Cell<u32>,
    /// What its processes (of an inter-communicator: those of the local group) have agreed on.
    pub(crate) choices: Choices,
    /// Which of its processes share a node.
    pub(crate) nodes: crate::coll::layout::Cache,
    errhandler: RefCell<Errhandler>,
    errhandler_set: Cell<bool>,
    name: RefCell<Vec<u8>>,
    attributes: AttrSet,
    topology: OnceCell<Rc<Topology>>,
}

impl Named for Comm {
    fn handle_cell(&self) -> &Cell<Handle> {
        &self.handle
    }
}

impl Attributed for Comm {
    const KIND: ObjectKind = ObjectKind::Comm;
    fn attributes(&self) -> &AttrSet {
        &self.attributes
    }
    fn attribute_handle(&self) -> Handle {
        self.handle.get()
    }
}

impl Comm {
    /// An intra-communicator that no handle stands for yet. This process is a member.
    pub fn new(
        context: ContextId,
        group: Rc<Group>,
        errhandler: Errhandler,
        session: Option<Rc<Session>>,
        choices: Choices,
    ) -> Comm {
        let rank = group.rank_of(init::me()).unwrap_or(crate::status::UNDEFINED);
        Comm {
            handle: Cell::default(),
            context,
            group,
            remote: None,
            local: None,
            others: None,
            rank,
            buffer: RefCell::default(),
            session,
            hints: RefCell::default(),
            collective_sequence: Cell::new(0),
            nonblocking_sequence: Cell::new(0),
            choices,
            nodes: Default::default(),
            errhandler: RefCell::new(errhandler),
            errhandler_set: Cell::new(false),
            name: RefCell::default(),
            attributes: AttrSet::default(),
            topology: OnceCell::new(),
        }
    }

    /// An intra-communicator that inherits from `parent`.
    fn child(parent: &Comm, context: ContextId, group: Rc<Group>) -> Comm {
        Comm::new(context, group, parent.errhandler(), parent.session.clone(), parent.choices)
    }

    /// An inter-communicator that inherits from `parent`; `local_context` is for the collectives of the local group.
    fn inter_child(
        parent: &Comm,
        context: ContextId,
        local_context: ContextId,
        group: Rc<Group>,
        remote: Rc<Group>,
    ) -> Comm {
        let local = Comm::child(parent, local_context, Rc::clone(&group));
        let local = Rc::new(Comm { others: Some(Rc::clone(&remote)), ..local });
        Comm { remote: Some(remote), local: Some(local), ..Comm::child(parent, context, group) }
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

    /// All processes of the communicator, on both sides.
    pub fn processes(&self) -> Vec<Peer> {
        self.group.peers().chain(self.remote.iter().flat_map(|remote| remote.peers())).collect()
    }

    /// Whether collectives of this communicator need `peer`.
    pub fn needs(&self, peer: Peer) -> bool {
        self.group.contains(peer)
            || [&self.remote, &self.others].into_iter().flatten().any(|group| group.contains(peer))
    }

    /// The tag of the next blocking collective on this communicator; every member calls these in the same order.
    #[inline]
    pub fn next_collective_tag(&self) -> i32 {
        let sequence = self.collective_sequence.get();
        self.collective_sequence.set(sequence.wrapping_add(1));
        (sequence % NONBLOCKING) as i32
    }

    /// The tag of the next non-blocking or persistent collective. These never match blocking ones (6.12), so programs that mix
    /// both in another order on different processes find no fault with us.
    #[inline]
    pub fn next_nonblocking_tag(&self) -> i32 {
        let sequence = self.nonblocking_sequence.get();
        self.nonblocking_sequence.set(sequence.wrapping_add(1));
        ((sequence % NONBLOCKING) | NONBLOCKING) as i32
    }

    /// The virtual topology, if the communicator has one.
    pub fn topology(&self) -> Option<&Rc<Topology>> {
        self.topology.get()
    }

    pub(crate) fn set_topology(&self, topology: Rc<Topology>) {
        let _ = self.topology.set(topology);
    }

    /// The error handler in force.
    pub fn errhandler(&self) -> Errhandler {
        self.errhandler.borrow().clone()
    }

    /// `MPI_Comm_set_errhandler`.
    pub fn set_errhandler(&self, handle: Handle) -> Result {
        let new = errhandler::for_target(handle, Target::Comm)?;
        *self.errhandler.borrow_mut() = new;
        self.errhandler_set.set(true);
        Ok(())
    }

    /// Whether the program has set the error handler.
    pub fn errhandler_is_set(&self) -> bool {
        self.errhandler_set.get()
    }

    /// `MPI_Comm_get_errhandler`: a handle that the program owns.
    pub fn get_errhandler(&self) -> Handle {
        errhandler::share(&self.errhandler())
    }

    /// `MPI_Comm_get_name`.
    pub fn name(&self) -> Vec<u8> {
        self.name.borrow().clone()
    }

    /// `MPI_Comm_set_name`; a longer name is cut.
    pub fn set_name(&self, name: &[u8]) {
        let name = &name[..name.len().min(MAX_OBJECT_NAME - 1)];
        *self.name.borrow_mut() = name.to_vec();
        crate::profile::name(self.context, name);
    }

    /// `MPI_Comm_compare`.
    pub fn compare(&self, other: &Comm) -> i32 {
        if std::ptr::eq(self, other) {
            return group::IDENT;
        }
        let local = self.group.compare(&other.group);
        let result = match (&self.remote, &other.remote) {
            (None, None) => local,
            (Some(a), Some(b)) => local.max(a.compare(b)),
            _ => group::UNEQUAL,
        };
        if result == group::IDENT { group::CONGRUENT } else { result }
    }

    /// `MPI_Comm_get_attr`: the attribute's value. The predefined ones (9.1.2) are pointers to integers.
    pub fn attribute(&self, keyval: i32) -> Result<Option<*mut c_void>> {
        match init::predefined_attribute(keyval) {
            Some(value) => Ok(value.map(<*mut i32>::cast)),
            None => attr::get(self, keyval),
        }
    }
}

/// The communicator of a live handle.
#[inline]
pub fn from_handle(handle: Handle) -> Result<Rc<Comm>> {
    let found = match handle {
        COMM_WORLD => rt().world.get().cloned(),
        COMM_SELF => rt().self_comm.get().cloned(),
        _ => rt().comms.get(handle),
    };
    match found {
        Some(comm) => Ok(comm),
        None => fail!(ERR_COMM, "no such communicator"),
    }
}

/// The handle of a communicator, `MPI_COMM_NULL` if there is none.
pub fn handle_of(comm: Option<&Rc<Comm>>) -> Handle {
    comm.map_or(COMM_NULL, |comm| comm.handle.get())
}

/// How messages for humans name the communicator of a handle, if it is one.
pub(crate) fn describe(handle: Handle) -> Option<String> {
    let name = from_handle(handle).ok()?.name();
    Some(if name.is_empty() { String::from("a communicator") } else { String::from_utf8_lossy(&name).into_owned() })
}

/// Whether the communicator of a message context contains a process, or may: what is not known is not ruled out.
pub(crate) fn contains(context: u64, peer: Peer) -> bool {
    let owner = ContextId::of_plane(context);
    let is = |comm: &Rc<Comm>| comm.context == owner || comm.local.as_ref().is_some_and(|local| local.context == owner);
    let predefined = [rt().world.get(), rt().self_comm.get()];
    let mut live = rt().comms.handles().into_iter().filter_map(|handle| rt().comms.get(handle));
    let found = predefined.into_iter().flatten().find(|&comm| is(comm)).cloned().or_else(|| live.find(is));
    found.is_none_or(|comm| comm.needs(peer))
}

/// Gives a new communicator to the program.
fn publish(comm: Comm) -> Rc<Comm> {
    let comm = Rc::new(comm);
    rt().comms.enter(Rc::clone(&comm));
    comm
}

/// `MPI_Comm_free`: deletes the attributes, then forgets the handle. What is under way goes on.
pub fn free(comm: &Rc<Comm>) -> Result {
    let handle = comm.handle.get();
    ensure!(handle != COMM_WORLD && handle != COMM_SELF, ERR_COMM, "a predefined communicator can't be freed");
    attr::delete_all(&**comm)?;
    rt().comms.remove(handle);
    Ok(())
}

/// `MPI_Comm_disconnect`: as [`free`], after every member has called it, so that what was sent has left.
pub fn disconnect(comm: &Rc<Comm>) -> Result {
    let handle = comm.handle.get();
    ensure!(handle != COMM_WORLD && handle != COMM_SELF, ERR_COMM, "a predefined communicator can't be freed");
    crate::progress::wait_until(|| rt().engine.with(|engine| !engine.has_backlog()));
    synchronize(comm)?;
    free(comm)
}

/// Returns when every member of the communicator, on both sides, has called it.
fn synchronize(comm: &Rc<Comm>) -> Result {
    let (Some(local), Some(remote)) = (&comm.local, &comm.remote) else { return barrier(comm) };
    let channel = duplicate::collective_channel(comm);
    barrier(local)?;
    let met = match comm.rank {
        0 => agree::exchange(channel, remote.peer(0), &[], &agree::Members::of(comm)).map(drop),
        _ => Ok(()),
    };
    barrier(local).and(met)
}
