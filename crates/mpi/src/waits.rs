//! What this rank waits for, told to the node agent when somebody asks (`mpiexec --timeout`, SIGQUIT, `ferrule top`).
//!
//! A wait says what it is for by an [`Awaited`], which costs nothing until it is asked for. From it and the engine's pending
//! operations a [`Report`] is made: which of them the call can't return without, and whom they are with.

use crate::comm::{self, Comm};
use crate::cs::Section;
use crate::handle::Handle;
use crate::owner::Owner;
use crate::progress::{self, Awaited};
use crate::request::{self, UnderWay};
use crate::{agent, call, engine, job};
use base::ids::{PLANE_MASK, Plane};
use base::{Peer, counters, log};
use channel::transports;
use protocol::control::profile::{Accesses, FileUse};
use protocol::control::report::{MAX_WAITS, Report, Wait, What};
use protocol::engine::OpId;
use protocol::engine::pending::Pending;
use protocol::matching::Pattern;
use std::rc::Rc;

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
    fn of(cs: &Section, awaited: &Awaited<'_>, pending: &[Pending]) -> Selection {
        let mut selection = Selection::default();
        match *awaited {
            Awaited::Anything => selection.everything = true,
            Awaited::One(op) => selection.add_op(op, pending),
            Awaited::Both(a, b) => {
                a.into_iter().chain(b).for_each(|op| selection.add_op(op, pending));
            }
            Awaited::All(handles) | Awaited::Any(handles) => {
                handles.each(&mut |handle| selection.add_request(cs, handle, pending));
            }
            Awaited::Message(..) | Awaited::Tested => {}
        }
        selection
    }

    fn add_op(&mut self, op: OpId, pending: &[Pending]) {
        self.ops.push(op);
        // A collective waits for its transfers one after the other, but needs them all.
        if let Some(found) = pending.iter().find(|p| p.op == op).filter(|p| is_internal(p.context)) {
            self.contexts.push(found.context);
        }
    }

    fn add_request(&mut self, cs: &Section, handle: Handle, pending: &[Pending]) {
        match request::under_way(cs, handle) {
            UnderWay::Nothing => {}
            UnderWay::Message(op) => self.add_op(op, pending),
            UnderWay::Operation(owner) => self.add_operation(&owner, pending),
        }
    }

    /// A collective on `comm`, or a non-blocking send-receive.
    fn add_operation(&mut self, owner: &Owner, pending: &[Pending]) {
        let planes = [Plane::Collective, Plane::Management];
        let internal: Vec<u64> =
            owner.contexts.into_iter().flatten().flat_map(|space| planes.map(|plane| space.plane(plane))).collect();
        if pending.iter().any(|p| internal.contains(&p.context)) {
            self.contexts.extend(internal);
        } else {
            self.sendreceives.extend(owner.contexts[0].map(|space| space.plane(Plane::PointToPoint)));
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

fn name_of(comm: Option<&Rc<Comm>>) -> String {
    comm.and_then(|comm| comm.owner.describe()).unwrap_or_else(|| "an internal communicator".into())
}

/// Whom a receive from anybody may get its message from; empty for all ranks of the job.
fn candidates(comm: Option<&Rc<Comm>>) -> Vec<u32> {
    let Some(comm) = comm else { return Vec::new() };
    let peers = comm.peers();
    if peers.size() as u32 == job::world_size() {
        return Vec::new();
    }
    peers.peers().filter(|peer| *peer != job::me()).filter_map(rank_of).collect()
}

/// What the launcher calls a process.
fn rank_of(peer: Peer) -> Option<u32> {
    job::rank_of(peer).map(|rank| rank.0)
}

fn wait_of(cs: &Section, p: &Pending, awaited: bool) -> Wait {
    let comm = comm::of_context(cs, p.context);
    let internal = is_internal(p.context);
    Wait {
        what: if p.op.is_send() { What::Send {} } else { What::Receive {} },
        peer: p.peer.and_then(rank_of),
        candidates: if p.peer.is_none() { candidates(comm.as_ref()) } else { Vec::new() },
        tag: p.tag.filter(|_| !internal),
        comm: name_of(comm.as_ref()),
        internal,
        bytes: p.bytes,
        stage: p.stage.to_string(),
        awaited,
    }
}

fn probe_of(cs: &Section, pattern: &Pattern, expected: Option<Peer>) -> Wait {
    let comm = comm::of_context(cs, pattern.context);
    Wait {
        what: What::Probe {},
        peer: expected.and_then(rank_of),
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
fn report(cs: &Section, awaited: &Awaited<'_>) -> Report {
    let (pending, unreceived, lanes) = engine::with(cs, |engine| {
        (engine.pending(), engine.unexpected_count(), transports::lanes_used(engine.endpoints()))
    });
    let waited = progress::waiting(cs, |waiting| waiting.waiter.waited());
    let selection = Selection::of(cs, awaited, &pending);
    let mut waits: Vec<Wait> = pending.iter().map(|p| wait_of(cs, p, selection.holds(p))).collect();
    if let Awaited::Message(pattern, expected) = awaited {
        waits.push(probe_of(cs, pattern, *expected));
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
        lanes,
        accesses: Accesses {
            puts: counters::PUTS.value(),
            put_bytes: counters::PUT_BYTES.value(),
            gets: counters::GETS.value(),
            get_bytes: counters::GET_BYTES.value(),
            accumulates: counters::ACCUMULATES.value(),
            accumulate_bytes: counters::ACCUMULATE_BYTES.value(),
        },
        files: FileUse {
            reads: counters::FILE_READS.value(),
            read_bytes: counters::FILE_READ_BYTES.value(),
            writes: counters::FILE_WRITES.value(),
            write_bytes: counters::FILE_WRITE_BYTES.value(),
        },
    }
}

/// Answers the node agent, which has asked ([`crate::progress::on_question`]).
#[cold]
pub(crate) fn tell(cs: &Section, awaited: &Awaited<'_>) {
    let report = report(cs, awaited);
    if agent::current(cs).is_some_and(|agent| agent.borrow_mut().report(report).is_err()) {
        log!(Warn, "what this rank waits for can't be told to the node agent");
    }
}
