//! mpiexec itself: starts the agents below it, decides when the job is over, and why.
//!
//! Agents are started in `launching`, all at once or one after another.
//! States: running ─failure, time-out, signal─► ending (agents kill their ranks) ─all nodes done or lost─► over. A node that does not
//! finish within a limit after the kill (`clock`) is given up.

pub mod adopt;
mod agree;
mod clock;
mod containers;
mod epoch;
mod events;
mod exchange;
mod files;
mod inquiry;
mod lanes;
mod launching;
mod leavings;
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
use crate::link::packet;
use crate::orphans;
use crate::pollset::PollSet;
use crate::preload::send::Sender;
use crate::top::server::{Asked, TopServer};
use clock::Clock;
use leavings::Leavings;
use protocol::control::handshake::Key;
use protocol::control::tree::{ALL, JobSpec, Message, ROOT, next_hop};
use std::time::{Duration, Instant};
use stdio::Stdio;
use sys::process::SignalFd;
use verdict::Verdict;

/// Exit code after `--timeout`.
const TIMED_OUT: i32 = 124;

struct Node {
    /// Reported that nothing is left, or is gone.
    over: bool,
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
    clock: Clock,
    nodes: Vec<Node>,
    ranks: Vec<Rank>,
    children: Children,
    launching: launching::Launching,
    near: near::Meeting,
    signals: SignalFd,
    interrupts: u32,
    stdio: Stdio,
    /// What ranks do together through mpiexec.
    barrier: Collector,
    exchange: exchange::Exchange,
    agreements: agree::Agreements,
    spawning: spawn::Spawning,
    /// What others want to know, or to change.
    top: TopServer,
    inquiry: Option<inquiry::Inquiry>,
    migration: epoch::Migration,
    /// What is written when the job is over.
    report: report::Report,
    profile: Option<profile::Profile>,
    verdict: Verdict,
    leavings: Leavings,
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
    run_head(Head::new(options), "mpiexec")
}

/// Runs a job to its end; `name` is what an error is told by.
fn run_head(head: Result<Head, String>, name: &str) -> i32 {
    match head {
        Ok(mut head) => {
            let code = head.run();
            head.leave();
            code
        }
        Err(why) => {
            eprintln!("{name}: {why}");
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
        head.leavings.routes = routes;
        head.start_agents()?;
        Ok(head)
    }

    /// The head process of a planned job, none of whose agents has been started.
    fn of(options: Options, plan: setup::Plan) -> Result<Head, String> {
        let signals = SignalFd::new(&signals::handled()).map_err(|e| format!("cannot receive signals: {e}"))?;
        // What an engine starts beside its containers (podman's monitors) is not ours to end.
        if options.container.engine.is_none() {
            let _ = sys::process::become_subreaper();
        }
        let clock = Clock::begin(&options, plan.job.grace_ms)?;
        let key = Key(sys::process::random());
        let nodes = plan.job.hosts.len();
        let preload = (!plan.preload.files.is_empty()).then(|| Sender::new(plan.preload, nodes));
        let mut head = Head {
            clock,
            nodes: (0..nodes).map(|_| Node { over: false }).collect(),
            ranks: plan.job.ranks.iter().map(|_| Rank { pid: 0, ended: false, aborted: false }).collect(),
            children: Children::new(key).with_switch(),
            near: near::Meeting::new(if plan.job.discover { nodes } else { 0 }),
            signals,
            interrupts: 0,
            stdio: Stdio::begin(&options, &plan.job)?,
            barrier: Collector::default(),
            exchange: exchange::Exchange::default(),
            agreements: agree::Agreements::default(),
            spawning: spawn::Spawning::default(),
            top: TopServer::default(),
            inquiry: None,
            migration: epoch::Migration::default(),
            report: report::Report::default(),
            profile: profile::Profile::begin(&options, &plan.job)?,
            verdict: Verdict::default(),
            leavings: Leavings::of(&options, &plan.containers),
            launching: launching::Launching::new(key, plan.local_nodes, plan.containers, preload),
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
        self.stdio.register(set);
        self.clock.register(set);
        if let Some(inquiry) = &self.inquiry {
            set.until(inquiry.deadline());
        }
        if let Some(deadline) = self.epoch_deadline() {
            set.until(deadline);
        }
        self.top.register(set);
        self.spawning.register(set);
        self.launching.register(set);
    }

    fn is_over(&self) -> bool {
        let over = self.nodes.iter().all(|n| n.over) && self.spawning.is_over();
        self.clock.gives_up() || (over && self.stdio.is_written())
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
        if self.clock.end() {
            self.stop_launching();
            self.stdio.input.stop();
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
        if self.clock.is_ending() {
            return;
        }
        let Some(limit) = self.clock.passed() else { return };
        if self.clock.becomes_late() {
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
        if !self.clock.is_ending() && self.job.continue_on_failure {
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
        if self.clock.is_ending() && others > 0 {
            eprintln!("mpiexec: the job has been ended; exit code {}", cause.code);
        }
        cause.code
    }

    /// Lets the agents go and sees to it that nothing stays behind.
    fn leave(&mut self) {
        self.leavings.give_back_routes();
        self.end_processes();
        self.leavings.sweep();
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
