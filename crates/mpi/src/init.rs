//! Initialisation and finalisation (MPI-5.0, 11.2 to 11.4): the World Model and sessions share one engine.
//!
//! ```text
//! World Model: Before ─ init_world ─► Active ─ finalize ─► After
//! engine: closed ─ first user joins ─► open ─ last user leaves ─► closed
//! ```
//! The users are the World Model and each session. When only sessions were used, the engine stays open until the process
//! ends, because other processes may still talk to it and because sessions may come again.

use crate::comm::{self, Comm, attributes};
use crate::cs::Section;
use crate::group::Group;
use crate::inside::Inside;
use crate::life::World;
use crate::p2p::buffered;
use crate::thread::Level;
use crate::{
    agent, attr, coll, cs, dynamic, engine, errhandler, job, life, losses, migration, profile, progress, recovery,
    tool, waits,
};
use base::ids::Proposer;
use base::{Class, ContextId, Error, Peer, Result, ensure, log};
use channel::opened::Opened;
use channel::transports;
use protocol::engine::{Awaits, Engine};
use std::cell::Cell;
use std::rc::Rc;

/// Whether the end of the process is watched.
static EXIT_WATCHED: Inside<Cell<bool>> = Inside::new(Cell::new(false));

/// `MPI_Init` and `MPI_Init_thread`: the level provided.
pub fn init_world(cs: &mut Section, required: Level) -> Result<Level> {
    ensure!(life::world() == World::Before, ERR_OTHER, "MPI_Init was called before");
    let level = join(cs, required)?;
    let world = ContextId::new(Proposer(0), 1);
    let new =
        |context, group| Comm::new(context, Rc::new(group), errhandler::initial(), None, comm::choices::of_job(cs));
    let own = new(ContextId::new(job::proposer_in_job(job::me()), 2), Group::new(vec![job::me()]));
    comm::set_predefined(cs, new(world, Group::new(job::world())), own);
    life::begin_world(cs, level);
    dynamic::meet_parent(cs)?;
    Ok(level)
}

/// `MPI_Finalize`.
pub fn finalize(cs: &mut Section) -> Result {
    // A session may begin or end in another thread.
    cs::locked(cs, finalize_locked)
}

fn finalize_locked(cs: &mut Section) -> Result {
    ensure!(life::world() == World::Active, ERR_OTHER, "MPI_Finalize without MPI_Init, or called before");
    let own = comm::own(cs).expect("the World Model has begun");
    // The program's last chance (11.2.4); everything works meanwhile.
    let deleted = attr::delete_all(cs, &**own);
    buffered::flush(cs, None)?;
    profile::end(cs);
    // Nobody leaves while another may still need an answer.
    let met = comm::world(cs).map_or(Ok(()), |world| coll::internal::last_barrier(cs, world));
    match met {
        // Whoever goes on after failures may leave after them.
        Err(error)
            if error.class == Class::ERR_PROC_ABORTED && job::current().is_some_and(|job| job.continue_on_failure) => {}
        // No barrier can meet in a communicator that is revoked: mpiexec says when all have come.
        Err(error) if error.class == Class::ERR_REVOKED => {
            if let Some(world) = comm::world(cs) {
                recovery::meet_at_end(cs, world)?;
            }
        }
        // MPI stays active, so that the error finds its handler, and an exit now is a failure that ends the job.
        met => met?,
    }
    life::end_world();
    leave(cs, life::thread_level(cs))?;
    deleted
}

/// A new user of the engine, which is opened for the first. The level that the user gets.
pub(crate) fn join(cs: &mut Section, level: Level) -> Result<Level> {
    if !engine::is_set() {
        open(cs)?;
    }
    let level = life::add_user(cs, level);
    cs::set_locking(cs, life::has_threads());
    Ok(level)
}

/// A user leaves; the last one closes the engine.
pub(crate) fn leave(cs: &mut Section, level: Level) -> Result {
    life::remove_user(level);
    if life::is_running() {
        cs::set_locking(cs, life::has_threads());
        return Ok(());
    }
    cs::set_locking(cs, true);
    // A suspension ends with the process: peers that leave, too, may not answer any more.
    progress::wait_until(cs, |cs| engine::with(cs, |engine| !engine.has_unsent()));
    if life::is_finalized() {
        return close(cs);
    }
    if !EXIT_WATCHED.get(cs).replace(true) {
        sys::process::at_exit(close_at_exit);
    }
    Ok(())
}

fn open(cs: &mut Section) -> Result {
    let mut bootstrap = job::connect(cs)?;
    bootstrap.initialized()?;
    job::remember(&bootstrap);
    comm::choices::set_job(cs, coll::job_choices::of(bootstrap.job()));
    attributes::set_up(cs, bootstrap.job());
    progress::on_question(cs, waits::tell);
    let Opened { endpoints, waiting, bootstrap, profile } = channel::open(bootstrap)?;
    coll::verdicts::open(cs);
    coll::offload::open(cs, &mut bootstrap.borrow_mut(), &waiting)?;
    progress::set_waiting(cs, waiting);
    agent::replace(cs, Some(bootstrap));
    profile::begin(cs, profile);
    let mut engine = Engine::new(endpoints);
    engine.set_loss_policy(ends);
    engine.set_revocation_hook(revoked);
    engine::set(cs, Some(engine));
    tool::messages::update(cs);
    migration::begin(cs);
    Ok(())
}

fn close(cs: &mut Section) -> Result {
    migration::end(cs);
    let Some(mut engine) = engine::set(cs, None) else { return Ok(()) };
    progress::clear(cs);
    tool::messages::end(cs);
    coll::verdicts::close(cs);
    coll::offload::close(cs);
    transports::close(engine.endpoints());
    match agent::replace(cs, None) {
        Some(agent) => agent.borrow_mut().finalize(),
        None => Ok(()),
    }
}

/// What the engine asks ([`losses::ends`]).
fn ends(awaits: Awaits, lost: Peer) -> Option<Error> {
    // SAFETY: the engine runs inside, and its caller has lent the section to it.
    let cs = unsafe { Section::assume() };
    losses::ends(awaits, lost, |context| comm::may_wait_for(cs, context, lost))
}

/// What the engine tells of communicators that are revoked.
fn revoked(context: ContextId) -> Option<ContextId> {
    // SAFETY: as for `ends`.
    let cs = unsafe { Section::assume() };
    comm::mark_revoked(cs, context)
}

extern "C" fn close_at_exit() {
    // SAFETY: the process ends: nobody is in MPI any more.
    let mut inside = unsafe { cs::enter() };
    let cs = inside.section();
    if !life::is_running() && close(cs).is_err() {
        log!(Warn, "could not leave the job in good order");
    }
}

/// `MPI_Abort`.
pub fn abort_from(cs: &Section, comm: &Comm, code: i32) -> ! {
    let on = comm.owner.describe().unwrap_or_default();
    life::abort(cs, code, &format!("MPI_Abort was called on {on} with code {code}"), &comm.owner.processes())
}
