//! Dynamic processes (MPI-5.0, 11.7 to 11.10): groups of several jobs that meet, jobs that are started by ranks, names of services.
//!
//! Everything comes down to two groups whose leaders meet at a port (`connect.rs`): a spawned job is one that connects to a port of its parents when it
//! begins (decision 0048).

mod connect;
mod join;
mod names;
mod ports;
mod soft;
mod spawn;

pub use channel::port::MAX_PORT_NAME;
pub use join::join;
pub use names::{lookup, publish, unpublish};
pub use ports::{accept, close_port, connect, open_port};
pub use spawn::{Program, spawn};

use crate::agent;
use crate::comm::{self, Comm};
use crate::cs::Section;
use crate::engine;
use crate::inside::Inside;
use crate::job;
use crate::losses::{LOST, Participants};
use crate::progress;
use base::{Result, log};
use channel::port::Call;
use channel::transports::jobs;
use protocol::control::spawn::{Answer, Request};
use std::cell::RefCell;
use std::rc::Rc;

static PARENT: Inside<RefCell<Option<Rc<Comm>>>> = Inside::new(RefCell::new(None));

/// `MPI_Comm_get_parent`: none for a job that nobody has spawned, or which has disconnected.
pub fn parent(cs: &Section) -> Option<Rc<Comm>> {
    let parent = PARENT.get(cs).borrow();
    parent
        .as_ref()
        .filter(|comm| comm::from_handle(cs, comm.handle()).is_ok_and(|live| Rc::ptr_eq(&live, comm)))
        .cloned()
}

/// In `MPI_Init`: the processes of a spawned job meet their parents.
pub(crate) fn meet_parent(cs: &mut Section) -> Result {
    let (Some(port), Some(world)) = (job::parent_port(), comm::world(cs).cloned()) else { return Ok(()) };
    let met = connect::meet(cs, &world, 0, |cs, told, members| {
        connect::call(cs, Call::begin(port.as_bytes())?, told, members)
    });
    let met = met
        .inspect_err(|error| log!(Error, "the processes that have spawned this job can't be met: {}", error.origin))?;
    met.set_name(cs, b"MPI_COMM_PARENT");
    *PARENT.get(cs).borrow_mut() = Some(met);
    Ok(())
}

/// Asks something of mpiexec; the number of the request.
pub(crate) fn ask(cs: &Section, request: Request) -> Result<u64> {
    engine::with(cs, |engine| jobs::ask_mpiexec(engine.endpoints(), request))
}

/// The answer to a request if it is there.
pub(crate) fn take_answer(cs: &Section, number: u64) -> Result<Option<Answer>> {
    engine::with(cs, |engine| jobs::take_answer(engine.endpoints(), number))
}

/// Waits until `done` says something, or one of the members is lost.
fn wait_for<R>(
    cs: &mut Section,
    members: &Participants,
    mut done: impl FnMut(&mut Section) -> Result<Option<R>>,
) -> Result<R> {
    let mut outcome = None;
    progress::wait_for_memory(cs, |cs| {
        outcome = match done(cs) {
            Ok(None) if members.have_lost_one(cs) => Some(Err(LOST)),
            result => result.transpose(),
        };
        outcome.is_some()
    });
    outcome.unwrap_or(Err(LOST))
}

/// Whether this process has a node agent to ask.
pub(crate) fn has_agent(cs: &Section) -> bool {
    agent::current(cs).is_some_and(|agent| agent.borrow().fd().is_some())
}
