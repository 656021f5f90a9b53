//! Endpoint addresses on demand: open requests, and answers to them.
//!
//! For a rank of this node the agent answers with what the rank registered, and its descriptors. For a rank of another node it asks
//! once, whatever the number of ranks that wait. Over the direct link, if that node shares this kernel, the answer comes with descriptors and isn't kept;
//! through the tree it comes without, and is kept. An endpoint address belongs to one *generation* of its rank: the number of MPI
//! programs that the asking rank has finalized before, so that a second program never gets the first one's.

use super::Agent;
use crate::link::packet;
use base::WorldRank;
use protocol::control::near::SameKernel;
use protocol::control::tree::Message;
use protocol::control::{EndpointAddress, ToRank};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// A rank's program.
type Program = (WorldRank, u32);

/// An endpoint address and the descriptors of its rank.
type Left = (EndpointAddress, Vec<Rc<OwnedFd>>);

/// Another agent that waits for an endpoint address.
#[derive(Clone, Copy)]
enum Asker {
    /// It has asked through the tree.
    Far(u32),
    /// It has asked over the direct link.
    Near(u32),
}

/// Requests that wait and endpoint addresses of other nodes.
#[derive(Default)]
pub struct Addresses {
    /// World ranks of this node that wait for an endpoint address.
    waiting: HashMap<Program, Vec<u32>>,
    /// Nodes that wait for the endpoint address of a rank of this node.
    remote: HashMap<Program, Vec<Asker>>,
    /// Endpoint addresses of other nodes, without descriptors.
    known: HashMap<Program, EndpointAddress>,
}

impl Addresses {
    /// Notes the endpoint addresses of other nodes that an exchange has brought for one program; those of programs long gone are dropped.
    pub fn learn(&mut self, generation: u32, addresses: Vec<(WorldRank, EndpointAddress)>) {
        self.known.retain(|(_, known), _| known.saturating_add(1) >= generation);
        self.known.extend(addresses.into_iter().map(|(peer, address)| ((peer, generation), address)));
    }

    /// Drops what is known of a rank's finished program, as far as nobody can need it any more.
    pub fn forget(&mut self, peer: WorldRank) {
        self.known.retain(|(p, _), _| *p != peer);
    }
}

impl Agent {
    fn local(&self, world: u32) -> Option<usize> {
        self.ranks.iter().position(|r| r.world == world)
    }

    /// A rank of this node wants an endpoint address.
    pub(super) fn on_request(&mut self, at: usize, peer: WorldRank) {
        let (asker, generation) = (self.ranks[at].world, self.ranks[at].generation);
        let Some(home) = self.node_of(peer) else { return };
        if let Some(address) = self.addresses.known.get(&(peer, generation)).cloned() {
            let far = self.near.far(home);
            self.ranks[at].send(&ToRank::Address { peer, address: Box::new(address), fd_count: 0, far }, Vec::new());
            return;
        }
        let waiting = self.addresses.waiting.entry((peer, generation)).or_default();
        waiting.push(asker);
        let first = waiting.len() == 1;
        if home == self.node {
            self.answer(peer, generation);
        } else if first {
            self.ask(home, peer, generation);
        }
    }

    fn ask(&mut self, home: u32, peer: WorldRank, generation: u32) {
        if !self.near.send(home, &SameKernel::Want { peer, generation, from: self.node }, Vec::new()) {
            let message = Message::Want { peer, from: self.node, generation };
            self.send_up_or_down(home, message);
        }
    }

    /// A direct link has broken: what was asked there is asked through the tree.
    pub(super) fn ask_again(&mut self) {
        for (peer, generation) in self.addresses.waiting.keys().copied().collect::<Vec<_>>() {
            if let Some(home) = self.node_of(peer).filter(|home| self.near.is_cut_off(*home)) {
                self.ask(home, peer, generation);
            }
        }
    }

    /// Another node wants the endpoint address of a rank of this node.
    pub(super) fn on_want(&mut self, peer: WorldRank, from: u32, generation: u32) {
        self.addresses.remote.entry((peer, generation)).or_default().push(Asker::Far(from));
        self.answer(peer, generation);
    }

    /// The same, over a direct link.
    pub(super) fn on_same_kernel_want(&mut self, peer: WorldRank, from: u32, generation: u32) {
        if self.local(peer.0).is_some() {
            self.addresses.remote.entry((peer, generation)).or_default().push(Asker::Near(from));
            self.answer(peer, generation);
        }
    }

    /// A rank of this node has registered.
    pub(super) fn on_address(&mut self, at: usize) {
        let (peer, generation) = (WorldRank(self.ranks[at].world), self.ranks[at].generation);
        self.answer(peer, generation);
    }

    /// Answers everybody who waits for the endpoint address of a local rank, if it is there or will never be.
    fn answer(&mut self, peer: WorldRank, generation: u32) {
        let Some(at) = self.local(peer.0) else { return };
        let rank = &self.ranks[at];
        if let Some(how) = rank.ended {
            let why = self.death_words(at, how);
            return self.answer_with(peer, generation, None, &why);
        }
        if rank.generation > generation {
            let why = format!("rank {} has already called MPI_Finalize", peer.0);
            return self.answer_with(peer, generation, None, &why);
        }
        if rank.generation == generation
            && let Some((address, fds)) = rank.address.clone()
        {
            self.answer_with(peer, generation, Some((address, fds)), "");
        }
    }

    fn answer_with(&mut self, peer: WorldRank, generation: u32, address: Option<Left>, why: &str) {
        let (fds, address) = match address {
            Some((address, fds)) => (fds, Some(address)),
            None => (Vec::new(), None),
        };
        for asker in self.addresses.remote.remove(&(peer, generation)).unwrap_or_default() {
            let (address, why) = (address.clone(), why.to_string());
            match asker {
                Asker::Far(node) => self.send_up_or_down(node, Message::Have { peer, generation, address, why }),
                Asker::Near(node) => {
                    let fd_count = fds.len() as u8;
                    // Should the link be broken, the other side asks again.
                    self.near.send(
                        node,
                        &SameKernel::Have { to: node, peer, generation, address, why, fd_count },
                        fds.clone(),
                    );
                }
            }
        }
        self.tell_waiting(peer, generation, address, fds, why);
    }

    fn tell_waiting(
        &mut self,
        peer: WorldRank,
        generation: u32,
        address: Option<EndpointAddress>,
        fds: Vec<Rc<OwnedFd>>,
        why: &str,
    ) {
        let host = self.host_of(peer);
        let far = self.node_of(peer).map_or(String::new(), |node| self.near.far(node));
        for world in self.addresses.waiting.remove(&(peer, generation)).unwrap_or_default() {
            let Some(at) = self.local(world) else { continue };
            let message = match &address {
                Some(address) => ToRank::Address {
                    peer,
                    address: Box::new(address.clone()),
                    fd_count: fds.len() as u8,
                    far: far.clone(),
                },
                None => ToRank::PeerGone { peer, host: host.clone(), why: why.into() },
            };
            self.ranks[at].send(&message, fds.clone());
        }
    }

    /// The answer from another node.
    pub(super) fn on_have(&mut self, peer: WorldRank, generation: u32, address: Option<EndpointAddress>, why: &str) {
        if let Some(address) = &address {
            self.addresses.known.insert((peer, generation), address.clone());
        }
        self.tell_waiting(peer, generation, address, Vec::new(), why);
    }

    /// The answer over a direct link.
    pub(super) fn on_same_kernel_have(
        &mut self,
        peer: WorldRank,
        generation: u32,
        address: Option<EndpointAddress>,
        fds: Vec<Rc<OwnedFd>>,
        why: &str,
    ) {
        self.tell_waiting(peer, generation, address, fds, why);
    }

    /// A rank of this node has ended: whoever waits for its endpoint address learns that.
    pub(super) fn on_no_address(&mut self, world: u32, why: &str) {
        let peer = WorldRank(world);
        let programs = self.addresses.waiting.keys().chain(self.addresses.remote.keys());
        let mut generations: Vec<u32> = programs.filter(|p| p.0 == peer).map(|p| p.1).collect();
        generations.dedup();
        for generation in generations {
            self.answer_with(peer, generation, None, why);
        }
    }

    /// A rank somewhere is dead and the job goes on.
    pub(super) fn on_peer_gone(&mut self, peer: WorldRank, why: &str) {
        let host = self.host_of(peer);
        for rank in self.ranks.iter_mut().filter(|r| r.ended.is_none() && r.world != peer.0) {
            let message = ToRank::PeerGone { peer, host: host.clone(), why: why.into() };
            rank.send(&message, Vec::new());
        }
        self.tell_workers_of_death(peer);
    }

    pub(super) fn host_of(&self, peer: WorldRank) -> String {
        let node = self.node_of(peer).unwrap_or(0) as usize;
        self.job.as_ref().and_then(|j| j.hosts.get(node)).cloned().unwrap_or_default()
    }

    pub(super) fn node_of(&self, peer: WorldRank) -> Option<u32> {
        self.job.as_ref()?.ranks.get(peer.0 as usize).map(|r| r.node)
    }

    pub(super) fn send_up_or_down(&mut self, node: u32, message: Message) {
        let frame = packet(node, message);
        self.forward(node, &frame);
    }
}
