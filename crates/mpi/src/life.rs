//! Where this process is between initialisation and finalisation. The initialisation ([`crate::init`]) writes it; all others read.
//!
//! ```text
//! World Model: Before ─ MPI_Init ─► Active ─ MPI_Finalize ─► After
//! ```
//! The users of MPI are the World Model and each session.
//!
//! Any thread may make a session or ask about the state at any time. So the counters are atomic. And while other users have no lock
//! around their calls, a thread that may not be theirs can't have several threads: its session gets `MPI_THREAD_SERIALIZED` at most.

use crate::cs::Section;
use crate::inside::Inside;
use crate::thread::Level;
use crate::{agent, job};
use base::{Peer, Result, WorldRank, ensure, log};
use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU32};
use std::thread::ThreadId;

/// The states of the World Model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum World {
    /// `MPI_Init` has not been called.
    Before,
    /// Between `MPI_Init` and the end of `MPI_Finalize`.
    Active,
    /// `MPI_Finalize` has ended.
    After,
}

static WORLD: AtomicU8 = AtomicU8::new(World::Before as u8);

/// Number of users.
static USERS: AtomicU32 = AtomicU32::new(0);

/// Those that may call from several threads at a time.
static MULTIPLE: AtomicU32 = AtomicU32::new(0);

/// What only calls from inside ask for.
struct Life {
    level: Cell<Level>,
    main_thread: Cell<Option<ThreadId>>,
    /// The only thread that calls for the present users, if that is known.
    only_thread: Cell<Option<ThreadId>>,
}

static LIFE: Inside<Life> =
    Inside::new(Life { level: Cell::new(Level::Single), main_thread: Cell::new(None), only_thread: Cell::new(None) });

/// Where the World Model is.
pub fn world() -> World {
    match WORLD.load(Relaxed) {
        state if state == World::Before as u8 => World::Before,
        state if state == World::Active as u8 => World::Active,
        _ => World::After,
    }
}

/// `MPI_Initialized`.
pub fn is_initialized() -> bool {
    world() != World::Before
}

/// `MPI_Finalized`.
pub fn is_finalized() -> bool {
    world() == World::After
}

/// Whether functions that need an initialised MPI may be called.
#[inline]
pub fn is_running() -> bool {
    USERS.load(Relaxed) > 0
}

/// As [`is_running`], as an error.
#[inline]
pub fn ensure_running() -> Result {
    ensure!(is_running(), ERR_OTHER, "MPI is not initialised, or finalised already");
    Ok(())
}

/// `MPI_Query_thread`.
pub fn thread_level(cs: &Section) -> Level {
    LIFE.get(cs).level.get()
}

/// `MPI_Is_thread_main`.
pub fn is_thread_main(cs: &Section) -> bool {
    LIFE.get(cs).main_thread.get() == Some(std::thread::current().id())
}

/// The World Model is active from now on; this is the main thread.
pub(crate) fn begin_world(cs: &Section, level: Level) {
    LIFE.get(cs).level.set(level);
    LIFE.get(cs).main_thread.set(Some(std::thread::current().id()));
    WORLD.store(World::Active as u8, Relaxed);
}

/// The World Model has ended.
pub(crate) fn end_world() {
    WORLD.store(World::After as u8, Relaxed);
}

/// Whether several threads may call at a time.
pub(crate) fn has_threads() -> bool {
    MULTIPLE.load(Relaxed) > 0
}

/// One more user, and the level that it gets.
pub(crate) fn add_user(cs: &Section, wanted: Level) -> Level {
    let me = Some(std::thread::current().id());
    let is_first = USERS.fetch_add(1, Relaxed) == 0;
    let is_alone = is_first || LIFE.get(cs).only_thread.get() == me;
    let level = if has_threads() || is_alone { wanted } else { wanted.min(Level::Serialized) };
    MULTIPLE.fetch_add(u32::from(level == Level::Multiple), Relaxed);
    LIFE.get(cs).only_thread.set(if is_alone && level <= Level::Funneled { me } else { None });
    level
}

/// One user less.
pub(crate) fn remove_user(level: Level) {
    USERS.fetch_sub(1, Relaxed);
    MULTIPLE.fetch_sub(u32::from(level == Level::Multiple), Relaxed);
}

/// Ends the job; of one that continues on failure only the processes `of` a communicator, if they are named.
pub fn abort(cs: &Section, code: i32, text: &str, of: &[Peer]) -> ! {
    if let Some(agent) = agent::current(cs) {
        let of = if of.len() == job::world_size() as usize { &[] } else { of };
        let ranks: Vec<WorldRank> = of.iter().filter_map(|peer| job::rank_of(*peer)).collect();
        agent.borrow_mut().abort(code, text, &ranks);
    }
    log!(Error, "{text}");
    sys::process::exit_now(if code & 0xff == 0 { 1 } else { code & 0xff })
}
