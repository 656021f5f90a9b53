//! The job arrives: agents below are launched first, then this node's ranks.

use super::Agent;
use super::output::Stream;
use super::rank::{Own, Rank, Words};
use crate::bind;
use crate::environment::{self, Pair, find_program};
use crate::link::Frame;
use crate::preload::receive::Receiver;
use crate::preload::{DATA, LIBRARIES};
use protocol::control::near::Groups;
use protocol::control::rank::Offload;
use protocol::control::tree::{ALL, App, Bind, JobSpec, Message, ROOT, children};
use protocol::control::{JobInfo, VERSION};
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use sys::affinity::CpuSet;
use sys::clock::now_ns;
use sys::process::{Pid, Spawn, SpawnStep, signals};
use sys::topology::Topology;

/// Descriptor number of the control socket in a rank; shells and programs use the lower ones.
pub(super) const CONTROL_FD: i32 = 30;

/// What the ranks of one program on this node have in common.
struct Program {
    argv: Vec<CString>,
    env: Vec<Pair>,
    directory: CString,
    path: Result<CString>,
    words: Rc<Words>,
}

/// Everything that starting one rank needs.
struct Place {
    world: u32,
    app: u32,
    local: u32,
    cpus: Option<CpuSet>,
    /// Cores or hardware threads that the user has given it.
    units: u32,
    /// Whether `cpus` are those of this machine, not of one that is only described.
    is_real: bool,
}

impl Agent {
    pub(super) fn start(&mut self, job: Box<JobSpec>, frame: Frame) {
        if job.version != VERSION {
            let why = format!("the agent is of another version (protocol {VERSION} instead of {})", job.version);
            return self.send_up(ROOT, Message::NodeLost { node: self.node, why });
        }
        for node in children(self.node, job.launcher.width, job.hosts.len() as u32) {
            if let Err(why) = self.children.launch(node, &job.hosts[node as usize], &job.launcher) {
                self.send_up(ROOT, Message::NodeLost { node, why });
            }
        }
        self.children.broadcast(&frame);
        // While this node's ranks are started, the head process hears from the others.
        if job.discover {
            self.send_hints(&job);
        }
        if job.preload.is_empty() {
            self.begin(job);
        } else {
            self.await_files(job);
        }
    }

    /// All that ranks need is here.
    pub(super) fn begin(&mut self, job: Box<JobSpec>) {
        if job.adopted_from.is_empty() {
            self.start_ranks(&job);
        } else {
            self.await_ranks(&job);
        }
        let pids = self.ranks.iter().map(|r| (r.world, r.pid as u32)).collect();
        let discover = job.discover;
        self.job = Some(job);
        if !discover {
            self.on_kernels(Groups::default());
        }
        self.send_up(ROOT, Message::Started { node: self.node, agent_pid: std::process::id(), pids });
        if self.ranks.is_empty() {
            self.become_idle();
        }
    }

    fn start_ranks(&mut self, job: &JobSpec) {
        let rule = bind::Rule {
            unit: Bind::from_number(job.bind_to),
            map: Bind::from_number(job.map_by),
            count: job.bind_count,
            user: &job.bind_user,
        };
        let is_bound = rule.unit != Bind::None || !job.cpu_set.is_empty();
        let part = || Topology::current().and_then(|whole| bind::within(&whole, &job.cpu_set));
        let topology = match is_bound.then(part).transpose() {
            Ok(topology) => topology,
            Err(why) => return self.refuse(job, why),
        };
        let everywhere = sys::affinity::allowed().ok();
        let local = |w: &(usize, &protocol::control::tree::Placed)| w.1.node == self.node;
        let place = |(world, placed): (usize, &protocol::control::tree::Placed)| {
            let (world, app, local) = (world as u32, placed.app, placed.local);
            let Some((topology, all)) = &topology else {
                return Ok(Place { world, app, local, cpus: None, units: 1, is_real: true });
            };
            let (cpus, units) = match job.rank_cores.get(world as usize) {
                Some(ranges) => {
                    bind::cores(topology, rule.unit, ranges).map_err(|why| format!("rank file: rank {world}: {why}"))?
                }
                None => (bind::binding(topology, local as usize, &rule)?.unwrap_or(*all), rule.count),
            };
            Ok(Place { world, app, local, cpus: Some(cpus), units, is_real: topology.is_here() })
        };
        let mine: Vec<Place> =
            match job.ranks.iter().enumerate().filter(local).map(place).collect::<std::result::Result<_, String>>() {
                Ok(mine) => mine,
                Err(why) => return self.refuse(job, why),
            };
        let locals: Vec<u32> = mine.iter().map(|p| p.world).collect();
        let mut told = job_info(job, locals.clone());
        let bound = bound_together(&mine);
        let unbound = mine.iter().filter(|place| !place.is_bound()).count();
        self.spare_cpus = told.node_cpus.saturating_sub((bound.count() + unbound) as u32);
        told.offload.spare_cpus = self.spare_cpus;
        let told = Rc::new(told);
        if let Err(why) = self.start_workers(job, &locals, &bound) {
            return self.refuse(job, why);
        }
        let mut programs: Vec<Option<Program>> = job.apps.iter().map(|_| None).collect();
        for place in &mine {
            let app = place.app as usize;
            let program = programs[app].get_or_insert_with(|| prepare(&job.apps[app], self.files.receiver()));
            if let Some(cpus) = place.cpus.as_ref().filter(|_| place.is_real) {
                let _ = sys::affinity::restrict(cpus);
            }
            let started = start_rank(job, place, &locals, program, self.file_limit);
            if let (Some(_), Some(everywhere)) = (&place.cpus, &everywhere) {
                let _ = sys::affinity::restrict(everywhere);
            }
            match started {
                Ok((mut rank, stdin)) => {
                    if !job.discover {
                        // Nothing is to be found out first: it needn't wait for the others.
                        rank.introduce(told.clone());
                    }
                    self.report_start(job, place, &rank);
                    if let Some(stdin) = stdin {
                        self.stdin.add(rank.world, stdin);
                    }
                    self.ranks.push(rank);
                }
                Err((text, e)) => {
                    let errno = e.raw_os_error().unwrap_or(if e.kind() == ErrorKind::NotFound { 2 } else { 13 });
                    return self.send_up(ROOT, Message::StartFailed { rank: place.world, errno, text });
                }
            }
        }
    }

    /// What the user wants can't be done on this host.
    fn refuse(&mut self, job: &JobSpec, why: String) {
        let why = format!("{}: {why}", job.hosts[self.node as usize]);
        self.send_up(ROOT, Message::NodeLost { node: self.node, why });
    }

    fn report_start(&mut self, job: &JobSpec, place: &Place, rank: &Rank) {
        let host = &job.hosts[self.node as usize];
        let real = if place.is_real { "" } else { " of the machine that FERRULE_TOPOLOGY describes" };
        let bound = |cpus: CpuSet| format!("bound to cpus {}{real}", cpus.to_list());
        let cpus = place.cpus.map_or_else(|| "not bound".to_string(), bound);
        if job.verbose {
            let command = rank.own.words.command.join(" ");
            self.notice(format!("rank {} on {host}: pid {}, {cpus}: {command}", place.world, rank.pid));
        } else if job.report_bindings {
            self.notice(format!("rank {} on {host} {cpus}", place.world));
        }
    }
}

fn prepare(app: &App, files: Option<&Receiver>) -> Program {
    let inherited = environment::inherited();
    let keep = |name: &Vec<u8>| app.keep.as_ref().is_none_or(|keep| keep.contains(name));
    let mut env: Vec<Pair> = inherited.into_iter().filter(|(name, _)| keep(name)).collect();
    for (name, value) in &app.set {
        environment::set(&mut env, name, value);
    }
    if let Ok(mpiexec) = std::env::current_exe() {
        environment::prefer_own_library(&mut env, &mpiexec);
    }
    if let Some(files) = files {
        add_files(&mut env, files);
    }
    let argv: Vec<CString> = app.argv.iter().filter_map(|a| CString::new(a.as_slice()).ok()).collect();
    let mut directory = app.working_directory.clone();
    // The account here may be another one, so the directory must not only exist: `/.` asks whether it can be entered.
    let inside = [&directory, b"/.".as_slice()].concat();
    if !app.directory_required && !Path::new(OsStr::from_bytes(&inside)).is_dir() {
        directory = b"/".to_vec();
    }
    environment::set(&mut env, b"PWD", &directory);
    let variable = env.iter().find(|(n, _)| n == b"PATH").map(|(_, v)| OsStr::from_bytes(v));
    let name = argv.first().map_or(b"".as_slice(), |a| a.as_bytes());
    let below = OsStr::from_bytes(&directory);
    let path = find_program(name, variable, Some(below)).or_else(|e| {
        // Like Hydra: a bare name may also be a file of the working directory.
        find_program(&[b"./", name].concat(), None, Some(below))
            .ok()
            .filter(|p| !name.contains(&b'/') && std::path::Path::new(OsStr::from_bytes(p.as_bytes())).is_file())
            .ok_or(e)
    });
    let directory = CString::new(directory).unwrap_or_default();
    let sent = app.preloaded.and_then(|index| files?.path_of(index));
    let path = match sent.map(|path| CString::new(path.into_os_string().into_vec())) {
        Some(Ok(path)) => Ok(path),
        _ => path,
    };
    let words = Words {
        command: argv.iter().map(|a| a.to_string_lossy().into_owned()).collect(),
        working_directory: directory.to_string_lossy().into_owned(),
    };
    Program { argv, env, directory, path, words: Rc::new(words) }
}

/// Tells programs where the files are that were sent: libraries to the loader, others to the program.
fn add_files(env: &mut Vec<Pair>, files: &Receiver) {
    let inner = files.inner();
    environment::set(env, b"FERRULE_PRELOAD_DIR", inner.join(DATA).as_os_str().as_bytes());
    let libraries = inner.join(LIBRARIES);
    let older = env.iter().find(|(n, _)| n == b"LD_LIBRARY_PATH").map(|(_, v)| v.clone()).unwrap_or_default();
    let parts = [libraries.as_os_str().as_bytes(), older.as_slice()];
    let parts: Vec<&[u8]> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    environment::set(env, b"LD_LIBRARY_PATH", &parts.join(&b':'));
}

/// Starts a rank; returns it and our end of its standard input.
fn start_rank(
    job: &JobSpec,
    place: &Place,
    locals: &[u32],
    program: &Program,
    file_limit: u64,
) -> std::result::Result<(Rank, Option<File>), (String, Error)> {
    let name = program.argv.first().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let path = match &program.path {
        Ok(path) => path,
        Err(e) => return Err((name, Error::from(e.kind()))),
    };
    let resources = |e: Error| (format!("resources for {name}"), e);
    let (ours, theirs) = UnixStream::pair().map_err(resources)?;
    let inode = File::from(OwnedFd::from(theirs.try_clone().map_err(resources)?)).metadata().map_err(resources)?.ino();
    let (stdout, their_stdout) = std::io::pipe().map_err(resources)?;
    let (stderr, their_stderr) = std::io::pipe().map_err(resources)?;
    let (their_stdin, stdin) =
        standard_input(job.stdin_rank == place.world || job.stdin_rank == ALL).map_err(resources)?;
    let env = rank_environment(job, place, locals, program, inode);
    let began_ns = now_ns();
    let pid = spawn(
        program,
        path,
        &env,
        [&their_stdin, &their_stdout.into(), &their_stderr.into(), &theirs.into()],
        file_limit,
    )
    .map_err(|(step, e)| match step {
        SpawnStep::Directory => (format!("{name} in directory {}", program.directory.to_string_lossy()), e),
        _ => (described(&name, path, &e), e),
    })?;
    let spawned_ns = now_ns();
    let interactive = job.interactive && job.stdin_rank == place.world;
    let stream = |pipe: std::io::PipeReader| {
        sys::process::set_nonblocking(pipe.as_fd(), true)?;
        Ok(Stream::new(File::from(OwnedFd::from(pipe)), interactive))
    };
    let streams = [stream(stdout).map_err(resources)?, stream(stderr).map_err(resources)?];
    let own = Own {
        app: place.app,
        words: program.words.clone(),
        bound_cpus: place.cpus.map(|c| c.iter().map(|cpu| cpu as u32).collect()).unwrap_or_default(),
        ..Own::default()
    };
    Ok((Rank::started(place.world, own, (pid, began_ns, spawned_ns), ours.into(), streams), stdin))
}

/// A program that can't be run, with what the system's words don't say.
fn described(name: &str, path: &CString, e: &Error) -> String {
    const NO_ENTRY: i32 = 2;
    const NOT_EXECUTABLE: i32 = 8;
    let exists = || Path::new(OsStr::from_bytes(path.to_bytes())).is_file();
    match e.raw_os_error() {
        Some(NOT_EXECUTABLE) => {
            format!("{name}, which is neither a program for this machine nor a script that begins with #!")
        }
        Some(NO_ENTRY) if exists() => format!("{name}, whose interpreter is missing"),
        _ => name.into(),
    }
}

fn spawn(
    program: &Program,
    path: &CString,
    env: &[CString],
    [stdin, stdout, stderr, control]: [&OwnedFd; 4],
    file_limit: u64,
) -> std::result::Result<Pid, (SpawnStep, Error)> {
    let fds = [(stdin.as_fd(), 0), (stdout.as_fd(), 1), (stderr.as_fd(), 2), (control.as_fd(), CONTROL_FD)];
    sys::process::spawn(&Spawn {
        directory: Some(&program.directory),
        death_signal: signals::KILL,
        own_group: true,
        file_limit: Some(file_limit),
        ..Spawn::new(path, &program.argv, env, &fds)
    })
}

/// The rank's end, and ours if it gets input at all.
fn standard_input(fed: bool) -> Result<(OwnedFd, Option<File>)> {
    if !fed {
        return Ok((File::open("/dev/null")?.into(), None));
    }
    let (theirs, ours) = std::io::pipe()?;
    sys::process::set_nonblocking(ours.as_fd(), true)?;
    Ok((theirs.into(), Some(File::from(OwnedFd::from(ours)))))
}

fn rank_environment(job: &JobSpec, place: &Place, locals: &[u32], program: &Program, inode: u64) -> Vec<CString> {
    let mut env = program.env.clone();
    let (rank, size) = (place.world.to_string(), job.ranks.len().to_string());
    let (local, count) = (place.local.to_string(), locals.len().to_string());
    let control = format!("{CONTROL_FD}:{inode}");
    // For scripts only; the library learns everything through the socket.
    let values = [
        ("FERRULE_CONTROL_FD", &control),
        ("FERRULE_RANK", &rank),
        ("FERRULE_SIZE", &size),
        ("FERRULE_LOCAL_RANK", &local),
        ("FERRULE_LOCAL_SIZE", &count),
        ("MPI_LOCALRANKID", &local),
        ("MPI_LOCALNRANKS", &count),
        ("OMPI_COMM_WORLD_RANK", &rank),
        ("OMPI_COMM_WORLD_SIZE", &size),
        ("OMPI_COMM_WORLD_LOCAL_RANK", &local),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", &count),
    ];
    if let Some(cpus) = place.cpus.as_ref().filter(|_| !place.is_real) {
        env.push((b"FERRULE_BOUND_TO".to_vec(), cpus.to_list().into_bytes()));
    }
    env.extend(values.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())));
    add_openmp(&mut env, Bind::from_number(job.bind_to), place.units);
    env.iter().filter_map(|(name, value)| environment::join(name, value)).collect()
}

/// A rank that is bound to several cores or hardware threads runs a thread on each, unless the user says anything about OpenMP's threads.
fn add_openmp(env: &mut Vec<Pair>, unit: Bind, units: u32) {
    let places: &[u8] = match unit {
        Bind::Core => b"cores",
        Bind::HwThread => b"threads",
        _ => return,
    };
    let count = units.to_string();
    let hints: [(&[u8], &[u8]); 3] =
        [(b"OMP_NUM_THREADS", count.as_bytes()), (b"OMP_PLACES", places), (b"OMP_PROC_BIND", b"close")];
    if units > 1 && !env.iter().any(|(name, _)| hints.iter().any(|hint| hint.0 == name)) {
        env.extend(hints.map(|(name, value)| (name.to_vec(), value.to_vec())));
    }
}

/// What all ranks of this node are told, those `local_ranks` being under its kernel, and every node under its own, as far as is known; the rest is [`Own`].
pub(super) fn job_info(job: &JobSpec, local_ranks: Vec<u32>) -> JobInfo {
    let is_adopted = !job.adopted_from.is_empty();
    JobInfo {
        version: VERSION,
        size: job.ranks.len() as u32,
        job_id: job.job_id,
        key: job.rank_key,
        node_of: job.ranks.iter().map(|r| r.node).collect(),
        node_names: job.hosts.clone(),
        kernel_of: (0..job.hosts.len() as u32).collect(),
        local_ranks,
        universe_size: job.universe_size,
        // Another launcher may have bound its ranks, which then count for themselves.
        node_cpus: if is_adopted { 0 } else { node_cpus() },
        continue_on_failure: job.continue_on_failure,
        collectives: job.collectives.clone(),
        launched: true,
        startup: job.startup.clone(),
        profile: job.profile.clone(),
        offload: Offload { workers: job.offload, ..Offload::default() },
        parent_port: job.parent_port.clone(),
        ..JobInfo::default()
    }
}

impl Place {
    /// Whether it is bound to CPUs of this host.
    fn is_bound(&self) -> bool {
        self.is_real && self.cpus.is_some()
    }
}

/// All CPUs that ranks are bound to.
fn bound_together(places: &[Place]) -> CpuSet {
    let bound = places.iter().filter(|place| place.is_bound()).filter_map(|place| place.cpus);
    bound.reduce(|all, cpus| all.union(&cpus)).unwrap_or_default()
}

/// CPUs that this agent's ranks may use together, rounded to the nearest number.
fn node_cpus() -> u32 {
    let allowed = sys::affinity::allowed().map_or(0, |set| set.count()) as f64;
    // A quota of less than half a processor is one all the same; 0 means unknown.
    sys::affinity::quota().map_or(allowed, |quota| quota.max(1.0).min(allowed)).round() as u32
}
