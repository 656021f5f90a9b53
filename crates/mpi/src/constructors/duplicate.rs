//! `MPI_Comm_dup` and its kin (MPI-5.0, 7.4.2).
//!
//! Attributes are copied when the function is called. A non-blocking duplicate has its handle from the start; the object
//! behind it is replaced when the context id is known.

use crate::attr;
use crate::comm::agree::{Agreement, Channel, Contexts, agree};
use crate::comm::{self, COMMS, Comm, Hints, apply_class, publish};
use crate::cs::Section;
use crate::group::Group;
use crate::handle::Handle;
use crate::info::Info;
use crate::progress;
use crate::request::{self, Operation};
use base::ids::{Plane, Proposer};
use base::{ContextId, Peer, Result};
use std::rc::Rc;

/// The messages of the next non-blocking collective operation on `comm`.
fn nonblocking_channel(comm: &Comm) -> Channel {
    Channel { context: comm.context.plane(Plane::Collective), tag: comm.next_nonblocking_tag() }
}

/// The messages of the next collective operation on `comm`.
pub(super) fn collective_channel(comm: &Comm) -> Channel {
    Channel { context: comm.context.plane(Plane::Collective), tag: comm.next_collective_tag() }
}

/// The first process of the remote group.
pub(super) fn remote_first(comm: &Comm) -> Option<Peer> {
    comm.remote.as_deref().map(|remote: &Group| remote.peer(0))
}

/// `MPI_Comm_dup`.
pub fn dup(cs: &mut Section, comm: &Rc<Comm>) -> Result<Rc<Comm>> {
    let hints = *comm.hints.borrow();
    duplicate(cs, comm, hints)
}

/// `MPI_Comm_dup_with_info`.
pub fn dup_with_info(cs: &mut Section, comm: &Rc<Comm>, info: Option<&Info>) -> Result<Rc<Comm>> {
    duplicate(cs, comm, info.map(Hints::of).unwrap_or_default())
}

fn duplicate(cs: &mut Section, comm: &Rc<Comm>, hints: Hints) -> Result<Rc<Comm>> {
    let contexts = agree(cs, collective_channel(comm), &comm.group, comm.remote.as_ref())?;
    let new = publish(cs, copy_of(comm, contexts, hints));
    if let Err(error) = attr::copy_all(cs, &**comm, &*new) {
        comm::free(cs, &new)?;
        return Err(error);
    }
    Ok(new)
}

/// A communicator of the processes of `comm` for the library's own messages: the program has no handle of it. Collective.
pub(crate) fn for_library(cs: &mut Section, comm: &Rc<Comm>) -> Result<Rc<Comm>> {
    let contexts = agree(cs, collective_channel(comm), &comm.group, None)?;
    Ok(Rc::new(Comm::child(comm, contexts.shared(), Rc::clone(&comm.group))))
}

/// A communicator like `comm`, without its attributes and name.
fn copy_of(comm: &Comm, contexts: Contexts, hints: Hints) -> Comm {
    let group = Rc::clone(&comm.group);
    let new = match &comm.remote {
        None => Comm::child(comm, contexts.shared(), group),
        Some(remote) => Comm::inter_child(comm, contexts.shared(), contexts.local(), group, Rc::clone(remote)),
    };
    *new.hints.borrow_mut() = hints;
    if let Some(topology) = comm.topology() {
        new.set_topology(Rc::clone(topology));
    }
    new
}

/// `MPI_Comm_idup`: the handles of the communicator and of the request.
pub fn idup(cs: &mut Section, comm: &Rc<Comm>) -> Result<(Handle, Handle)> {
    let hints = *comm.hints.borrow();
    start_duplicate(cs, comm, hints)
}

/// `MPI_Comm_idup_with_info`.
pub fn idup_with_info(cs: &mut Section, comm: &Rc<Comm>, info: Option<&Info>) -> Result<(Handle, Handle)> {
    start_duplicate(cs, comm, info.map(Hints::of).unwrap_or_default())
}

fn start_duplicate(cs: &mut Section, comm: &Rc<Comm>, hints: Hints) -> Result<(Handle, Handle)> {
    let unborn =
        Contexts { shared: ContextId::new(Proposer::NOBODY, 0).0, local: ContextId::new(Proposer::NOBODY, 1).0 };
    let channel = nonblocking_channel(comm);
    let unborn = publish(cs, copy_of(comm, unborn, Hints::default()));
    let handle = unborn.handle();
    // The copy callbacks run now; a failure must not keep the other processes waiting.
    let copied = attr::copy_all(cs, &**comm, &*unborn);
    let parent = Rc::clone(comm);
    let agreement = Rc::new(Agreement::new(channel, &comm.group, comm.remote.as_ref(), move |cs, contexts| {
        let new = copy_of(&parent, contexts, hints).replacing(cs, &unborn);
        apply_class(cs, &new, false);
        comm::learn_revocation(cs, &new);
        COMMS.get(cs).with(handle, |slot| *slot = Rc::new(new));
    }));
    agreement.start(cs)?;
    progress::activate(cs, Rc::<Agreement>::clone(&agreement));
    copied?;
    Ok((handle, request::enter_collective(cs, agreement, &comm.owner)))
}
