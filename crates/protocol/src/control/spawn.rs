//! What ranks ask of mpiexec beside their own job: to start other jobs (MPI-5.0, 11.8), to keep names of services (11.9.4), and to agree after failures
//! ([`Verdict`]).
//!
//! A request travels from the rank over its agent to mpiexec, which answers it with the request's number. Numbers are the rank's own.

use super::codec::wire;
use base::{Class, Error};

/// Most ranks of one spawned job.
pub const RANKS_MAX: u32 = 1 << 20;

wire! {
    /// One program that is to be started.
    pub struct Command {
        /// Program and arguments.
        pub argv: Vec<Vec<u8>>,
        /// Number of ranks.
        pub count: u32,
        /// Working directory; empty for that of the rank that asks.
        pub directory: Vec<u8>,
        /// Directories in which the program is looked for, separated by colons; empty for those of the rank's `PATH`.
        pub path: Vec<u8>,
        /// Hosts as on mpiexec's command line; empty for those of the job that asks.
        pub hosts: String,
        /// A file of hosts; empty if there is none.
        pub host_file: String,
    }
}

wire! {
    /// What a rank asks for.
    pub enum Request {
        /// A new job whose rank 0 connects to a port.
        Spawn = 1 {
            /// Its programs.
            commands: Vec<Command>,
            /// Where the new job connects to.
            port: String,
            /// Working directory of the rank that asks.
            directory: Vec<u8>,
        },
        /// The new job of an earlier request has connected: from now on its failure is one of this job. Not answered.
        Connected = 2 {
            /// The number of that request.
            number: u64,
        },
        /// Keeps the port of a service under a name.
        Publish = 3 {
            /// The name.
            service: Vec<u8>,
            /// The port.
            port: Vec<u8>,
        },
        /// Asks for the port of a service.
        Lookup = 4 {
            /// The name.
            service: Vec<u8>,
        },
        /// Forgets a name.
        Unpublish = 5 {
            /// The name.
            service: Vec<u8>,
            /// The port.
            port: Vec<u8>,
        },
        /// Takes part in an agreement of all members of a communicator that live; answered by a [`Verdict`].
        Agree = 6 {
            /// It.
            vote: Vote,
        },
        /// Revokes a communicator: all ranks are told. Not answered.
        Revoke = 7 {
            /// Its context.
            context: u64,
        },
    }
}

wire! {
    /// What one member says in an agreement.
    pub struct Vote {
        /// Context of the communicator.
        pub context: u64,
        /// Number of the agreement on this communicator.
        pub number: u64,
        /// Ranks of all members, in runs of first and count, ascending.
        pub members: Vec<(u32, u32)>,
        /// The bits that all must have.
        pub flag: u32,
        /// Members whose failure this one has acknowledged, as `members`.
        pub acknowledged: Vec<(u32, u32)>,
        /// Contexts for a new communicator; none if it can propose none.
        pub contexts: Vec<u64>,
    }
}

wire! {
    /// What all members of an agreement that live are told.
    pub struct Verdict {
        /// The bits that all who have voted had.
        pub flag: u32,
        /// Members that have failed or left, as [`Vote::members`].
        pub dead: Vec<(u32, u32)>,
        /// Whether all who have voted had acknowledged all of these.
        pub acknowledged: bool,
        /// Contexts for a new communicator; none if nobody could propose any.
        pub contexts: Vec<u64>,
    }
}

/// Ascending ranks as runs of first and count.
pub fn runs(ranks: impl IntoIterator<Item = u32>) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for rank in ranks {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == rank => *count += 1,
            _ => runs.push((rank, 1)),
        }
    }
    runs
}

/// The ranks of runs, of which none is `end` or more. Each comes once: what lies below the end of an earlier run is left out, so the work is bounded whatever
/// the runs are.
pub fn ranks_of(runs: &[(u32, u32)], end: u32) -> impl Iterator<Item = u32> {
    let mut next = 0;
    runs.iter().flat_map(move |(first, count)| {
        let run = next.max(*first)..first.saturating_add(*count).min(end);
        next = next.max(run.end);
        run
    })
}

wire! {
    /// The answer.
    pub struct Answer {
        /// 0, or an error class of MPI.
        pub class: i32,
        /// The port that was asked for, or why there is none, in words.
        pub text: Vec<u8>,
    }
}

impl Answer {
    /// It has been done.
    pub fn done(text: &[u8]) -> Answer {
        Answer { class: 0, text: text.to_vec() }
    }

    /// It hasn't.
    pub fn failed(class: Class, why: &str) -> Answer {
        Answer { class: class.0, text: why.as_bytes().to_vec() }
    }

    /// The text, or the error; `origin` is what the error says.
    pub fn into_result(self, origin: &'static str) -> Result<Vec<u8>, Error> {
        if self.class == 0 { Ok(self.text) } else { Err(Error::new(Class(self.class), origin)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{decode, encode};

    #[test]
    fn no_bytes_of_a_request_make_mpiexec_panic() {
        let command = Command {
            argv: vec![b"a".to_vec(), Vec::new()],
            count: 3,
            directory: b"/".to_vec(),
            path: Vec::new(),
            hosts: "one,two:2".into(),
            host_file: String::new(),
        };
        let request = Request::Spawn { commands: vec![command; 2], port: "p".into(), directory: b"/tmp".to_vec() };
        let bytes = encode(&request);
        assert_eq!(decode::<Request>(&bytes).unwrap(), request);
        let mut state = 88_172_645_463_325_252_u64;
        for _ in 0..50_000 {
            let mut hostile = bytes.clone();
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            hostile.truncate(1 + (state >> 8) as usize % bytes.len());
            let at = (state >> 32) as usize % hostile.len();
            hostile[at] = state as u8;
            if let Ok(request) = decode::<Request>(&hostile) {
                assert_eq!(encode(&request), hostile);
            }
        }
    }

    #[test]
    fn runs_are_the_ranks_again() {
        for ranks in [vec![], vec![0], vec![0, 1, 2], vec![1, 3, 4, 9]] {
            assert_eq!(ranks_of(&runs(ranks.clone()), 10).collect::<Vec<_>>(), ranks);
        }
        assert_eq!(runs([4, 5, 7]), [(4, 2), (7, 1)]);
        // Whatever a rank sends, no rank beyond the job comes of it.
        assert_eq!(ranks_of(&[(2, u32::MAX), (u32::MAX, 7)], 4).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(ranks_of(&[(1, 2), (0, 4), (1, 9)], 8).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7], "each once");
    }

    #[test]
    fn an_answer_is_a_text_or_an_error() {
        assert_eq!(Answer::done(b"port").into_result("no"), Ok(b"port".to_vec()));
        let error = Answer::failed(Class::ERR_NAME, "nobody").into_result("no").unwrap_err();
        assert_eq!((error.class, error.origin), (Class::ERR_NAME, "no"));
    }
}
