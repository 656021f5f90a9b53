//! Starts the agents below mpiexec, all at once. For the schemes that stand for serial launchers it starts them one after another, each when the
//! ranks of the one before run. It also draws the line that shows the progress of a long launch.

use super::Head;
use super::setup::ContainerLaunch;
use crate::agent;
use crate::leftovers::{Leftovers, Sweeper};
use crate::link::{Link, packet};
use crate::pollset::PollSet;
use crate::preload::send::Sender;
use protocol::control::handshake::Key;
use protocol::control::tree::{ALL, Message, ROOT, children};
use std::collections::{BTreeSet, VecDeque};
use std::io::{IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A launch that takes longer shows how far it is.
const QUICK: Duration = Duration::from_secs(1);
/// How often that changes.
const REFRESH: Duration = Duration::from_millis(200);

/// What is still to be launched, and how.
pub struct Launching {
    key: Key,
    local_nodes: u32,
    containers: Vec<ContainerLaunch>,
    /// Files that are being sent.
    pub preload: Option<Sender>,
    /// Agents that wait for the one before.
    queue: VecDeque<u32>,
    /// Nodes whose ranks run, or which are lost.
    ready: BTreeSet<u32>,
    nodes: usize,
    /// When the line is shown next; none if never.
    next_line: Option<Instant>,
    shown: bool,
}

impl Launching {
    /// Nothing has been launched.
    pub fn new(key: Key, local_nodes: u32, containers: Vec<ContainerLaunch>, preload: Option<Sender>) -> Launching {
        let next_line = std::io::stderr().is_terminal().then(|| Instant::now() + QUICK);
        Launching {
            key,
            local_nodes,
            containers,
            preload,
            queue: VecDeque::new(),
            ready: BTreeSet::new(),
            nodes: 0,
            next_line,
            shown: false,
        }
    }

    /// Registers with the loop.
    pub fn register(&self, set: &mut PollSet) {
        if let Some(at) = self.next_line {
            set.until(at);
        }
    }

    /// Takes the line away.
    pub fn clear_line(&mut self) {
        self.next_line = None;
        if std::mem::take(&mut self.shown) {
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

impl Head {
    /// Starts every agent directly below, or the first of them.
    pub(super) fn start_agents(&mut self) -> Result<(), String> {
        let nodes = self.nodes.len() as u32;
        self.launching.nodes = self.nodes.len();
        let local = 0..self.launching.local_nodes;
        let below = children(ROOT, self.job.launcher.width, nodes).filter(|n| !local.contains(n));
        self.launching.queue = local.clone().chain(below).collect();
        if self.job.startup.scheme().described().serial {
            return self.start_next();
        }
        while let Some(node) = self.launching.queue.pop_front() {
            self.start_agent(node)?;
        }
        self.children.broadcast(&packet(ALL, Message::Start { job: Box::new(self.job.clone()) }));
        Ok(())
    }

    /// Starts the next of the agents that are started one after another.
    fn start_next(&mut self) -> Result<(), String> {
        let Some(node) = self.launching.queue.pop_front() else { return Ok(()) };
        self.start_agent(node)?;
        self.children.send(node, &packet(node, Message::Start { job: Box::new(self.job.clone()) }));
        Ok(())
    }

    fn start_agent(&mut self, node: u32) -> Result<(), String> {
        let host = &self.job.hosts[node as usize];
        if node < self.launching.local_nodes {
            return self.fork_agent(node);
        }
        if !self.job.adopted_from.is_empty() {
            // A rank there does it.
            return Ok(());
        }
        if self.options.verbose {
            eprintln!("mpiexec: launching the node agent on {host}");
        }
        match self.launching.containers.get(node as usize) {
            None => self.children.launch(node, host, &self.job.launcher),
            Some(c) => self.children.launch_by(node, &c.shown, &c.words, &c.preamble, &self.job.launcher),
        }
    }

    fn fork_agent(&mut self, node: u32) -> Result<(), String> {
        let wrong = |e: std::io::Error| format!("cannot start the node agent of this host: {e}");
        let key = self.launching.key;
        let (ours, theirs) = UnixStream::pair().map_err(wrong)?;
        let theirs = OwnedFd::from(theirs);
        let (sweeper, writer) = Sweeper::new().map_err(wrong)?;
        let (socket, leftovers) = (theirs.as_fd(), writer.as_fd());
        let agent = || local_agent(node, key, socket, Leftovers::over(leftovers));
        let pid = sys::process::fork_run(&[socket, leftovers], agent).map_err(wrong)?;
        self.leavings.sweepers.push(sweeper);
        self.children.add_local(node, &self.job.hosts[node as usize], pid, ours.into()).map_err(wrong)
    }

    /// Sends files as fast as the nodes take them.
    pub(super) fn pump_preload(&mut self) {
        let Some(preload) = &mut self.launching.preload else { return };
        while !self.clock.is_ending() && self.children.all_flushed() {
            let nodes = &self.nodes;
            match preload.next(|node| nodes.get(node).is_some_and(|n| !n.over)) {
                Ok(Some(chunk)) => _ = self.children.broadcast(&packet(ALL, chunk)),
                Ok(None) => break,
                Err(why) => {
                    self.verdict.add(why, 1, false);
                    return self.end();
                }
            }
        }
        if self.clock.is_ending() || preload.is_done() {
            self.launching.preload = None;
        }
    }

    /// The ranks of a node run, or never will.
    pub(super) fn node_started(&mut self, node: u32) {
        self.launching.ready.insert(node);
        if self.launching.ready.len() >= self.launching.nodes {
            self.launching.clear_line();
        }
        if let Err(why) = self.start_next() {
            self.verdict.add(why, 1, false);
            self.end();
        }
    }

    /// Agents that have not been launched never will be.
    pub(super) fn stop_launching(&mut self) {
        self.launching.clear_line();
        for node in std::mem::take(&mut self.launching.queue) {
            self.nodes[node as usize].over = true;
        }
    }

    /// Shows how far a long launch is, if somebody looks.
    pub(super) fn show_progress(&mut self) {
        let now = Instant::now();
        if self.launching.next_line.is_none_or(|at| now < at) {
            return;
        }
        self.launching.next_line = Some(now + REFRESH);
        self.launching.shown = true;
        let missing: Vec<&str> = self.children.missing().into_iter().take(3).collect();
        let waits = if missing.is_empty() { String::new() } else { format!("; waiting for {}", missing.join(", ")) };
        let (ready, nodes) = (self.launching.ready.len(), self.launching.nodes);
        let seconds = self.clock.started().elapsed().as_secs();
        let _ =
            write!(std::io::stderr(), "\r\x1b[Kmpiexec: {ready} of {nodes} hosts are ready after {seconds} s{waits}");
    }
}

/// Runs in the forked copy of mpiexec.
fn local_agent(node: u32, key: Key, socket: BorrowedFd<'_>, leftovers: Leftovers) -> i32 {
    let _ = sys::process::new_session();
    match socket.try_clone_to_owned().and_then(Link::over_socket) {
        Ok(link) => agent::run(node, key, link, (leftovers, None)),
        Err(_) => 1,
    }
}
