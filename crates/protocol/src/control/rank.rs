//! The conversation of a rank with its node agent.
//!
//! ```text
//! agent: Job ─► rank: Register(address, fds), Initialized ─► { Request ─► Address | PeerGone,  Barrier ─► BarrierDone }*
//!                                                    ─► Finalize ─► Finalized ─► Job (for a next program of the same rank)
//! with an exchange (`super::exchange`), after Register: Offer ─► Table | Entries, or ─► Exchanged;  at last: Startup
//! with workers, after Register: Offload(fds);  agent to worker: Job ─► Address* ─► Served ─► { Address | PeerGone | WorkerAt }*
//!                                               worker to agent: Register, FindWorker
//! at any time: agent: Dump ─► rank: Report;  agent: PeerGone;  rank: Abort;  rank: Ask ─► agent: Answer
//! ```
//! The agent sends `Job` before the rank asks, so starting costs no round trip. `Finalized` lets a shell run one MPI program
//! after another under one rank: what the first program has not read of its own conversation ends there.

use super::codec::wire;
use super::endpoint_address::EndpointAddress;
use super::epoch::{Done, Order};
use super::exchange::{Entry, Id, Offer, Startup};
use super::profile::Orders;
use super::report::Report;
use super::spawn::{Answer, Request};
use base::WorldRank;
use std::net::SocketAddr;

/// Descriptors that come with [`ToAgent::Offload`].
pub const OFFLOAD_FDS: usize = 4;

/// Most file descriptors that accompany one message.
pub const MAX_FDS: usize = 4;

wire! {
    /// Where a rank receives from ranks of other kernels of its host: its part of a region of memory that they share (ivshmem).
    #[derive(Default)]
    pub struct Region {
        /// The region's file or device as this rank sees it; empty if there is none.
        pub path: Vec<u8>,
        /// The region's random name.
        pub id: u128,
        /// Where this rank's part begins.
        pub offset: u64,
        /// Bytes of it.
        pub len: u64,
        /// Why there is none, as far as that is worth telling.
        pub why: String,
    }
}

wire! {
    /// The workers that run collectives for the ranks of a node.
    #[derive(Default)]
    pub struct Offload {
        /// How many each node has; 0 for none.
        pub workers: u32,
        /// Which of them this process is, if it is one.
        pub index: Option<u32>,
        /// The node of this worker.
        pub node: u32,
        /// How many workers of this index and node have ended before this one.
        pub incarnation: u32,
        /// Processors under this kernel that its ranks leave free: the same number for all of them.
        pub spare_cpus: u32,
    }
}

wire! {
    /// What a rank, or a worker, learns about its job.
    #[derive(Default)]
    pub struct JobInfo {
        /// [`super::VERSION`] of the agent.
        pub version: u16,
        /// This process.
        pub rank: WorldRank,
        /// Number of ranks in `MPI_COMM_WORLD`.
        pub size: u32,
        /// Random number of the job.
        pub job_id: u64,
        /// Secret shared by the ranks of the job; authenticates connections.
        pub key: [u8; 16],
        /// Node index of each world rank.
        pub node_of: Vec<u32>,
        /// Name of each node, as given to mpiexec.
        pub node_names: Vec<String>,
        /// For each node the lowest node under the same kernel, as far as the agents could prove it.
        pub kernel_of: Vec<u32>,
        /// World ranks under this rank's kernel, ascending.
        pub local_ranks: Vec<u32>,
        /// Path of a file that this rank is to make for its inbox, because no descriptors pass to some of those; empty if they do.
        pub inbox_file: Vec<u8>,
        /// For each node the lowest node that shares a region of memory with it, itself if there is no other; empty if no nodes do.
        pub host_of: Vec<u32>,
        /// This rank's part of that region.
        pub region: Region,
        /// Index of this rank's program on the command line (`MPI_APPNUM`).
        pub app_num: Option<u32>,
        /// `MPI_UNIVERSE_SIZE`.
        pub universe_size: u32,
        /// The program and its arguments (`command` in `MPI_INFO_ENV`).
        pub command: Vec<String>,
        /// The working directory (`wdir` in `MPI_INFO_ENV`).
        pub working_directory: String,
        /// CPUs that this rank was bound to; empty when it was not bound.
        pub bound_cpus: Vec<u32>,
        /// CPUs that the ranks under this kernel may use together: the same number for all of them; 0 if unknown.
        pub node_cpus: u32,
        /// Survivors go on when a rank dies (`--continue-on-failure`).
        pub continue_on_failure: bool,
        /// Settings of collectives that all ranks follow, names and texts.
        pub collectives: Vec<(String, String)>,
        /// False for a singleton, which has no agent.
        pub launched: bool,
        /// How endpoints are exchanged.
        pub startup: Startup,
        /// How messages are counted.
        pub profile: Orders,
        /// Workers of each node.
        pub offload: Offload,
        /// The port of the processes that have spawned this job; empty if none have.
        pub parent_port: String,
    }
}

wire! {
    /// Where the time of `MPI_Init` went, and what the exchange of endpoints took. Times in nanoseconds.
    pub struct Times {
        /// The monotonic clock of the rank's kernel when `MPI_Init` began.
        pub began_ns: u64,
        /// Until the job's description had come: it waits until agents know which nodes share a kernel.
        pub locality_ns: u64,
        /// Opening the channels; with all connections made at once, those.
        pub connect_ns: u64,
        /// The exchange of endpoints.
        pub exchange_ns: u64,
        /// The barrier after that.
        pub fence_ns: u64,
        /// Messages that the rank has sent in its exchange, to its agent or to other ranks.
        pub sent_messages: u64,
        /// Bytes of them.
        pub sent_bytes: u64,
        /// Messages that it has got.
        pub received_messages: u64,
        /// Bytes of them.
        pub received_bytes: u64,
        /// All messages with the agent until now, in both directions.
        pub agent_messages: u64,
        /// Connections that have been opened.
        pub connections: u64,
    }
}

wire! {
    /// Rank to agent.
    pub enum ToAgent {
        /// The rank's endpoint address; its file descriptors come along.
        Register = 1 {
            /// The endpoint address.
            address: EndpointAddress,
            /// Number of descriptors sent with this message.
            fd_count: u8,
        },
        /// Asks for a peer's endpoint address.
        Request = 2 {
            /// Whose.
            peer: WorldRank,
        },
        /// From now on an exit without `Finalize` is a failure.
        Initialized = 3 {},
        /// From now on an exit is clean again; answered by `Finalized`.
        Finalize = 4 {},
        /// Entered a barrier of all ranks; answered by `BarrierDone`.
        Barrier = 5 {},
        /// `MPI_Abort`.
        Abort = 6 {
            /// The program's error code.
            code: i32,
            /// What is shown to the user.
            text: String,
            /// Ranks that shall end; empty for all. Others go on only if the job continues on failure.
            ranks: Vec<WorldRank>,
        },
        /// What the rank has for every other one; answered by `Table`, `Entries` or `Exchanged`, as the scheme is.
        Offer = 7 {
            /// For the other ranks, ascending; empty if the scheme has no ids.
            ids: Vec<Id>,
        },
        /// Where the time of `MPI_Init` went.
        Startup = 8 {
            /// The times.
            times: Times,
        },
        /// The memory in which the rank counts what it sends (`super::profile`): its descriptor comes along.
        Profile = 9 {},
        /// What this rank's workers need ([`OFFLOAD_FDS`]): the memory of its operations, their bell, its own bell, and the descriptor of its memory.
        Offload = 10 {},
        /// Asks something of mpiexec; answered by `Answer`.
        Ask = 11 {
            /// Number of the request, this rank's own.
            number: u64,
            /// It.
            request: Request,
        },
        /// The rank listens at other addresses now; its descriptors are those that it has registered.
        Moved = 12 {
            /// The endpoint address.
            address: EndpointAddress,
        },
        /// A step of a migration epoch is done, or refused.
        Epoch = 13 {
            /// The answer.
            done: Done,
        },
        /// A worker wants to know where the worker of the same index is on another node; answered by `WorkerAt`, and again whenever another worker takes its place.
        FindWorker = 14 {
            /// That node.
            node: u32,
        },
        /// The answer to `Dump`, as soon as the rank is in MPI.
        Report = 20 {
            /// What it does there.
            report: Box<Report>,
        },
    }
}

wire! {
    /// Agent to rank.
    pub enum ToRank {
        /// First message.
        Job = 1 {
            /// The job.
            job: Box<JobInfo>,
        },
        /// The endpoint address of a peer; descriptors come along if the peer is under the same kernel and left some.
        Address = 2 {
            /// Whose.
            peer: WorldRank,
            /// The endpoint address.
            address: Box<EndpointAddress>,
            /// Number of descriptors sent with this message.
            fd_count: u8,
            /// Why the peer's node is not taken for near; empty if it is, or if nobody has looked.
            far: String,
        },
        /// A peer is dead, or ended without ever registering.
        PeerGone = 3 {
            /// Who.
            peer: WorldRank,
            /// Where.
            host: String,
            /// How, in words.
            why: String,
        },
        /// Asks what the rank waits for; answered by `Report` when it is in MPI, and not before.
        Dump = 4 {},
        /// Every rank has entered the barrier.
        BarrierDone = 5 {},
        /// Last message of this program's conversation.
        Finalized = 6 {},
        /// What all ranks have offered (scheme `original`).
        Table = 7 {
            /// In order of ranks; those that have ended are missing.
            offers: Vec<Offer>,
        },
        /// What this rank needs of what the others have offered (scheme `dr`).
        Entries = 8 {
            /// In order of ranks; those that have ended are missing.
            entries: Vec<Entry>,
        },
        /// The agent knows all endpoint addresses (scheme `tree`).
        Exchanged = 9 {},
        /// The answer to `Ask`.
        Answer = 11 {
            /// Number of the request.
            number: u64,
            /// It.
            answer: Answer,
        },
        /// A communicator is revoked.
        Revoked = 14 {
            /// Its context.
            context: u64,
        },
        /// A step of a migration epoch; answered by `Epoch` when the rank is in MPI, and not before.
        Epoch = 13 {
            /// It.
            order: Order,
        },
        /// The job is over: exit. Only ranks get it that another launcher has started; who doesn't follow is killed.
        End = 10 {
            /// With this.
            code: i32,
        },
        /// To a worker: all ranks that were there when it started have been told it.
        Served = 12 {},
        /// To a worker: where the worker of the same index is on another node.
        WorkerAt = 15 {
            /// That node.
            node: u32,
            /// Which one in a row of those that have followed each other.
            incarnation: u32,
            /// Where it listens.
            tcp: Vec<SocketAddr>,
        },
    }
}

impl ToRank {
    /// The version of an agent that isn't ours, if `body` is its job: readable although we can't decode the rest of it.
    pub fn foreign_version(body: &[u8]) -> Option<u16> {
        let [1, low, high, ..] = *body else { return None };
        Some(u16::from_le_bytes([low, high])).filter(|version| *version != super::VERSION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{decode, encode};

    #[test]
    fn no_bytes_of_a_rank_make_the_agent_panic() {
        let address = EndpointAddress {
            rank_id: 7,
            boot_id: Some("x".into()),
            pid: 1,
            uid: 2,
            tcp: vec!["127.0.0.1:80".parse().unwrap(); 3],
            numa: Some(1),
            inbox_file: String::new(),
            region_part: (1 << 20, 4096),
            ucx: None,
            extra: vec![0; 50],
        };
        let messages = [
            ToAgent::Register { address, fd_count: 3 },
            ToAgent::Abort { code: -1, text: "no".into(), ranks: vec![WorldRank(1), WorldRank(3)] },
            ToAgent::Barrier {},
        ];
        let mut state = 88_172_645_463_325_252_u64;
        for message in messages {
            let bytes = encode(&message);
            assert_eq!(decode::<ToAgent>(&bytes).unwrap(), message);
            for _ in 0..50_000 {
                let mut hostile = bytes.clone();
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                hostile.truncate(1 + (state >> 8) as usize % bytes.len());
                let at = (state >> 32) as usize % hostile.len();
                hostile[at] = state as u8;
                if let Ok(message) = decode::<ToAgent>(&hostile) {
                    assert_eq!(encode(&message), hostile);
                }
            }
        }
    }

    #[test]
    fn another_versions_job_is_recognised() {
        let other = crate::control::VERSION + 1;
        let [low, high] = other.to_le_bytes();
        assert_eq!(ToRank::foreign_version(&[1, low, high, 9, 9]), Some(other));
        let [low, high] = crate::control::VERSION.to_le_bytes();
        assert_eq!(ToRank::foreign_version(&[1, low, high, 9, 9]), None);
        assert_eq!(ToRank::foreign_version(&[2, 7, 7, 7]), None);
        assert_eq!(ToRank::foreign_version(&[1, 7]), None);
    }
}
