//! The options of mpiexec: ours, Hydra's and Open MPI's, as one table.
//!
//! One dash or two make no difference, and `--option=value` is `--option value`. Options that mean nothing here are known all the
//! same, so that the right number of words is skipped; those that would change what is shown get one line of warning. Options that this mpiexec lacks,
//! and without which the job would be another one, are refused. `tests/options.toml` says of each option of both manuals which it is.

/// What an option does; [`TABLE`] says it in words.
#[allow(missing_docs)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Count,
    PerNode,
    AppHosts,
    Hosts,
    HostFile,
    WorkingDirectory,
    Export,
    Set,
    GlobalSet,
    EnvList,
    EnvAll,
    EnvNone,
    GlobalEnvList,
    GlobalEnvAll,
    GlobalEnvNone,
    Tag,
    BindTo,
    MapBy,
    ReportBindings,
    DoNotLaunch,
    Timeout,
    Verbose,
    Launcher,
    LauncherExec,
    TreeWidth,
    Listen,
    Stdin,
    Setting,
    ContinueOnFailure,
    WithFaultTolerance,
    ConfigFile,
    OutFile,
    ErrFile,
    OutputDirectory,
    Output,
    AgentPath,
    UniverseSize,
    Container,
    ContainerImage,
    ContainerName,
    ContainerEngine,
    RanksPerContainer,
    ContainerNetwork,
    ContainerArgs,
    ContainerWorkdir,
    ContainerCopy,
    Startup,
    Connect,
    Lanes,
    ReportStartup,
    Offload,
    Profile,
    ProfileDetail,
    ProfileSlice,
    Fabric,
    CommPattern,
    Preload,
    PreloadFiles,
    Help,
    Version,
    Agent,
    Supervisor,
    AdoptHead,
    AdoptAgent,
    ExportValue,
    RankFile,
    RankMap,
    RankBy,
    CpuSet,
    CoresPerRank,
    PerResource,
    Display,
    Prefix,
    ForwardSignals,
    SpawnTimeout,
    Personality,
    RunDirectives,
    /// A parameter of one of Open MPI's parts.
    Parameter,
    /// Stands for these words.
    Alias(&'static str, &'static str),
    /// Accepted and needless: it is how things are anyway.
    Needless,
    /// Accepted and ignored, with a warning: it changes nothing that runs.
    Ignored,
    /// Not supported, and the job would be another one without it; [`instead`] says what to do.
    Refused,
}

/// One option.
pub struct Spelling {
    /// Without dashes; the first is shown in the help.
    pub names: &'static [&'static str],
    /// Words that follow.
    pub words: usize,
    /// Effect.
    pub kind: Kind,
    /// Names of the words and one line for the help; empty for what is only there for compatibility.
    pub help: &'static str,
}

impl Spelling {
    /// The names of the words that follow; empty if there are none.
    pub fn metavar(&self) -> &'static str {
        self.help.split_once('\t').map_or("", |(words, _)| words)
    }

    /// One line that says what it does.
    pub fn meaning(&self) -> &'static str {
        self.help.split_once('\t').map_or(self.help, |(_, text)| text)
    }

    /// All names as they are written, with commas between them.
    pub fn shown(&self) -> String {
        self.names.iter().map(|name| shown(name)).collect::<Vec<_>>().join(", ")
    }

    /// All names, and the words that follow.
    pub fn head(&self) -> String {
        // `[=FILE]` belongs to the name.
        let gap = if self.metavar().is_empty() || self.metavar().starts_with('[') { "" } else { " " };
        format!("{}{gap}{}", self.shown(), self.metavar())
    }
}

/// A name as the help writes it.
pub fn shown(name: &str) -> String {
    format!("{}{name}", if name.len() < 3 { "-" } else { "--" })
}

const fn option(names: &'static [&'static str], words: usize, kind: Kind, help: &'static str) -> Spelling {
    Spelling { names, words, kind, help }
}

/// All options.
pub const TABLE: &[Spelling] = &[
    option(&["n", "np", "c", "num-procs"], 1, Kind::Count, "N\tnumber of ranks of this program"),
    option(&["ppn", "N", "npernode", "perhost", "ranks-per-node", "grr"], 1, Kind::PerNode, "N\tranks on each host"),
    option(&["host", "H"], 1, Kind::AppHosts, "A[:S],B\thosts of this program, with S slots"),
    option(&["hosts", "hostlist", "machine", "machines", "machinelist"], 1, Kind::Hosts, "A[:S],B\thosts of the job"),
    option(
        &["hostfile", "f", "machinefile", "default-hostfile"],
        1,
        Kind::HostFile,
        "FILE\thosts of the job, a line each: host, host:4 or host slots=4 max_slots=8",
    ),
    option(&["wdir", "wd"], 1, Kind::WorkingDirectory, "DIR\tworking directory of this program"),
    option(&["x"], 1, Kind::Export, "VAR[=VALUE]\tvariable of this program; VAR*: all that begin so"),
    option(&["env"], 2, Kind::Set, "VAR VALUE\tvariable of this program"),
    option(&["genv"], 2, Kind::GlobalSet, "VAR VALUE\tvariable of all programs"),
    option(&["envlist"], 1, Kind::EnvList, "A,B\tpass only these variables to this program"),
    option(&["envall"], 0, Kind::EnvAll, "\tpass all variables to this program (default)"),
    option(&["envnone"], 0, Kind::EnvNone, "\tpass no variables to this program"),
    option(&["genvlist"], 1, Kind::GlobalEnvList, "A,B\tpass only these variables"),
    option(&["genvall"], 0, Kind::GlobalEnvAll, "\tpass all variables (default)"),
    option(&["genvnone"], 0, Kind::GlobalEnvNone, "\tpass no variables"),
    option(&["l", "prepend-rank", "tag-output"], 0, Kind::Tag, "\tbegin each line of output with [rank]"),
    option(
        &["rankfile", "rf"],
        1,
        Kind::RankFile,
        "FILE\twhere each rank runs and which cores it gets, a line each: rank 0=HOST slot=0-2 or slot=1:0-2 (package 1); +n2: the third host",
    ),
    option(
        &["rankmap"],
        1,
        Kind::RankMap,
        "MAP\tnumber of the host of each rank, from 0: 0,0,1; (0,2,4): two hosts from number 0 on, four ranks each",
    ),
    option(
        &["cpu-set", "cpu-list"],
        1,
        Kind::CpuSet,
        "CPUS\tranks use only these cpus of each host, like 0,2-5; --bind-to divides them, else each rank gets them all",
    ),
    option(
        &["bind-to", "binding"],
        1,
        Kind::BindTo,
        "WHAT\tnone (default), hwthread, core, numa or socket; core:4 for four of them; user:0+1,2+3 for these cpus",
    ),
    option(
        &["map-by"],
        1,
        Kind::MapBy,
        "HOW\tslot (default), node, core, numa, socket, hwthread, ppr:N:node, rankfile:file=FILE or pe-list=CPUS; with :PE=N each rank is \
         bound to N cores",
    ),
    option(&["report-bindings"], 0, Kind::ReportBindings, "\tshow the cpus of each rank"),
    option(&["do-not-launch"], 0, Kind::DoNotLaunch, "\tplan the job, show where ranks would run, and start nothing"),
    option(&["timeout"], 1, Kind::Timeout, "S\tshow pending operations and end the job after S seconds; exit code 124"),
    option(&["v", "verbose"], 0, Kind::Verbose, "\tshow what is started where"),
    option(&["launcher", "bootstrap"], 1, Kind::Launcher, "HOW\tssh (default), fork (every host is this one) or exec"),
    option(
        &["launcher-exec", "bootstrap-exec"],
        1,
        Kind::LauncherExec,
        "'CMD'\tstart node agents by this command with {host} (or {pod}: up to its first dot) and {command} in it; without {command}, CMD \
         is called as ssh is",
    ),
    option(&["tree-width"], 1, Kind::TreeWidth, "K\tagents that one agent starts (default 16)"),
    option(
        &["iface"],
        1,
        Kind::Listen,
        "WHERE\tlisten there only: an address, a network (10.1.0.0/16) or an interface (FERRULE_LISTEN)",
    ),
    option(&["agent-path"], 1, Kind::AgentPath, "PATH\tmpiexec on the other hosts"),
    option(&["stdin", "s"], 1, Kind::Stdin, "all|none|N\twho reads standard input (default rank 0)"),
    option(&["set"], 1, Kind::Setting, "NAME=VALUE\tsetting FERRULE_NAME, see ferrule info --config"),
    option(
        &["continue-on-failure", "disable-auto-cleanup", "enable-recovery"],
        0,
        Kind::ContinueOnFailure,
        "\tsurvivors go on when a rank dies",
    ),
    option(&["with-ft"], 1, Kind::WithFaultTolerance, "ulfm|none\tulfm: as --continue-on-failure"),
    option(&["configfile", "app"], 1, Kind::ConfigFile, "FILE\tread programs from a file, a line each"),
    option(
        &["outfile-pattern", "outfile"],
        1,
        Kind::OutFile,
        "PATTERN\tfiles for standard output; %r rank, %h host, %p number of the host, %g 0, %t seconds since 1970, %% a percent sign",
    ),
    option(&["errfile-pattern", "errfile"], 1, Kind::ErrFile, "PATTERN\tfiles for standard error"),
    option(
        &["output-filename", "output-directory"],
        1,
        Kind::OutputDirectory,
        "DIR[:nocopy,nojobid]\twrite the output of each rank to DIR/1/rank.N/stdout and stderr, too; nocopy: only there, nojobid: without /1",
    ),
    option(&["usize"], 1, Kind::UniverseSize, "N\tvalue of MPI_UNIVERSE_SIZE"),
    option(
        &["container"],
        1,
        Kind::Container,
        "ENGINE\trun ranks in containers: docker, podman, charliecloud (new ones), exec (in those of --container-name)",
    ),
    option(
        &["container-image"],
        1,
        Kind::ContainerImage,
        "IMAGE\timage, or directory of a root file system (charliecloud)",
    ),
    option(&["container-name"], 1, Kind::ContainerName, "A,B\tcontainers that run already, for --container exec"),
    option(&["ranks-per-container"], 1, Kind::RanksPerContainer, "N\tranks in each container (default: all of a host)"),
    option(
        &["container-network"],
        1,
        Kind::ContainerNetwork,
        "NET\tnetwork of new containers, by the engine's name for it",
    ),
    option(
        &["container-args"],
        1,
        Kind::ContainerArgs,
        "'ARGS'\tmore words for the engine's run or exec: -v, --cpus, --user …",
    ),
    option(
        &["container-workdir"],
        1,
        Kind::ContainerWorkdir,
        "DIR\tworking directory inside, instead of the present one",
    ),
    option(&["container-engine"], 1, Kind::ContainerEngine, "'CMD'\tthe engine's command with its global options"),
    option(
        &["startup"],
        1,
        Kind::Startup,
        "SCHEME\thow ranks start and learn each other's endpoints: original, dr, bc, mpd-bc, tree, hypercube, lazy (default)",
    ),
    option(&["connect"], 1, Kind::Connect, "all|demand\tmake all connections in MPI_Init, or on first use (default)"),
    option(
        &["lanes"],
        1,
        Kind::Lanes,
        "K[:POLICY]\tlanes of two processes over the network, or auto, and what they carry: distribute, segregate, segregate:traffic …",
    ),
    option(
        &["report-startup"],
        0,
        Kind::ReportStartup,
        "[=FILE]\tshow where the time of the start went; into FILE as JSON",
    ),
    option(
        &["offload"],
        1,
        Kind::Offload,
        "N\tstart N workers on each node, which run non-blocking collectives while the ranks compute",
    ),
    option(&["profile"], 1, Kind::Profile, "FILE\twrite who sends how much to whom into FILE, as JSON"),
    option(&["profile-detail"], 0, Kind::ProfileDetail, "\tcount for each communicator and collective, too"),
    option(&["profile-slice"], 1, Kind::ProfileSlice, "S\tcount for each time slice of S seconds, too"),
    option(
        &["comm-pattern"],
        1,
        Kind::CommPattern,
        "NAME\thave the interconnect routed for this communication pattern (see docs/user/interconnect.md)",
    ),
    option(
        &["fabric"],
        1,
        Kind::Fabric,
        "URL\tthe interconnect manager: unix:PATH or https://HOST:PORT; alone, the pattern is called as the program is",
    ),
    option(&["preload", "preload-binary"], 0, Kind::Preload, "\tsend the program and its libraries to all hosts"),
    option(&["preload-files"], 1, Kind::PreloadFiles, "A,B\tsend files to all hosts, into $FERRULE_PRELOAD_DIR"),
    option(&["container-copy"], 0, Kind::ContainerCopy, "\tcopy mpiexec, library and program into existing containers"),
    option(&["help", "h"], 0, Kind::Help, "\tthis text"),
    option(&["version", "V", "info"], 0, Kind::Version, "\tversion"),
    option(&["output"], 1, Kind::Output, ""),
    option(&["agent"], 0, Kind::Agent, ""),
    option(&["keeper"], 0, Kind::Supervisor, ""),
    option(&["adopt-front"], 0, Kind::AdoptHead, ""),
    option(&["adopt-agent"], 1, Kind::AdoptAgent, ""),
    option(&["set-env"], 1, Kind::ExportValue, ""),
    option(&["rank-by"], 1, Kind::RankBy, ""),
    option(&["cpus-per-proc", "cpus-per-rank"], 1, Kind::CoresPerRank, ""),
    option(&["ppr"], 1, Kind::PerResource, ""),
    option(&["pernode"], 0, Kind::Alias("--map-by", "ppr:1:node"), ""),
    option(&["bynode"], 0, Kind::Alias("--map-by", "node"), ""),
    option(&["byslot"], 0, Kind::Alias("--map-by", "slot"), ""),
    option(&["bycore"], 0, Kind::Alias("--map-by", "core"), ""),
    option(&["bind-to-core"], 0, Kind::Alias("--bind-to", "core"), ""),
    option(&["bind-to-socket"], 0, Kind::Alias("--bind-to", "socket"), ""),
    option(&["display"], 1, Kind::Display, ""),
    option(&["prefix"], 1, Kind::Prefix, ""),
    option(&["forward-signals"], 1, Kind::ForwardSignals, ""),
    option(&["spawn-timeout"], 1, Kind::SpawnTimeout, ""),
    option(&["personality"], 1, Kind::Personality, ""),
    option(&["runtime-options", "rtos"], 1, Kind::RunDirectives, ""),
    option(&["mca", "gmca", "prtemca", "pmixmca", "gpmixmca", "omca", "gomca", "tune-param"], 2, Kind::Parameter, ""),
    option(NEEDLESS, 0, Kind::Needless, ""),
    option(NEEDLESS_WITH_VALUE, 1, Kind::Needless, ""),
    option(REFUSED, 0, Kind::Refused, ""),
    option(REFUSED_WITH_VALUE, 1, Kind::Refused, ""),
    option(&["append-env", "prepend-env", "append-envar", "prepend-envar"], 2, Kind::Refused, ""),
    option(&["pmi_args"], 4, Kind::Refused, ""),
    option(IGNORED, 0, Kind::Ignored, ""),
    option(&["stream", "stream-buffering", "display-topo"], 1, Kind::Ignored, ""),
];

/// How things are anyway, or parts that this mpiexec doesn't have and that change nothing.
const NEEDLESS: &[&str] = &[
    "oversubscribe",
    "allow-run-as-root",
    "map-by-oversubscribe",
    "nolocal-ok",
    "overload-allowed",
    "disable-x",
    "disable-recovery",
    "disable-hostname-propagation",
    "enable-hostname-propagation",
    "enable-auto-cleanup",
    "do-not-resolve",
    "hetero-nodes",
    "no-app-prefix",
    "no-ready-msg",
    "novm",
    "pmi-port",
    "report-child-jobs-separately",
    "report-state-on-timeout",
    "show-progress",
];

/// The same with a value.
const NEEDLESS_WITH_VALUE: &[&str] = &[
    "app-pmix-prefix",
    "demux",
    "gpu-support",
    "localhost",
    "memory-alloc-kinds",
    "pmix-prefix",
    "pmi-port-range",
    "topolib",
];

/// Without them the job would be another one.
const REFUSED: &[&str] = &[
    "continuous",
    "debug",
    "enable-x",
    "hybrid-hosts",
    "merge-stderr-to-stdout",
    "nolocal",
    "nooversubscribe",
    "noprefix",
    "set-cwd-to-session-dir",
    "set-sid",
    "skip-launch-node",
    "stop-in-app",
    "stop-in-init",
    "stop-on-exec",
    "system-server",
    "test-suicide",
    "tv",
    "use-hwthread-cpus",
];

/// The same with a value.
const REFUSED_WITH_VALUE: &[&str] = &[
    "add-host",
    "add-hostfile",
    "am",
    "amca",
    "arch",
    "dvm",
    "file",
    "fwd-environment",
    "g",
    "gpu-subdevs-per-proc",
    "gpus-per-proc",
    "hosts-order",
    "initial-errhandler",
    "keepalive",
    "launch-agent",
    "max-restarts",
    "max-vm-size",
    "membind",
    "nameserver",
    "npersocket",
    "order-nodes",
    "output-from",
    "output-proctable",
    "path",
    "prepend-pattern",
    "pset",
    "ranks-per-proc",
    "report-pid",
    "report-uri",
    "rmk",
    "singleton",
    "soft",
    "tmpdir",
    "tune",
    "unset-env",
    "xterm",
];

/// They change what is shown, not what runs.
const IGNORED: &[&str] = &[
    "debug-daemons",
    "debug-daemons-file",
    "debug-devel",
    "display-allocation",
    "display-comm",
    "display-comm-finalize",
    "display-devel-allocation",
    "display-devel-map",
    "display-map",
    "do-not-aggregate-help",
    "get-stack-traces",
    "leave-session-attached",
    "parsable",
    "parseable",
    "print-all-exitcodes",
    "q",
    "quiet",
    "timestamp-output",
    "xml",
];

/// The option of that name.
pub fn find(name: &str) -> Option<&'static Spelling> {
    TABLE.iter().find(|s| s.names.contains(&name))
}

/// What to do in place of a refused option.
pub fn instead(shown: &str) -> &'static str {
    match shown.trim_start_matches('-') {
        "merge-stderr-to-stdout" => {
            "give both patterns (--outfile-pattern, --errfile-pattern) the same file, or use 2>&1"
        }
        "use-hwthread-cpus" => "use --bind-to hwthread",
        "nooversubscribe" => "give hosts max_slots in a host file",
        "order-nodes" | "hosts-order" => "ranks are numbered in the order of --map-by and of the list of hosts",
        "nolocal" | "skip-launch-node" => "leave this host out of the list of hosts",
        "add-host" | "add-hostfile" => "name all hosts by -hosts or in one host file",
        "membind" => "start the program by numactl",
        "path" => "name the program by its path, or set PATH by -x",
        "debug" | "tv" | "stop-on-exec" | "stop-in-init" | "stop-in-app" => "start the debugger as the program",
        "xterm" => "start the terminal as the program: xterm -e ./a.out",
        "gpus-per-proc" | "g" | "gpu-subdevs-per-proc" | "ranks-per-proc" => {
            "choose devices in the program by FERRULE_LOCAL_RANK"
        }
        "npersocket" => "use -ppn with the number for each host, and --map-by socket --bind-to socket",
        "enable-x" => "use --launcher-exec 'ssh -X'",
        "hybrid-hosts" | "noprefix" | "launch-agent" => "use --agent-path with the path of mpiexec on the other hosts",
        "rmk" => "the batch system is found by itself; name other hosts by -hosts or -f",
        "prepend-pattern" => "use -l (--prepend-rank)",
        "output-from" => "use --outfile-pattern %r, or let the other ranks be silent",
        "unset-env" => "start the program by env: env -u VAR ./a.out",
        "append-env" | "append-envar" | "prepend-env" | "prepend-envar" => "write the whole value: -x VAR=VALUE:$VAR",
        "tune" | "am" | "amca" => "set variables by -x, and settings by --set",
        "continuous" | "max-restarts" => "use --continue-on-failure; no rank is started again",
        "set-cwd-to-session-dir" => "use -wdir",
        "tmpdir" => "set TMPDIR for mpiexec",
        "initial-errhandler" => "set the error handler in the program",
        "report-pid" => "use ferrule top, or start mpiexec by sh -c 'echo $$ >FILE; exec mpiexec …'",
        "file" => "use --configfile",
        "soft" => "give one number of ranks by -n",
        "arch" => "name the hosts by -host",
        _ => "this mpiexec has nothing like it",
    }
}

/// The known name nearest to `name`.
pub fn nearest(name: &str) -> Option<&'static str> {
    base::config::nearest(
        name,
        TABLE
            .iter()
            .filter(|s| !matches!(s.kind, Kind::Agent | Kind::Supervisor | Kind::AdoptHead | Kind::AdoptAgent))
            .flat_map(|s| s.names.iter().copied()),
    )
}

/// What mpiexec's exit code says.
pub const EXIT_CODE: &str = "\
    The exit code is that of the first rank that fails (128 + number for a signal), the code given to MPI_Abort, 124 after\n\
    --timeout, 126 or 127 if a program can't be run or found, 2 for a wrong command line, 1 if an agent is lost.\n";

/// The options that the help shows.
pub fn own() -> impl Iterator<Item = &'static Spelling> {
    TABLE.iter().filter(|s| !s.help.is_empty())
}

/// The text of `--help`.
pub fn help() -> String {
    let mut out = String::from(
        "usage: mpiexec [options] program [arguments] [: [options] program [arguments]]...\n\n\
         Starts an MPI job. Options may be written with one dash or two.\n\n",
    );
    for spelling in own() {
        out.push_str(&format!("  {}\n      {}\n", spelling.head(), spelling.meaning()));
    }
    out.push('\n');
    out.push_str(EXIT_CODE);
    out
}
