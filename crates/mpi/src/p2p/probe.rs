//! Probes (MPI-5.0, 3.8.1, 3.8.2).

use super::transfer::pattern;
use crate::cs::Section;
use crate::engine;
use crate::handle::{Handle, Kind, Table};
use crate::inside::Inside;
use crate::losses;
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
pub fn ensure_room(cs: &Section) -> base::Result {
    MESSAGES.get(cs).ensure_room()
}

fn status_of(found: &Found) -> Status {
    Status::received(found.envelope.source as i32, found.envelope.tag, found.length)
}

/// Looks at the queue, and once more after some progress.
fn look<R>(cs: &mut Section, mut find: impl FnMut(&Section) -> Option<R>) -> Option<R> {
    find(cs).or_else(|| {
        progress::poll_some(cs);
        find(cs)
    })
}

fn wait_for<R>(
    cs: &mut Section,
    pattern: &Pattern,
    expected: Option<Peer>,
    mut find: impl FnMut(&Section) -> Option<R>,
) -> R {
    let mut found = None;
    progress::wait_for(cs, Awaited::Message(pattern, expected), |cs| {
        found = find(cs);
        found.is_some()
    });
    found.expect("the wait ends when something is found")
}

/// `MPI_Iprobe`.
pub fn iprobe(cs: &mut Section, source: i32, tag: i32, comm: &Space) -> Result<Option<Status>> {
    if source == PROC_NULL {
        return Ok(Some(Status::PROC_NULL));
    }
    let (pattern, expected) = pattern(comm, Plane::PointToPoint, source, tag);
    losses::ensure_valid(cs, pattern.context)?;
    let found = look(cs, |cs| engine::with(cs, |engine| engine.probe_or_lost(&pattern, expected)));
    Ok(found.transpose()?.map(|found| status_of(&found)))
}

/// `MPI_Probe`.
pub fn probe(cs: &mut Section, source: i32, tag: i32, comm: &Space) -> Result<Status> {
    if source == PROC_NULL {
        return Ok(Status::PROC_NULL);
    }
    let (pattern, expected) = pattern(comm, Plane::PointToPoint, source, tag);
    losses::ensure_valid(cs, pattern.context)?;
    let found =
        wait_for(cs, &pattern, expected, |cs| engine::with(cs, |engine| engine.probe_or_lost(&pattern, expected)));
    found.map(|found| status_of(&found))
}

/// Takes a message out; an error if none can come any more.
fn extract(cs: &Section, pattern: &Pattern, expected: Option<Peer>) -> Option<Result<(MessageId, Found)>> {
    engine::with(cs, |engine| match engine.extract(pattern) {
        Some(extracted) => Some(Ok(extracted)),
        None => engine.probe_or_lost(pattern, expected)?.err().map(Err),
    })
}

fn enter(cs: &Section, id: MessageId, found: &Found, comm: &Space) -> (Handle, Status) {
    (MESSAGES.get(cs).insert(Message { id, owner: Rc::clone(&comm.owner) }), status_of(found))
}

/// `MPI_Improbe`.
pub fn improbe(cs: &mut Section, source: i32, tag: i32, comm: &Space) -> Result<Option<(Handle, Status)>> {
    if source == PROC_NULL {
        return Ok(Some((Handle::MESSAGE_NO_PROC, Status::PROC_NULL)));
    }
    let (pattern, expected) = pattern(comm, Plane::PointToPoint, source, tag);
    losses::ensure_valid(cs, pattern.context)?;
    let extracted = look(cs, |cs| extract(cs, &pattern, expected)).transpose()?;
    Ok(extracted.map(|(id, found)| enter(cs, id, &found, comm)))
}

/// `MPI_Mprobe`.
pub fn mprobe(cs: &mut Section, source: i32, tag: i32, comm: &Space) -> Result<(Handle, Status)> {
    if source == PROC_NULL {
        return Ok((Handle::MESSAGE_NO_PROC, Status::PROC_NULL));
    }
    let (pattern, expected) = pattern(comm, Plane::PointToPoint, source, tag);
    losses::ensure_valid(cs, pattern.context)?;
    let (id, found) = wait_for(cs, &pattern, expected, |cs| extract(cs, &pattern, expected))?;
    Ok(enter(cs, id, &found, comm))
}
