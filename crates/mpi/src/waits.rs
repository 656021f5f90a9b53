//! What this rank waits for, told to the node agent when somebody asks (`mpiexec --timeout`, SIGQUIT, `ferrule top`).
//!
//! A wait says what it is for by an [`Awaited`], which costs nothing until it is asked for. From it and the engine's pending
//! operations a [`Report`] is made: which of them the call can't return without, and whom they are with.

use crate::comm::{self, Comm};
use crate::handle::Handle;
use crate::p2p::transfer::Transfer;
use crate::request::{REQUEST_NULL, Request};
use crate::runtime::rt;
use crate::{call, init};
use base::ids::{PLANE_MASK, Plane};
use base::{Peer, log};
use protocol::control::report::{MAX_WAITS, Report, Wait, What};
use protocol::engine::OpId;
use protocol::engine::pending::Pending;
use protocol::matching::Pattern;
use std::rc::Rc;

/// What a wait is for.
#[derive(Clone, Copy)]
pub enum Awaited<'a> {
    /// Whatever is pending.
    Anything,
    /// One transfer, and if it belongs to a collective, all of it.
    One(Transfer),
    /// Several transfers.
    Both(Transfer, Transfer),
    /// All of these requests.
    All(&'a [Handle]),
    /// One of these requests.
    Any(&'a [Handle]),
    /// A message that a probe would find.
    Message(&'a Pattern, Option<Peer>),
    /// Nothing: the program tests and will come again.
    Tested,
}

/// Selects among the pending operations.
#[derive(Default)]
struct Selection {
    everything: bool,
    ops: Vec<OpId>,
    /// All internal operations in this space of messages.
    contexts: Vec<u64>,
    /// All operations of the program in this space of messages.
    sendreceives: Vec<u64>,
}

impl Selection {
    fn of(awaited: &Awaited<'_>, pending: &[Pending]) -> Selection {
        let mut selection = Selection::default();
        match *awaited {
            Awaited::Anything => selection.everything = true,
            Awaited::One(transfer) => selection.add_transfer(transfer, pending),
            Awaited::Both(a, b) => {
                selection.add_transfer(a, pending);
                selection.add_transfer(b, pending);
            }
            Awaited::All(handles) | Awaited::Any(handles) => {
                handles.iter().for_each(|handle| selection.add_request(*handle, pending));
            }
            Awaited::Message(..) | Awaited::Tested => {}
        }
        selection
    }

    fn add_transfer(&mut self, transfer: Transfer, pending: &[Pending]) {
        let Transfer::Pending(op) = transfer else { return };
        self.ops.push(op);
        // A collective waits for its transfers one after the other, but needs them all.
        if let Some(found) = pending.iter().find(|p| p.op == op).filter(|p| is_internal(p.context)) {
            self.contexts.push(found.context);
        }
    }

    fn add_request(&mut self, handle: Handle, pending: &[Pending]) {
        if handle == REQUEST_NULL {
            return;
        }
        rt().requests.with(handle, |request| match request {
            Request::Transfer { transfer, .. } => self.add_transfer(*transfer, pending),
            Request::Persistent(p) => p.transfer.get().into_iter().for_each(|t| self.add_transfer(t, pending)),
            Request::Collective { operation, comm }
            | Request::PersistentCollective { operation, comm, active: true } => {
                if operation.outcome().is_none() {
                    self.add_operation(comm, pending);
                }
            }
            Request::PersistentCollective { .. } | Request::Generalized(_) | Request::Sent => {}
        });
    }

    /// A collective on `comm`, or a non-blocking send-receive.
    fn add_operation(&mut self, comm: &Comm, pending: &[Pending]) {
        let spaces = [Some(comm.context), comm.local.as_ref().map(|local| local.context)];
        let planes = [Plane::Collective, Plane::Management];
        let internal: Vec<u64> =
            spaces.into_iter().flatten().flat_map(|space| planes.map(|plane| space.plane(plane))).collect();
        if pending.iter().any(|p| internal.contains(&p.context)) {
            self.contexts.extend(internal);
        } else {
            self.sendreceives.push(comm.context.plane(Plane::PointToPoint));
        }
    }

    fn holds(&self, p: &Pending) -> bool {
        self.everything
            || self.ops.contains(&p.op)
            || self.contexts.contains(&p.context)
            || self.sendreceives.contains(&p.context)
    }
}

fn is_internal(context: u64) -> bool {
    context & PLANE_MASK != Plane::PointToPoint as u64
}

/// The communicator whose messages these are.
fn find_comm(context: u64) -> Option<Rc<Comm>> {
    let space = context & !PLANE_MASK;
    let is =
        |comm: &Rc<Comm>| comm.context.0 == space || comm.local.as_ref().is_some_and(|local| local.context.0 == space);
    let predefined = [rt().world.get(), rt().self_comm.get()];
    let mut handles = rt().comms.handles().into_iter().filter_map(|handle| rt().comms.get(handle));
    predefined.into_iter().flatten().find(|&c| is(c)).cloned().or_else(|| handles.find(is))
}

fn name_of(comm: Option<&Rc<Comm>>) -> String {
    comm.and_then(|comm| comm::describe(comm.handle.get())).unwrap_or_else(|| "an internal communicator".into())
}

/// Whom a receive from anybody may get its message from; empty for all ranks of the job.
fn candidates(comm: Option<&Rc<Comm>>) -> Vec<u32> {
    let Some(comm) = comm else { return Vec::new() };
    let peers = comm.peers();
    if peers.size() as u32 == init::world_size() {
        return Vec::new();
    }
    (0..peers.size()).map(|rank| peers.peer(rank).0).filter(|peer| *peer != init::me().0).collect()
}

fn wait_of(p: &Pending, awaited: bool) -> Wait {
    let comm = find_comm(p.context);
    let internal = is_internal(p.context);
    Wait {
        what: if p.op.is_send() { What::Send {} } else { What::Receive {} },
        peer: p.peer.map(|peer| peer.0),
        candidates: if p.peer.is_none() { candidates(comm.as_ref()) } else { Vec::new() },
        tag: p.tag.filter(|_| !internal),
        comm: name_of(comm.as_ref()),
        internal,
        bytes: p.bytes,
        stage: p.stage.to_string(),
        awaited,
    }
}

fn probe_of(pattern: &Pattern, expected: Option<Peer>) -> Wait {
    let comm = find_comm(pattern.context);
    Wait {
        what: What::Probe {},
        peer: expected.map(|peer| peer.0),
        candidates: if expected.is_none() { candidates(comm.as_ref()) } else { Vec::new() },
        tag: pattern.tag,
        comm: name_of(comm.as_ref()),
        internal: false,
        bytes: 0,
        stage: "no message yet".into(),
        awaited: true,
    }
}

/// What this rank does in MPI.
fn report(awaited: &Awaited<'_>) -> Report {
    let (pending, unreceived) = rt().engine.with(|engine| (engine.pending(), engine.unexpected_count()));
    let waited = rt().waiting(|waiting| waiting.waiter.waited());
    let selection = Selection::of(awaited, &pending);
    let mut waits: Vec<Wait> = pending.iter().map(|p| wait_of(p, selection.holds(p))).collect();
    if let Awaited::Message(pattern, expected) = awaited {
        waits.push(probe_of(pattern, *expected));
    }
    waits.sort_by_key(|wait| !wait.awaited);
    let more = waits.len().saturating_sub(MAX_WAITS) as u32;
    waits.truncate(MAX_WAITS);
    Report {
        call: call::current().map_or("MPI", |name| name).to_string(),
        blocks: !matches!(awaited, Awaited::Tested),
        any: matches!(awaited, Awaited::Any(_)),
        idle_ms: if matches!(awaited, Awaited::Tested) { 0 } else { waited.as_millis() as u64 },
        waits,
        more,
        unreceived: unreceived as u32,
    }
}

/// Answers if somebody has asked since the last call.
#[inline]
pub fn answer(awaited: &Awaited<'_>) {
    if rt().bootstrap.borrow().as_ref().is_some_and(|agent| agent.borrow_mut().take_report_request()) {
        tell(awaited);
    }
}

#[cold]
fn tell(awaited: &Awaited<'_>) {
    let report = report(awaited);
    if rt().agent().is_some_and(|agent| agent.borrow_mut().report(report).is_err()) {
        log!(Warn, "what this rank waits for can't be told to the node agent");
    }
}
