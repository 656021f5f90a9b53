//! What a rank says when it is asked what it waits for, and what its agent sees of its process.

use super::codec::wire;
use super::profile::{Accesses, FileUse};
use super::tree::Phase;

/// Most operations that a report lists; the others are only counted.
pub const MAX_WAITS: usize = 256;

wire! {
    /// What kind of operation is waited for.
    pub enum What {
        /// A send.
        Send = 1 {},
        /// A receive.
        Receive = 2 {},
        /// A probe: nothing is posted, but a message is waited for.
        Probe = 3 {},
    }
}

wire! {
    /// An operation that is not complete.
    pub struct Wait {
        /// Kind.
        pub what: What,
        /// World rank of the process at the other end, `None` if it can be several.
        pub peer: Option<u32>,
        /// World ranks that it can be; empty for all other ranks of the job.
        pub candidates: Vec<u32>,
        /// Tag, `None` for any tag, and for the messages of collectives.
        pub tag: Option<i32>,
        /// Communicator.
        pub comm: String,
        /// A message of a collective or of the library itself.
        pub internal: bool,
        /// Bytes, or room for so many.
        pub bytes: u64,
        /// How far it has come, in words.
        pub stage: String,
        /// The call does not return before this is complete; else it is pending besides.
        pub awaited: bool,
    }
}

wire! {
    #[derive(Default)]
    /// What a rank has sent over its lanes of one class, to all peers together.
    pub struct LaneUse {
        /// Number of the class ([`crate::lanes::Class::code`]); `None` for lanes without one.
        pub class: Option<u8>,
        /// Lanes that were opened.
        pub lanes: u32,
        /// Those of them that are lost.
        pub lost: u32,
        /// Packets.
        pub packets: u64,
        /// Their bytes without headers.
        pub bytes: u64,
        /// How many of them have waited in the process for room or for a connection.
        pub waited: u64,
        /// How long all of those waited together.
        pub waited_ns: u64,
    }
}

wire! {
    #[derive(Default)]
    /// What a rank does in MPI.
    pub struct Report {
        /// The function that the program has called.
        pub call: String,
        /// It blocks; false for a test that the program repeats.
        pub blocks: bool,
        /// One of the awaited operations is enough (`MPI_Waitany`).
        pub any: bool,
        /// How long nothing at all has happened, in milliseconds.
        pub idle_ms: u64,
        /// Operations that are not complete, awaited ones first.
        pub waits: Vec<Wait>,
        /// Operations that the list has no room for.
        pub more: u32,
        /// Messages that have come and are not received yet.
        pub unreceived: u32,
        /// What was sent to peers with several lanes, by class.
        pub lanes: Vec<LaneUse>,
        /// Accesses to windows so far.
        pub accesses: Accesses,
        /// Accesses to files so far.
        pub files: FileUse,
    }
}

wire! {
    /// A rank's process as the system sees it.
    pub struct Process {
        /// Rank.
        pub rank: u32,
        /// Pid as its agent sees it; 0 when it has ended.
        pub pid: u32,
        /// How far it has come.
        pub phase: Phase,
        /// Letter of /proc/pid/stat: R runs, S sleeps, T is stopped, Z has ended.
        pub state: u8,
        /// Processor time so far, in milliseconds.
        pub cpu_ms: u64,
        /// Resident memory.
        pub resident_kib: u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{decode, encode};

    #[test]
    fn reports_survive_encoding_and_no_mutation_panics() {
        let wait = Wait {
            what: What::Receive {},
            peer: None,
            candidates: vec![1, 2],
            tag: Some(-1),
            comm: "c".into(),
            internal: false,
            bytes: 1 << 40,
            stage: "none".into(),
            awaited: true,
        };
        let report = Report {
            call: "MPI_Recv".into(),
            blocks: true,
            any: false,
            idle_ms: 7,
            waits: vec![wait; 3],
            more: 1,
            unreceived: 2,
            lanes: vec![LaneUse {
                class: Some(17),
                lanes: 2,
                lost: 1,
                packets: 3,
                bytes: 1 << 33,
                waited: 2,
                waited_ns: 9,
            }],
            accesses: Accesses { puts: 1, accumulate_bytes: 1 << 50, ..Accesses::default() },
            files: FileUse { reads: 3, ..FileUse::default() },
        };
        let bytes = encode(&report);
        assert_eq!(decode::<Report>(&bytes).unwrap(), report);
        for at in 0..bytes.len() {
            assert!(decode::<Report>(&bytes[..at]).is_err());
            for change in [1, 0x80, 0xff] {
                let mut hostile = bytes.clone();
                hostile[at] ^= change;
                if let Ok(report) = decode::<Report>(&hostile) {
                    assert_eq!(encode(&report), hostile);
                }
            }
        }
    }
}
