//! The time in which agents call each other, to find out who is under one kernel: their sockets, files and calls. All of it is gone when mpiexec has said
//! who is (`Kernels`).

use super::by_file::{self, Host, Visitor};
use super::meet::{self, CallSocket};
use crate::agent::fdlink::FdLink;
use crate::callers::{Callers, Dropped};
use crate::pollset::PollSet;
use crate::settings::LOCALITY_TIMEOUT;
use base::log;
use channel::handshake;
use protocol::control::handshake::{Handshake, Key};
use protocol::control::near::Call;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Guests at a time that have proved nothing; one more pushes out the oldest.
const GUESTS_MAX: usize = 256;

/// A call that is not decided.
struct Calling {
    call: Call,
    way: Way,
    reasons: Vec<String>,
}

/// How another agent is called.
enum Way {
    /// Not yet.
    None,
    Socket(UnixStream, Handshake),
    File(Visitor),
}

/// Nodes that have proved themselves, and nodes that have not, with the reason.
pub type Decided = (Vec<u32>, Vec<(u32, String)>);

/// What is open, and who calls whom.
pub struct Calls {
    key: Key,
    node: u32,
    sockets: Vec<CallSocket>,
    /// Files in which somebody may come to talk.
    hosts: Vec<Host>,
    guests: Callers<UnixStream>,
    calls: Vec<Calling>,
    /// Sockets of others, which disappear with their owners unless those are killed.
    others: Vec<PathBuf>,
    proved: Vec<u32>,
    refused: Vec<(u32, String)>,
    /// When calls are given up; none before [`Calls::dial`].
    by: Option<Instant>,
    /// Leads to mpiexec, which sends connections to other agents.
    switch: Option<OwnedFd>,
    /// Connections from there to nodes that are to be called.
    given: HashMap<u32, UnixStream>,
    /// Links to agents that have proved themselves.
    links: Vec<(u32, FdLink)>,
}

impl Calls {
    pub fn new(key: Key, node: u32, switch: Option<OwnedFd>) -> Calls {
        Calls {
            key,
            node,
            sockets: Vec::new(),
            hosts: Vec::new(),
            guests: Callers::new(limit()),
            calls: Vec::new(),
            others: Vec::new(),
            proved: Vec::new(),
            refused: Vec::new(),
            by: None,
            switch,
            given: HashMap::new(),
            links: Vec::new(),
        }
    }

    /// Whether mpiexec can send connections.
    pub fn has_switch(&self) -> bool {
        self.switch.is_some()
    }

    /// Others may call here.
    pub fn open(&mut self, socket: CallSocket) {
        self.sockets.push(socket);
    }

    /// Others may come to talk here.
    pub fn wait_in(&mut self, file: Host) {
        self.hosts.push(file);
    }

    /// Calls to make when all agents have opened what they open.
    pub fn plan(&mut self, calls: Vec<Call>) {
        let paths = calls.iter().flat_map(|call| [&call.path, &call.file]).filter(|path| !path.is_empty());
        self.others.extend(paths.map(|path| PathBuf::from(OsStr::from_bytes(path))));
        let calling = |call| Calling { call, way: Way::None, reasons: Vec::new() };
        self.calls = calls.into_iter().map(calling).collect();
    }

    /// Makes them.
    pub fn dial(&mut self) {
        self.take_given();
        self.by = Some(Instant::now() + limit());
        for calling in std::mem::take(&mut self.calls) {
            self.try_next(calling);
        }
    }

    /// Who has proved itself and who has not, and why: once, when every call is decided.
    pub fn decided(&mut self) -> Option<Decided> {
        self.by.take_if(|_| self.calls.is_empty())?;
        Some((std::mem::take(&mut self.proved), std::mem::take(&mut self.refused)))
    }

    /// No calls from now on.
    pub fn close(&mut self) {
        self.sockets.clear();
        self.hosts.clear();
        self.guests.clear();
        self.calls.clear();
        self.switch = None;
        self.given.clear();
        self.sweep();
    }

    /// Removes what killed agents may have left: their reapers may have been killed with them.
    pub fn sweep(&mut self) {
        for path in &self.others {
            let _ = std::fs::remove_file(path);
        }
    }

    /// All agents have removed what they had opened.
    pub fn forget_others(&mut self) {
        self.others.clear();
    }

    pub fn register(&self, set: &mut PollSet) {
        self.sockets.iter().for_each(|socket| set.add(&socket.listener, true, false));
        self.guests.register(set);
        if let Some(switch) = &self.switch {
            set.add(switch, true, false);
        }
        for calling in &self.calls {
            match &calling.way {
                Way::None => {}
                Way::Socket(stream, _) => set.add(stream, true, false),
                Way::File(_) => set.until(Instant::now() + by_file::LOOK_EVERY),
            }
        }
        if let Some(by) = self.by {
            set.until(by);
        }
        if self.hosts.iter().any(Host::waits) {
            set.until(Instant::now() + by_file::LOOK_EVERY);
        }
    }

    /// Does what the loop found possible; the links that have come of it.
    pub fn poll(&mut self, set: &PollSet) -> Vec<(u32, FdLink)> {
        self.poll_guests(set);
        self.look_into_files();
        self.poll_calls(set);
        std::mem::take(&mut self.links)
    }

    fn look_into_files(&mut self) {
        for host in &mut self.hosts {
            if let Err(e) = host.look(self.key, self.node) {
                log!(Warn, "somebody in a file for agents under the same kernel: {e}");
            }
        }
    }

    /// Takes the connections that mpiexec has given: of each two nodes the lower one calls.
    fn take_given(&mut self) {
        let Some(switch) = &self.switch else { return };
        let (mut bytes, mut fds) = ([0; 4], Vec::new());
        loop {
            match sys::fdpass::recv(switch.as_fd(), &mut bytes, &mut fds, false) {
                Ok(4) if fds.len() == 1 => {
                    let (node, stream) = (u32::from_le_bytes(bytes), UnixStream::from(fds.remove(0)));
                    if node > self.node {
                        self.given.insert(node, stream);
                    } else {
                        let _ = self.guests.add(stream, GUESTS_MAX);
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                _ => {
                    self.switch = None;
                    return;
                }
            }
        }
    }

    fn poll_guests(&mut self, set: &PollSet) {
        if self.switch.as_ref().is_some_and(|switch| set.readable(switch)) {
            self.take_given();
        }
        for socket in self.sockets.iter().filter(|socket| set.readable(&socket.listener)) {
            while let Ok((stream, _)) = socket.listener.accept() {
                let _ = self.guests.add(stream, GUESTS_MAX);
            }
        }
        for (stream, outcome) in self.guests.poll(set, |node| meet::key_of(self.key, self.node, node)) {
            match outcome {
                Ok(met) if (&stream).write_all(&met.last).is_ok() => {
                    self.links.push((met.node, FdLink::new(stream.into()).sealed(met.seals)));
                }
                Ok(_) => {}
                Err(Dropped { why, .. }) if why.kind() == ErrorKind::PermissionDenied => {
                    log!(Warn, "dropped a caller at the socket for agents under the same kernel: {why}");
                }
                Err(Dropped { why, .. }) => {
                    log!(Info, "a caller at the socket for agents under the same kernel: {why}");
                }
            }
        }
    }

    fn poll_calls(&mut self, set: &PollSet) {
        for mut calling in std::mem::take(&mut self.calls) {
            let node = calling.call.node;
            let met = match &mut calling.way {
                Way::Socket(stream, handshake) if set.readable(&*stream) => {
                    let key_of = |me| meet::key_of(self.key, me, node);
                    handshake::drive(&*stream, &*stream, handshake, key_of).map(|met| met.map(|met| Some(met.seals)))
                }
                // Those that meet in a file have no link.
                Way::File(visitor) => visitor.look(self.key).map(|met| met.then_some(None)),
                Way::None | Way::Socket(..) => Ok(None),
            };
            match met {
                Ok(Some(seals)) => {
                    self.proved.push(node);
                    if let (Way::Socket(stream, _), Some(seals)) = (calling.way, seals) {
                        self.links.push((node, FdLink::new(stream.into()).sealed(seals)));
                    }
                }
                Ok(None) => self.calls.push(calling),
                Err(e) => {
                    calling.reasons.push(e.to_string());
                    self.try_next(calling);
                }
            }
        }
        if self.by.is_some_and(|by| Instant::now() >= by) {
            for calling in std::mem::take(&mut self.calls) {
                let why = format!("no answer within {} ms (FERRULE_LOCALITY_TIMEOUT)", LOCALITY_TIMEOUT.value());
                self.refused.push((calling.call.node, why));
            }
        }
    }

    /// Calls at the next of the sockets that are left to try.
    fn try_next(&mut self, mut calling: Calling) {
        let node = calling.call.node;
        loop {
            let name = std::mem::take(&mut calling.call.name);
            let (what, stream) = if !name.is_empty() {
                ("other network namespace, or abstract sockets are not allowed", meet::call_name(&name))
            } else if std::mem::take(&mut calling.call.given) {
                ("the inherited socket", self.given.remove(&node).ok_or_else(|| ErrorKind::NotConnected.into()))
            } else {
                let path = std::mem::take(&mut calling.call.path);
                if path.is_empty() {
                    return self.visit(calling);
                }
                ("no way through the shared directory", meet::call_path(&path))
            };
            match stream.and_then(|stream| stream.set_nonblocking(true).map(|()| stream)) {
                Ok(stream) => {
                    calling.way = Way::Socket(stream, Handshake::of_child(self.node, sys::process::random()));
                    return self.calls.push(calling);
                }
                Err(e) => calling.reasons.push(format!("{what}: {e}")),
            }
        }
    }

    /// No socket leads there: talks in a file, if there is one.
    fn visit(&mut self, mut calling: Calling) {
        let node = calling.call.node;
        let path = std::mem::take(&mut calling.call.file);
        if !path.is_empty() {
            match Visitor::new(self.node, node, Path::new(OsStr::from_bytes(&path))) {
                Ok(visitor) => {
                    calling.way = Way::File(visitor);
                    return self.calls.push(calling);
                }
                Err(e) => calling.reasons.push(format!("no file in a directory of both: {e}")),
            }
        }
        self.refused.push((node, calling.reasons.join("; ")));
    }
}

/// How long a call may take.
fn limit() -> Duration {
    Duration::from_millis(LOCALITY_TIMEOUT.value())
}
