//! Messages about agents under the same kernel: with the head process, and over the links between agents.

use super::by_file::Host;
use super::inboxes::Inboxes;
use super::meet::CallSocket;
use super::regions::Regions;
use super::{Agent, LinkEvent, hints};
use crate::agent::start::job_info;
use crate::pollset::PollSet;
use base::{hex, log};
use protocol::control::near::{self, Call, Groups, SameKernel, Spot};
use protocol::control::tree::{JobSpec, Message, ROOT};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

impl Agent {
    /// Tells the head process where this agent is. In a job that looks for agents under the same kernel, ranks wait for the answer.
    pub(in crate::agent) fn send_hints(&mut self, job: &JobSpec) {
        let name = format!("ferrule-{}", hex::encode(&sys::process::random::<16>())).into_bytes();
        let call_socket = if hints::mode(job) == protocol::control::near::Mode::Alone {
            None
        } else {
            CallSocket::abstract_socket(&name).ok()
        };
        let mut hints = hints::of_this_agent(job, &name, call_socket.is_some(), self.near.calls.has_switch());
        self.near.regions = Regions::find(job);
        hints.regions = self.near.regions.hints();
        call_socket.into_iter().for_each(|socket| self.near.calls.open(socket));
        self.send_up(ROOT, Message::Hints { node: self.node, hints });
    }

    pub(in crate::agent) fn on_meet(&mut self, calls: Vec<Call>, listen: Vec<Vec<u8>>, files: Vec<Vec<u8>>) {
        let ours = self.job.as_ref().and_then(|job| hints::job_directory(job));
        for path in &listen {
            let path = Path::new(OsStr::from_bytes(path));
            self.near.leftovers.note(path);
            match CallSocket::at_path(path, path.parent() == ours.as_deref()) {
                Ok(socket) => self.near.calls.open(socket),
                Err(e) => {
                    log!(Info, "cannot open a socket for agents under the same kernel at {}: {e}", path.display())
                }
            }
        }
        for path in &files {
            let path = Path::new(OsStr::from_bytes(path));
            self.near.leftovers.note(path);
            match Host::new(path) {
                Ok(host) => self.near.calls.wait_in(host),
                Err(e) => log!(Info, "cannot make a file for agents under the same kernel at {}: {e}", path.display()),
            }
        }
        self.near.calls.plan(calls);
        if !listen.is_empty() || !files.is_empty() {
            self.send_up(ROOT, Message::Listening { node: self.node });
        }
    }

    pub(in crate::agent) fn on_dial(&mut self) {
        self.near.calls.dial();
        self.report_calls();
    }

    /// Reports when every call is decided.
    fn report_calls(&mut self) {
        if let Some((proved, refused)) = self.near.calls.decided() {
            self.send_up(ROOT, Message::Met { node: self.node, proved, refused });
        }
    }

    pub(in crate::agent) fn on_apart(&mut self, reasons: Vec<(u32, String)>) {
        self.near.far.extend(reasons);
    }

    pub(in crate::agent) fn on_look(&mut self, spots: &[Spot]) {
        let seen = self.near.regions.look(spots);
        self.send_up(ROOT, Message::Seen { node: self.node, seen });
    }

    /// The result: ranks learn their job.
    pub(in crate::agent) fn on_kernels(&mut self, groups: Groups) {
        self.near.calls.close();
        self.near.calls.forget_others();
        let Some(job) = &self.job else { return };
        let nodes = job.hosts.len();
        let parents = &groups.parents;
        let sound = parents.len() == nodes && parents.iter().all(|p| (*p as usize) < nodes);
        self.near.parents = if sound { parents.clone() } else { (0..nodes as u32).collect() };
        let kernel = |node: u32| near::kernel_of(&self.near.parents, node);
        let mine = kernel(self.node);
        let node_peers: Vec<u32> =
            (0..job.ranks.len()).filter(|r| kernel(job.ranks[*r].node) == mine).map(|r| r as u32).collect();
        let all: Vec<u32> = (0..nodes as u32).map(kernel).collect();
        let own: Vec<u32> = self.ranks.iter().map(|rank| rank.world).collect();
        let parts = self.near.regions.settle((job, self.node), &groups, &own);
        if let Some(directory) = groups.files.get(self.node as usize) {
            self.near.inboxes = Inboxes::new(directory, job.job_id, &own, &node_peers);
            self.near.inboxes.note(&mut self.near.leftovers);
        }
        let peers = node_peers.len();
        let mut told = job_info(job, node_peers);
        (told.kernel_of, told.host_of) = (all, groups.hosts);
        told.offload.spare_cpus = self.spare_cpus;
        if let Some(cpus) = groups.cpus.get(self.node as usize) {
            told.node_cpus = *cpus;
            if peers > own.len() {
                // Of the ranks of other agents only the number is known.
                told.offload.spare_cpus = cpus.saturating_sub(peers as u32);
            }
        }
        let told = Rc::new(told);
        for (rank, part) in self.ranks.iter_mut().zip(parts).filter(|(rank, _)| !rank.is_introduced()) {
            rank.own.region = part;
            rank.own.inbox_file = self.near.inboxes.path_of(rank.world);
            rank.introduce(told.clone());
        }
        self.check_links(nodes as u32);
    }

    /// Only the links of the tree stay; one that is missing already is news for the others.
    fn check_links(&mut self, nodes: u32) {
        let unused: Vec<u32> = self.near.links.keys().copied().filter(|n| self.near.edge_to(*n).is_none()).collect();
        for node in unused {
            self.near.links.remove(&node);
        }
        for node in 0..nodes {
            if !self.near.links.contains_key(&node) {
                self.on_same_kernel_lost(node);
            }
        }
    }

    pub(in crate::agent) fn poll_same_kernel(&mut self, set: &PollSet) {
        if let Err(why) = self.near.regions.heartbeat() {
            self.send_up(ROOT, Message::NodeLost { node: self.node, why });
        }
        let links = self.near.calls.poll(set);
        self.near.links.extend(links);
        self.report_calls();
        for event in self.near.poll_links(set) {
            match event {
                LinkEvent::Message(from, message, fds) => self.on_same_kernel_message(from, *message, fds),
                LinkEvent::End(node) => self.on_same_kernel_lost(node),
            }
        }
    }

    fn on_same_kernel_message(&mut self, from: u32, message: SameKernel, fds: Vec<OwnedFd>) {
        let fds: Vec<_> = fds.into_iter().map(Rc::new).collect();
        match &message {
            SameKernel::Want { peer, generation, from } => match self.node_of(*peer) {
                Some(home) if home == self.node => self.on_same_kernel_want(*peer, *from, *generation),
                // If there is no way on, the node that asks learns of the cut, and asks again.
                Some(home) => _ = self.near.send(home, &message, fds),
                None => {}
            },
            SameKernel::Have { to, .. } if *to != self.node => _ = self.near.send(*to, &message, fds),
            SameKernel::Have { peer, generation, address, why, .. } => {
                self.on_same_kernel_have(*peer, *generation, address.clone(), fds, why);
            }
            SameKernel::Cut { node } => {
                self.near.broadcast(&message, from);
                self.on_cut(*node);
            }
        }
    }

    /// A link is gone: questions that would take it take the tree, without descriptors.
    fn on_same_kernel_lost(&mut self, node: u32) {
        self.near.links.remove(&node);
        if let Some(child) = self.near.edge_to(node) {
            self.near.broadcast(&SameKernel::Cut { node: child }, self.node);
            self.on_cut(child);
        }
    }

    fn on_cut(&mut self, child: u32) {
        if self.near.cut.insert(child) {
            self.ask_again();
        }
    }
}
