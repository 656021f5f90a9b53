//! The command line of mpiexec.

mod binding;
pub mod hostfile;
mod output;
mod parse;
pub mod rankfile;
pub mod table;
pub mod values;

use crate::container::ContainerOptions;
pub use binding::bind_to;
pub use hostfile::Host;
pub use output::OutputDirectory;
pub(crate) use parse::words_of;
pub use parse::{RANKS_MAX, connect, parse, scheme, seconds};
use protocol::control::exchange::Scheme;
use protocol::control::tree::Bind;
pub use rankfile::RankFile;

/// What the user wants.
#[derive(Debug)]
pub enum Command {
    /// A job.
    Run(Box<Options>),
    /// The text of `--help`.
    Help,
    /// The version.
    Version,
    /// Be a node agent: started by a launcher, not by a user.
    Agent,
    /// Be a container's supervisor: started by mpiexec, not by a user.
    Supervisor,
    /// Be the head process of a job that another launcher has started: run by rank 0.
    AdoptHead,
    /// Be the agent of that node in such a job: run by its first rank.
    AdoptAgent(u32),
}

/// Which of its inherited variables a program gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keep {
    /// All.
    All,
    /// Those.
    Only(Vec<String>),
}

/// One program.
#[derive(Clone, Debug, Default)]
pub struct AppOptions {
    /// Program and arguments.
    pub argv: Vec<std::ffi::OsString>,
    /// Number of ranks, if given.
    pub count: Option<u32>,
    /// Hosts of its own.
    pub hosts: Option<Vec<Host>>,
    /// Working directory, if given.
    pub directory: Option<std::ffi::OsString>,
    /// Variables; without a value for one that is to be taken from mpiexec's environment.
    pub set: Vec<(String, Option<std::ffi::OsString>)>,
    /// What it inherits, if said for this program.
    pub keep: Option<Keep>,
}

/// Who gets standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StdinTo {
    /// One rank.
    Rank(u32),
    /// All.
    All,
    /// None.
    None,
}

/// How ranks go to hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapBy {
    /// Fill a host's slots, then the next; CPUs of a node in turn from the objects of that kind.
    Slot(Bind),
    /// One rank per host in turn.
    Node,
}

/// What each rank is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindTo {
    /// Kind of object.
    pub unit: Bind,
    /// How many of them, one after another.
    pub count: u32,
    /// Instead: the CPUs of a host's ranks, in turn.
    pub user: Vec<Vec<u32>>,
}

impl Default for BindTo {
    fn default() -> BindTo {
        BindTo { unit: Bind::None, count: 1, user: Vec::new() }
    }
}

/// `--lanes`: texts of `FERRULE_LANES` and `FERRULE_LANE_POLICY`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lanes {
    /// How many, or auto.
    pub count: String,
    /// What they carry; empty for what goes with the number.
    pub policy: String,
}

/// The whole command line.
#[derive(Clone, Debug)]
pub struct Options {
    /// Programs.
    pub apps: Vec<AppOptions>,
    /// Hosts of the job.
    pub hosts: Option<Vec<Host>>,
    /// Ranks per host.
    pub per_node: Option<u32>,
    /// Variables of all programs.
    pub set: Vec<(String, Option<std::ffi::OsString>)>,
    /// What all programs inherit.
    pub keep: Keep,
    /// Prefix output with the rank.
    pub tag: bool,
    /// Binding.
    pub bind_to: Option<BindTo>,
    /// Cores, or what `bind_to` says, of each rank: `PE=N` of the mapping.
    pub map_by_pe: Option<u32>,
    /// CPUs of each host that ranks may use; empty for all.
    pub cpu_set: Vec<u32>,
    /// The rank file, which says where each rank runs.
    pub rank_file: Option<RankFile>,
    /// For each rank the number of its host, again and again.
    pub rank_map: Vec<u32>,
    /// Mapping.
    pub map_by: MapBy,
    /// How `--rank-by` wants ranks to be numbered, which must be how they are.
    pub rank_by: Option<MapBy>,
    /// Show bindings.
    pub report_bindings: bool,
    /// Plan the job and start nothing.
    pub do_not_launch: bool,
    /// Seconds that the job may take.
    pub timeout_s: Option<f64>,
    /// Show what is done.
    pub verbose: bool,
    /// `ssh`, `fork` or a command template.
    pub launcher: Option<String>,
    /// Width of the tree.
    pub tree_width: Option<u32>,
    /// Path of mpiexec elsewhere.
    pub agent_path: Option<String>,
    /// Seconds that node agents may take to call back, if said.
    pub spawn_timeout_s: Option<u32>,
    /// Where to listen, if said.
    pub listen: Option<String>,
    /// Who gets standard input.
    pub stdin: StdinTo,
    /// Survivors go on.
    pub continue_on_failure: bool,
    /// Files for standard output and standard error.
    pub file_patterns: [Option<String>; 2],
    /// A directory for both, a part for each rank.
    pub output_directory: Option<OutputDirectory>,
    /// `MPI_UNIVERSE_SIZE`.
    pub universe_size: Option<u32>,
    /// Containers.
    pub container: ContainerOptions,
    /// How endpoints are exchanged, if said.
    pub startup: Option<Scheme>,
    /// All connections are made in `MPI_Init`, if said.
    pub connect_all: Option<bool>,
    /// Lanes of two processes, if said.
    pub lanes: Option<Lanes>,
    /// Show where the time of the start went.
    pub report_startup: bool,
    /// A file for that.
    pub startup_file: Option<std::path::PathBuf>,
    /// A file for what ranks send to whom.
    pub profile: Option<std::path::PathBuf>,
    /// For each communicator and collective.
    pub profile_detail: bool,
    /// For each time slice, in seconds.
    pub profile_slice_s: Option<f64>,
    /// `--offload`: workers of each node.
    pub offload: u32,
    /// Where the interconnect manager is, if said.
    pub fabric: Option<String>,
    /// The communication pattern to route for, if said.
    pub comm_pattern: Option<String>,
    /// Send programs and their libraries.
    pub preload: bool,
    /// Send these files.
    pub preload_files: Vec<std::path::PathBuf>,
    /// Not on the command line: the port of the processes that have spawned the job.
    pub parent_port: Option<String>,
    /// What the user should know; shown once.
    pub warnings: Vec<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            apps: Vec::new(),
            hosts: None,
            per_node: None,
            set: Vec::new(),
            keep: Keep::All,
            tag: false,
            bind_to: None,
            map_by_pe: None,
            cpu_set: Vec::new(),
            rank_file: None,
            rank_map: Vec::new(),
            rank_by: None,
            map_by: MapBy::Slot(Bind::None),
            report_bindings: false,
            do_not_launch: false,
            timeout_s: None,
            verbose: false,
            launcher: None,
            tree_width: None,
            spawn_timeout_s: None,
            listen: None,
            agent_path: None,
            stdin: StdinTo::Rank(0),
            continue_on_failure: false,
            file_patterns: [None, None],
            output_directory: None,
            universe_size: None,
            container: ContainerOptions::default(),
            startup: None,
            connect_all: None,
            lanes: None,
            report_startup: false,
            startup_file: None,
            profile: None,
            profile_detail: false,
            profile_slice_s: None,
            offload: 0,
            fabric: None,
            comm_pattern: None,
            preload: false,
            preload_files: Vec::new(),
            parent_port: None,
            warnings: Vec::new(),
        }
    }
}
