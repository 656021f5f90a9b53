//! Other agents under this kernel. The agent finds them by proof, and asks them directly for endpoint addresses and descriptors of their ranks.
//!
//! ```text
//! Start ─► Hints ─► (Meet ─► sockets open ─► Dial ─► calls) ─► Kernels: sockets gone, ranks learn who is near
//! ```
//! Links to agents under the same kernel carry descriptors. They form a tree of all agents under the kernel, and carry questions and answers
//! between any two of them, hop by hop. All other messages take the tree of the launcher. When a link on the way breaks, questions take that tree, too:
//! ranks that ask from then on get no descriptors and use the network.
//!
//! Invariant: ranks are introduced to their job once, by [`Agent::on_kernels`] or, in a job that doesn't look for agents under the same kernel, when they are
//! started.

pub(crate) mod by_file;
pub mod hints;
mod inboxes;
mod meet;
pub(crate) mod regions;
mod talk;

use super::Agent;
use super::fdlink::FdLink;
use crate::callers::{Callers, Dropped};
use crate::leftovers::Leftovers;
use crate::pollset::PollSet;
use crate::settings::LOCALITY_TIMEOUT;
use base::log;
use by_file::{Host, Visitor};
use channel::handshake;
use inboxes::Inboxes;
use meet::CallSocket;
use protocol::control::handshake::{Handshake, Key};
use protocol::control::near::{self, Call, SameKernel};
use regions::Regions;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
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

/// What an agent knows of the agents under the same kernel.
pub struct Near {
    key: Key,
    node: u32,
    call_sockets: Vec<CallSocket>,
    /// Files in which somebody may come to talk.
    hosts: Vec<Host>,
    guests: Callers<UnixStream>,
    calls: Vec<Calling>,
    /// Sockets of others, which disappear with their owners unless those are killed.
    others: Vec<PathBuf>,
    proved: Vec<u32>,
    refused: Vec<(u32, String)>,
    /// When calls are given up; none before `Dial`.
    call_by: Option<Instant>,
    links: HashMap<u32, FdLink>,
    /// Leads to mpiexec, which sends connections to other agents.
    switch: Option<OwnedFd>,
    /// Connections from there to nodes that are to be called.
    given: HashMap<u32, UnixStream>,
    /// The trees of agents under one kernel.
    parents: Vec<u32>,
    /// Nodes whose link to their parent is gone.
    cut: BTreeSet<u32>,
    /// Why other nodes are not near.
    far: HashMap<u32, String>,
    inboxes: Inboxes,
    regions: Regions,
    leftovers: Leftovers,
}

impl Near {
    /// The process above this agent removes `path`, if this agent can't.
    pub fn note(&mut self, path: &Path) {
        self.leftovers.note(path);
    }

    pub fn new(key: Key, node: u32, leftovers: Leftovers, switch: Option<OwnedFd>) -> Near {
        Near {
            key,
            node,
            call_sockets: Vec::new(),
            hosts: Vec::new(),
            inboxes: Inboxes::default(),
            regions: Regions::default(),
            guests: Callers::new(Duration::from_millis(LOCALITY_TIMEOUT.value())),
            calls: Vec::new(),
            others: Vec::new(),
            proved: Vec::new(),
            refused: Vec::new(),
            call_by: None,
            links: HashMap::new(),
            switch,
            given: HashMap::new(),
            parents: Vec::new(),
            cut: BTreeSet::new(),
            far: HashMap::new(),
            leftovers,
        }
    }

    /// Why `node` is not near; empty if nobody has found a reason.
    pub fn far(&self, node: u32) -> String {
        match self.far.get(&node) {
            Some(why) => why.clone(),
            None if self.inboxes.are_files() => "no descriptors pass between the agents".into(),
            None if self.is_cut_off(node) => "a connection between the node agents of this host broke".into(),
            None => String::new(),
        }
    }

    /// Whether `node` is under this kernel, but no link leads there any more.
    pub fn is_cut_off(&self, node: u32) -> bool {
        let kernel = |node| near::kernel_of(&self.parents, node);
        node != self.node && kernel(node) == kernel(self.node) && self.hop(node).is_none()
    }

    /// Whether `Kernels` has come. Agents that have it already may ask questions that this agent is to pass on: those wait in
    /// their sockets until it knows where to.
    fn knows_the_trees(&self) -> bool {
        !self.parents.is_empty()
    }

    fn hop(&self, to: u32) -> Option<u32> {
        near::next_hop(&self.parents, &self.cut, self.node, to).filter(|hop| self.links.contains_key(hop))
    }

    /// No new agents under the same kernel from now on.
    pub fn close_call_sockets(&mut self) {
        self.call_sockets.clear();
        self.hosts.clear();
        self.guests.clear();
        self.calls.clear();
        self.switch = None;
        self.given.clear();
        self.sweep();
    }

    /// Removes what killed agents under the same kernel may have left: their reapers may have been killed with them.
    pub fn sweep(&mut self) {
        for path in &self.others {
            let _ = std::fs::remove_file(path);
        }
    }

    /// The job is over here: removes what ranks may have left.
    pub fn sweep_inboxes(&mut self) {
        self.regions.give_back();
        self.inboxes.sweep();
    }

    /// Sends towards an agent under this kernel; false if there is no link (any more).
    pub fn send(&mut self, node: u32, message: &SameKernel, fds: Vec<Rc<OwnedFd>>) -> bool {
        let Some(hop) = self.hop(node) else { return false };
        // A broken link shows its end to the loop, which then forgets it.
        self.links.get_mut(&hop).is_some_and(|link| link.send(message, fds).is_ok())
    }

    fn broadcast(&mut self, message: &SameKernel, but: u32) {
        for (_, link) in self.links.iter_mut().filter(|(node, _)| **node != but) {
            let _ = link.send(message, Vec::new());
        }
    }

    /// Whether the trees have a link between this node and `node`; which of the two is the child.
    fn edge_to(&self, node: u32) -> Option<u32> {
        let parent = |of: u32| self.parents.get(of as usize).copied();
        if node == self.node {
            None
        } else if parent(self.node) == Some(node) {
            Some(self.node)
        } else {
            (parent(node) == Some(self.node)).then_some(node)
        }
    }

    pub fn register(&self, set: &mut PollSet) {
        self.call_sockets.iter().for_each(|call_socket| set.add(&call_socket.listener, true, false));
        self.guests.register(set);
        if self.knows_the_trees() {
            self.links.values().for_each(|link| link.register(set));
        }
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
        if let Some(by) = self.regions.next_heartbeat() {
            set.until(by);
        }
        if let Some(by) = self.call_by {
            set.until(by);
        }
        if self.hosts.iter().any(Host::waits) {
            set.until(Instant::now() + by_file::LOOK_EVERY);
        }
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
        for call_socket in self.call_sockets.iter().filter(|call_socket| set.readable(&call_socket.listener)) {
            while let Ok((stream, _)) = call_socket.listener.accept() {
                let _ = self.guests.add(stream, GUESTS_MAX);
            }
        }
        for (stream, outcome) in self.guests.poll(set, |node| meet::key_of(self.key, self.node, node)) {
            match outcome {
                Ok(met) if (&stream).write_all(&met.last).is_ok() => {
                    self.links.insert(met.node, FdLink::new(stream.into()).sealed(met.seals));
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
                        self.links.insert(node, FdLink::new(stream.into()).sealed(seals));
                    }
                }
                Ok(None) => self.calls.push(calling),
                Err(e) => {
                    calling.reasons.push(e.to_string());
                    self.try_next(calling);
                }
            }
        }
        if self.call_by.is_some_and(|by| Instant::now() >= by) {
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
                    calling.way = Way::Socket(stream, Handshake::of_child(self.node, handshake::nonce()));
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

    fn poll_links(&mut self, set: &PollSet) -> Vec<LinkEvent> {
        let mut events = Vec::new();
        if !self.knows_the_trees() {
            return events;
        }
        for (node, link) in self.links.iter_mut().filter(|(_, link)| link.is_ready(set)) {
            let announced = |m: &SameKernel| if let SameKernel::Have { fd_count, .. } = m { *fd_count } else { 0 };
            let flushed = link.flush();
            loop {
                match link.next_message(announced) {
                    Ok(Some((message, fds))) => events.push(LinkEvent::Message(*node, Box::new(message), fds)),
                    Ok(None) if flushed.is_ok() => break,
                    Ok(None) | Err(None) => {
                        events.push(LinkEvent::End(*node));
                        break;
                    }
                    Err(Some(why)) => {
                        log!(Warn, "node {node} broke the protocol on the link between agents under one kernel: {why}");
                        events.push(LinkEvent::End(*node));
                        break;
                    }
                }
            }
        }
        events
    }
}

enum LinkEvent {
    Message(u32, Box<SameKernel>, Vec<OwnedFd>),
    End(u32),
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::WorldRank;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    fn events_of(near: &mut Near) -> usize {
        let mut set = PollSet::default();
        near.register(&mut set);
        set.until(Instant::now() + Duration::from_millis(20));
        set.wait().unwrap();
        near.poll_links(&set).len()
    }

    #[test]
    fn a_question_waits_until_the_way_on_is_known() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let leftovers = Leftovers::over(std::io::stderr().as_fd());
        let mut near = Near::new(Key([1; 16]), 1, leftovers, None);
        near.links.insert(2, FdLink::new(ours.into()));
        let question = SameKernel::Want { peer: WorldRank(0), generation: 0, from: 2 };
        assert!(FdLink::new(theirs.try_clone().unwrap().into()).send(&question, Vec::new()).is_ok());
        assert_eq!(events_of(&mut near), 0, "its sender knows the trees already, this agent doesn't");
        near.parents = vec![0, 0, 1];
        assert_eq!(events_of(&mut near), 1);
    }
}
