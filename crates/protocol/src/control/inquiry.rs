//! The conversation of `ferrule top` with a running `mpiexec`, over a socket that only the same user may use.
//!
//! ```text
//! top: Status ─► mpiexec: Job        (as often as it likes; then it hangs up)
//! top: Waits  ─► mpiexec: Text
//! ```

use super::codec::wire;
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
