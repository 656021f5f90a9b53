//! Events (MPI-5.0, 15.3.8): collectives that begin and end, and counters that have moved.
//!
//! A collective's event happens in the call that starts it or makes progress. Of a counter, the service that looks at them with every poll makes one
//! event for what was counted since it looked the last time, so nothing is added where the counting happens.
//! Both are places where the program's functions may call MPI, so every level of safety is good there. An event
//! that happens while a function for events runs is dropped and counted.

use super::registry::Registry;
use super::{Bind, Type, at};
use crate::call;
use crate::comm::{Comm, watch};
use crate::cs::Section;
use crate::inside::Inside;
use crate::progress::{self, Active};
use base::counters::{self, Counter};
use base::{Result, ensure, fail};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::OnceLock;

/// What a type of events tells.
#[derive(Clone, Copy)]
enum Subject {
    Begin,
    End,
    Counter(&'static Counter),
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
/// Elements of an event about a counter.
pub const OF_COUNTERS: &[(Type, usize)] = &[(Type::Unsigned, 0), (Type::Unsigned, 8)];

/// Levels of safety, in the order of their values.
pub const LEVELS: usize = 4;

/// A function of the program: instance, registration, level.
pub type Callback = Rc<dyn Fn(&mut Section, usize, usize, usize)>;
/// Learns how many events were dropped: their number, registration, level.
pub type Dropped = Rc<dyn Fn(&mut Section, u64, usize, usize)>;

impl EventType {
    /// What a registration is bound to.
    pub fn bind(&self) -> Bind {
        if self.is_counted() { Bind::Nothing } else { Bind::Comm }
    }

    /// Whether it tells of a counter.
    pub fn is_counted(&self) -> bool {
        matches!(self.subject, Subject::Counter(_))
    }

    /// Types and places of its elements.
    pub fn elements(&self) -> &'static [(Type, usize)] {
        if self.is_counted() { OF_COUNTERS } else { OF_COLLECTIVES }
    }
}

/// All types.
pub fn all() -> &'static [EventType] {
    static ALL: OnceLock<Vec<EventType>> = OnceLock::new();
    ALL.get_or_init(|| {
        let of = |name: String, description: String, subject| EventType { name, description, subject };
        let mut all = vec![
            of("FERRULE_COLLECTIVE_BEGIN".into(), "a collective begins in this process".into(), Subject::Begin),
            of("FERRULE_COLLECTIVE_END".into(), "a collective ends in this process".into(), Subject::End),
        ];
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
struct Instance {
    handle: usize,
    elements: Vec<Element>,
    time_ns: i64,
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
            fire(cs, self.0, &registration, elements);
        }
        false
    }
}

/// Runs the function of a registration.
fn fire(cs: &mut Section, handle: usize, registration: &Registration, elements: Vec<Element>) {
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
    *CURRENT.get(cs).borrow_mut() = Some(Instance { handle: instance, elements, time_ns: now_ns() });
    let on_dropped = registration.on_dropped.borrow().clone();
    if let Some(on_dropped) = on_dropped.filter(|_| registration.dropped.get() > 0) {
        let count = registration.dropped.take();
        on_dropped(cs, count, handle, level);
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
            );
        }
    }
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
    let wanted = all.iter().any(|(_, registration)| !registration.event.is_counted());
    watch::set(cs, wanted.then_some(of_collective));
}

/// `MPI_T_event_handle_alloc`.
pub fn register(cs: &Section, event: &'static EventType, comm: Option<Rc<Comm>>) -> usize {
    let seen = match event.subject {
        Subject::Counter(counter) => counter.value(),
        Subject::Begin | Subject::End => 0,
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

/// The elements of an instance and its time in nanoseconds.
pub fn instance(cs: &Section, handle: usize) -> Result<(Vec<Element>, i64)> {
    match &*CURRENT.get(cs).borrow() {
        Some(instance) if instance.handle == handle => Ok((instance.elements.clone(), instance.time_ns)),
        _ => fail!(T_ERR_INVALID_HANDLE, "no such event: they are there while their function runs"),
    }
}

pub(super) fn clear(cs: &Section) {
    REGISTRATIONS.get(cs).borrow_mut().clear();
    update(cs);
}
