//! Probes (MPI-5.0, 3.8.1, 3.8.2).

use super::transfer::pattern;
use crate::engine;
use crate::handle::{Handle, Kind, Table};
use crate::inside::Inside;
use crate::owner::Owner;
use crate::p2p::space::Space;
use crate::progress::{self, Awaited};
use crate::status::{PROC_NULL, Status};
use base::ids::Plane;
use base::{Peer, Result};
use protocol::engine::MessageId;
use protocol::matching::{Found, Pattern};
use std::rc::Rc;

/// A message that a matched probe has taken out.
pub(super) struct Message {
    /// The engine's name of it.
    pub(super) id: MessageId,
    /// The communicator on which it was sent.
    pub(super) owner: Rc<Owner>,
}

/// Messages taken out by matched probes.
pub(super) static MESSAGES: Inside<Table<Message>> = Inside::new(Table::new(Kind::Message));

/// Whether one more has room.
pub fn ensure_room() -> base::Result {
    MESSAGES.ensure_room()
}

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
pub fn iprobe(source: i32, tag: i32, comm: &Space) -> Result<Option<Status>> {
    if source == PROC_NULL {
        return Ok(Some(Status::PROC_NULL));
    }
    let (pattern, expected) = pattern(comm, Plane::PointToPoint, source, tag);
    let found = look(|| engine::with(|engine| engine.probe_or_lost(&pattern, expected)));
    Ok(found.transpose()?.map(|found| status_of(&found)))
}

/// `MPI_Probe`.
pub fn probe(source: i32, tag: i32, comm: &Space) -> Result<Status> {
    if source == PROC_NULL {
        return Ok(Status::PROC_NULL);
    }
    let (pattern, expected) = pattern(comm, Plane::PointToPoint, source, tag);
    let found = wait_for(&pattern, expected, || engine::with(|engine| engine.probe_or_lost(&pattern, expected)));
    found.map(|found| status_of(&found))
}

/// Takes a message out; an error if none can come any more.
fn extract(pattern: &Pattern, expected: Option<Peer>) -> Option<Result<(MessageId, Found)>> {
    engine::with(|engine| match engine.extract(pattern) {
        Some(extracted) => Some(Ok(extracted)),
        None => engine.probe_or_lost(pattern, expected)?.err().map(Err),
    })
}

fn enter(id: MessageId, found: &Found, comm: &Space) -> (Handle, Status) {
    (MESSAGES.insert(Message { id, owner: Rc::clone(&comm.owner) }), status_of(found))
}

/// `MPI_Improbe`.
pub fn improbe(source: i32, tag: i32, comm: &Space) -> Result<Option<(Handle, Status)>> {
    if source == PROC_NULL {
        return Ok(Some((Handle::MESSAGE_NO_PROC, Status::PROC_NULL)));
    }
    let (pattern, expected) = pattern(comm, Plane::PointToPoint, source, tag);
    let extracted = look(|| extract(&pattern, expected)).transpose()?;
    Ok(extracted.map(|(id, found)| enter(id, &found, comm)))
}

/// `MPI_Mprobe`.
pub fn mprobe(source: i32, tag: i32, comm: &Space) -> Result<(Handle, Status)> {
    if source == PROC_NULL {
        return Ok((Handle::MESSAGE_NO_PROC, Status::PROC_NULL));
    }
    let (pattern, expected) = pattern(comm, Plane::PointToPoint, source, tag);
    let (id, found) = wait_for(&pattern, expected, || extract(&pattern, expected))?;
    Ok(enter(id, &found, comm))
}
