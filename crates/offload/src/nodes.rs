//! The workers of other nodes: links with them, and the messages that go over these (decision 0055).
//!
//! A worker has to do with those of its own index only. Where they are its agent tells, when the first message is for their node and whenever another worker takes
//! their place. Whoever has something to send dials.

use crate::messages::{Begun, Ends, Messages, Slot};
use crate::packet::Packet;
use crate::state::State;
use base::{Class, Error, Result, log};
use channel::bootstrap::{Bootstrap, EndpointAddress, JobInfo};
use channel::locality;
use channel::workers::{Arrival, WorkerId, WorkerNet};

use mpi::coll::portable::remote::{Far, Progress, Route, RunId, Runner};
use mpi::coll::portable::{Identity, Portable};
use protocol::transport::Outcome;
use shm::offload::{Received, Request};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use sys::epoll::Epoll;

/// Packets that are taken between two looks at the ranks.
const ARRIVALS_MAX: usize = 64;

const UNREACHABLE: Error = Error::new(Class::ERR_OTHER, "a worker of another node can't be reached");

/// What is known of the worker of another node.
#[derive(Default)]
struct Known {
    /// None while the agent has not answered.
    incarnation: Option<u32>,
    /// The link with it is lost; the agent was asked who has taken its place.
    is_lost: bool,
}

/// See the head of this file.
pub struct Nodes {
    job: Rc<JobInfo>,
    /// Of this worker, among those of its node.
    index: u32,
    net: WorkerNet,
    known: BTreeMap<u32, Known>,
    messages: Messages<Far>,
}

/// The runs of this worker, as [`Messages`] sees them.
pub struct Interpreter<'a> {
    /// The runs.
    pub runner: &'a mut Runner,
    /// Their memory.
    pub state: &'a mut State,
}

impl Ends for Interpreter<'_> {
    type End = Far;

    fn read(&mut self, far: &Far, offset: u64, into: &mut [u8]) -> Result {
        self.runner.read_far(self.state, far, offset, into)
    }

    fn write(&mut self, far: &Far, offset: u64, from: &[u8]) -> Result {
        self.runner.write_far(self.state, far, offset, from)
    }

    fn end(&mut self, far: &Far, total: u64, outcome: Result) {
        self.runner.end_far(self.state, far, total, outcome);
    }
}

impl Nodes {
    /// Listens, and tells the agent where; none if the job has one node only, or may not use TCP: then ranks keep what leaves their nodes.
    pub fn open(bootstrap: &mut Bootstrap, epoll: &Arc<Epoll>) -> io::Result<Option<Nodes>> {
        let job = Rc::clone(bootstrap.job());
        if job.node_names.len() < 2 || !locality::allowed().tcp {
            return Ok(None);
        }
        let net = WorkerNet::open(&job, Arc::clone(epoll))?;
        let address = EndpointAddress { tcp: net.addresses().to_vec(), ..EndpointAddress::default() };
        bootstrap.register(&address, Vec::new()).map_err(|error| io::Error::other(error.origin))?;
        let messages = Messages::new(job.offload.node);
        let index = job.offload.index.unwrap_or(0);
        Ok(Some(Nodes { job, index, net, known: BTreeMap::new(), messages }))
    }

    fn node_of(&self, process: u64) -> Option<u32> {
        self.job.node_of.get(usize::try_from(process).ok()?).copied()
    }

    fn worker(&self, node: u32, incarnation: u32) -> WorkerId {
        WorkerId { node, index: self.index, incarnation }
    }

    /// A run has begun an end of a message whose other end is on another node.
    pub fn begin(&mut self, far: Far) {
        let peer = if far.sends { far.route.to } else { far.route.from };
        let Some(node) = self.node_of(peer) else { return };
        let begun = Begun { end: far, route: far.route, number: far.number, bytes: far.bytes };
        match far.sends {
            true => self.messages.begin_send(node, begun),
            false => self.messages.begin_receive(node, begun),
        }
    }

    /// What an operation had received before its worker was replaced.
    pub fn restore(&mut self, schedule: &Portable, identity: &Identity, progress: &Progress) {
        for (endpoint, [received, _]) in schedule.endpoints().iter().zip(&progress.messages) {
            if let Some(node) = self.node_of(endpoint.process).filter(|node| *node != self.job.offload.node)
                && *received > 0
            {
                self.messages.restore(node, Route::of(identity, endpoint, false), *received, None);
            }
        }
    }

    /// What an operation had received that has ended.
    pub fn restore_held(&mut self, slot: Slot, request: &Request, received: &[Received]) {
        for Received { process, channel, count } in received {
            let Some((context, tag)) = request.channels.get(usize::from(*channel)).copied() else { continue };
            let route = Route { context, tag: tag as u32 as i32, round: request.round, from: *process, to: slot.0 };
            if let Some(node) = self.node_of(*process) {
                self.messages.restore(node, route, *count, Some(slot));
            }
        }
    }

    /// An operation has ended: which of its endpoints have sent messages of which their workers may not know that they are there. If there are any, the slot is to be held
    /// until [`Nodes::take_released`] says so.
    pub fn hold(&mut self, slot: Slot, schedule: &Portable, identity: &Identity) -> Option<Vec<Option<(u64, u8)>>> {
        let (mut routes, mut senders) = (Vec::new(), Vec::new());
        for endpoint in schedule.endpoints() {
            let route = Route::of(identity, endpoint, false);
            let is_unseen = self.messages.unseen(&route).is_some();
            senders.push(is_unseen.then_some((endpoint.process, endpoint.via as u8)));
            routes.extend(is_unseen.then_some(route));
        }
        self.messages.hold(slot, routes.iter());
        (!routes.is_empty()).then_some(senders)
    }

    /// Slots that need not be held any more.
    pub fn take_released(&mut self) -> Vec<Slot> {
        self.messages.take_released()
    }

    /// A run was given up.
    pub fn forget_run(&mut self, run: RunId) {
        self.messages.forget_ends(|far| far.run() == run);
    }

    /// A rank is gone.
    pub fn forget_rank(&mut self, rank: u64) {
        match self.node_of(rank) {
            Some(node) if node == self.job.offload.node => self.messages.forget_rank(rank),
            _ => self.messages.forget_peer(rank),
        }
    }

    /// The agent says where the worker of a node is. An error if it is one that can't be reached.
    pub fn on_worker_at(&mut self, node: u32, incarnation: u32, tcp: &[SocketAddr]) -> Result {
        if node as usize >= self.job.node_names.len() || node == self.job.offload.node {
            return Ok(());
        }
        self.notice(node, incarnation);
        let known = self.known.entry(node).or_default();
        if known.incarnation == Some(incarnation) {
            if known.is_lost {
                return Err(UNREACHABLE);
            }
            let worker = self.worker(node, incarnation);
            self.net.dial(worker, tcp);
        }
        Ok(())
    }

    /// Somebody says that this worker is the one of the node.
    fn notice(&mut self, node: u32, incarnation: u32) {
        let known = self.known.entry(node).or_default();
        let before = known.incarnation;
        if before.is_some_and(|before| before >= incarnation) {
            return;
        }
        *known = Known { incarnation: Some(incarnation), is_lost: false };
        if let Some(before) = before {
            log!(Info, "worker {} of node {}: another one has taken its place", self.index, self.name(node));
            let gone = self.worker(node, before);
            self.net.forget(gone);
            self.messages.restart(node);
        }
    }

    fn name(&self, node: u32) -> &str {
        self.job.node_names.get(node as usize).map_or("?", String::as_str)
    }

    /// Takes what has arrived, and sends what can be sent. True if anything has arrived.
    pub fn exchange(&mut self, bootstrap: &mut Bootstrap, mut runs: Interpreter<'_>) -> Result<bool> {
        let mut arrivals = 0;
        while arrivals < ARRIVALS_MAX
            && let Some(arrival) = self.net.poll()
        {
            arrivals += 1;
            match arrival {
                Arrival::Packet(worker, header) => {
                    self.notice(worker.node, worker.incarnation);
                    let is_current = self.known[&worker.node].incarnation == Some(worker.incarnation);
                    let (body, payload) = self.net.contents(&header);
                    let packet = Packet::decode(&header, body);
                    match packet.filter(|_| is_current && worker.index == self.index) {
                        Some(packet) => self.messages.on_packet(worker.node, &packet, payload, &mut runs),
                        None => log!(
                            Debug,
                            "a packet of worker {} of node {} is not for this one",
                            worker.index,
                            self.name(worker.node)
                        ),
                    }
                }
                Arrival::Lost(worker, why) => self.on_lost(worker, &why, bootstrap)?,
            }
        }
        self.find(bootstrap)?;
        self.push(&mut runs);
        Ok(arrivals > 0)
    }

    fn on_lost(&mut self, worker: WorkerId, why: &str, bootstrap: &mut Bootstrap) -> Result {
        match self.known.get_mut(&worker.node) {
            Some(known) if known.incarnation == Some(worker.incarnation) => known.is_lost = true,
            _ => return Ok(()),
        }
        log!(Info, "worker {} of node {} is lost: {why}", self.index, self.name(worker.node));
        bootstrap.find_worker(worker.node)
    }

    /// Asks for workers that are not known yet.
    fn find(&mut self, bootstrap: &mut Bootstrap) -> Result {
        for node in self.messages.wanted() {
            if let std::collections::btree_map::Entry::Vacant(entry) = self.known.entry(node) {
                entry.insert(Known::default());
                bootstrap.find_worker(node)?;
            }
        }
        Ok(())
    }

    fn push(&mut self, runs: &mut Interpreter<'_>) {
        let Nodes { index, net, known, messages, .. } = self;
        messages.push(net.payload_max(), runs, |node, packet, bytes| {
            let Some(Known { incarnation: Some(incarnation), is_lost: false }) = known.get(&node) else {
                return Outcome::Again;
            };
            let (header, body) = packet.encode();
            let worker = WorkerId { node, index: *index, incarnation: *incarnation };
            net.send(worker, &header, &body[..header.kind.info().body], bytes)
        });
    }

    /// Prepares to sleep on the epoll set.
    pub fn arm(&mut self) {
        self.net.arm();
    }

    /// Awake again.
    pub fn disarm(&mut self) {
        self.net.disarm();
    }

    /// See [`WorkerNet::may_sleep`].
    pub fn may_sleep(&self) -> Option<Option<Duration>> {
        self.net.may_sleep()
    }
}
