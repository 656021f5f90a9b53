//! The one runtime of this process: engine, object tables, state of initialisation.

use crate::comm::Comm;
use crate::datatype::Datatype;
use crate::group::Group;
use crate::handle::{Handle, Kind, Table};
use crate::op::Op;
use crate::p2p::buffered::Slot;
use crate::progress::Active;
use crate::request::{REQUEST_NULL, Request};
use channel::bootstrap::SharedBootstrap;
use channel::profile::{Call, SharedProfile};
use channel::transports::Transports;
use channel::waiting::Waiting;
use protocol::engine::{Engine, MessageId};
use std::cell::{Cell, OnceCell, RefCell, UnsafeCell};
use std::rc::Rc;

/// Everything that outlives a call. Only touched inside the critical section.
pub struct Runtime {
    /// The message engine; there is none before initialisation and after finalisation.
    pub engine: EngineCell,
    /// How this process waits; set with the engine.
    pub waiting: RefCell<Option<Waiting>>,
    /// The conversation with the node agent; set with the engine.
    pub bootstrap: RefCell<Option<SharedBootstrap>>,
    /// Where messages are counted.
    pub profile: RefCell<SharedProfile>,
    /// The collective to which the messages belong that are sent now.
    pub call: Cell<Call>,
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
    /// The handle of [`Request::Sent`], once there is one.
    pub sent: Cell<Handle>,
    /// Schedules that advance with every poll.
    pub active: RefCell<Vec<Rc<dyn Active>>>,
    /// `MPI_COMM_WORLD`.
    pub world: OnceCell<Rc<Comm>>,
    /// `MPI_COMM_SELF`.
    pub self_comm: OnceCell<Rc<Comm>>,
    /// The buffer of `MPI_Buffer_attach`.
    pub buffer: Slot,
    /// Messages taken out by matched probes.
    pub messages: Table<Message>,
    /// Whose request failed last, until its error handler is called.
    pub blamed: RefCell<Option<Rc<Comm>>>,
    /// Counter of the contexts that this process has proposed.
    next_context: Cell<u32>,
}

// SAFETY: only reached inside the critical section (`cs`), so by one thread at a time.
unsafe impl Sync for Runtime {}

static RUNTIME: Runtime = Runtime {
    engine: EngineCell(UnsafeCell::new(None)),
    waiting: RefCell::new(None),
    bootstrap: RefCell::new(None),
    profile: RefCell::new(SharedProfile::OFF),
    call: Cell::new(None),
    comms: Table::new(Kind::Comm),
    groups: Table::new(Kind::Group),
    datatypes: Table::new(Kind::Datatype),
    ops: Table::new(Kind::Op),
    requests: Table::new(Kind::Request),
    sent: Cell::new(REQUEST_NULL),
    active: RefCell::new(Vec::new()),
    world: OnceCell::new(),
    self_comm: OnceCell::new(),
    buffer: RefCell::new(None),
    messages: Table::new(Kind::Message),
    blamed: RefCell::new(None),
    next_context: Cell::new(FIRST_CONTEXT),
};

/// Contexts below this are those of the predefined communicators.
const FIRST_CONTEXT: u32 = 16;

/// A message that a matched probe has taken out.
pub struct Message {
    /// The engine's name of it.
    pub id: MessageId,
    /// Where it was sent.
    pub comm: Rc<Comm>,
}

impl Runtime {
    /// Whether schedules wait for progress.
    #[inline]
    pub fn has_active(&self) -> bool {
        !self.active.borrow().is_empty()
    }

    /// Runs `f` on what decides how this process waits.
    #[inline]
    pub fn waiting<R>(&self, f: impl FnOnce(&mut Waiting) -> R) -> R {
        f(self.waiting.borrow_mut().as_mut().expect("MPI is initialised"))
    }

    /// The conversation with the node agent, while MPI is initialised.
    pub fn agent(&self) -> Option<SharedBootstrap> {
        self.bootstrap.borrow().clone()
    }

    /// `MPI_COMM_SELF`, which exists from initialisation on.
    pub fn self_comm(&self) -> &Rc<Comm> {
        self.self_comm.get().expect("MPI is initialised")
    }

    /// A number for a new context that no other context proposed by this process has.
    pub fn propose_context(&self) -> u32 {
        let counter = self.next_context.get();
        self.next_context.set(counter + 1);
        counter
    }
}

/// The runtime. The caller is inside the critical section.
#[inline]
pub fn rt() -> &'static Runtime {
    &RUNTIME
}

/// Holds the engine; no callback of the program runs while it is borrowed.
pub struct EngineCell(UnsafeCell<Option<Engine<Transports>>>);

impl EngineCell {
    /// Puts the engine in place, or takes it away.
    pub fn set(&self, engine: Option<Engine<Transports>>) -> Option<Engine<Transports>> {
        // SAFETY: inside the critical section, and no borrow of `with` is alive: its closures don't call this method.
        unsafe { std::mem::replace(&mut *self.0.get(), engine) }
    }

    /// Whether there is an engine.
    pub fn is_set(&self) -> bool {
        // SAFETY: as in `set`.
        unsafe { (*self.0.get()).is_some() }
    }

    /// Runs `f` on the engine.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&mut Engine<Transports>) -> R) -> R {
        // SAFETY: inside the critical section, and `f` is engine code: it calls neither the program nor this method.
        f(unsafe { self.borrow() })
    }

    /// The engine, for the short path, where compilers should see no closure.
    ///
    /// # Safety
    /// Inside the critical section; nothing but engine code runs as long as the borrow is used.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "exclusive by the critical section and the caller")]
    pub unsafe fn borrow(&self) -> &mut Engine<Transports> {
        // SAFETY: the only borrow, by the caller.
        unsafe { &mut *self.0.get() }.as_mut().expect("MPI is initialised")
    }
}
