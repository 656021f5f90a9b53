//! Profiling control (MPI-5.0, 15.2.4), and what the core tells those who count messages (`channel::profile`).

use crate::cs::Section;
use crate::engine;
use crate::inside::Inside;
use crate::life::is_running;
use base::counters::{self, Counter};
use base::{ContextId, Peer};
use channel::profile::{Call, SharedProfile};
use channel::transports::tell_lanes;
pub(crate) use protocol::control::profile::{Access, FileAccess};
use std::cell::{Cell, RefCell};

/// Where messages are counted.
static PROFILE: Inside<RefCell<SharedProfile>> = Inside::new(RefCell::new(SharedProfile::OFF));

/// The collective to which the messages belong that are sent now.
static CALL: Inside<Cell<Call>> = Inside::new(Cell::new(None));

/// Counts there from now on.
pub(crate) fn begin(cs: &Section, profile: SharedProfile) {
    *PROFILE.get(cs).borrow_mut() = profile;
}

/// What is sent next belongs to this collective.
#[inline]
pub(crate) fn of_call(cs: &Section, call: Call) {
    CALL.get(cs).set(call);
}

/// A message has been sent.
#[inline]
pub(crate) fn count(cs: &Section, context: u64, peer: Peer, bytes: usize) {
    PROFILE.get(cs).borrow().count(context, CALL.get(cs).get(), peer, bytes);
}

fn add(counters: [&Counter; 2], bytes: u64) {
    counters[0].add(1);
    counters[1].add(bytes);
}

/// A window of `peer` is accessed.
pub(crate) fn access(cs: &Section, access: Access, peer: Peer, bytes: usize) {
    let counters = match access {
        Access::Put => [&counters::PUTS, &counters::PUT_BYTES],
        Access::Get => [&counters::GETS, &counters::GET_BYTES],
        Access::Accumulate => [&counters::ACCUMULATES, &counters::ACCUMULATE_BYTES],
    };
    add(counters, bytes as u64);
    PROFILE.get(cs).borrow().count_access(access, peer, bytes as u64);
}

/// A file was accessed.
pub(crate) fn file(cs: &Section, access: FileAccess, bytes: u64) {
    let counters = match access {
        FileAccess::Read => [&counters::FILE_READS, &counters::FILE_READ_BYTES],
        FileAccess::Write => [&counters::FILE_WRITES, &counters::FILE_WRITE_BYTES],
    };
    add(counters, bytes);
    PROFILE.get(cs).borrow().count_file(access, bytes);
}

/// `MPI_Pcontrol`: 0 pauses counting, 1 goes on, 2 does nothing; 1 and all others begin a phase.
pub fn control(cs: &Section, level: i32) {
    if is_running() {
        PROFILE.get(cs).borrow().control(level);
        engine::with(cs, |engine| tell_lanes(engine.endpoints()));
    }
}

/// A communicator has got a name.
pub fn name(cs: &Section, context: ContextId, name: &[u8]) {
    PROFILE.get(cs).borrow().name_context(context.0, &String::from_utf8_lossy(name));
}

/// Nothing more is counted: `MPI_Finalize`.
pub(crate) fn end(cs: &Section) {
    PROFILE.get(cs).borrow().end();
    engine::with(cs, |engine| tell_lanes(engine.endpoints()));
}
