//! The conversation of `ferrule top` and `ferrule drain` with a running `mpiexec`, over a socket that only the same user may use.
//!
//! ```text
//! top: Status ─► mpiexec: Job        (as often as it likes; then it hangs up)
//! top: Waits  ─► mpiexec: Text
//! drain: Drain, Resume or Epoch ─► mpiexec: Epoch
//! ```

use super::codec::wire;
use super::epoch::Outcome;
use super::report::{Process, Report};

/// Longest frame in either direction, in bytes.
pub const LIMIT: usize = 64 << 20;

wire! {
    /// What is asked.
    pub enum Question {
        /// The state of all ranks.
        Status = 1 {
            /// [`super::VERSION`].
            version: u16,
        },
        /// Pending operations and the wait-for graph, in words.
        Waits = 2 {
            /// [`super::VERSION`].
            version: u16,
        },
        /// Suspends all endpoints of some hosts' ranks; answered when they are ready to be moved, or with `resume` when they have been resumed.
        Drain = 3 {
            /// [`super::VERSION`].
            version: u16,
            /// As given to mpiexec.
            hosts: Vec<String>,
            /// How long each phase may take, in milliseconds.
            limit_ms: u64,
            /// After so long they are resumed, if nobody has resumed them before.
            hold_ms: u64,
            /// The same, from when the asker hangs up.
            alone_ms: u64,
            /// Whether the answer waits for that.
            resume: bool,
        },
        /// Resumes what was suspended; answered when that is done.
        Resume = 4 {
            /// [`super::VERSION`].
            version: u16,
        },
        /// How far the present epoch, or the last one, is.
        Epoch = 5 {
            /// [`super::VERSION`].
            version: u16,
        },
    }
}

wire! {
    /// One rank.
    pub struct RankStatus {
        /// Host, as given to mpiexec.
        pub host: String,
        /// Its process; none when its agent has not answered.
        pub process: Option<Process>,
        /// What it does in MPI; none when it is not in MPI.
        pub report: Option<Report>,
    }
}

wire! {
    /// What is answered.
    pub enum Answer {
        /// A job.
        Job = 1 {
            /// Program and arguments of the first rank.
            command: String,
            /// How long it runs, in milliseconds.
            age_ms: u64,
            /// In order.
            ranks: Vec<RankStatus>,
        },
        /// Lines.
        Text = 2 {
            /// In order.
            lines: Vec<String>,
        },
        /// What became of an epoch.
        Epoch = 3 {
            /// It.
            outcome: Outcome,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{decode, encode};

    #[test]
    fn questions_and_answers_survive_encoding() {
        let question = Question::Waits { version: 3 };
        assert_eq!(decode::<Question>(&encode(&question)).unwrap(), question);
        let rank = RankStatus { host: "h".into(), process: None, report: None };
        let answer = Answer::Job { command: "a b".into(), age_ms: 5, ranks: vec![rank; 2] };
        let bytes = encode(&answer);
        assert_eq!(decode::<Answer>(&bytes).unwrap(), answer);
        assert!((0..bytes.len()).all(|cut| decode::<Answer>(&bytes[..cut]).is_err()));
    }
}
