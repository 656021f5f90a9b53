//! Profiling control (MPI-5.0, 15.2.4), and what the core tells those who count messages (`channel::profile`).

use crate::engine;
use crate::inside::Inside;
use crate::life::is_running;
use base::{ContextId, Peer};
use channel::profile::{Call, SharedProfile};
use channel::transports::tell_lanes;
use std::cell::{Cell, RefCell};

/// Where messages are counted.
static PROFILE: Inside<RefCell<SharedProfile>> = Inside::new(RefCell::new(SharedProfile::OFF));

/// The collective to which the messages belong that are sent now.
static CALL: Inside<Cell<Call>> = Inside::new(Cell::new(None));

/// Counts there from now on.
pub(crate) fn begin(profile: SharedProfile) {
    *PROFILE.borrow_mut() = profile;
}

/// What is sent next belongs to this collective.
#[inline]
pub(crate) fn of_call(call: Call) {
    CALL.set(call);
}

/// A message has been sent.
#[inline]
pub(crate) fn count(context: u64, peer: Peer, bytes: usize) {
    PROFILE.borrow().count(context, CALL.get(), peer, bytes);
}

/// `MPI_Pcontrol`: 0 pauses counting, 1 goes on, 2 does nothing; 1 and all others begin a phase.
pub fn control(level: i32) {
    if is_running() {
        PROFILE.borrow().control(level);
        engine::with(|engine| tell_lanes(engine.endpoints()));
    }
}

/// A communicator has got a name.
pub fn name(context: ContextId, name: &[u8]) {
    PROFILE.borrow().name_context(context.0, &String::from_utf8_lossy(name));
}

/// Nothing more is counted: `MPI_Finalize`.
pub(crate) fn end() {
    PROFILE.borrow().end();
    engine::with(|engine| tell_lanes(engine.endpoints()));
}
