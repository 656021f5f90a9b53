//! The conversation between node agents, in a tree whose root is `mpiexec`.
//!
//! A [`Packet`] names its destination; each agent hands on what is not for itself. Nodes stand in a heap of
//! width k below the root: the root's children are nodes 0..k, node i's are k·(i+1) .. k·(i+1)+k.

use super::codec::wire;
use super::endpoint_address::EndpointAddress;
use super::epoch::{Done, Order};
use super::exchange::{Entry, Offer};
pub use super::job::{ALL_CORES, App, Bind, CHUNK_MAX, CoreRange, JobSpec, Launcher, Placed, PreloadFile};
use super::near::{Call, Groups, Hints, Spot};
use super::profile::{Part, RankHead, Row};
use super::rank::Times;
use super::report::{Process, Report};
use super::spawn::{Answer, Request};
use base::WorldRank;
use std::net::SocketAddr;

/// Destination: `mpiexec`.
pub const ROOT: u32 = u32::MAX;
/// Destination: every agent below the one that sends.
pub const ALL: u32 = u32::MAX - 1;

/// The parent of `node`, [`ROOT`] for the first `width` nodes.
pub fn parent(node: u32, width: u32) -> u32 {
    if node < width { ROOT } else { node / width - 1 }
}

/// The children of `node` (or of [`ROOT`]) in a job of `nodes` nodes.
pub fn children(node: u32, width: u32, nodes: u32) -> std::ops::Range<u32> {
    let first = if node == ROOT { 0 } else { width.saturating_mul(node + 1) };
    first.min(nodes)..first.saturating_add(width).min(nodes)
}

/// Which child of `node` leads to `target`; `None` if `target` is not below `node`.
pub fn next_hop(node: u32, target: u32, width: u32) -> Option<u32> {
    let mut at = target;
    while at != ROOT {
        let above = parent(at, width);
        if above == node {
            return Some(at);
        }
        at = above;
    }
    None
}

wire! {
    /// A message and where it goes.
    pub struct Packet {
        /// Node index, [`ROOT`] or [`ALL`].
        pub to: u32,
        /// The message.
        pub body: Message,
    }
}

wire! {
    /// How one rank has started. Times in nanoseconds.
    pub struct RankTimes {
        /// Rank.
        pub rank: u32,
        /// Making the process, until its program was loaded.
        pub fork_ns: u64,
        /// From then until `MPI_Init`.
        pub exec_ns: u64,
        /// What it said itself.
        pub times: Times,
    }
}

wire! {
    /// How a process ended.
    pub enum End {
        /// By itself.
        Exit = 1 {
            /// Exit code.
            code: i32,
        },
        /// By a signal.
        Signal = 2 {
            /// Its number.
            signal: i32,
            /// It left a core file.
            core: bool,
        },
        /// Somehow: another launcher has started it and knows.
        Unseen = 3 {},
    }
}

wire! {
    /// How far a rank had come.
    pub enum Phase {
        /// It has not called `MPI_Init`.
        Started = 0 {},
        /// Between `MPI_Init` and `MPI_Finalize`.
        Initialized = 1 {},
        /// After `MPI_Finalize`.
        Finalized = 2 {},
    }
}

wire! {
    /// Messages between agents.
    pub enum Message {
        /// Down: the job.
        Start = 1 {
            /// It.
            job: Box<JobSpec>,
        },
        /// Up: the node's ranks run.
        Started = 2 {
            /// Node.
            node: u32,
            /// Pid of the agent there.
            agent_pid: u32,
            /// Rank and pid.
            pids: Vec<(u32, u32)>,
        },
        /// Up: a rank could not be started.
        StartFailed = 3 {
            /// Rank.
            rank: u32,
            /// errno.
            errno: i32,
            /// What failed.
            text: String,
        },
        /// Up: output of a rank, whole lines where possible.
        Output = 4 {
            /// Rank.
            rank: u32,
            /// 1 or 2.
            stream: u8,
            /// The rank's stream is at its end.
            last: bool,
            /// The bytes.
            bytes: Vec<u8>,
        },
        /// Down: that many bytes of this node's output have been written.
        OutputAck = 5 {
            /// Count.
            bytes: u32,
        },
        /// Down: standard input; empty at its end.
        Stdin = 6 {
            /// The bytes.
            bytes: Vec<u8>,
        },
        /// Up: the node's ranks have taken the last piece of standard input.
        StdinAck = 7 {
            /// Node.
            node: u32,
        },
        /// Up: a rank has ended.
        Exited = 8 {
            /// Rank.
            rank: u32,
            /// Pid.
            pid: u32,
            /// How.
            end: End,
            /// When.
            phase: Phase,
            /// The agent had killed it.
            killed: bool,
        },
        /// Up: `MPI_Abort`.
        Aborted = 9 {
            /// Rank.
            rank: u32,
            /// Code.
            code: i32,
            /// Words.
            text: String,
            /// Ranks that shall end; empty for all.
            ranks: Vec<WorldRank>,
        },
        /// Down: send a signal to all ranks.
        Signal = 10 {
            /// Number.
            signal: i32,
        },
        /// Down: end all ranks.
        Kill = 11 {
            /// SIGKILL at once instead of SIGTERM first.
            now: bool,
            /// What mpiexec exits with.
            code: i32,
        },
        /// Down: end these ranks at once; the others go on.
        KillRanks = 42 {
            /// Who, on any node.
            ranks: Vec<WorldRank>,
        },
        /// To a rank's home: its endpoint address is wanted.
        Want = 12 {
            /// Whose.
            peer: WorldRank,
            /// Node that asks.
            from: u32,
            /// How many programs the asking rank has finalized before.
            generation: u32,
        },
        /// The answer.
        Have = 13 {
            /// Whose.
            peer: WorldRank,
            /// As in `Want`.
            generation: u32,
            /// The endpoint address, or none if the peer has ended.
            address: Option<EndpointAddress>,
            /// Why there is none.
            why: String,
        },
        /// To a node: a worker wants to know where the worker of the same index is there, now and whenever another one takes its place.
        FindWorker = 85 {
            /// Which one.
            index: u32,
            /// Node that asks.
            from: u32,
        },
        /// The answer.
        WorkerAt = 86 {
            /// Its node.
            node: u32,
            /// Which one of the node.
            index: u32,
            /// Which one in a row of those that have followed each other.
            incarnation: u32,
            /// Where it listens.
            tcp: Vec<SocketAddr>,
        },
        /// Down: a rank is dead and the others go on.
        PeerGone = 14 {
            /// Who.
            peer: WorldRank,
            /// How.
            why: String,
        },
        /// Down: what do the ranks do? Agents answer `Processes` at once, ranks that are in MPI answer `Report`.
        Dump = 15 {},
        /// Up: all ranks below have entered the barrier.
        BarrierUp = 16 {
            /// Child that says so.
            node: u32,
            /// Number of the barrier.
            epoch: u64,
        },
        /// Down: go.
        BarrierDone = 17 {
            /// Number of the barrier.
            epoch: u64,
        },
        /// Up: no process of the job is left on the node and all output has been sent.
        NodeDone = 18 {
            /// Node.
            node: u32,
        },
        /// Up: an agent could not be started, or is gone.
        NodeLost = 19 {
            /// Node.
            node: u32,
            /// How.
            why: String,
        },
        /// Up: a line for the user.
        Notice = 20 {
            /// The line.
            text: String,
        },
        /// Up: where an agent is (`near`).
        Hints = 21 {
            /// Node.
            node: u32,
            /// What it knows.
            hints: Hints,
        },
        /// Down: whom to call on `Dial`, and where to listen until `Kernels`.
        Meet = 22 {
            /// Agents to call.
            calls: Vec<Call>,
            /// Paths for sockets; answered by `Listening` if there are any, or files.
            listen: Vec<Vec<u8>>,
            /// Paths for files, in each of which one other agent will talk.
            files: Vec<Vec<u8>>,
        },
        /// Up: the sockets of `Meet` are open.
        Listening = 23 {
            /// Node.
            node: u32,
        },
        /// Down: call.
        Dial = 24 {},
        /// Up: how the calls went.
        Met = 25 {
            /// Node.
            node: u32,
            /// Nodes that have proved to be under the same kernel.
            proved: Vec<u32>,
            /// The others, and why not.
            refused: Vec<(u32, String)>,
        },
        /// Down: why nodes that may be on this host are not taken for near.
        Apart = 26 {
            /// Node and reason.
            reasons: Vec<(u32, String)>,
        },
        /// Down: the trees of agents under one kernel, and more that follows from what they have found.
        Kernels = 27 {
            /// It.
            groups: Groups,
        },
        /// Down: what to look for in memory that other kernels may share; answered by `Seen`.
        Look = 28 {
            /// Where.
            spots: Vec<Spot>,
        },
        /// Up: what was found there.
        Seen = 29 {
            /// Node.
            node: u32,
            /// Nodes whose number was found, and the number.
            seen: Vec<(u32, u128)>,
        },
        /// Up: what a rank offers (schemes `original` and `dr`).
        Offer = 50 {
            /// Program.
            generation: u32,
            /// It.
            offer: Offer,
        },
        /// Down: for one rank, what all have offered.
        Table = 51 {
            /// Rank.
            rank: u32,
            /// Program.
            generation: u32,
            /// In order of ranks.
            offers: Vec<Offer>,
        },
        /// Down: for one rank, what it needs.
        Entries = 52 {
            /// Rank.
            rank: u32,
            /// Program.
            generation: u32,
            /// In order of ranks.
            entries: Vec<Entry>,
        },
        /// To the parent: all endpoint addresses of this node and below (scheme `tree`).
        Gathered = 53 {
            /// Node that says so.
            node: u32,
            /// Program, or [`super::exchange::tree::FOR_EVER`] if nobody is left.
            generation: u32,
            /// The endpoint addresses.
            addresses: Vec<(WorldRank, EndpointAddress)>,
        },
        /// Down: all endpoint addresses.
        Spread = 54 {
            /// Program.
            generation: u32,
            /// The endpoint addresses.
            addresses: Vec<(WorldRank, EndpointAddress)>,
        },
        /// Up: how the ranks of a node have started.
        StartupTimes = 55 {
            /// Node.
            node: u32,
            /// Messages of the exchange that the agent has sent, and their bytes.
            sent: (u64, u64),
            /// Its ranks that have called `MPI_Init`.
            ranks: Vec<RankTimes>,
        },
        /// Down: the next piece of a file; files and pieces come in order.
        Chunk = 60 {
            /// Index in [`JobSpec::preload`].
            file: u32,
            /// Where in the file.
            offset: u64,
            /// At most [`CHUNK_MAX`] bytes.
            bytes: Vec<u8>,
        },
        /// Up: that much of all files is on this node.
        ChunkAck = 61 {
            /// Node.
            node: u32,
            /// Bytes since the beginning.
            bytes: u64,
        },
        /// Up: files could not be stored, or are not what was sent.
        PreloadFailed = 62 {
            /// Node.
            node: u32,
            /// What is wrong.
            text: String,
        },
        /// Up: one program of a rank has been counted; its parts follow.
        ProfileRank = 70 {
            /// It.
            head: RankHead,
        },
        /// Up: messages of the program that the rank's last `ProfileRank` was about.
        ProfilePart = 71 {
            /// Rank.
            rank: u32,
            /// What they are.
            part: Part,
            /// By peer, ascending.
            rows: Vec<Row>,
        },
        /// Up: a rank asks something of mpiexec.
        Ask = 80 {
            /// Rank.
            rank: u32,
            /// Number of the request, the rank's own.
            number: u64,
            /// It.
            request: Request,
        },
        /// Down: for one rank, the answer.
        Answer = 81 {
            /// Rank.
            rank: u32,
            /// Number of the request.
            number: u64,
            /// It.
            answer: Answer,
        },
        /// Down: a communicator is revoked.
        Revoked = 84 {
            /// Its context.
            context: u64,
        },
        /// Down: a step of a migration epoch.
        Epoch = 82 {
            /// It.
            order: Order,
        },
        /// Up: a rank's answer.
        EpochDone = 83 {
            /// Rank.
            rank: u32,
            /// It.
            done: Done,
        },
        /// Up: what a rank does in MPI.
        Report = 40 {
            /// Rank.
            rank: u32,
            /// It.
            report: Box<Report>,
        },
        /// Up: what the system says about the processes of a node's ranks.
        Processes = 41 {
            /// One entry for each rank of the node.
            processes: Vec<Process>,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{decode, encode};

    #[test]
    fn every_node_has_one_parent_and_a_route() {
        for width in [1, 2, 3, 16] {
            let nodes = 100;
            let mut seen = vec![0; nodes as usize];
            for node in (0..nodes).chain([ROOT]) {
                for child in children(node, width, nodes) {
                    assert_eq!(parent(child, width), node);
                    seen[child as usize] += 1;
                }
            }
            assert!(seen.iter().all(|&n| n == 1));
            for target in 0..nodes {
                let mut at = ROOT;
                while at != target {
                    at = next_hop(at, target, width).unwrap();
                }
            }
            assert_eq!(next_hop(5, 4, width), None);
        }
    }

    #[test]
    fn messages_survive_encoding_and_no_mutation_panics() {
        let address = EndpointAddress {
            rank_id: 1 << 100,
            boot_id: Some("b".into()),
            pid: 7,
            tcp: vec!["10.0.0.1:99".parse().unwrap(), "[fe80::1%3]:99".parse().unwrap()],
            extra: vec![1, 2, 3],
            ..EndpointAddress::default()
        };
        let have = Message::Have { peer: WorldRank(3), generation: 1, address: Some(address), why: String::new() };
        let packet = Packet { to: 4, body: have };
        let bytes = encode(&packet);
        assert_eq!(decode::<Packet>(&bytes).unwrap(), packet);
        for cut in 0..bytes.len() {
            assert!(decode::<Packet>(&bytes[..cut]).is_err());
        }
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..100_000 {
            let mut hostile = bytes.clone();
            for _ in 0..1 + state % 4 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (state >> 33) as usize % hostile.len();
                hostile[at] = (state >> 20) as u8;
            }
            if let Ok(packet) = decode::<Packet>(&hostile) {
                assert_eq!(encode(&packet), hostile);
            }
        }
    }
}
