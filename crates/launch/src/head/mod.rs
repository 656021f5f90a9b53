//! mpiexec itself: starts the agents below it, decides when the job is over, and why.
//!
//! Agents are started in `launching`, all at once or one after another.
//! States: running ─failure, time-out, signal─► ending (agents kill their ranks) ─all nodes done or lost─► over. A node that does not
//! finish within [`END_LIMIT`] after the kill is given up.

pub mod adopt;
mod agree;
mod containers;
mod epoch;
mod events;
mod exchange;
mod files;
mod inquiry;
mod lanes;
mod launching;
mod near;
mod profile;
mod report;
pub(crate) mod setup;
mod signals;
mod spawn;
mod stdio;
mod verdict;

use crate::agent::barrier::Collector;
use crate::children::Children;
use crate::cli::Options;
use crate::container::supervisor::LEAVE_LIMIT;
use crate::leftovers::Sweeper;
use crate::link::packet;
use crate::orphans;
use crate::pollset::PollSet;
use crate::preload::send::Sender;
use crate::top::server::{Asked, TopServer};
use protocol::control::handshake::Key;
use protocol::control::tree::{ALL, JobSpec, Message, ROOT, next_hop};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use stdio::{Input, Sink};
use sys::process::SignalFd;
use verdict::Verdict;

/// How long after SIGKILL, at most, nodes may take to report.
const END_LIMIT: Duration = Duration::from_millis(2500);
/// Bytes of output after which an agent gets room for more.
const ACK_BYTES: usize = 128 << 10;

/// Exit code after `--timeout`.
const TIMED_OUT: i32 = 124;

struct Node {
    /// Reported that nothing is left, or is gone.
    over: bool,
    /// Written output that has not been acknowledged.
    credit: usize,
}

struct Rank {
    pid: u32,
    ended: bool,
    /// `MPI_Abort` takes it along, and others go on.
    aborted: bool,
}

/// mpiexec.
struct Head {
    options: Options,
    job: JobSpec,
    children: Children,
    signals: SignalFd,
    sinks: [Sink; 2],
    input: Input,
    nodes: Vec<Node>,
    ranks: Vec<Rank>,
    barrier: Collector,
    exchange: exchange::Exchange,
    launching: launching::Launching,
    report: report::Report,
    profile: Option<profile::Profile>,
    /// Files that are being sent.
    preload: Option<Sender>,
    verdict: Verdict,
    /// When the kill was ordered.
    ending: Option<Instant>,
    started: Instant,
    timeout: Option<Duration>,
    /// The ranks have been asked what they wait for because the time is up.
    asked_late: bool,
    inquiry: Option<inquiry::Inquiry>,
    migration: epoch::Migration,
    agreements: agree::Agreements,
    top: TopServer,
    spawning: spawn::Spawning,
    interrupts: u32,
    files: files::OutputFiles,
    /// Of this host's containers.
    job_dir: Option<String>,
    near: near::Meeting,
    /// What the agents of this host leave.
    sweepers: Vec<Sweeper>,
    /// What the interconnect manager has given.
    routes: Option<crate::fabric::Routes>,
}

/// Runs the job; returns mpiexec's exit code.
pub fn run(mut options: Options) -> i32 {
    if let Err(why) = crate::alloc::apply(&mut options) {
        eprintln!("mpiexec: {why}");
        return 2;
    }
    for warning in options.warnings.iter().chain(&unknown_settings()) {
        eprintln!("mpiexec: warning: {warning}");
    }
    if options.do_not_launch {
        return show_plan(&options);
    }
    match Head::new(options) {
        Ok(mut head) => {
            let code = head.run();
            head.leave();
            code
        }
        Err(why) => {
            eprintln!("mpiexec: {why}");
            2
        }
    }
}

/// `--do-not-launch`: plans the job, and shows where each rank would run.
fn show_plan(options: &Options) -> i32 {
    match setup::plan(options) {
        Ok(plan) => {
            let text: String = plan.described().iter().map(|line| format!("{line}\n")).collect();
            // A reader that has gone away wants no more of it.
            let _ = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes());
            0
        }
        Err(why) => {
            eprintln!("mpiexec: {why}");
            2
        }
    }
}

fn unknown_settings() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.filter_map(|name| crate::settings::check_name(name.strip_prefix("FERRULE_")?)).collect()
}

impl Head {
    fn new(options: Options) -> Result<Head, String> {
        let mut plan = setup::plan(&options)?;
        let file_limit = sys::process::file_limit().unwrap_or(u64::MAX);
        for warning in lanes::settle(&options, &mut plan.job, file_limit)? {
            eprintln!("mpiexec: warning: {warning}");
        }
        // Routes belong to the job that spawns: they are for its hosts, and given back with it.
        let wants_routes = options.parent_port.is_none();
        let routes = wants_routes.then(|| crate::fabric::ask(&options, &plan.job, &plan.hosts_of_ranks())).flatten();
        if let Some(routes) = &routes {
            routes.mark_lanes(&mut plan.job.apps);
        }
        let mut head = Head::of(options, plan)?;
        head.routes = routes;
        head.start_agents()?;
        Ok(head)
    }

    /// The head process of a planned job, none of whose agents has been started.
    fn of(options: Options, plan: setup::Plan) -> Result<Head, String> {
        let started = Instant::now();
        let signals = SignalFd::new(&signals::handled()).map_err(|e| format!("cannot receive signals: {e}"))?;
        // What an engine starts beside its containers (podman's monitors) is not ours to end.
        if options.container.engine.is_none() {
            let _ = sys::process::become_subreaper();
        }
        let timeout = timeout(&options)?;
        let mut key = Key([0; 16]);
        sys::process::random(&mut key.0);
        let nodes = plan.job.hosts.len();
        let job_dir = plan.containers.iter().find_map(|c| c.job_dir.clone());
        let readers = match plan.job.stdin_rank {
            ROOT => 0,
            ALL => nodes as u32,
            _ => 1,
        };
        let mut head = Head {
            children: Children::new(key).with_switch(),
            signals,
            sinks: [Sink::new(std::io::stdout().as_fd()), Sink::new(std::io::stderr().as_fd())],
            input: Input::new(readers),
            nodes: (0..nodes).map(|_| Node { over: false, credit: 0 }).collect(),
            ranks: plan.job.ranks.iter().map(|_| Rank { pid: 0, ended: false, aborted: false }).collect(),
            barrier: Collector::default(),
            exchange: exchange::Exchange::default(),
            launching: launching::Launching::new(key, plan.local_nodes, plan.containers),
            report: report::Report::default(),
            profile: profile::Profile::begin(&options, &plan.job)?,
            preload: (!plan.preload.files.is_empty()).then(|| Sender::new(plan.preload, nodes)),
            verdict: Verdict::default(),
            ending: None,
            started,
            timeout,
            asked_late: false,
            inquiry: None,
            migration: epoch::Migration::default(),
            agreements: agree::Agreements::default(),
            top: TopServer::default(),
            spawning: spawn::Spawning::default(),
            interrupts: 0,
            files: files::OutputFiles::begin(&options, plan.job.ranks.len())?,
            job_dir,
            near: near::Meeting::new(if plan.job.discover { nodes } else { 0 }),
            sweepers: Vec::new(),
            routes: None,
            options,
            job: plan.job,
        };
        head.top = TopServer::open(head.job.job_id);
        Ok(head)
    }

    fn run(&mut self) -> i32 {
        let mut set = PollSet::default();
        loop {
            self.register(&mut set);
            if let Err(e) = set.wait() {
                eprintln!("mpiexec: poll: {e}");
                return 1;
            }
            self.take_signals();
            for event in self.children.handle(&set) {
                self.on_child(event);
            }
            self.pump_exchange();
            self.pump_preload();
            self.pump_input(&set);
            self.pump_output();
            self.show_progress();
            self.serve_top(&set);
            self.serve_heads(&set);
            self.watch_clock();
            if self.is_over() {
                return self.conclude();
            }
        }
    }

    fn register(&mut self, set: &mut PollSet) {
        set.clear();
        set.add(&self.signals, true, false);
        self.children.register(set);
        self.sinks.iter().for_each(|s| s.register(set));
        self.input.register(set);
        if let Some(limit) = self.timeout.filter(|_| self.ending.is_none() && !self.asked_late) {
            set.until(self.started + limit);
        }
        if let Some(inquiry) = &self.inquiry {
            set.until(inquiry.deadline());
        }
        if let Some(deadline) = self.epoch_deadline() {
            set.until(deadline);
        }
        self.top.register(set);
        self.spawning.register(set);
        self.launching.register(set);
        if let Some(at) = self.ending {
            set.until(at + self.end_limit());
        }
    }

    fn end_limit(&self) -> Duration {
        END_LIMIT + Duration::from_millis(u64::from(self.job.grace_ms))
    }

    fn is_over(&self) -> bool {
        let given_up = self.ending.is_some_and(|at| at.elapsed() >= self.end_limit());
        let over = self.nodes.iter().all(|n| n.over) && self.spawning.is_over();
        given_up || (over && self.sinks.iter().all(Sink::is_empty))
    }

    /// Sends to one node, or to all.
    fn send(&mut self, to: u32, message: Message) {
        let frame = packet(to, message);
        if to == ALL {
            self.children.broadcast(&frame);
        } else if let Some(child) = next_hop(ROOT, to, self.job.launcher.width) {
            self.children.send(child, &frame);
        }
    }

    /// Ends the job, if that has not been ordered already.
    fn end(&mut self) {
        if self.ending.is_none() {
            self.ending = Some(Instant::now());
            self.stop_launching();
            self.input.stop();
            let code = self.verdict.cause().map_or(1, |cause| cause.code);
            self.send(ALL, Message::Kill { now: false, code });
            self.spawning.signal(sys::process::signals::TERM);
            self.give_up_epoch();
        }
    }

    fn serve_top(&mut self, set: &PollSet) {
        for (client, asked) in self.top.handle(set) {
            match asked {
                Asked::Status | Asked::Waits => self.inquire_for(client, asked),
                Asked::Drain(drain) => self.begin_epoch(client, &drain),
                Asked::Resume => self.end_epoch(client),
                Asked::Epoch => self.tell_epoch(client),
            }
        }
    }

    fn watch_clock(&mut self) {
        let answered = self.conclude_inquiry();
        self.watch_epoch();
        if self.ending.is_some() {
            return;
        }
        let Some(limit) = self.timeout.filter(|limit| self.started.elapsed() >= *limit) else { return };
        if !std::mem::replace(&mut self.asked_late, true) {
            self.inquire();
        } else if answered || self.inquiry.is_none() {
            let missing = self.children.missing().join(", ");
            let agents =
                if missing.is_empty() { missing } else { format!("; no word from the node agents on {missing}") };
            let text = format!("the job has not ended within {} s (--timeout){agents}", limit.as_secs_f64());
            self.verdict.add(text, TIMED_OUT, false);
            self.end();
        }
    }

    /// Tells the user what went wrong, if anything did.
    fn conclude(&mut self) -> i32 {
        self.launching.clear_line();
        self.report_unfinished();
        self.write_profile();
        let Some(cause) = self.verdict.cause() else { return 0 };
        let others = self.ranks.len() - 1;
        if self.ending.is_none() && self.job.continue_on_failure {
            // It has been told when it happened.
            return cause.code;
        }
        if !self.job.adopted_from.is_empty() {
            // The launcher decides about the exit code.
            eprintln!("ferrule: {}", cause.text);
            return cause.code;
        }
        if self.options.parent_port.is_some() && cause.code == 128 + sys::process::signals::TERM {
            // The head above has ended this job, and says why.
            return cause.code;
        }
        eprintln!("mpiexec: {}", cause.text);
        if self.ending.is_some() && others > 0 {
            eprintln!("mpiexec: the job has been ended; exit code {}", cause.code);
        }
        cause.code
    }

    /// Lets the agents go and sees to it that nothing stays behind.
    fn leave(&mut self) {
        if let Some(routes) = self.routes.take() {
            routes.release();
        }
        self.end_processes();
        if let (Some(engine), Some(job_dir)) = (self.options.container.engine, &self.job_dir) {
            crate::container::sweep(engine, job_dir);
        }
        self.sweepers.iter_mut().for_each(Sweeper::sweep);
        self.near.sweep(self.job.job_id);
    }

    fn end_processes(&mut self) {
        self.children.close();
        // A container takes a while to end, and killing its supervisor would leave it behind.
        let containers = self.options.container.engine.is_some();
        let deadline = Instant::now() + if containers { LEAVE_LIMIT } else { Duration::from_secs(1) };
        let mut set = PollSet::default();
        loop {
            while let Ok(Some((pid, how))) = sys::process::reap() {
                self.children.on_exit(pid, how);
            }
            if orphans::children().is_empty() {
                return;
            }
            // Agents and launchers leave by themselves; what a killed agent left does not.
            orphans::kill_children(&self.children.launcher_pids());
            if Instant::now() >= deadline {
                break;
            }
            set.clear();
            set.add(&self.signals, true, false);
            set.until(deadline);
            let _ = set.wait();
            while self.signals.next_signal().is_some() {}
        }
        orphans::end_all_children(Duration::from_secs(1));
    }
}

fn timeout(options: &Options) -> Result<Option<Duration>, String> {
    let text = if options.parent_port.is_none() { std::env::var("MPIEXEC_TIMEOUT").ok() } else { None };
    let from_environment = text.filter(|text| !text.trim().is_empty());
    let seconds = match (options.timeout_s, from_environment) {
        (Some(seconds), _) => Some(seconds),
        (None, Some(text)) => Some(crate::cli::seconds(&text).map_err(|e| format!("MPIEXEC_TIMEOUT: {e}"))?),
        (None, None) => None,
    };
    Ok(seconds.map(Duration::from_secs_f64))
}
