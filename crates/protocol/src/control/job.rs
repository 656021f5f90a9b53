//! The description of a job that goes down the tree of agents: programs, ranks, hosts, and how all is started.

use super::codec::wire;
use super::exchange::Startup;
use super::profile::Orders;

wire! {
    /// One program of the command line.
    pub struct App {
        /// Program and arguments, as bytes of the local encoding.
        pub argv: Vec<Vec<u8>>,
        /// Variables to set, after the environment that the node's agent has.
        pub set: Vec<(Vec<u8>, Vec<u8>)>,
        /// Variables to keep from the agent's environment: `None` for all.
        pub keep: Option<Vec<Vec<u8>>>,
        /// Working directory.
        pub working_directory: Vec<u8>,
        /// The user asked for this directory, so a missing one is an error.
        pub directory_required: bool,
        /// Which of the files that are sent is the program, if it is sent.
        pub preloaded: Option<u32>,
    }
}

wire! {
    /// One rank of the job.
    pub struct Placed {
        /// Node index.
        pub node: u32,
        /// Index of its program.
        pub app: u32,
        /// Index among the ranks of the node.
        pub local: u32,
    }
}

wire! {
    /// How agents start agents on other hosts.
    #[derive(Default)]
    pub struct Launcher {
        /// Words with `{host}` and `{command}` in them.
        pub template: Vec<String>,
        /// Path of mpiexec there.
        pub agent_path: String,
        /// Width of the tree.
        pub width: u32,
        /// Seconds to wait for an agent to call back.
        pub timeout_s: u32,
        /// TCP ports that agents may listen on, `first-last`, or empty.
        pub ports: String,
        /// The address, network or interface that they listen at, or empty.
        pub listen: String,
    }
}

wire! {
    /// Everything that agents must know about the job.
    #[derive(Default)]
    pub struct JobSpec {
        /// [`super::VERSION`].
        pub version: u16,
        /// Random number.
        pub job_id: u64,
        /// Secret of the ranks (not the one of the agents).
        pub rank_key: [u8; 16],
        /// With it ranks that another launcher has started prove themselves to their agents, and for nothing else.
        pub meeting_key: [u8; 16],
        /// Host names.
        pub hosts: Vec<String>,
        /// Programs.
        pub apps: Vec<App>,
        /// Ranks in order.
        pub ranks: Vec<Placed>,
        /// `MPI_UNIVERSE_SIZE`.
        pub universe_size: u32,
        /// Launcher of the agents below.
        pub launcher: Launcher,
        /// `--bind-to`, a [`Bind`].
        pub bind_to: u8,
        /// How many of those a rank gets, one after another; 0 is 1.
        pub bind_count: u32,
        /// CPUs of a node's ranks, in turn; empty unless the user has listed them.
        pub bind_user: Vec<Vec<u32>>,
        /// CPUs that ranks may use on each node; empty for all that there are.
        pub cpu_set: Vec<u32>,
        /// Cores (or hardware threads, if `bind_to` says so) of each rank of the job; empty unless a rank file places them.
        pub rank_cores: Vec<Vec<CoreRange>>,
        /// Order in which a node's CPUs are used, as `--map-by` says.
        pub map_by: u8,
        /// Report bindings.
        pub report_bindings: bool,
        /// `--continue-on-failure`.
        pub continue_on_failure: bool,
        /// Settings of collectives that all ranks follow: those of rank 0.
        pub collectives: Vec<(String, String)>,
        /// World rank whose standard input is fed, [`ALL`] for all, [`ROOT`] for none.
        pub stdin_rank: u32,
        /// Pass on unfinished lines of the rank that reads the terminal.
        pub interactive: bool,
        /// Verbosity.
        pub verbose: bool,
        /// Milliseconds between SIGTERM and SIGKILL.
        pub grace_ms: u32,
        /// Agents look for each other under their kernels; else each is taken to be alone.
        pub discover: bool,
        /// How endpoints are exchanged.
        pub startup: Startup,
        /// How messages are counted.
        pub profile: Orders,
        /// Workers of each node that run collectives for its ranks.
        pub offload: u32,
        /// Files that are sent before ranks start.
        pub preload: Vec<PreloadFile>,
        /// The launcher that has started the ranks, which then call their agents; empty if agents start them.
        pub adopted_from: String,
        /// The port of the processes that have spawned this job; empty if none have.
        pub parent_port: String,
    }
}

wire! {
    /// Some cores of a node, by their logical numbers.
    pub struct CoreRange {
        /// The package that has them; none if they are counted through all packages.
        pub package: Option<u32>,
        /// The first.
        pub first: u32,
        /// The last, or [`ALL_CORES`].
        pub last: u32,
    }
}

/// The end of a range of cores that has no end.
pub const ALL_CORES: u32 = u32::MAX;

/// Longest piece of a file, in bytes.
pub const CHUNK_MAX: usize = 256 << 10;

wire! {
    /// A file that is sent to every node.
    pub struct PreloadFile {
        /// Where it goes, below the private directory.
        pub path: Vec<u8>,
        /// Its length.
        pub bytes: u64,
        /// BLAKE3 of its contents.
        pub hash: [u8; 32],
        /// It is a program.
        pub executable: bool,
    }
}

/// What a rank may be bound to, or the order in which objects of a node are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Bind {
    /// Nothing.
    None = 0,
    /// One hardware thread.
    HwThread = 1,
    /// All hardware threads of a core.
    Core = 2,
    /// All CPUs of a NUMA node.
    Numa = 3,
    /// All CPUs of a package.
    Socket = 4,
}

impl Bind {
    /// The inverse of `as u8`; unknown numbers bind nothing.
    pub fn from_number(n: u8) -> Bind {
        [Bind::None, Bind::HwThread, Bind::Core, Bind::Numa, Bind::Socket]
            .get(usize::from(n))
            .copied()
            .unwrap_or(Bind::None)
    }
}
