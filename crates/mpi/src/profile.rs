//! Profiling control (MPI-5.0, 15.2.4), and what the core tells those who count messages (`channel::profile`).

use crate::init::is_running;
use crate::runtime::rt;
use base::ContextId;
use channel::transports::tell_lanes;

/// `MPI_Pcontrol`: 0 pauses counting, 1 goes on, 2 does nothing; 1 and all others begin a phase.
pub fn control(level: i32) {
    if is_running() {
        rt().profile.borrow().control(level);
        rt().engine.with(|engine| tell_lanes(engine.endpoints()));
    }
}

/// A communicator has got a name.
pub fn name(context: ContextId, name: &[u8]) {
    rt().profile.borrow().name_context(context.0, &String::from_utf8_lossy(name));
}

/// Nothing more is counted: `MPI_Finalize`.
pub(crate) fn end() {
    rt().profile.borrow().end();
    rt().engine.with(|engine| tell_lanes(engine.endpoints()));
}
