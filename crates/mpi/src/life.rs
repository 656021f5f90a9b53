//! Where this process is between initialisation and finalisation. The initialisation ([`crate::init`]) writes it; all others read.
//!
//! ```text
//! World Model: Before ─ MPI_Init ─► Active ─ MPI_Finalize ─► After
//! ```
//! The users of MPI are the World Model and each session.

use crate::inside::Inside;
use crate::thread::Level;
use crate::{agent, job};
use base::{Peer, Result, ensure, log};
use std::cell::Cell;
use std::thread::ThreadId;

/// The states of the World Model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum World {
    /// `MPI_Init` has not been called.
    Before,
    /// Between `MPI_Init` and the end of `MPI_Finalize`.
    Active,
    /// `MPI_Finalize` has ended.
    After,
}

struct Life {
    world: Cell<World>,
    /// Number of users.
    users: Cell<u32>,
    /// Those that may call from several threads at a time.
    multiple: Cell<u32>,
    level: Cell<Level>,
    main_thread: Cell<Option<ThreadId>>,
}

static LIFE: Inside<Life> = Inside::new(Life {
    world: Cell::new(World::Before),
    users: Cell::new(0),
    multiple: Cell::new(0),
    level: Cell::new(Level::Single),
    main_thread: Cell::new(None),
});

/// Where the World Model is.
pub fn world() -> World {
    LIFE.world.get()
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
    LIFE.users.get() > 0
}

/// As [`is_running`], as an error.
#[inline]
pub fn ensure_running() -> Result {
    ensure!(is_running(), ERR_OTHER, "MPI is not initialised, or finalised already");
    Ok(())
}

/// `MPI_Query_thread`.
pub fn thread_level() -> Level {
    LIFE.level.get()
}

/// `MPI_Is_thread_main`.
pub fn is_thread_main() -> bool {
    LIFE.main_thread.get() == Some(std::thread::current().id())
}

/// The World Model is active from now on; this is the main thread.
pub(crate) fn begin_world(level: Level) {
    LIFE.level.set(level);
    LIFE.main_thread.set(Some(std::thread::current().id()));
    LIFE.world.set(World::Active);
}

/// The World Model has ended.
pub(crate) fn end_world() {
    LIFE.world.set(World::After);
}

/// One more user. Whether several threads may call at a time.
pub(crate) fn add_user(level: Level) -> bool {
    LIFE.users.set(LIFE.users.get() + 1);
    LIFE.multiple.set(LIFE.multiple.get() + u32::from(level == Level::Multiple));
    LIFE.multiple.get() > 0
}

/// One user less. Whether several threads may call at a time.
pub(crate) fn remove_user(level: Level) -> bool {
    LIFE.users.set(LIFE.users.get() - 1);
    LIFE.multiple.set(LIFE.multiple.get() - u32::from(level == Level::Multiple));
    LIFE.multiple.get() > 0
}

/// Ends the job; of one that continues on failure only the processes `of` a communicator, if they are named.
pub fn abort(code: i32, text: &str, of: &[Peer]) -> ! {
    if let Some(agent) = agent::current() {
        let of = if of.len() == job::world_size() as usize { &[] } else { of };
        agent.borrow_mut().abort(code, text, of);
    }
    log!(Error, "{text}");
    sys::process::exit_now(if code & 0xff == 0 { 1 } else { code & 0xff })
}
