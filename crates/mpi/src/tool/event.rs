//! Events (MPI-5.0, 15.3.8): collectives that begin and end, messages, and counters that have moved.
//!
//! A collective's event happens in the call that starts it or makes progress. Messages are in [`super::messages`]. Of a counter, the service that looks at them with
//! every poll makes one event for what was counted since it looked the last time, so nothing is added where the counting happens.
//! All are places where the program's functions may call MPI, so every level of safety is good there. An event
//! that happens while a function for events runs is dropped and counted.

use super::registry::Registry;
use super::{Bind, Type, at, enums, messages};
use crate::call;
use crate::comm::{Comm, watch};
use crate::cs::Section;
use crate::inside::Inside;
use crate::progress::{self, Active};
use crate::status::PROC_NULL;
use base::counters::{self, Counter};
use base::ids::{PLANE_MASK, Plane};
use base::{ContextId, Result, ensure, fail};
use protocol::engine::observer::{Happening, What};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::OnceLock;

/// What a type of events tells.
#[derive(Clone, Copy)]
enum Subject {
    Begin,
    End,
    /// Any of these.
    Message(&'static [What]),
    Counter(&'static Counter),
}

/// Where events come from. Those of one source come in the order of their times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// What is told when it happens.
    Process,
    /// Messages, of which is told somewhat later.
    Messages,
}

impl Source {
    /// All of them, in the order of their numbers: name and description.
    pub const ALL: [(&'static str, &'static str); 2] = [
        ("FERRULE_PROCESS", "collectives and counters of this process, by the clock of MPI_Wtime"),
        ("FERRULE_MESSAGES", "messages of this process, by the clock of MPI_Wtime"),
    ];

    /// Its number.
    pub fn index(self) -> i32 {
        self as i32
    }
}

/// A type of events.
pub struct EventType {
    /// Its name.
    pub name: String,
    /// When it happens.
    pub description: String,
    subject: Subject,
}

/// An element of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element {
    /// A number.
    Int(i32),
    /// A count.
    Unsigned(u64),
    /// A name.
    Text(&'static str),
}

/// Bytes of a text in an event, with the terminating null.
pub const TEXT_BYTES: usize = 64;

/// Elements of an event about a collective, and where they lie.
pub const OF_COLLECTIVES: &[(Type, usize)] =
    &[(Type::Text, 0), (Type::Unsigned, TEXT_BYTES), (Type::Int, TEXT_BYTES + 8), (Type::Int, TEXT_BYTES + 12)];
/// Elements of an event about a message.
pub const OF_MESSAGES: &[(Type, usize)] = &[
    (Type::Text, 0),
    (Type::Unsigned, TEXT_BYTES),
    (Type::Int, TEXT_BYTES + 8),
    (Type::Int, TEXT_BYTES + 12),
    (Type::Int, TEXT_BYTES + 16),
];
/// Elements of an event about a counter.
pub const OF_COUNTERS: &[(Type, usize)] = &[(Type::Unsigned, 0), (Type::Unsigned, 8)];

/// Levels of safety, in the order of their values.
pub const LEVELS: usize = 4;

/// A function of the program: instance, registration, level.
pub type Callback = Rc<dyn Fn(&mut Section, usize, usize, usize)>;
/// Learns how many events were dropped: their number, registration, source, level.
pub type Dropped = Rc<dyn Fn(&mut Section, u64, usize, Source, usize)>;

impl EventType {
    /// What a registration is bound to.
    pub fn bind(&self) -> Bind {
        if self.is_counted() { Bind::Nothing } else { Bind::Comm }
    }

    /// Whether it tells of a counter.
    pub fn is_counted(&self) -> bool {
        matches!(self.subject, Subject::Counter(_))
    }

    /// Whether it tells of messages.
    pub fn is_of_messages(&self) -> bool {
        matches!(self.subject, Subject::Message(_))
    }

    /// Types and places of its elements.
    pub fn elements(&self) -> &'static [(Type, usize)] {
        match self.subject {
            Subject::Begin | Subject::End => OF_COLLECTIVES,
            Subject::Message(_) => OF_MESSAGES,
            Subject::Counter(_) => OF_COUNTERS,
        }
    }

    /// Their names, in the enumerations.
    pub fn names(&self) -> usize {
        match self.subject {
            Subject::Begin | Subject::End => enums::COLLECTIVE,
            Subject::Message(_) => enums::MESSAGE,
            Subject::Counter(_) => enums::COUNTED,
        }
    }

    /// Where its events come from.
    pub fn source(&self) -> Source {
        if self.is_of_messages() { Source::Messages } else { Source::Process }
    }
}

/// Names and descriptions of the types that tell of messages.
const OF_WHAT: &[(&str, &str, &[What])] = &[
    ("MESSAGE_SENT", "the first packet of a message leaves this process", &[What::Sent]),
    ("MESSAGE_UNEXPECTED", "a message comes before its receive is posted", &[What::Unexpected]),
    ("MESSAGE_MATCHED", "a message and its receive meet in this process", &[What::Matched]),
    (
        "PROTOCOL_CHOSEN",
        "this process chooses how a message travels: as its sender, or as the receiver of one that was offered",
        &[What::Sent, What::Fetched],
    ),
];

/// All types.
pub fn all() -> &'static [EventType] {
    static ALL: OnceLock<Vec<EventType>> = OnceLock::new();
    ALL.get_or_init(|| {
        let of = |name: String, description: String, subject| EventType { name, description, subject };
        let mut all = vec![
            of("FERRULE_COLLECTIVE_BEGIN".into(), "a collective begins in this process".into(), Subject::Begin),
            of("FERRULE_COLLECTIVE_END".into(), "a collective ends in this process".into(), Subject::End),
        ];
        all.extend(OF_WHAT.iter().map(|(name, description, what)| {
            of(format!("FERRULE_{name}"), (*description).into(), Subject::Message(what))
        }));
        all.extend(counters::ALL.iter().map(|counter| {
            let description = format!("counted since the last event: {}", counter.doc);
            of(format!("FERRULE_{}", counter.name), description, Subject::Counter(counter))
        }));
        all
    })
}

/// A type by its index.
pub fn from_index(index: i32) -> Result<&'static EventType> {
    at(all(), index)
}

/// Name and description of a source.
pub fn source(index: i32) -> Result<(&'static str, &'static str)> {
    at(&Source::ALL, index).copied()
}

/// The index of a name.
pub fn index_of(name: &[u8]) -> Result<i32> {
    match all().iter().position(|event| event.name.as_bytes() == name) {
        Some(index) => Ok(index as i32),
        None => fail!(T_ERR_INVALID_NAME, "no such type of events"),
    }
}

/// What the program has registered.
struct Registration {
    event: &'static EventType,
    comm: Option<Rc<Comm>>,
    callbacks: RefCell<[Option<Callback>; LEVELS]>,
    on_dropped: RefCell<Option<Dropped>>,
    dropped: Cell<u64>,
    /// Where the counter stood at the last event.
    seen: Cell<u64>,
}

/// An event whose function runs.
#[derive(Clone)]
pub struct Instance {
    handle: usize,
    /// Its type.
    pub event: &'static EventType,
    /// What it tells.
    pub elements: Vec<Element>,
    /// When it has happened.
    pub time_ns: i64,
}

static REGISTRATIONS: Inside<RefCell<Registry<Registration>>> = Inside::new(RefCell::new(Registry::new()));
static CURRENT: Inside<RefCell<Option<Instance>>> = Inside::new(RefCell::new(None));
static LAST_INSTANCE: Inside<Cell<usize>> = Inside::new(Cell::new(0xff));

/// The time of the events' source in nanoseconds.
pub fn now_ns() -> i64 {
    (crate::env::wtime() * 1e9) as i64
}

/// Looks at the counter of one registration as long as there is this one.
struct Service(usize);
impl Active for Service {
    fn advance(&self, cs: &mut Section) -> bool {
        let found = REGISTRATIONS.get(cs).borrow().find(self.0);
        let Some(registration) = found else { return true };
        let Subject::Counter(counter) = registration.event.subject else { return true };
        let (seen, now) = (registration.seen.get(), counter.value());
        if seen != now {
            registration.seen.set(now);
            let elements = vec![Element::Unsigned(now.wrapping_sub(seen)), Element::Unsigned(now)];
            fire(cs, self.0, &registration, elements, now_ns());
        }
        false
    }
}

/// Runs the function of a registration.
fn fire(cs: &mut Section, handle: usize, registration: &Registration, elements: Vec<Element>, time_ns: i64) {
    let place = registration.callbacks.borrow().iter().position(Option::is_some);
    let Some(level) = place else { return };
    if CURRENT.get(cs).borrow().is_some() {
        registration.dropped.set(registration.dropped.get() + 1);
        return;
    }
    // The functions may call MPI, and the program is still in this call afterwards.
    let during = call::current();
    let instance = LAST_INSTANCE.get(cs).get() + 1;
    LAST_INSTANCE.get(cs).set(instance);
    let event = registration.event;
    *CURRENT.get(cs).borrow_mut() = Some(Instance { handle: instance, event, elements, time_ns });
    let on_dropped = registration.on_dropped.borrow().clone();
    if let Some(on_dropped) = on_dropped.filter(|_| registration.dropped.get() > 0) {
        let count = registration.dropped.take();
        on_dropped(cs, count, handle, event.source(), level);
    }
    let callback = registration.callbacks.borrow()[level].clone();
    if let Some(callback) = callback {
        callback(cs, instance, handle, level);
    }
    *CURRENT.get(cs).borrow_mut() = None;
    if let Some(name) = during {
        call::enter(name);
    }
}

/// A collective begins or ends.
#[cold]
fn of_collective(cs: &mut Section, comm: &Comm, begins: bool) {
    let all = REGISTRATIONS.get(cs).borrow().all();
    let function = call::current().map_or("", |name| *name);
    for (handle, registration) in all {
        let meant = matches!((registration.event.subject, begins), (Subject::Begin, true) | (Subject::End, false));
        if meant && registration.comm.as_ref().is_some_and(|other| other.context == comm.context) {
            let (rank, size) = (Element::Int(comm.rank), Element::Int(comm.size()));
            fire(
                cs,
                handle,
                &registration,
                vec![Element::Text(function), Element::Unsigned(comm.context.0), rank, size],
                now_ns(),
            );
        }
    }
}

/// Something has happened to a message.
pub(super) fn of_message(cs: &mut Section, happening: &Happening) {
    let all = REGISTRATIONS.get(cs).borrow().all();
    let Happening { what, envelope, .. } = *happening;
    for (handle, registration) in all {
        let Subject::Message(wanted) = registration.event.subject else { continue };
        let Some(comm) = registration.comm.as_ref().filter(|_| wanted.contains(&what)) else { continue };
        if comm.context != ContextId::of_plane(envelope.context) {
            continue;
        }
        let peer = match what {
            What::Sent => comm.peers().rank_of(happening.peer).unwrap_or(PROC_NULL),
            What::Unexpected | What::Matched | What::Fetched => envelope.source as i32,
        };
        let internal = envelope.context & PLANE_MASK != Plane::PointToPoint as u64;
        let numbers = [peer, envelope.tag, i32::from(internal)].map(Element::Int);
        let elements = [Element::Text(happening.how.name()), Element::Unsigned(happening.bytes)];
        fire(cs, handle, &registration, [&elements[..], &numbers].concat(), happening.time_ns as i64);
    }
}

/// So many happenings of messages are lost to every registration.
pub(super) fn drop_messages(cs: &Section, dropped: u64) {
    let all = if dropped > 0 { REGISTRATIONS.get(cs).borrow().all() } else { Vec::new() };
    for (_, registration) in all.iter().filter(|(_, registration)| registration.event.is_of_messages()) {
        registration.dropped.set(registration.dropped.get() + dropped);
    }
}

/// Whether a function for an event runs.
pub(super) fn is_running(cs: &Section) -> bool {
    CURRENT.get(cs).borrow().is_some()
}

/// Whether anybody is registered for messages.
pub(super) fn wants_messages(cs: &Section) -> bool {
    REGISTRATIONS.get(cs).borrow().all().iter().any(|(_, registration)| registration.event.is_of_messages())
}

fn find(cs: &Section, handle: usize) -> Result<Rc<Registration>> {
    match REGISTRATIONS.get(cs).borrow().find(handle) {
        Some(found) => Ok(found),
        None => fail!(T_ERR_INVALID_HANDLE, "no such registration of events"),
    }
}

/// Whether there is such a registration, as an error.
pub fn ensure_registered(cs: &Section, handle: usize) -> Result {
    find(cs, handle).map(drop)
}

fn update(cs: &Section) {
    let all = REGISTRATIONS.get(cs).borrow().all();
    let is_of_collectives = |event: &EventType| matches!(event.subject, Subject::Begin | Subject::End);
    let wanted = all.iter().any(|(_, registration)| is_of_collectives(registration.event));
    watch::set(cs, wanted.then_some(of_collective));
    messages::update(cs);
}

/// `MPI_T_event_handle_alloc`.
pub fn register(cs: &Section, event: &'static EventType, comm: Option<Rc<Comm>>) -> usize {
    let seen = match event.subject {
        Subject::Counter(counter) => counter.value(),
        Subject::Begin | Subject::End | Subject::Message(_) => 0,
    };
    let (callbacks, on_dropped) = (RefCell::default(), RefCell::default());
    let registration =
        Registration { event, comm, callbacks, on_dropped, dropped: Cell::new(0), seen: Cell::new(seen) };
    let handle = REGISTRATIONS.get(cs).borrow_mut().enter(registration);
    update(cs);
    if event.is_counted() {
        progress::serve(cs, Rc::new(Service(handle)));
    }
    handle
}

/// `MPI_T_event_register_callback`; none takes it away.
pub fn set_callback(cs: &Section, handle: usize, level: usize, callback: Option<Callback>) -> Result {
    find(cs, handle)?.callbacks.borrow_mut()[level] = callback;
    Ok(())
}

/// `MPI_T_event_set_dropped_handler`.
pub fn set_dropped(cs: &Section, handle: usize, dropped: Option<Dropped>) -> Result {
    *find(cs, handle)?.on_dropped.borrow_mut() = dropped;
    Ok(())
}

/// `MPI_T_event_handle_free`.
pub fn free(cs: &Section, handle: usize) -> Result {
    let removed = REGISTRATIONS.get(cs).borrow_mut().remove(handle);
    ensure!(removed.is_some(), T_ERR_INVALID_HANDLE, "no such registration of events");
    update(cs);
    Ok(())
}

/// An event, while its function runs.
pub fn instance(cs: &Section, handle: usize) -> Result<Instance> {
    match &*CURRENT.get(cs).borrow() {
        Some(instance) if instance.handle == handle => Ok(instance.clone()),
        _ => fail!(T_ERR_INVALID_HANDLE, "no such event: they are there while their function runs"),
    }
}

pub(super) fn clear(cs: &Section) {
    REGISTRATIONS.get(cs).borrow_mut().clear();
    update(cs);
}
