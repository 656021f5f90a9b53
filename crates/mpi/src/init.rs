//! Initialisation and finalisation (MPI-5.0, 11.2 to 11.4): the World Model and sessions share one engine.
//!
//! ```text
//! World Model: Before ─ init_world ─► Active ─ finalize ─► After
//! engine: closed ─ first user joins ─► open ─ last user leaves ─► closed
//! ```
//! The users are the World Model and each session. When only sessions were used, the engine stays open until the process
//! ends, because other processes may still talk to it and because sessions may come again.

use crate::coll::choices::Choices;
use crate::comm::{COMM_SELF, COMM_WORLD, Comm};
use crate::group::Group;
use crate::handle::Handle;
use crate::inside::Inside;
use crate::runtime::rt;
use crate::status::{ANY_SOURCE, PROC_NULL, TAG_UB};
use crate::thread::Level;
use crate::{attr, coll, comm, cs, errhandler, errors, progress};
use base::{Class, ContextId, Peer, Result, ensure, log};
use channel::bootstrap::{Bootstrap, JobInfo};
use channel::transports::{self, Opened};
use protocol::engine::Engine;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::thread::ThreadId;

/// What stays known of the job.
pub struct Job {
    /// This process.
    pub me: Peer,
    /// Number of processes.
    pub size: u32,
    /// Name of this node.
    pub host: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Survivors go on when a process dies.
    pub continue_on_failure: bool,
    /// Where the program was started.
    pub working_directory: String,
    /// What all of its processes share to choose algorithms.
    choices: Choices,
    /// By rank.
    node_of: Vec<u32>,
    /// By node: the lowest one under the same kernel.
    kernel_of: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum World {
    Before,
    Active,
    After,
}

struct Life {
    world: Cell<World>,
    /// Number of users.
    users: Cell<u32>,
    /// Those that may call from several threads at a time.
    multiple: Cell<u32>,
    job: OnceCell<Job>,
    level: Cell<Level>,
    main_thread: Cell<Option<ThreadId>>,
    exit_watched: Cell<bool>,
    attributes: Attributes,
}

/// What the predefined attributes point at.
struct Attributes {
    tag_ub: Cell<i32>,
    host: Cell<i32>,
    io: Cell<i32>,
    wtime_is_global: Cell<i32>,
    app_num: Cell<Option<i32>>,
    app_num_value: Cell<i32>,
    universe_size: Cell<i32>,
}

static LIFE: Inside<Life> = Inside::new(Life {
    world: Cell::new(World::Before),
    users: Cell::new(0),
    multiple: Cell::new(0),
    job: OnceCell::new(),
    level: Cell::new(Level::Single),
    main_thread: Cell::new(None),
    exit_watched: Cell::new(false),
    attributes: Attributes {
        tag_ub: Cell::new(TAG_UB),
        host: Cell::new(PROC_NULL),
        io: Cell::new(ANY_SOURCE),
        wtime_is_global: Cell::new(0),
        app_num: Cell::new(None),
        app_num_value: Cell::new(0),
        universe_size: Cell::new(1),
    },
});

/// The job, once MPI has been initialised.
pub fn job() -> Option<&'static Job> {
    LIFE.job.get()
}

/// This process.
#[inline]
pub fn me() -> Peer {
    LIFE.job.get().map_or(Peer(0), |job| job.me)
}

/// Number of processes of the job.
pub fn world_size() -> u32 {
    LIFE.job.get().map_or(1, |job| job.size)
}

/// What communicators without a parent take over: their processes are of one job.
pub fn choices() -> Choices {
    job().map_or(Choices::DEFAULT, |job| job.choices)
}

/// Number of the kernel under which a process runs, as far as it is proved: what hosts are for everything that asks who is near.
/// Several nodes of the job, for instance containers, may be under one.
pub fn node_of(peer: Peer) -> i32 {
    let kernel = |job: &Job| job.kernel_of.get(*job.node_of.get(peer.0 as usize)? as usize).copied();
    job().and_then(kernel).map_or(0, |kernel| kernel as i32)
}

/// `MPI_COMM_SELF` while the World Model is active.
pub fn self_comm() -> Option<&'static Rc<Comm>> {
    if LIFE.world.get() == World::Active { rt().self_comm.get() } else { None }
}

/// `MPI_COMM_WORLD`, if the program has set its error handler.
pub fn world_with_errhandler() -> Option<&'static Rc<Comm>> {
    rt().world.get().filter(|comm| comm.errhandler_is_set())
}

/// `MPI_Initialized`.
pub fn is_initialized() -> bool {
    LIFE.world.get() != World::Before
}

/// `MPI_Finalized`.
pub fn is_finalized() -> bool {
    LIFE.world.get() == World::After
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

/// `MPI_Init` and `MPI_Init_thread`: the level provided.
pub fn init_world(required: i32) -> Result<Level> {
    ensure!(LIFE.world.get() == World::Before, ERR_OTHER, "MPI_Init was called before");
    let level = Level::at_least(required);
    join(level)?;
    LIFE.level.set(level);
    LIFE.main_thread.set(Some(std::thread::current().id()));
    let world = ContextId::new(Peer(0), 1);
    let _ = rt().world.set(predefined(COMM_WORLD, "MPI_COMM_WORLD", world, Group::identity(world_size())));
    let own = ContextId::new(me(), 2);
    let _ = rt().self_comm.set(predefined(COMM_SELF, "MPI_COMM_SELF", own, Group::new(vec![me()])));
    LIFE.world.set(World::Active);
    Ok(level)
}

fn predefined(handle: Handle, name: &str, context: ContextId, group: Group) -> Rc<Comm> {
    let comm = Comm::new(context, Rc::new(group), errhandler::initial(), None, choices());
    comm.handle.set(handle);
    comm.set_name(name.as_bytes());
    Rc::new(comm)
}

/// `MPI_Finalize`.
pub fn finalize() -> Result {
    ensure!(LIFE.world.get() == World::Active, ERR_OTHER, "MPI_Finalize without MPI_Init, or called before");
    let own = rt().self_comm();
    // The program's last chance (11.2.4); everything works meanwhile.
    let deleted = attr::delete_all(&**own);
    crate::p2p::buffered::flush(&rt().buffer)?;
    crate::profile::end();
    // Nobody leaves while another may still need an answer.
    let met = rt().world.get().map_or(Ok(()), coll::internal::last_barrier);
    match met {
        // Whoever goes on after failures may leave after them.
        Err(error) if error.class == Class::ERR_PROC_ABORTED && job().is_some_and(|job| job.continue_on_failure) => {}
        // MPI stays active, so that the error finds its handler, and an exit now is a failure that ends the job.
        met => met?,
    }
    LIFE.world.set(World::After);
    leave(LIFE.level.get())?;
    deleted
}

/// A new user of the engine, which is opened for the first.
pub(crate) fn join(level: Level) -> Result {
    if !rt().engine.is_set() {
        open()?;
    }
    LIFE.users.set(LIFE.users.get() + 1);
    LIFE.multiple.set(LIFE.multiple.get() + u32::from(level == Level::Multiple));
    cs::set_locking(LIFE.multiple.get() > 0);
    Ok(())
}

/// A user leaves; the last one closes the engine.
pub(crate) fn leave(level: Level) -> Result {
    LIFE.users.set(LIFE.users.get() - 1);
    LIFE.multiple.set(LIFE.multiple.get() - u32::from(level == Level::Multiple));
    if LIFE.users.get() > 0 {
        cs::set_locking(LIFE.multiple.get() > 0);
        return Ok(());
    }
    cs::set_locking(true);
    progress::wait_until(|| rt().engine.with(|engine| !engine.has_backlog()));
    if LIFE.world.get() == World::After {
        return close();
    }
    if !LIFE.exit_watched.replace(true) {
        sys::process::at_exit(close_at_exit);
    }
    Ok(())
}

fn open() -> Result {
    let early = EARLY.borrow_mut().take();
    let mut bootstrap = early.map_or_else(Bootstrap::from_environment, Ok)?;
    bootstrap.initialized()?;
    remember(bootstrap.job());
    let Opened { endpoints, waiting, bootstrap, profile } = channel::open(bootstrap)?;
    *rt().waiting.borrow_mut() = Some(waiting);
    *rt().bootstrap.borrow_mut() = Some(bootstrap);
    *rt().profile.borrow_mut() = profile;
    let mut engine = Engine::new(endpoints);
    engine.set_membership(comm::contains);
    rt().engine.set(Some(engine));
    Ok(())
}

/// The connection with the node agent, if somebody wanted to know of the job before `MPI_Init`.
static EARLY: Inside<RefCell<Option<Bootstrap>>> = Inside::new(RefCell::new(None));

/// Learns what can be known of the job before `MPI_Init`.
pub fn look_at_job() {
    if LIFE.job.get().is_some() {
        return;
    }
    if let Ok(bootstrap) = Bootstrap::from_environment() {
        remember(bootstrap.job());
        *EARLY.borrow_mut() = Some(bootstrap);
    }
}

fn remember(job: &JobInfo) {
    let node = job.node_of.get(job.rank.0 as usize).copied().unwrap_or(0);
    LIFE.attributes.universe_size.set(job.universe_size as i32);
    LIFE.attributes.app_num.set(job.app_num.map(|n| n as i32));
    LIFE.attributes.app_num_value.set(job.app_num.unwrap_or(0) as i32);
    let _ = LIFE.job.set(Job {
        me: job.rank,
        size: job.size,
        host: job.node_names.get(node as usize).cloned().unwrap_or_default(),
        continue_on_failure: job.continue_on_failure,
        command: job.command.clone(),
        working_directory: job.working_directory.clone(),
        choices: coll::job_choices::of(job),
        node_of: job.node_of.clone(),
        kernel_of: job.kernel_of.clone(),
    });
}

fn close() -> Result {
    let Some(mut engine) = rt().engine.set(None) else { return Ok(()) };
    rt().active.borrow_mut().clear();
    transports::close(engine.endpoints());
    match rt().bootstrap.borrow_mut().take() {
        Some(bootstrap) => bootstrap.borrow_mut().finalize(),
        None => Ok(()),
    }
}

extern "C" fn close_at_exit() {
    let _guard = cs::enter();
    if LIFE.users.get() == 0 && close().is_err() {
        log!(Warn, "could not leave the job in good order");
    }
}

/// Ends the job; of one that continues on failure only the processes `of` a communicator, if there is one.
pub fn abort(code: i32, text: &str, of: Option<&Comm>) -> ! {
    if let Some(agent) = rt().agent() {
        let mut ranks = of.map_or(Vec::new(), Comm::processes);
        if ranks.len() == world_size() as usize {
            ranks.clear();
        }
        agent.borrow_mut().abort(code, text, &ranks);
    }
    log!(Error, "{text}");
    sys::process::exit_now(if code & 0xff == 0 { 1 } else { code & 0xff })
}

/// `MPI_Abort`.
pub fn abort_from(comm: &Comm, code: i32) -> ! {
    let on = crate::comm::describe(comm.handle.get()).unwrap_or_default();
    abort(code, &format!("MPI_Abort was called on {on} with code {code}"), Some(comm))
}

/// The value of a predefined attribute of communicators (9.1.2): where its integer is, if it is set. `None` for keyvals
/// that aren't predefined.
pub(crate) fn predefined_attribute(keyval: i32) -> Option<Option<*mut i32>> {
    let a = &LIFE.attributes;
    Some(Some(match keyval {
        501 => a.tag_ub.as_ptr(),
        502 => a.io.as_ptr(),
        503 => a.host.as_ptr(),
        504 => a.wtime_is_global.as_ptr(),
        505 if a.app_num.get().is_none() => return Some(None),
        505 => a.app_num_value.as_ptr(),
        506 => errors::last_used_code(),
        507 => a.universe_size.as_ptr(),
        _ => return None,
    }))
}
