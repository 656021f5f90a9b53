//! A migration epoch, as mpiexec, agents, ranks and `ferrule drain` speak of it: all endpoints of some nodes' ranks are suspended, those nodes may get
//! other addresses, and the endpoints are resumed.
//!
//! ```text
//! mpiexec ─ Order(step) ─► agents ─► ranks;  ranks ─ Done ─► agents ─► mpiexec, which orders the next step when all have answered
//! ```
//! The state machine behind it is [`crate::epoch`].

use super::codec::wire;

wire! {
    /// What all ranks do next. Each is answered when it is done.
    #[derive(Eq)]
    pub enum Step {
        /// Say whether the next steps are possible. Whoever answers is in MPI; nothing is suspended yet.
        Agree = 1 {},
        /// Drain and suspend the endpoints concerned.
        Drain = 2 {},
        /// Finish what others have begun meanwhile. From now on the end of a connection is nothing to mend.
        Settle = 3 {},
        /// Close sockets and unmap memory that other kernels share.
        Release = 4 {},
        /// Ranks of the nodes concerned: listen again, and tell the new addresses.
        Publish = 5 {},
        /// Resume: lanes are opened when they are needed, to the new addresses.
        Activate = 6 {},
    }
}

wire! {
    /// A step that is to be done.
    #[derive(Eq)]
    pub struct Order {
        /// Number of the epoch.
        pub epoch: u64,
        /// The step.
        pub step: Step,
        /// The nodes whose ranks move.
        pub nodes: Vec<u32>,
    }
}

wire! {
    /// The answer of one rank.
    pub struct Done {
        /// As ordered.
        pub epoch: u64,
        /// As ordered.
        pub step: Step,
        /// Endpoints that are suspended.
        pub endpoints: u32,
        /// Why it can't be done; empty if it is done.
        pub refusal: String,
    }
}

wire! {
    /// How long one phase of an epoch took.
    pub struct PhaseTime {
        /// Its name.
        pub name: String,
        /// In microseconds.
        pub micros: u64,
    }
}

/// The text of an [`Outcome`] when there is no epoch to resume: to who wants everything resumed, nothing is left to do.
pub const NOTHING_SUSPENDED: &str = "nothing is suspended";

wire! {
    /// What `ferrule drain` is told.
    #[derive(Default)]
    pub struct Outcome {
        /// Whether it was done.
        pub is_done: bool,
        /// What happened, for a person.
        pub text: String,
        /// Endpoints that were suspended, of all ranks together.
        pub endpoints: u64,
        /// The phases so far.
        pub phases: Vec<PhaseTime>,
    }
}
