//! The agents directly below this process: starts them, lets them call back, and tells when one is lost.
//!
//! An unauthenticated connection is answered with a challenge only, kept for [`PROOF_LIMIT`] at most, and dropped with one log line
//! unless it proves the job key.

mod adopt;
mod launcher;

use crate::callers::{Callers, Dropped};
use crate::dial;
use crate::invite::Invite;
use crate::link::{Frame, Link};
use crate::pollset::PollSet;
use base::log;
pub use launcher::expand;
use launcher::start_launcher;
use protocol::control::handshake::{ANSWER, Handshake, Key, MAGIC, Met, Step};
use protocol::control::tree::Launcher;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use sys::process::{Ended, Pid};

/// How long an unauthenticated connection has for its proof.
const PROOF_LIMIT: Duration = Duration::from_secs(10);
/// Unauthenticated connections at a time; one more pushes out the oldest.
const UNAUTHENTICATED_MAX: usize = 64;
/// How long the end of a local agent's process may lag behind the end of its connection.
const REAP_LAG: Duration = Duration::from_millis(1500);

/// What happened below.
pub enum ChildEvent {
    /// A packet, still encoded.
    Packet(Vec<u8>),
    /// An agent is gone, or could not be started.
    Lost {
        /// Which.
        node: u32,
        /// Why, in words.
        why: String,
    },
}

struct Child {
    node: u32,
    host: String,
    origin: Origin,
    /// The forked agent, or the process that launches it; 0 if neither is this process's.
    pid: Pid,
    ended: Option<Ended>,
    state: State,
}

/// How an agent comes to be.
enum Origin {
    /// Forked by this process.
    Forked,
    /// Started on its host by a launcher.
    Launched(Launched),
    /// Started by a rank of another launcher.
    Adopted,
}

enum State {
    /// It has not called yet: until when it may, and what it will be told.
    Awaited(Instant, Vec<Frame>),
    Linked(Box<Link>),
    /// The connection has ended, at that time.
    Closed(Instant),
    /// Given up, and reported.
    Lost,
}

/// A launcher's process.
struct Launched {
    /// Its standard input and output, unless they are the link or have ended.
    stdin: Option<File>,
    stdout: Option<File>,
    /// What it has printed and may be the beginning of an answer.
    text: Vec<u8>,
    nonce: [u8; 16],
    /// The other end of the socket that the agent may have inherited.
    switch: Option<OwnedFd>,
    /// The agent's program on its host.
    agent_path: String,
}

/// All agents directly below.
pub struct Children {
    key: Key,
    /// With the addresses at which the agents below call.
    listener: Option<(TcpListener, Vec<SocketAddr>)>,
    unauthenticated: Callers<TcpStream>,
    list: Vec<Child>,
    has_switch: bool,
}

impl Children {
    /// None yet.
    pub fn new(key: Key) -> Children {
        Children {
            key,
            listener: None,
            unauthenticated: Callers::new(PROOF_LIMIT),
            list: Vec::new(),
            has_switch: false,
        }
    }

    /// Launched agents get a socket, as descriptor [`crate::environment::NODE_FD`], if their launchers pass it on.
    pub fn with_switch(self) -> Children {
        Children { has_switch: true, ..self }
    }

    /// Gives two agents the ends of a connection, over the sockets that they have inherited; each learns the other's node.
    pub fn join(&self, a: u32, b: u32) {
        let switch = |node| match &self.list.iter().find(|c| c.node == node)?.origin {
            Origin::Launched(launched) => launched.switch.as_ref(),
            Origin::Forked | Origin::Adopted => None,
        };
        let (Some(to_a), Some(to_b), Ok((one, other))) = (switch(a), switch(b), UnixStream::pair()) else { return };
        // If one of them can't take it, the other one's call ends at once.
        let _ = sys::fdpass::send(to_a.as_fd(), &b.to_le_bytes(), &[one.as_fd()], false);
        let _ = sys::fdpass::send(to_b.as_fd(), &a.to_le_bytes(), &[other.as_fd()], false);
    }

    /// Secret of the agents.
    pub fn key(&self) -> Key {
        self.key
    }

    fn add(&mut self, node: u32, host: &str, pid: Pid, origin: Origin, state: State) {
        self.list.push(Child { node, host: host.into(), origin, pid, ended: None, state });
    }

    /// An agent that has been forked and holds the other end of `socket`.
    pub fn add_local(&mut self, node: u32, host: &str, pid: Pid, socket: OwnedFd) -> std::io::Result<()> {
        let link = Link::over_socket(socket)?;
        self.add(node, host, pid, Origin::Forked, State::Linked(Box::new(link)));
        Ok(())
    }

    /// Starts the launcher of an agent on another host.
    pub fn launch(&mut self, node: u32, host: &str, launcher: &Launcher) -> Result<(), String> {
        self.launch_by(node, host, &expand(launcher, host, "--agent"), "", launcher)
    }

    /// Starts an agent by the command `words`, whose standard input begins with `preamble`.
    pub fn launch_by(
        &mut self,
        node: u32,
        host: &str,
        words: &[String],
        preamble: &str,
        launcher: &Launcher,
    ) -> Result<(), String> {
        let (_, parents) = match &mut self.listener {
            Some(there) => there,
            none => none.insert(dial::listen(launcher)?),
        };
        let parents = parents.clone();
        let (nonce, timeout_s) = (sys::process::random(), launcher.timeout_s);
        let invite = Invite { node, parents, key: self.key, nonce, timeout_s };
        let (switch, theirs) = match UnixStream::pair() {
            Ok((ours, theirs)) if self.has_switch => (Some(ours.into()), Some(theirs.into())),
            _ => (None, None),
        };
        let (pid, mut stdin, stdout) =
            start_launcher(words, theirs.as_ref()).map_err(|e| format!("cannot run {}: {e}", words[0]))?;
        let _ = stdin.write_all((preamble.to_string() + &invite.to_line()).as_bytes());
        // An engine may have to fetch its image first; if it fails, it says so.
        let patience_s = if preamble.is_empty() { u64::from(timeout_s) + 2 } else { 10 * u64::from(timeout_s) };
        let launched = Launched {
            stdin: Some(stdin),
            stdout: Some(stdout),
            text: Vec::new(),
            nonce,
            switch,
            agent_path: launcher.agent_path.clone(),
        };
        self.add(node, host, pid, Origin::Launched(launched), State::awaited(patience_s));
        Ok(())
    }

    /// Sends a frame to the agent `node`, now or when it calls.
    pub fn send(&mut self, node: u32, frame: &Frame) {
        if let Some(child) = self.list.iter_mut().find(|c| c.node == node) {
            child.send(frame);
        }
    }

    /// Sends a frame to every agent below; how many there are.
    pub fn broadcast(&mut self, frame: &Frame) -> usize {
        self.list.iter_mut().for_each(|c| c.send(frame));
        self.list.iter().filter(|c| !matches!(c.state, State::Lost)).count()
    }

    /// Whether everything for all agents has been written.
    pub fn all_flushed(&self) -> bool {
        self.list.iter().all(Child::is_flushed)
    }

    /// Whether everything for the agent `node` has been written.
    pub fn is_flushed(&self, node: u32) -> bool {
        self.list.iter().find(|c| c.node == node).is_none_or(Child::is_flushed)
    }

    /// Host names of agents that have not called yet.
    pub fn missing(&self) -> Vec<&str> {
        self.list.iter().filter(|c| matches!(c.state, State::Awaited(..))).map(|c| c.host.as_str()).collect()
    }

    /// Processes that launchers run in; they are not leftovers of the job.
    pub fn launcher_pids(&self) -> Vec<Pid> {
        self.list.iter().filter(|c| c.ended.is_none()).map(|c| c.pid).collect()
    }

    /// Ends every conversation, which ends the agents.
    pub fn close(&mut self) {
        for child in &mut self.list {
            child.state = State::Lost;
            if let Origin::Launched(launched) = &mut child.origin {
                (launched.stdin, launched.stdout, launched.switch) = (None, None, None);
            }
        }
        self.listener = None;
        self.unauthenticated.clear();
    }

    /// Notes the end of a process; true if it was one of ours.
    pub fn on_exit(&mut self, pid: Pid, how: Ended) -> bool {
        match self.list.iter_mut().find(|c| c.pid == pid && c.ended.is_none()) {
            Some(child) => {
                child.ended = Some(how);
                true
            }
            None => false,
        }
    }

    /// Registers with the loop.
    pub fn register(&self, set: &mut PollSet) {
        if let Some((listener, _)) = &self.listener {
            set.add(listener, true, false);
        }
        self.unauthenticated.register(set);
        self.list.iter().for_each(|child| child.register(set));
    }

    /// Does what the loop found possible; returns what happened.
    pub fn handle(&mut self, set: &PollSet) -> Vec<ChildEvent> {
        self.accept(set);
        self.poll_unauthenticated(set);
        let mut events = Vec::new();
        for child in &mut self.list {
            child.poll_launcher(set, self.key);
            let broken = child.poll_link(set, &mut events);
            if let Some(why) = broken.or_else(|| child.check_lost()) {
                child.state = State::Lost;
                events.push(ChildEvent::Lost { node: child.node, why });
            }
        }
        events
    }

    fn accept(&mut self, set: &PollSet) {
        let Some((listener, _)) = self.listener.as_ref().filter(|(listener, _)| set.readable(listener)) else { return };
        while let Ok((stream, _)) = listener.accept() {
            let _ = self.unauthenticated.add(stream, UNAUTHENTICATED_MAX);
        }
    }

    fn poll_unauthenticated(&mut self, set: &PollSet) {
        for (stream, outcome) in self.unauthenticated.poll(set, |_| self.key) {
            match outcome {
                Ok(met) => self.welcome(stream, met),
                // An agent dials several addresses and keeps the one that answers first.
                Err(Dropped { why, is_silent: true }) => {
                    log!(Debug, "a connection from {} ended without a word: {why}", name_of(&stream));
                }
                Err(Dropped { why, .. }) => log!(Warn, "dropped a connection from {}: {why}", name_of(&stream)),
            }
        }
    }

    fn welcome(&mut self, stream: TcpStream, met: Met) {
        let Some(child) = self.list.iter_mut().find(|c| c.node == met.node) else {
            return log!(Warn, "dropped a connection from {}: no such agent is waited for", name_of(&stream));
        };
        if !matches!(child.state, State::Awaited(..)) {
            // The agent's second connection; the first has been taken.
            return log!(Debug, "another connection of the node agent {} is not needed", met.node);
        }
        let link = (&stream).write_all(&met.last).and_then(|()| dial::prepare(&stream));
        match link.and_then(|()| Link::over_socket(stream.into())) {
            Ok(link) => child.connected(link.sealed(met.seals)),
            Err(e) => log!(Warn, "connection to the node agent on {} broke at once: {e}", child.host),
        }
    }
}

fn name_of(stream: &TcpStream) -> String {
    stream.peer_addr().map_or_else(|_| "an unauthenticated connection".into(), |a| a.to_string())
}

impl State {
    fn awaited(patience_s: u64) -> State {
        State::Awaited(Instant::now() + Duration::from_secs(patience_s), Vec::new())
    }
}

impl Child {
    fn send(&mut self, frame: &Frame) {
        match &mut self.state {
            State::Awaited(_, queue) => queue.push(frame.clone()),
            State::Linked(link) => link.send(frame.clone()),
            State::Closed(_) | State::Lost => {}
        }
    }

    fn is_flushed(&self) -> bool {
        match &self.state {
            State::Awaited(..) => false,
            State::Linked(link) => link.is_flushed(),
            State::Closed(_) | State::Lost => true,
        }
    }

    fn connected(&mut self, link: Link) {
        if let State::Awaited(_, queue) = std::mem::replace(&mut self.state, State::Linked(Box::new(link))) {
            queue.iter().for_each(|frame| self.send(frame));
        }
    }

    fn register(&self, set: &mut PollSet) {
        match &self.state {
            State::Awaited(by, _) => set.until(*by),
            State::Linked(link) => link.register(set),
            State::Closed(at) => set.until(*at + REAP_LAG),
            State::Lost => {}
        }
        if let Origin::Launched(Launched { stdout: Some(stdout), .. }) = &self.origin {
            set.add(stdout, true, false);
        }
    }

    /// Reads what the launcher prints: text for the user, or the agent's answer if stdio is its way to us.
    fn poll_launcher(&mut self, set: &PollSet, key: Key) {
        let Origin::Launched(launched) = &mut self.origin else { return };
        let may_answer = !matches!(self.state, State::Linked(_) | State::Closed(_));
        if !launched.read(set, may_answer) {
            return;
        }
        match launched.link(key) {
            Ok(link) if matches!(self.state, State::Awaited(..)) => self.connected(link),
            // It has been given up.
            Ok(_) => {}
            Err(why) => log!(Warn, "the agent on {} cannot be reached over its launcher: {why}", self.host),
        }
    }

    /// Takes what the agent has sent; returns why it must be given up if that isn't valid.
    fn poll_link(&mut self, set: &PollSet, events: &mut Vec<ChildEvent>) -> Option<String> {
        let State::Linked(link) = &mut self.state else { return None };
        link.handle(set);
        loop {
            match link.next_packet() {
                Ok(Some(body)) => events.push(ChildEvent::Packet(body)),
                Ok(None) => break,
                Err(e) => {
                    let (host, why) = (&self.host, e.origin);
                    return Some(format!("the connection to the node agent on {host} carries no valid message: {why}"));
                }
            }
        }
        if link.is_closed() {
            self.state = State::Closed(Instant::now());
        }
        None
    }

    /// Why the agent must be given up, if so.
    fn check_lost(&self) -> Option<String> {
        let (host, pid) = (&self.host, self.pid);
        match (&self.state, &self.origin, self.ended) {
            (State::Closed(_), Origin::Forked, Some(how)) => {
                Some(format!("the node agent on {host} (pid {pid}) {}", describe(how)))
            }
            (State::Closed(at), Origin::Forked, None) if at.elapsed() < REAP_LAG => None,
            (State::Closed(_), ..) => {
                Some(format!("the connection to the node agent on {host} broke: the agent or its host is gone"))
            }
            (State::Awaited(..), Origin::Launched(launched), Some(how)) if how != Ended::Exit(0) => {
                // What a shell says of a program that it can't find or run.
                let hint = match how {
                    Ended::Exit(126 | 127) => {
                        format!("; {} can't be run there (--agent-path names another one)", launched.agent_path)
                    }
                    _ => String::new(),
                };
                let how = describe(how);
                Some(format!("the launcher of the node agent on {host} {how} before the agent called{hint}"))
            }
            (State::Awaited(by, _), ..) if Instant::now() >= *by => {
                Some(format!("the node agent on {host} did not call back in time (FERRULE_CONNECT_TIMEOUT)"))
            }
            _ => None,
        }
    }
}

impl Launched {
    /// Shows what the launcher prints; true when an answer is there.
    fn read(&mut self, set: &PollSet, may_answer: bool) -> bool {
        let Some(stdout) = self.stdout.as_mut().filter(|s| set.readable(&**s)) else { return false };
        let mut bytes = [0; 4096];
        match stdout.read(&mut bytes) {
            Ok(0) => self.stdout = None,
            Ok(n) => self.text.extend_from_slice(&bytes[..n]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return false,
            Err(_) => self.stdout = None,
        }
        let answer = if may_answer { self.text.windows(MAGIC.len()).position(|w| w == MAGIC) } else { None };
        let show = match answer {
            Some(at) => at,
            None if self.stdout.is_none() => self.text.len(),
            // Keep an unfinished line: it may be the beginning of the answer.
            None => self.text.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1),
        };
        let _ = std::io::stderr().write_all(&self.text[..show]);
        self.text.drain(..show);
        let is_complete = answer.is_some() && self.text.len() >= ANSWER;
        if !is_complete && self.text.len() > 1 << 16 {
            self.text.clear();
        }
        is_complete
    }

    /// The link over the launcher's stdio, whose other end has answered.
    fn link(&mut self, key: Key) -> std::io::Result<Link> {
        let (text, mut parent) = (std::mem::take(&mut self.text), Handshake::of_parent(self.nonce));
        let (Some(mut stdin), Some(stdout)) = (self.stdin.take(), self.stdout.take()) else {
            return Err(std::io::Error::other("it has closed its output"));
        };
        let taken = parent.take(&text);
        let Ok(Step::Met(met)) = parent.step(|_| key) else {
            return Err(std::io::Error::other("it sent a wrong proof of the job key"));
        };
        stdin.write_all(&met.last)?;
        let mut link = Link::over(stdout.into(), stdin.into())?.sealed(met.seals);
        link.feed(&text[taken..]);
        Ok(link)
    }
}

/// `exited with code 1`, `was killed by SIGKILL`.
pub fn describe(how: Ended) -> String {
    match how {
        Ended::Exit(code) => format!("exited with code {code}"),
        Ended::Signal(signal, core) => {
            let dumped = if core { " (core dumped)" } else { "" };
            format!("was killed by {}{dumped}", sys::process::signal_name(signal))
        }
        Ended::Unseen => "ended".into(),
    }
}
