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
mod calls;
pub mod hints;
mod inboxes;
mod meet;
pub(crate) mod regions;
mod talk;

use super::Agent;
use super::fdlink::FdLink;
use crate::leftovers::Leftovers;
use crate::pollset::PollSet;
use base::log;
use calls::Calls;
use inboxes::Inboxes;
use protocol::control::handshake::Key;
use protocol::control::near::{self, SameKernel};
use regions::Regions;
use std::collections::{BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;

/// What an agent knows of the agents under the same kernel.
pub struct Near {
    node: u32,
    pub(super) calls: Calls,
    links: HashMap<u32, FdLink>,
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
            node,
            calls: Calls::new(key, node, switch),
            inboxes: Inboxes::default(),
            regions: Regions::default(),
            links: HashMap::new(),
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
        self.calls.register(set);
        if self.knows_the_trees() {
            self.links.values().for_each(|link| link.register(set));
        }
        if let Some(by) = self.regions.next_heartbeat() {
            set.until(by);
        }
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
    use std::time::{Duration, Instant};

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
