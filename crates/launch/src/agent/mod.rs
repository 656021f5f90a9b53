//! A node agent: the parent of a node's ranks and a router in the tree.
//!
//! Life: linked ─Start─► ranks run ─all ended─► leftovers killed, output drained ─NodeDone─► link closed by the parent ─► exit.
//! Losing the link, or SIGTERM from the reaper, kills everything at once.

mod addresses;
pub mod adopt;
pub mod barrier;
mod epoch;
mod exchange;
pub use exchange::count_sent;
mod fdlink;
mod files;
pub(crate) mod near;
mod output;
mod processes;
mod profile;
mod rank;
mod route;
mod start;
mod stdin;
mod workers;

use crate::children::{ChildEvent, Children};
use crate::leftovers::Leftovers;
use crate::link::{Link, packet};
use crate::orphans;
use crate::pollset::PollSet;
use addresses::Addresses;
use barrier::Barrier;
use base::{WorldRank, log};
use near::Near;
use protocol::control::handshake::Key;
use protocol::control::tree::{End, JobSpec, Message, Phase, ROOT};
use rank::Rank;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use sys::process::{Ended, Pid, SignalFd, kill_group, signals};

/// Limit of the wait for processes that don't die, and for output that a process outside the job holds open.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);

/// How long the agents below may take to leave by themselves.
const LEAVE_LIMIT: Duration = Duration::from_secs(1);

/// An agent.
pub struct Agent {
    node: u32,
    up: Link,
    children: Children,
    job: Option<Box<JobSpec>>,
    ranks: Vec<Rank>,
    /// They run collectives for the ranks.
    workers: workers::Workers,
    addresses: Addresses,
    near: Near,
    /// Ranks that another launcher has started call here.
    rank_listener: Option<adopt::RankListener>,
    barrier: Barrier,
    exchange: exchange::Exchange,
    files: files::Files,
    output: output::Window,
    stdin: stdin::Feed,
    signals: SignalFd,
    slices: profile::Slices,
    /// Soft limit of open files that ranks get.
    file_limit: u64,
    /// Processors that the ranks of this agent leave free.
    spare_cpus: u32,
    killing: Killing,
    /// Descriptors of a rank have been lost, which has been logged.
    short_of_files: bool,
    life: Life,
}

/// How far this node is.
#[derive(Clone, Copy)]
enum Life {
    /// Ranks run, or will.
    Running,
    /// No rank runs any more, since then.
    Idle(Instant),
    /// Nothing of the job is left here, which has been reported.
    Done,
}

#[derive(Clone, Copy, PartialEq)]
enum Killing {
    No,
    /// SIGTERM has been sent; SIGKILL follows then.
    Until(Instant),
    Killed,
}

/// Runs an agent until the job is over; returns its exit code. With it comes what it was started with: the leftovers, and the socket
/// that leads to mpiexec if it has one.
pub fn run(node: u32, key: Key, up: Link, (leftovers, switch): (Leftovers, Option<OwnedFd>)) -> i32 {
    let _ = sys::process::become_subreaper();
    sys::process::set_name(c"ferrule-agent");
    base::log::set_prefix(format!("agent@{}", sys::process::host_name()));
    let handled = [signals::CHLD, signals::TERM, signals::HUP, signals::INT, signals::QUIT, signals::TSTP];
    let signals = match SignalFd::new(&handled) {
        Ok(signals) => signals,
        Err(e) => {
            log!(Error, "cannot receive signals: {e}");
            return 1;
        }
    };
    let (file_limit, _) = sys::process::raise_file_limit().unwrap_or((1024, 1024));
    Agent {
        node,
        up,
        children: Children::new(key),
        job: None,
        ranks: Vec::new(),
        workers: workers::Workers::new(key),
        addresses: Addresses::default(),
        near: Near::new(key, node, leftovers, switch),
        rank_listener: None,
        barrier: Barrier::default(),
        exchange: exchange::Exchange::default(),
        files: files::Files::default(),
        output: output::Window::default(),
        stdin: stdin::Feed::default(),
        signals,
        slices: profile::Slices::default(),
        file_limit,
        spare_cpus: 0,
        killing: Killing::No,
        short_of_files: false,
        life: Life::Running,
    }
    .run()
}

impl Agent {
    fn run(mut self) -> i32 {
        let mut set = PollSet::default();
        loop {
            self.register(&mut set);
            if let Err(e) = set.wait() {
                log!(Error, "poll: {e}");
                self.die();
                return 1;
            }
            self.take_signals();
            self.poll_parent(&set);
            self.poll_children(&set);
            self.poll_same_kernel(&set);
            self.poll_ranks(&set);
            self.poll_workers(&set);
            self.cut_slices();
            self.poll_rank_listener(&set);
            self.pump_output(&set);
            self.pump_stdin(&set);
            self.escalate();
            self.finish_if_idle();
            if self.up.is_closed() {
                self.die();
                return i32::from(!matches!(self.life, Life::Done));
            }
        }
    }

    fn register(&mut self, set: &mut PollSet) {
        set.clear();
        set.add(&self.signals, true, false);
        self.up.register(set);
        self.children.register(set);
        self.near.register(set);
        if let Some(rank_listener) = &self.rank_listener {
            rank_listener.register(set);
        }
        let output_open = self.output.is_open();
        for rank in &self.ranks {
            rank.register(set, output_open);
        }
        self.workers.register(set);
        self.stdin.register(set);
        self.await_slice(set);
        if let Killing::Until(when) = self.killing {
            set.until(when);
        }
        if let Life::Idle(_) = self.life {
            set.until(Instant::now() + Duration::from_millis(5));
        }
    }

    /// Ends everything below at once.
    fn die(&mut self) {
        self.near.calls.close();
        self.children.close();
        self.signal_ranks(signals::KILL);
        self.let_agents_leave();
        orphans::end_all_children(DRAIN_LIMIT);
        self.near.calls.sweep();
        self.near.sweep_inboxes();
        self.files.remove();
    }

    /// Agents below end by themselves when their link is closed, and remove what they have; what else is left is killed meanwhile.
    fn let_agents_leave(&mut self) {
        let deadline = Instant::now() + LEAVE_LIMIT;
        loop {
            while let Ok(Some((pid, how))) = sys::process::reap() {
                self.children.on_exit(pid, how);
            }
            let launchers = self.children.launcher_pids();
            orphans::kill_children(&launchers);
            if launchers.is_empty() || Instant::now() >= deadline {
                return;
            }
            std::thread::sleep(Duration::from_micros(500));
        }
    }

    fn send_up(&mut self, to: u32, body: Message) {
        self.up.send(packet(to, body));
    }

    fn notice(&mut self, text: String) {
        self.send_up(ROOT, Message::Notice { text });
    }

    fn poll_children(&mut self, set: &PollSet) {
        for event in self.children.handle(set) {
            match event {
                ChildEvent::Packet(body) => self.route(&body),
                ChildEvent::Lost { node, why } => {
                    self.forget_below(node);
                    self.send_up(ROOT, Message::NodeLost { node, why });
                }
            }
        }
    }

    fn take_signals(&mut self) {
        while let Some(info) = self.signals.next_signal() {
            match info.signal {
                signals::CHLD => self.reap(),
                // The reaper is gone or wants an end. (A terminal's Ctrl-C doesn't come here: own session.)
                signals::TERM | signals::HUP => {
                    self.die();
                    sys::process::exit_now(1);
                }
                _ => {}
            }
        }
    }

    fn reap(&mut self) {
        while let Ok(Some((pid, how))) = sys::process::reap() {
            if self.children.on_exit(pid, how) {
                continue;
            }
            if let Some(at) = self.ranks.iter().position(|r| r.pid == pid && r.ended.is_none()) {
                self.on_rank_end(at, pid, how);
            } else {
                self.on_worker_end(pid, how);
            }
        }
        self.notice_idleness();
    }

    fn notice_idleness(&mut self) {
        let begun = self.job.is_some() && !self.files.are_awaited();
        if self.ranks.iter().all(|r| r.ended.is_some()) && begun {
            self.become_idle();
        }
    }

    fn become_idle(&mut self) {
        if let Life::Running = self.life {
            self.life = Life::Idle(Instant::now());
        }
    }

    fn on_rank_end(&mut self, at: usize, pid: Pid, how: Ended) {
        // What it said before it died counts: Finalize and Abort above all.
        self.poll_rank(at);
        let rank = &mut self.ranks[at];
        rank.ended = Some(how);
        rank.close_control();
        let end = match how {
            Ended::Exit(code) => End::Exit { code },
            Ended::Signal(signal, core) => End::Signal { signal, core },
            Ended::Unseen => End::Unseen {},
        };
        let by_us = match self.killing {
            Killing::No => false,
            Killing::Killed => true,
            // They have been asked to end by another signal: whoever is killed meanwhile may be why the job ends.
            Killing::Until(_) => !matches!(how, Ended::Signal(signals::KILL, _)),
        };
        let killed = by_us || rank.aborted;
        let (world, phase) = (rank.world, rank.phase.clone());
        self.stdin.rank_ended(world);
        // Its last words first, so that the news of its death comes after them.
        self.drain_rank(at);
        self.tell_profile(at);
        self.send_up(ROOT, Message::Exited { rank: world, pid: pid as u32, end, phase: phase.clone(), killed });
        let why = self.death_words(at, how);
        self.on_no_address(world, &why);
        self.stop_serving(world);
        self.barrier_changed();
        self.exchange_changed();
        self.tell_times();
    }

    fn death_words(&self, at: usize, how: Ended) -> String {
        let rank = &self.ranks[at];
        let words = crate::children::describe(how);
        let unfinished = if rank.phase == (Phase::Initialized {}) { " without calling MPI_Finalize" } else { "" };
        format!("rank {} (pid {}) {words}{unfinished}", rank.world, rank.pid)
    }

    fn signal_ranks(&mut self, signal: i32) {
        self.ranks.iter().filter(|r| r.ended.is_none()).for_each(|rank| self.signal_rank(rank, signal));
    }

    fn signal_rank(&self, rank: &Rank, signal: i32) {
        if self.rank_listener.is_some() {
            rank.signal_adopted(signal);
        } else if kill_group(rank.pid, signal).is_err() {
            // The group reaches the children of a shell; the rank itself is not in it if it has moved away.
            let _ = sys::process::kill(rank.pid, signal);
        }
    }

    /// Kills the ranks of this node that a part of the job takes with it by `MPI_Abort`.
    fn kill_some(&mut self, doomed: &[WorldRank]) {
        for at in 0..self.ranks.len() {
            let rank = &mut self.ranks[at];
            if rank.ended.is_none() && doomed.contains(&WorldRank(rank.world)) {
                rank.aborted = true;
                self.signal_rank(&self.ranks[at], signals::KILL);
            }
        }
    }

    fn kill(&mut self, now: bool, code: i32) {
        self.give_up_files();
        // What has ended by itself isn't our doing.
        self.reap();
        let grace_ms = self.job.as_ref().map_or(0, |job| job.grace_ms);
        if now || grace_ms == 0 {
            self.killing = Killing::Killed;
            self.signal_ranks(signals::KILL);
            return;
        }
        if self.killing == Killing::No {
            self.killing = Killing::Until(Instant::now() + Duration::from_millis(u64::from(grace_ms)));
            if self.rank_listener.is_none() {
                self.signal_ranks(signals::TERM);
                self.signal_ranks(signals::CONT);
                return;
            }
            // The launcher of adopted ranks ends its job itself, and knows better than this agent what to report; unless it goes by
            // what they exit with.
            for rank in self.ranks.iter_mut().filter(|rank| rank.ended.is_none()) {
                rank.send(&protocol::control::ToRank::End { code }, Vec::new());
            }
        }
    }

    fn escalate(&mut self) {
        if let Killing::Until(when) = self.killing
            && Instant::now() >= when
        {
            self.kill(true, 1);
        }
    }

    /// When all ranks have ended: kill what they left, drain what they wrote, report.
    fn finish_if_idle(&mut self) {
        let Life::Idle(since) = self.life else { return };
        let late = since.elapsed() > DRAIN_LIMIT;
        let spare = self.children.launcher_pids();
        if orphans::kill_children(&spare) && !late {
            self.reap();
            return;
        }
        let all_read = self.ranks.iter().all(Rank::output_is_at_end);
        let given_up = late && self.output.is_open();
        if !all_read && !given_up {
            return;
        }
        for at in 0..self.ranks.len() {
            self.flush_output(at);
        }
        self.life = Life::Done;
        self.send_up(ROOT, Message::NodeDone { node: self.node });
    }
}
