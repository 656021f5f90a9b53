//! Finds out how a peer is reached: its endpoint address, from what an exchange has told or from the node agent, and what the agent tells
//! of the others.
//!
//! The agent names processes by their ranks; here they become endpoints.

use crate::bootstrap::{EndpointAddress, Event, JobInfo, SharedBootstrap};
use crate::why::Why;
use base::{ContextId, Peer, Result, WorldRank, ensure, log};
use protocol::control::epoch::{Done, Order};
use protocol::control::exchange::Entry;
use protocol::control::spawn::{Answer, Request};
use protocol::processes::SharedProcesses;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use sys::epoll::{Epoll, Interest};

/// How a peer can be reached, or that it can't be.
#[derive(Debug)]
pub enum Found {
    /// Its endpoint address, descriptors of what it shares if it is near, and why it is not taken to be near.
    Address(Peer, Box<EndpointAddress>, Vec<OwnedFd>, String),
    /// It is dead. What it had sent may still be on its way.
    Gone(Peer),
    /// A step of a migration epoch.
    Epoch(Order),
    /// The communicator of this context is revoked.
    Revoked(ContextId),
}

/// See the head of this file.
pub struct Finder {
    job: Rc<JobInfo>,
    bootstrap: SharedBootstrap,
    processes: SharedProcesses,
    /// Peers whose addresses the agent has been asked for.
    awaited: HashSet<Peer>,
    /// What an exchange has told of the others, by rank; empty if addresses are asked for on first use.
    directory: Vec<Option<Box<EndpointAddress>>>,
    /// Where processes of other jobs are.
    others: HashMap<Peer, Box<EndpointAddress>>,
    /// Requests to mpiexec that have been made.
    requests: u64,
    /// Answers that nobody has taken, by request.
    answers: HashMap<u64, Answer>,
    /// What this process has registered.
    own: Option<Box<EndpointAddress>>,
    /// Which channel a peer has got, and why not another one.
    reasons: HashMap<Peer, Why>,
    agent_lost: bool,
}

impl Finder {
    /// Nothing is known yet.
    pub fn new(job: Rc<JobInfo>, bootstrap: SharedBootstrap) -> Finder {
        let processes = bootstrap.borrow().processes().clone();
        Finder {
            job,
            bootstrap,
            processes,
            awaited: HashSet::new(),
            directory: Vec::new(),
            others: HashMap::new(),
            requests: 0,
            answers: HashMap::new(),
            own: None,
            reasons: HashMap::new(),
            agent_lost: false,
        }
    }

    /// The epoll set tells when the agent has something to say.
    pub fn watch(&self, epoll: &Epoll, token: u64) -> std::io::Result<()> {
        self.bootstrap.borrow().fd().map_or(Ok(()), |fd| epoll.add(fd, token, Interest::READ))
    }

    /// Registers this process's endpoint address, and the descriptors that belong to it, with the agent.
    pub fn register(&mut self, address: EndpointAddress, fds: Vec<OwnedFd>) -> Result {
        let mut bootstrap = self.bootstrap.borrow_mut();
        bootstrap.count_as_exchange(true);
        bootstrap.register(&address, fds)?;
        self.own = Some(Box::new(address));
        Ok(())
    }

    /// What this process has registered; none in a job of one rank.
    pub fn own_address(&self) -> Option<&EndpointAddress> {
        self.own.as_deref()
    }

    /// The name of this process's inbox, if it is in a file.
    pub fn inbox_file(&self) -> &str {
        self.own.as_ref().map_or("", |own| &own.inbox_file)
    }

    /// Notes what an exchange has told.
    pub fn learn(&mut self, entries: Vec<Entry>) -> Result {
        let size = self.job.size;
        let possible = entries.iter().all(|e| e.peer.0 < size);
        ensure!(possible, ERR_OTHER, "an exchange of endpoints names an impossible rank");
        if !entries.is_empty() {
            self.directory.resize(size as usize, None);
        }
        for entry in entries {
            self.directory[entry.peer.0 as usize] = Some(Box::new(entry.address));
        }
        Ok(())
    }

    /// Notes where a process of another job is.
    pub fn learn_of_other_job(&mut self, peer: Peer, address: EndpointAddress) {
        self.others.insert(peer, Box::new(address));
    }

    /// The address of a peer that was in the exchange, or of one of another job.
    pub fn known(&self, peer: Peer) -> Option<Box<EndpointAddress>> {
        let Some(rank) = self.processes.borrow().rank(peer) else { return self.others.get(&peer).cloned() };
        self.directory.get(rank.0 as usize).cloned().flatten()
    }

    /// Asks the agent for the address of `peer`: [`Finder::poll`] tells it. False if nobody can be asked.
    pub fn ask(&mut self, peer: Peer) -> bool {
        let Some(rank) = self.processes.borrow().rank(peer) else { return false };
        let asked = self.bootstrap.borrow_mut().request_address(rank).is_ok();
        if asked {
            self.awaited.insert(peer);
        }
        asked
    }

    /// Asks something of mpiexec; the number of the request. An error if there is no mpiexec.
    pub fn ask_mpiexec(&mut self, request: Request) -> Result<u64> {
        self.requests += 1;
        self.bootstrap.borrow_mut().ask(self.requests, request)?;
        Ok(self.requests)
    }

    /// The answer to a request, once it is there.
    pub fn take_answer(&mut self, number: u64) -> Result<Option<Answer>> {
        ensure!(!self.agent_lost, ERR_OTHER, "the node agent is gone");
        Ok(self.answers.remove(&number))
    }

    /// Whether an address is awaited.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Whether the node agent is gone.
    pub fn agent_is_lost(&self) -> bool {
        self.agent_lost
    }

    /// What the agent tells next.
    pub fn poll(&mut self) -> Option<Found> {
        while !self.agent_lost {
            let told = self.bootstrap.borrow_mut().poll();
            match told {
                Ok(None) => return None,
                Ok(Some(Event::Address { peer: rank, address, fds, far })) => {
                    if let Some(peer) = self.peer(rank).filter(|peer| self.awaited.remove(peer)) {
                        return Some(Found::Address(peer, Box::new(address), fds, far));
                    }
                }
                Ok(Some(Event::PeerGone { peer: rank, host, why })) => {
                    if let Some(peer) = self.peer(rank) {
                        log!(Warn, "{rank} on {host} is gone: {why}");
                        self.awaited.remove(&peer);
                        return Some(Found::Gone(peer));
                    }
                }
                Ok(Some(Event::Answer { number, answer })) => drop(self.answers.insert(number, answer)),
                Ok(Some(Event::Epoch(order))) => return Some(Found::Epoch(order)),
                Ok(Some(Event::Revoked(context))) => return Some(Found::Revoked(context)),
                Ok(Some(Event::Dump)) => self.bootstrap.borrow_mut().ask_for_report(),
                Ok(Some(Event::Served | Event::WorkerAt { .. })) => {}
                Err(error) => {
                    log!(Error, "no word from the node agent any more: {}", error.origin);
                    self.agent_lost = true;
                }
            }
        }
        None
    }

    /// Answers [`Found::Epoch`]. An agent that can't be told is gone, which is noticed elsewhere.
    pub fn tell_epoch(&mut self, done: Done) {
        let _ = self.bootstrap.borrow_mut().tell_epoch(done);
    }

    /// From now on this process listens there, and has no part in memory that other kernels share.
    pub fn move_to(&mut self, addresses: Vec<SocketAddr>) -> Result {
        let Some(own) = &mut self.own else { return Ok(()) };
        (own.tcp, own.region_part) = (addresses, (0, 0));
        self.bootstrap.borrow_mut().tell_address(own)
    }

    /// What an exchange has told of this peer is out of date.
    pub fn forget_address(&mut self, peer: Peer) {
        let rank = self.processes.borrow().rank(peer);
        if let Some(known) = rank.and_then(|rank| self.directory.get_mut(rank.0 as usize)) {
            *known = None;
        }
    }

    fn peer(&self, rank: WorldRank) -> Option<Peer> {
        self.processes.borrow().peer_of_rank(rank)
    }

    /// Notes which channel a peer has got, and why not another one.
    pub fn note_reasons(&mut self, peer: Peer, why: Why) {
        self.reasons.insert(peer, why);
    }

    /// What was noted of a peer.
    pub fn reasons(&self, peer: Peer) -> Why {
        self.reasons.get(&peer).cloned().unwrap_or_default()
    }
}
