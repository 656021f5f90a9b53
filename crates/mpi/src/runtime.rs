//! The one runtime of this process: engine, object tables, state of initialisation.

use crate::comm::Comm;
use crate::datatype::Datatype;
use crate::group::Group;
use crate::handle::{Kind, Table};
use crate::op::Op;
use crate::progress::Active;
use crate::request::Request;
use channel::fabric::ChannelFabric;
use protocol::engine::Engine;
use std::cell::{Cell, OnceCell, RefCell, UnsafeCell};
use std::rc::Rc;

/// Everything that outlives a call. Only touched inside the critical section.
pub struct Runtime {
    /// The message engine; there is none before initialisation and after finalisation.
    pub engine: EngineCell,
    /// Live communicators but the predefined ones.
    pub comms: Table<Rc<Comm>>,
    /// Live groups.
    pub groups: Table<Rc<Group>>,
    /// Live derived datatypes.
    pub datatypes: Table<Rc<Datatype>>,
    /// Live user-defined operations.
    pub ops: Table<Rc<Op>>,
    /// Live requests.
    pub requests: Table<Request>,
    /// Schedules that advance with every poll.
    pub active: RefCell<Vec<Rc<dyn Active>>>,
    /// `MPI_COMM_WORLD`.
    pub world: OnceCell<Rc<Comm>>,
    /// `MPI_COMM_SELF`.
    pub self_comm: OnceCell<Rc<Comm>>,
    /// Counter of the contexts that this process has proposed.
    next_context: Cell<u32>,
}

// SAFETY: only reached inside the critical section (`cs`), so by one thread at a time.
unsafe impl Sync for Runtime {}

static RUNTIME: Runtime = Runtime {
    engine: EngineCell(UnsafeCell::new(None)),
    comms: Table::new(Kind::Comm),
    groups: Table::new(Kind::Group),
    datatypes: Table::new(Kind::Datatype),
    ops: Table::new(Kind::Op),
    requests: Table::new(Kind::Request),
    active: RefCell::new(Vec::new()),
    world: OnceCell::new(),
    self_comm: OnceCell::new(),
    next_context: Cell::new(16),
};

/// The runtime. The caller is inside the critical section.
#[inline]
pub fn rt() -> &'static Runtime {
    &RUNTIME
}

/// Holds the engine; no callback of the program runs while it is borrowed.
pub struct EngineCell(UnsafeCell<Option<Engine<ChannelFabric>>>);

impl EngineCell {
    /// Runs `f` on the engine.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&mut Engine<ChannelFabric>) -> R) -> R {
        // SAFETY: inside the critical section, and `f` is engine code: it calls neither the program nor this method.
        let engine = unsafe { &mut *self.0.get() };
        f(engine.as_mut().expect("MPI is initialised"))
    }
}
