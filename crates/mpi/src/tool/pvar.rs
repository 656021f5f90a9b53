//! Performance variables (MPI-5.0, 15.3.7): every counter of this process, and the lengths of queues, of all communicators or of one.
//!
//! Counters of messages ([`super::messages`]) count only while one of them is started in some session.
//! A counter can be started, stopped, reset and written in each session; it is counted all the time, so a handle keeps where it
//! began. A length is always there and only read.

use super::registry::Registry;
use super::{Bind, at, messages};
use crate::comm::Comm;
use crate::cs::Section;
use crate::engine;
use crate::inside::Inside;
use crate::life;
use base::counters::{self, Counter};
use base::ids::Plane;
use base::{Result, ensure, fail};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::OnceLock;

/// What a variable tells.
#[derive(Clone, Copy)]
pub enum Source {
    /// Events so far.
    Counter(&'static Counter),
    /// The same, counted only while somebody wants to know.
    Observed(&'static Counter),
    /// How many there are now, of a communicator or without one.
    Length(fn(&Section, Option<&Comm>) -> usize),
}

/// One variable.
pub struct Pvar {
    /// Its name.
    pub name: String,
    /// What it counts.
    pub description: &'static str,
    /// What it is bound to.
    pub bind: Bind,
    /// Where it comes from.
    pub source: Source,
}

/// Handle of all variables of a session.
pub const ALL_HANDLES: usize = 1;

fn unexpected(cs: &Section, comm: Option<&Comm>) -> usize {
    let Some(comm) = comm else { return 0 };
    engine::with(cs, |engine| engine.unreceived(comm.context.plane(Plane::PointToPoint)).len())
}

fn pending(cs: &Section, comm: Option<&Comm>, sends: bool) -> usize {
    let Some(comm) = comm else { return 0 };
    let context = comm.context.plane(Plane::PointToPoint);
    let all = engine::with(cs, |engine| engine.pending());
    all.iter().filter(|p| p.context == context && p.op.is_send() == sends).count()
}

/// All of them: counters first.
pub fn all() -> &'static [Pvar] {
    static ALL: OnceLock<Vec<Pvar>> = OnceLock::new();
    ALL.get_or_init(|| {
        let counter = |counter: &'static Counter, source: fn(&'static Counter) -> Source| Pvar {
            name: format!("FERRULE_{}", counter.name),
            description: counter.doc,
            bind: Bind::Nothing,
            source: source(counter),
        };
        let length = |name: &str, description, bind, length| Pvar {
            name: format!("FERRULE_{name}"),
            description,
            bind,
            source: Source::Length(length),
        };
        let mut all: Vec<Pvar> = counters::ALL.iter().map(|of| counter(of, Source::Counter)).collect();
        all.extend(counters::traffic::ALL.iter().map(|of| counter(of, Source::Observed)));
        all.push(length(
            "UNEXPECTED_QUEUE_LENGTH",
            "messages of the communicator that have arrived and nobody has received",
            Bind::Comm,
            unexpected,
        ));
        all.push(length(
            "PENDING_RECEIVES",
            "receives of the communicator that are posted and not complete",
            Bind::Comm,
            |cs, comm| pending(cs, comm, false),
        ));
        all.push(length("PENDING_SENDS", "sends of the communicator that are not complete", Bind::Comm, |cs, comm| {
            pending(cs, comm, true)
        }));
        all.push(length("LOST_PROCESSES", "processes known to be lost", Bind::Nothing, |cs, _| {
            engine::with(cs, |engine| engine.losses())
        }));
        all
    })
}

/// A variable by its index.
pub fn from_index(index: i32) -> Result<&'static Pvar> {
    at(all(), index)
}

/// The index of a name; `counter`: of this class, else a level.
pub fn index_of(name: &[u8], counter: bool) -> Result<i32> {
    match all().iter().position(|pvar| pvar.name.as_bytes() == name && pvar.is_counter() == counter) {
        Some(index) => Ok(index as i32),
        None => fail!(T_ERR_INVALID_NAME, "no such performance variable"),
    }
}

impl Pvar {
    /// A counter; else a level, which is always there and can't be changed.
    pub fn is_counter(&self) -> bool {
        self.counter().is_some()
    }

    /// It counts messages, which are observed while it is started.
    pub fn is_of_messages(&self) -> bool {
        matches!(self.source, Source::Observed(_))
    }

    fn counter(&self) -> Option<&'static Counter> {
        match self.source {
            Source::Counter(counter) | Source::Observed(counter) => Some(counter),
            Source::Length(_) => None,
        }
    }
}

/// A variable in a session.
struct Bound {
    pvar: &'static Pvar,
    comm: Option<Rc<Comm>>,
    started: Cell<bool>,
    /// What was counted before it was started the last time.
    before: Cell<u64>,
    /// Where the counter stood then.
    from: Cell<u64>,
}

impl Bound {
    fn value(&self, cs: &Section) -> u64 {
        match self.pvar.source {
            Source::Counter(_) | Source::Observed(_) if self.started.get() => {
                self.before.get().wrapping_add(self.now().wrapping_sub(self.from.get()))
            }
            Source::Counter(_) | Source::Observed(_) => self.before.get(),
            Source::Length(_) if !life::is_running() => 0,
            Source::Length(length) => length(cs, self.comm.as_deref()) as u64,
        }
    }

    fn now(&self) -> u64 {
        self.pvar.counter().map_or(0, Counter::value)
    }

    fn set(&self, value: u64) {
        self.before.set(value);
        self.from.set(self.now());
    }

    fn start(&self) {
        if !self.started.replace(true) {
            self.from.set(self.now());
        }
    }

    fn stop(&self, cs: &Section) {
        let value = self.value(cs);
        self.started.set(false);
        self.before.set(value);
    }
}

#[derive(Default)]
struct Session {
    bound: RefCell<Vec<(usize, Rc<Bound>)>>,
}

static SESSIONS: Inside<RefCell<Registry<Session>>> = Inside::new(RefCell::new(Registry::new()));

/// The last handle of a variable.
static LAST: Inside<Cell<usize>> = Inside::new(Cell::new(0xff));

/// `MPI_T_pvar_session_create`.
pub fn create_session(cs: &Section) -> usize {
    SESSIONS.get(cs).borrow_mut().enter(Session::default())
}

/// `MPI_T_pvar_session_free`: its handles end with it.
pub fn free_session(cs: &Section, session: usize) -> Result {
    let removed = SESSIONS.get(cs).borrow_mut().remove(session);
    ensure!(removed.is_some(), T_ERR_INVALID_SESSION, "no such session");
    messages::update(cs);
    Ok(())
}

fn session(cs: &Section, session: usize) -> Result<Rc<Session>> {
    match SESSIONS.get(cs).borrow().find(session) {
        Some(found) => Ok(found),
        None => fail!(T_ERR_INVALID_SESSION, "no such session"),
    }
}

fn bound(cs: &Section, of: usize, handle: usize) -> Result<Rc<Bound>> {
    let session = session(cs, of)?;
    let found = session.bound.borrow().iter().find(|(other, _)| *other == handle).map(|(_, bound)| Rc::clone(bound));
    match found {
        Some(found) => Ok(found),
        None => fail!(T_ERR_INVALID_HANDLE, "no such handle of a performance variable in this session"),
    }
}

/// `MPI_T_pvar_handle_alloc`.
pub fn bind(cs: &Section, of: usize, pvar: &'static Pvar, comm: Option<Rc<Comm>>) -> Result<usize> {
    let session = session(cs, of)?;
    let handle = LAST.get(cs).get() + 1;
    LAST.get(cs).set(handle);
    let (started, before, from) = (Cell::new(!pvar.is_counter()), Cell::new(0), Cell::new(0));
    session.bound.borrow_mut().push((handle, Rc::new(Bound { pvar, comm, started, before, from })));
    Ok(handle)
}

/// `MPI_T_pvar_handle_free`.
pub fn unbind(cs: &Section, of: usize, handle: usize) -> Result {
    bound(cs, of, handle)?;
    session(cs, of)?.bound.borrow_mut().retain(|(other, _)| *other != handle);
    messages::update(cs);
    Ok(())
}

/// `MPI_T_pvar_read`.
pub fn read(cs: &Section, of: usize, handle: usize) -> Result<u64> {
    Ok(bound(cs, of, handle)?.value(cs))
}

/// `MPI_T_pvar_readreset`.
pub fn read_and_reset(cs: &Section, of: usize, handle: usize) -> Result<u64> {
    let bound = bound(cs, of, handle)?;
    ensure!(bound.pvar.is_counter(), T_ERR_PVAR_NO_ATOMIC, "a level can't be reset");
    let value = bound.value(cs);
    bound.set(0);
    Ok(value)
}

/// `MPI_T_pvar_write`.
pub fn write(cs: &Section, of: usize, handle: usize, value: u64) -> Result {
    let bound = bound(cs, of, handle)?;
    ensure!(bound.pvar.is_counter(), T_ERR_PVAR_NO_WRITE, "a level can't be written");
    bound.set(value);
    Ok(())
}

/// One handle, or all of the session that can be changed.
fn changeable(cs: &Section, of: usize, handle: usize) -> Result<Vec<Rc<Bound>>> {
    if handle != ALL_HANDLES {
        return Ok(vec![bound(cs, of, handle)?]);
    }
    let session = session(cs, of)?;
    let all = session.bound.borrow().iter().map(|(_, bound)| Rc::clone(bound)).collect::<Vec<_>>();
    Ok(all.into_iter().filter(|bound| bound.pvar.is_counter()).collect())
}

/// `MPI_T_pvar_reset`.
pub fn reset(cs: &Section, of: usize, handle: usize) -> Result {
    for bound in changeable(cs, of, handle)? {
        ensure!(bound.pvar.is_counter(), T_ERR_PVAR_NO_WRITE, "a level can't be reset");
        bound.set(0);
    }
    Ok(())
}

/// `MPI_T_pvar_start`, `MPI_T_pvar_stop`.
pub fn run(cs: &Section, of: usize, handle: usize, start: bool) -> Result {
    for bound in changeable(cs, of, handle)? {
        ensure!(bound.pvar.is_counter(), T_ERR_PVAR_NO_STARTSTOP, "a level can't be started or stopped");
        if start { bound.start() } else { bound.stop(cs) }
    }
    messages::update(cs);
    Ok(())
}

/// Whether a counter of messages is started in any session.
pub(super) fn wants_messages(cs: &Section) -> bool {
    let sessions = SESSIONS.get(cs).borrow().all();
    let counts = |bound: &Bound| bound.pvar.is_of_messages() && bound.started.get();
    sessions.iter().any(|(_, session)| session.bound.borrow().iter().any(|(_, bound)| counts(bound)))
}

pub(super) fn clear(cs: &Section) {
    SESSIONS.get(cs).borrow_mut().clear();
    messages::update(cs);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_count_apart_from_each_other() {
        let mut inside = crate::cs::enter_test();
        let cs = inside.section();
        let index = index_of(b"FERRULE_RINGS_POPULATED", true).expect("it is there");
        let pvar = from_index(index).expect("it is there");
        let Source::Counter(counter) = pvar.source else { panic!("a counter") };
        let sessions = [create_session(cs), create_session(cs)];
        let handles = sessions.map(|session| bind(cs, session, pvar, None).expect("it binds"));
        assert!(read(cs, sessions[0], handles[1]).is_err());
        run(cs, sessions[0], handles[0], true).expect("it starts");
        counter.add(3);
        run(cs, sessions[1], ALL_HANDLES, true).expect("they start");
        counter.add(4);
        assert_eq!(read(cs, sessions[0], handles[0]), Ok(7));
        assert_eq!(read(cs, sessions[1], handles[1]), Ok(4));
        run(cs, sessions[0], handles[0], false).expect("it stops");
        counter.add(5);
        assert_eq!(read_and_reset(cs, sessions[0], handles[0]), Ok(7));
        assert_eq!(read(cs, sessions[0], handles[0]), Ok(0));
        write(cs, sessions[1], handles[1], 100).expect("it is written");
        counter.add(1);
        assert_eq!(read(cs, sessions[1], handles[1]), Ok(101));
        for session in sessions {
            free_session(cs, session).expect("it is there");
            assert!(free_session(cs, session).is_err());
        }
    }
}
