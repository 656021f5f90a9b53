//! The agents directly below this process: starts them, lets them call back, and tells when one is lost.
//!
//! An unauthenticated connection is answered with a challenge only, kept for [`PROOF_LIMIT_S`] seconds at most, and dropped with one log line
//! unless it proves the job key.

mod adopt;
mod launcher;

use crate::dial;
use crate::invite::Invite;
use crate::link::{Frame, Link};
use crate::pollset::PollSet;
use base::log;
pub use launcher::expand;
use launcher::start_launcher;
use protocol::control::handshake::{self, ANSWER, Key, MAGIC};
use protocol::control::sealed::Seals;
use protocol::control::tree::Launcher;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use sys::process::{Ended, Pid};

/// Seconds that an unauthenticated connection has for its proof.
const PROOF_LIMIT_S: u64 = 10;
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
    link: Option<Link>,
    /// Frames for an agent that has not called yet.
    queue: Vec<Frame>,
    /// The forked agent, or the process that launches it.
    pid: Pid,
    local: bool,
    ended: Option<Ended>,
    closed_at: Option<Instant>,
    /// What was wrong with what it said.
    broken: Option<&'static str>,
    call_by: Option<Instant>,
    lost: bool,
    nonce: [u8; 16],
    stdin: Option<File>,
    stdout: Option<File>,
    /// The other end of the socket that the agent may have inherited.
    switch: Option<OwnedFd>,
    /// The agent's program on its host.
    agent_path: String,
    /// What the launcher has printed and may be the beginning of an answer.
    text: Vec<u8>,
}

struct Unauthenticated {
    stream: TcpStream,
    nonce: [u8; 16],
    answer: Vec<u8>,
    since: Instant,
}

/// All agents directly below.
pub struct Children {
    key: Key,
    /// With the addresses at which the agents below call.
    listener: Option<(TcpListener, Vec<SocketAddr>)>,
    unauthenticated: Vec<Unauthenticated>,
    list: Vec<Child>,
    has_switch: bool,
}

impl Children {
    /// None yet.
    pub fn new(key: Key) -> Children {
        Children { key, listener: None, unauthenticated: Vec::new(), list: Vec::new(), has_switch: false }
    }

    /// Launched agents get a socket, as descriptor [`crate::environment::NODE_FD`], if their launchers pass it on.
    pub fn with_switch(self) -> Children {
        Children { has_switch: true, ..self }
    }

    /// Gives two agents the ends of a connection, over the sockets that they have inherited; each learns the other's node.
    pub fn join(&self, a: u32, b: u32) {
        let switch = |node| self.list.iter().find(|c| c.node == node).and_then(|c| c.switch.as_ref());
        let (Some(to_a), Some(to_b), Ok((one, other))) = (switch(a), switch(b), UnixStream::pair()) else { return };
        // If one of them can't take it, the other one's call ends at once.
        let _ = sys::fdpass::send(to_a.as_fd(), &b.to_le_bytes(), &[one.as_fd()], false);
        let _ = sys::fdpass::send(to_b.as_fd(), &a.to_le_bytes(), &[other.as_fd()], false);
    }

    /// Secret of the agents.
    pub fn key(&self) -> Key {
        self.key
    }

    fn add(&mut self, node: u32, host: &str, pid: Pid) -> &mut Child {
        self.list.push(Child {
            node,
            host: host.into(),
            link: None,
            queue: Vec::new(),
            pid,
            local: false,
            ended: None,
            closed_at: None,
            broken: None,
            call_by: None,
            lost: false,
            nonce: [0; 16],
            stdin: None,
            stdout: None,
            switch: None,
            agent_path: String::new(),
            text: Vec::new(),
        });
        self.list.last_mut().expect("just added")
    }

    /// An agent that has been forked and holds the other end of `socket`.
    pub fn add_local(&mut self, node: u32, host: &str, pid: Pid, socket: OwnedFd) -> std::io::Result<()> {
        let link = Link::over_socket(socket)?;
        let child = self.add(node, host, pid);
        child.local = true;
        child.link = Some(link);
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
        let mut nonce = [0; 16];
        sys::process::random(&mut nonce);
        let timeout_s = launcher.timeout_s;
        let invite = Invite { node, parents, key: self.key, nonce, timeout_s };
        let (switch, theirs) = match UnixStream::pair() {
            Ok((ours, theirs)) if self.has_switch => (Some(ours.into()), Some(theirs.into())),
            _ => (None, None),
        };
        let (pid, mut stdin, stdout) =
            start_launcher(words, theirs.as_ref()).map_err(|e| format!("cannot run {}: {e}", words[0]))?;
        let _ = stdin.write_all((preamble.to_string() + &invite.to_line()).as_bytes());
        let child = self.add(node, host, pid);
        child.nonce = nonce;
        child.switch = switch;
        child.agent_path = launcher.agent_path.clone();
        // An engine may have to fetch its image first; if it fails, it says so.
        let patience_s = if preamble.is_empty() { u64::from(timeout_s) + 2 } else { 10 * u64::from(timeout_s) };
        child.call_by = Some(Instant::now() + Duration::from_secs(patience_s));
        child.stdin = Some(stdin);
        child.stdout = Some(stdout);
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
        self.list.iter().filter(|c| !c.lost).count()
    }

    /// Whether everything for all agents has been written.
    pub fn all_flushed(&self) -> bool {
        self.list.iter().all(|c| c.lost || c.link.as_ref().is_some_and(Link::is_flushed))
    }

    /// Whether everything for the agent `node` has been written.
    pub fn is_flushed(&self, node: u32) -> bool {
        let child = self.list.iter().find(|c| c.node == node);
        child.is_none_or(|c| c.lost || c.link.as_ref().is_some_and(Link::is_flushed))
    }

    /// Host names of agents that have not called yet.
    pub fn missing(&self) -> Vec<&str> {
        self.list.iter().filter(|c| c.link.is_none() && !c.lost).map(|c| c.host.as_str()).collect()
    }

    /// Processes that launchers run in; they are not leftovers of the job.
    pub fn launcher_pids(&self) -> Vec<Pid> {
        self.list.iter().filter(|c| c.ended.is_none()).map(|c| c.pid).collect()
    }

    /// Ends every conversation, which ends the agents.
    pub fn close(&mut self) {
        for child in &mut self.list {
            child.link = None;
            child.stdin = None;
            child.stdout = None;
            child.switch = None;
            child.lost = true;
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
        for caller in &self.unauthenticated {
            set.add(&caller.stream, true, false);
            set.until(caller.since + Duration::from_secs(PROOF_LIMIT_S));
        }
        for child in &self.list {
            if let Some(link) = &child.link {
                link.register(set);
            }
            if let Some(stdout) = &child.stdout {
                set.add(stdout, true, false);
            }
            if let Some(at) = child.closed_at.filter(|_| !child.lost) {
                set.until(at + REAP_LAG);
            }
            if let Some(by) = child.call_by.filter(|_| child.link.is_none() && !child.lost) {
                set.until(by);
            }
        }
    }

    /// Does what the loop found possible; returns what happened.
    pub fn handle(&mut self, set: &PollSet) -> Vec<ChildEvent> {
        self.accept(set);
        self.poll_unauthenticated(set);
        let mut events = Vec::new();
        for child in &mut self.list {
            child.poll_launcher(set, self.key);
            child.poll_link(set, &mut events);
            if let Some(why) = child.check_lost() {
                child.lost = true;
                child.link = None;
                events.push(ChildEvent::Lost { node: child.node, why });
            }
        }
        events
    }

    fn accept(&mut self, set: &PollSet) {
        let Some((listener, _)) = &self.listener else { return };
        if !set.readable(listener) {
            return;
        }
        while let Ok((mut stream, _)) = listener.accept() {
            let mut nonce = [0; 16];
            sys::process::random(&mut nonce);
            if stream.set_nonblocking(true).is_err() || stream.write_all(&handshake::challenge(nonce)).is_err() {
                continue;
            }
            if self.unauthenticated.len() == UNAUTHENTICATED_MAX {
                self.unauthenticated.remove(0);
                log!(Warn, "too many connections without a proof of the job key: dropped the oldest");
            }
            self.unauthenticated.push(Unauthenticated { stream, nonce, answer: Vec::new(), since: Instant::now() });
        }
    }

    fn poll_unauthenticated(&mut self, set: &PollSet) {
        for caller in std::mem::take(&mut self.unauthenticated) {
            let mut caller = caller;
            match caller.receive(set, self.key) {
                Ok(None) if caller.since.elapsed() < Duration::from_secs(PROOF_LIMIT_S) => {
                    self.unauthenticated.push(caller)
                }
                Ok(None) => caller.dropped("no proof of the job key in time"),
                Ok(Some((node, proof, seals))) => self.welcome(caller, node, &proof, seals),
                Err(why) => caller.dropped(&why),
            }
        }
    }

    fn welcome(&mut self, mut caller: Unauthenticated, node: u32, proof: &[u8], seals: Seals) {
        let Some(child) = self.list.iter_mut().find(|c| c.node == node && c.link.is_none() && !c.lost) else {
            if self.list.iter().any(|c| c.node == node) {
                // The agent's second connection; the first has been taken.
                return log!(Debug, "another connection of the node agent {node} is not needed");
            }
            return caller.dropped("it is not an agent that is waited for");
        };
        let link = caller.stream.write_all(proof).and_then(|()| dial::prepare(&caller.stream));
        match link.and_then(|()| Link::over_socket(caller.stream.into())) {
            Ok(link) => child.connected(link.sealed(seals)),
            Err(e) => log!(Warn, "connection to the node agent on {} broke at once: {e}", child.host),
        }
    }
}

impl Unauthenticated {
    /// The node index, the proof to send and the link's seals, once the answer is here and right.
    fn receive(&mut self, set: &PollSet, key: Key) -> Result<Option<(u32, [u8; handshake::PROOF], Seals)>, String> {
        if !set.readable(&self.stream) {
            return Ok(None);
        }
        let mut bytes = [0; ANSWER];
        match self.stream.read(&mut bytes[..ANSWER - self.answer.len()]) {
            Ok(0) => return Err("it hung up".into()),
            Ok(n) => self.answer.extend_from_slice(&bytes[..n]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(e) => return Err(e.to_string()),
        }
        let opening = self.answer.len().min(MAGIC.len());
        if self.answer[..opening] != MAGIC[..opening] {
            return Err("it does not speak our protocol".into());
        }
        let Some(answer) = self.answer.first_chunk::<ANSWER>() else { return Ok(None) };
        let (node, proof) = handshake::check_answer(key, self.nonce, answer).map_err(|e| e.origin)?;
        Ok(Some((node, proof, Seals::of_parent(key, self.nonce, answer))))
    }

    fn dropped(&self, why: &str) {
        let who = self.stream.peer_addr().map_or_else(|_| "an unauthenticated connection".into(), |a| a.to_string());
        if self.answer.is_empty() {
            // An agent dials several addresses and keeps the one that answers first.
            log!(Debug, "a connection from {who} ended without a word: {why}");
        } else {
            log!(Warn, "dropped a connection from {who}: {why}");
        }
    }
}

impl Child {
    fn send(&mut self, frame: &Frame) {
        match &mut self.link {
            Some(link) => link.send(frame.clone()),
            None if self.lost => {}
            None => self.queue.push(frame.clone()),
        }
    }

    fn connected(&mut self, mut link: Link) {
        self.queue.drain(..).for_each(|frame| link.send(frame));
        self.link = Some(link);
    }

    /// Reads what the launcher prints: text for the user, or the agent's answer if stdio is its way to us.
    fn poll_launcher(&mut self, set: &PollSet, key: Key) {
        let Some(stdout) = self.stdout.as_mut().filter(|s| set.readable(&**s)) else { return };
        let mut bytes = [0; 4096];
        match stdout.read(&mut bytes) {
            Ok(0) => self.stdout = None,
            Ok(n) => self.text.extend_from_slice(&bytes[..n]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return,
            Err(_) => self.stdout = None,
        }
        let start = if self.link.is_some() { None } else { self.text.windows(MAGIC.len()).position(|w| w == MAGIC) };
        let (show, keep) = match start {
            Some(at) => (at, true),
            // Keep an unfinished line: it may be the beginning of the answer.
            None => (self.text.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1), self.stdout.is_some()),
        };
        let show = if keep { show } else { self.text.len() };
        let _ = std::io::stderr().write_all(&self.text[..show]);
        self.text.drain(..show);
        if start.is_some() && self.text.len() >= ANSWER {
            self.adopt_stdio(key);
        }
        if self.text.len() > 1 << 16 {
            self.text.clear();
        }
    }

    fn adopt_stdio(&mut self, key: Key) {
        let Some(answer) = self.text.first_chunk::<ANSWER>() else { return };
        let checked = handshake::check_answer(key, self.nonce, answer);
        let (Ok((_, proof)), Some(mut input), Some(output)) = (checked, self.stdin.take(), self.stdout.take()) else {
            log!(Warn, "the agent on {} sent a wrong proof of the job key", self.host);
            return;
        };
        let linked = input.write_all(&proof).and_then(|()| Link::over(output.into(), input.into()));
        if let Ok(link) = linked {
            let mut link = link.sealed(Seals::of_parent(key, self.nonce, answer));
            link.feed(&self.text[ANSWER..]);
            self.text.clear();
            self.connected(link);
        }
    }

    fn poll_link(&mut self, set: &PollSet, events: &mut Vec<ChildEvent>) {
        let Some(link) = &mut self.link else { return };
        link.handle(set);
        loop {
            match link.next_packet() {
                Ok(Some(body)) => events.push(ChildEvent::Packet(body)),
                Ok(None) => break,
                Err(e) => {
                    self.broken = Some(e.origin);
                    self.link = None;
                    self.closed_at = Some(Instant::now() - REAP_LAG);
                    return;
                }
            }
        }
        if link.is_closed() && self.closed_at.is_none() {
            self.closed_at = Some(Instant::now());
        }
    }

    /// Why the agent must be given up, if so.
    fn check_lost(&self) -> Option<String> {
        if self.lost {
            return None;
        }
        let host = &self.host;
        if let Some(at) = self.closed_at {
            return match self.ended {
                _ if let Some(why) = self.broken => {
                    Some(format!("the connection to the node agent on {host} carries no valid message: {why}"))
                }
                Some(how) if self.local => {
                    Some(format!("the node agent on {host} (pid {}) {}", self.pid, describe(how)))
                }
                _ if self.local && at.elapsed() < REAP_LAG => None,
                _ => Some(format!("the connection to the node agent on {host} broke: the agent or its host is gone")),
            };
        }
        if self.link.is_some() {
            return None;
        }
        match self.ended {
            Some(Ended::Exit(0)) | None => {}
            Some(how) => {
                // What a shell says of a program that it can't find or run.
                let hint = match how {
                    Ended::Exit(126 | 127) => {
                        format!("; {} can't be run there (--agent-path names another one)", self.agent_path)
                    }
                    _ => String::new(),
                };
                let how = describe(how);
                return Some(format!("the launcher of the node agent on {host} {how} before the agent called{hint}"));
            }
        }
        let late = self.call_by.is_some_and(|by| Instant::now() >= by);
        late.then(|| format!("the node agent on {host} did not call back in time (FERRULE_CONNECT_TIMEOUT)"))
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
