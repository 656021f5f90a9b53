//! Communicators (MPI-5.0, chapter 7): the object, its handle, its end.
//!
//! A communicator is immutable but for its cells. It lives on through `Rc` while operations are under way, also after the
//! program has freed it. Context ids are unique for the life of the job, so none is ever reused ([`agree`]).

pub mod agree;
pub mod attributes;
pub mod choices;
pub mod exchange;
pub mod failures;
mod hints;
pub mod layout;
pub(crate) mod watch;

use crate::cs::Section;
pub(crate) use hints::apply_class;
pub use hints::{Hints, get_info, set_info};

use crate::attr::{self, AttrSet, Attributed, Holder, ObjectKind};
use crate::engine;
use crate::errhandler::Errhandler;
use crate::group::{Comparison, Group};
use crate::handle::{Handle, Kind, Named, Table};
use crate::inside::Inside;
use crate::job;
use crate::losses;
use crate::owner::{self, Owner};
use crate::p2p::buffered;
use crate::p2p::space::Space;
use base::ids::Plane;
use base::{ContextId, Peer, Result, ensure, fail, log};
use choices::Choices;
use failures::Failures;
use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Deref;
use std::rc::Rc;

/// Live communicators but the predefined ones.
pub static COMMS: Inside<Table<Rc<Comm>>> = Inside::new(Table::new(Kind::Comm));

static WORLD: Inside<OnceCell<Rc<Comm>>> = Inside::new(OnceCell::new());
static OWN: Inside<OnceCell<Rc<Comm>>> = Inside::new(OnceCell::new());

/// `MPI_MAX_OBJECT_NAME`, with the terminating zero.
pub const MAX_OBJECT_NAME: usize = 128;

/// Tags from here to `i32::MAX` are those of non-blocking and persistent collectives.
const NONBLOCKING: u32 = 1 << 30;

/// What a communicator is made of.
struct Parts {
    context: ContextId,
    group: Rc<Group>,
    remote: Option<Rc<Group>>,
    local: Option<Rc<Comm>>,
    errhandler: Errhandler,
    session: Option<Rc<Owner>>,
    choices: Choices,
}

/// An intra- or inter-communicator.
pub struct Comm {
    space: Space,
    /// An intra-communicator of the local group, for the collectives of an inter-communicator.
    pub local: Option<Rc<Comm>>,
    /// The other side, for the communicator in `local`: its collectives are parts of larger ones, which are in vain without the others.
    others: Option<Rc<Group>>,
    /// Failures of its processes that the program has seen.
    pub failures: Failures,
    /// Hints (7.4.4).
    pub hints: RefCell<Hints>,
    /// Sequence number of the next collective; its message tag.
    collective_sequence: Cell<u32>,
    /// The same for non-blocking and persistent collectives.
    nonblocking_sequence: Cell<u32>,
    /// What its processes (of an inter-communicator: those of the local group) have agreed on.
    pub(crate) choices: Choices,
    /// Which of its processes share a node.
    pub(crate) nodes: layout::Cache,
    attributes: AttrSet,
    topology: OnceCell<Rc<dyn Any>>,
}

impl Deref for Comm {
    type Target = Space;
    #[inline(always)]
    fn deref(&self) -> &Space {
        &self.space
    }
}

impl Named for Comm {
    fn handle_cell(&self) -> &Cell<Handle> {
        &self.owner.handle
    }
}

impl Attributed for Comm {
    const KIND: ObjectKind = ObjectKind::Comm;
    fn attributes(&self) -> &AttrSet {
        &self.attributes
    }
    fn holder(&self) -> Holder<'_> {
        Holder::Comm(self.handle())
    }
}

impl Comm {
    /// An intra-communicator that no handle stands for yet. This process is a member.
    pub fn new(
        context: ContextId,
        group: Rc<Group>,
        errhandler: Errhandler,
        session: Option<Rc<Owner>>,
        choices: Choices,
    ) -> Comm {
        Comm::with_parts(Parts { context, group, remote: None, local: None, errhandler, session, choices })
    }

    fn with_parts(parts: Parts) -> Comm {
        let Parts { context, group, remote, local, errhandler, session, choices } = parts;
        let rank = group.rank_of(job::me()).unwrap_or(crate::status::UNDEFINED);
        let contexts = [Some(context), local.as_ref().map(|local| local.context)];
        let owner = Rc::new(Owner::of_comm(errhandler, contexts, [Some(Rc::clone(&group)), remote.clone()]));
        Comm {
            space: Space::new(owner, context, rank, (group, remote), session),
            failures: Failures::default(),
            local,
            others: None,
            hints: RefCell::default(),
            collective_sequence: Cell::new(0),
            nonblocking_sequence: Cell::new(0),
            choices,
            nodes: Default::default(),
            attributes: AttrSet::default(),
            topology: OnceCell::new(),
        }
    }

    /// An intra-communicator that inherits from `parent`.
    pub(crate) fn child(parent: &Comm, context: ContextId, group: Rc<Group>) -> Comm {
        Comm::new(context, group, parent.owner.errhandler(), parent.session.clone(), parent.choices)
    }

    /// An inter-communicator that inherits from `parent`; `local_context` is for the collectives of the local group.
    pub(crate) fn inter_child(
        parent: &Comm,
        context: ContextId,
        local_context: ContextId,
        group: Rc<Group>,
        remote: Rc<Group>,
    ) -> Comm {
        let local = Comm::child(parent, local_context, Rc::clone(&group));
        let local = Rc::new(Comm { others: Some(Rc::clone(&remote)), ..local });
        let (errhandler, session, choices) = (parent.owner.errhandler(), parent.session.clone(), parent.choices);
        Comm::with_parts(Parts {
            context,
            group,
            remote: Some(remote),
            local: Some(local),
            errhandler,
            session,
            choices,
        })
    }

    /// With other choices.
    pub(crate) fn with_choices(self, choices: Choices) -> Comm {
        Comm { choices, ..self }
    }

    /// Takes the attributes of `from` over, and its name.
    pub(crate) fn replacing(self, cs: &Section, from: &Comm) -> Comm {
        let comm = Comm { attributes: from.attributes.take(), ..self };
        comm.set_name(cs, &from.owner.name());
        comm.owner.handle.set(from.handle());
        comm
    }

    /// All processes that collectives of this communicator need.
    pub(crate) fn groups(&self) -> [Option<&Rc<Group>>; 3] {
        [Some(&self.group), self.remote.as_ref(), self.others.as_ref()]
    }

    /// Whether collectives of this communicator need `peer`.
    pub fn needs(&self, peer: Peer) -> bool {
        self.groups().into_iter().flatten().any(|group| group.contains(peer))
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

    /// The virtual topology, if the communicator has one; only `topo` knows what it is.
    pub(crate) fn topology(&self) -> Option<&Rc<dyn Any>> {
        self.topology.get()
    }

    pub(crate) fn set_topology(&self, topology: Rc<dyn Any>) {
        let _ = self.topology.set(topology);
    }

    /// `MPI_Comm_set_name`; a longer name is cut.
    pub fn set_name(&self, cs: &Section, name: &[u8]) {
        let name = &name[..name.len().min(MAX_OBJECT_NAME - 1)];
        self.owner.set_name(name);
        crate::profile::name(cs, self.context, name);
    }

    /// `MPI_Comm_compare`.
    pub fn compare(&self, other: &Comm) -> Comparison {
        if std::ptr::eq(self, other) {
            return Comparison::Ident;
        }
        let local = self.group.compare(&other.group);
        let result = match (&self.remote, &other.remote) {
            (None, None) => local,
            (Some(a), Some(b)) => local.max(a.compare(b)),
            _ => Comparison::Unequal,
        };
        if result == Comparison::Ident { Comparison::Congruent } else { result }
    }
}

/// The communicator of a live handle.
#[inline]
pub fn from_handle(cs: &Section, handle: Handle) -> Result<Rc<Comm>> {
    let found = match handle {
        Handle::COMM_WORLD => world(cs).cloned(),
        Handle::COMM_SELF => own(cs).cloned(),
        _ => COMMS.get(cs).get(handle),
    };
    match found {
        Some(comm) => Ok(comm),
        None => fail!(ERR_COMM, "no such communicator"),
    }
}

/// The handle of a communicator, `MPI_COMM_NULL` if there is none.
pub fn handle_of(comm: Option<&Rc<Comm>>) -> Handle {
    comm.map_or(Handle::NONE, |comm| comm.handle())
}

/// `MPI_COMM_WORLD`, once the World Model has begun.
#[inline(always)]
pub fn world(cs: &Section) -> Option<&'static Rc<Comm>> {
    WORLD.get_set(cs)
}

/// `MPI_COMM_SELF`, once the World Model has begun.
#[inline(always)]
pub fn own(cs: &Section) -> Option<&'static Rc<Comm>> {
    OWN.get_set(cs)
}

/// Enters `MPI_COMM_WORLD` and `MPI_COMM_SELF`.
pub(crate) fn set_predefined(cs: &Section, world: Comm, own: Comm) {
    let enter = |comm: Comm, handle, name: &str| {
        comm.owner.handle.set(handle);
        comm.set_name(cs, name.as_bytes());
        Rc::new(comm)
    };
    let world = WORLD.get(cs).get_or_init(|| enter(world, Handle::COMM_WORLD, "MPI_COMM_WORLD"));
    let own = OWN.get(cs).get_or_init(|| enter(own, Handle::COMM_SELF, "MPI_COMM_SELF"));
    owner::set_predefined(cs, &own.owner, &world.owner);
}

/// All communicators that the program has.
pub(crate) fn all(cs: &Section) -> impl Iterator<Item = Rc<Comm>> {
    let predefined = [world(cs), own(cs)].into_iter().flatten().cloned();
    predefined.chain(COMMS.get(cs).handles().into_iter().filter_map(|handle| COMMS.get(cs).get(handle)))
}

/// The communicator in whose space of messages this context is.
pub(crate) fn of_context(cs: &Section, context: u64) -> Option<Rc<Comm>> {
    let space = ContextId::of_plane(context);
    all(cs).find(|comm| comm.owner.contexts.contains(&Some(space)))
}

/// Whether a receive from any source in this context may wait for a process that is gone: one of the communicator, whose failure the program has not
/// acknowledged. What is not known is not ruled out.
pub(crate) fn may_wait_for(cs: &Section, context: u64, peer: Peer) -> bool {
    of_context(cs, context).is_none_or(|comm| comm.needs(peer) && !comm.failures.has_acknowledged(peer))
}

/// The communicator of this context is revoked, if this process has it; the context of its local group, which is revoked with it.
pub(crate) fn mark_revoked(cs: &Section, context: ContextId) -> Option<ContextId> {
    let comm = of_context(cs, context.0)?;
    comm.set_revoked();
    let local = comm.local.as_ref().map(|local| local.context);
    local.filter(|local| *local != context)
}

/// A communicator that is new here may have been revoked by another member already.
pub(crate) fn learn_revocation(cs: &Section, comm: &Comm) {
    if losses::is_revoked(cs, comm.context.0) {
        comm.set_revoked();
        if let Some(local) = &comm.local {
            engine::with(cs, |engine| engine.revoke(local.context));
        }
    }
}

/// Gives a new communicator to the program.
pub(crate) fn publish(cs: &Section, comm: Comm) -> Rc<Comm> {
    let comm = Rc::new(comm);
    COMMS.get(cs).enter(Rc::clone(&comm));
    learn_revocation(cs, &comm);
    if hints::has_class(&comm) {
        apply_class(cs, &comm, false);
    }
    comm
}

/// `MPI_Comm_free`: deletes the attributes, then forgets the handle. What is under way goes on.
pub fn free(cs: &mut Section, comm: &Rc<Comm>) -> Result {
    let handle = comm.handle();
    ensure!(
        handle != Handle::COMM_WORLD && handle != Handle::COMM_SELF,
        ERR_COMM,
        "a predefined communicator can't be freed"
    );
    attr::delete_all(cs, &**comm)?;
    warn_of_unreceived(cs, comm);
    if hints::has_class(comm) {
        apply_class(cs, comm, true);
    }
    buffered::let_go(cs, Some(&comm.owner));
    COMMS.get(cs).remove(handle);
    Ok(())
}

/// Says if messages of a communicator that goes have arrived and nobody has received them: most often a receive is missing.
fn warn_of_unreceived(cs: &Section, comm: &Comm) {
    let context = comm.context.plane(Plane::PointToPoint);
    let unreceived = engine::with(cs, |engine| engine.unreceived(context));
    if let Some(first) = unreceived.first() {
        let name = comm.owner.describe().unwrap_or_default();
        let (count, envelope, bytes) = (unreceived.len(), first.envelope, first.length);
        let (source, tag) = (envelope.source, envelope.tag);
        log!(
            Warn,
            "{name} is freed with {count} unreceived messages: one of {bytes} bytes from rank {source} with tag {tag}"
        );
    }
}
