//! Probes (MPI-5.0, 3.8.1, 3.8.2).

use super::receive::MESSAGE_NO_PROC;
use super::transfer::pattern;
use crate::comm::Comm;
use crate::handle::Handle;
use crate::progress;
use crate::runtime::{Message, rt};
use crate::status::{PROC_NULL, Status};
use crate::waits::Awaited;
use base::ids::Plane;
use base::{Peer, Result};
use protocol::engine::MessageId;
use protocol::matching::{Found, Pattern};
use std::rc::Rc;

fn status_of(found: &Found) -> Status {
    Status::received(found.envelope.source as i32, found.envelope.tag, found.length)
}

/// Looks at the queue, and once more after some progress.
fn look<R>(mut find: impl FnMut() -> Option<R>) -> Option<R> {
    find().or_else(|| {
        progress::poll_some();
        find()
    })
}

fn wait_for<R>(pattern: &Pattern, expected: Option<Peer>, mut find: impl FnMut() -> Option<R>) -> R {
    let mut found = None;
    progress::wait_for(Awaited::Message(pattern, expected), || {
        found = find();
        found.is_some()
    });
    found.expect("the wait ends when something is found")
}

/// `MPI_Iprobe`.
pub fn iprobe(source: i32, tag: i32, comm: &Comm) -> Result<Option<Status>> {
    if source == PROC_NULL {
        return Ok(Some(Status::PROC_NULL));
    }
    let (pattern, expected) = pattern(comm, Plane::PointToPoint, source, tag);
    let found = look(|| rt().engine.with(|engine| engine.probe_or_lost(&pattern, expected)));
    Ok(found.transpose()?.map(|found| status_of(&found)))
}

/// `MPI_Probe`.
pub fn probe(source: i32, tag: i32, comm: &Comm) -> Result<Status> {
    if source == PROC_NULL {
        return Ok(Status::PROC_NULL);
    }
    let (pattern, expected) = pattern(comm, Plane::PointToPoint, source, tag);
    let found = wait_for(&pattern, expected, || rt().engine.with(|engine| engine.probe_or_lost(&pattern, expected)));
    found.map(|found| status_of(&found))
}

/// Takes a message out; an error if none can come any more.
fn extract(pattern: &Pattern, expected: Option<Peer>) -> Option<Result<(MessageId, Found)>> {
    rt().engine.with(|engine| match engine.extract(pattern) {
        Some(extracted) => Some(Ok(extracted)),
        None => engine.probe_or_lost(pattern, expected)?.err().map(Err),
    })
}

fn enter(id: MessageId, found: &Found, comm: &Rc<Comm>) -> (Handle, Status) {
    (rt().messages.insert(Message { id, comm: Rc::clone(comm) }), status_of(found))
}

/// `MPI_Improbe`.
pub fn improbe(source: i32, tag: i32, comm: &Rc<Comm>) -> Result<Option<(Handle, Status)>> {
    if source == PROC_NULL {
        return Ok(Some((MESSAGE_NO_PROC, Status::PROC_NULL)));
    }
    let (pattern, expected) = pattern(comm, Plane::PointToPoint, source, tag);
    let extracted = look(|| extract(&pattern, expected)).transpose()?;
    Ok(extracted.map(|(id, found)| enter(id, &found, comm)))
}

/// `MPI_Mprobe`.
pub fn mprobe(source: i32, tag: i32, comm: &Rc<Comm>) -> Result<(Handle, Status)> {
    if source == PROC_NULL {
        return Ok((MESSAGE_NO_PROC, Status::PROC_NULL));
    }
    let (pattern, expected) = pattern(comm, Plane::PointToPoint, source, tag);
    let (id, found) = wait_for(&pattern, expected, || extract(&pattern, expected))?;
    Ok(enter(id, &found, comm))
}
