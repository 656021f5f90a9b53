//! What ranks ask of mpiexec beside their own job: to start other jobs (MPI-5.0, 11.8), and to keep names of services (11.9.4).
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
    }
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
    fn an_answer_is_a_text_or_an_error() {
        assert_eq!(Answer::done(b"port").into_result("no"), Ok(b"port".to_vec()));
        let error = Answer::failed(Class::ERR_NAME, "nobody").into_result("no").unwrap_err();
        assert_eq!((error.class, error.origin), (Class::ERR_NAME, "no"));
    }
}
