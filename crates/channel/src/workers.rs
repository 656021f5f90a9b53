//! Connections between workers of different nodes (`mpiexec --offload`, decision 0055): whole packets in private memory, over the same TCP links as between ranks.
//!
//! A worker has a number as a rank has, and a key that ranks don't know. A worker that takes another one's place has a number of its own, so that nothing of the
//! one before it is taken for its own. Links go on over broken connections; they are lost with their peer.

use crate::bootstrap::JobInfo;
use crate::buffer::{RecvBuf, SendBuf};
use crate::tcp::hello::{Identity, Ids};
use crate::tcp::security::Security;
use crate::tcp::{self, Net, NetEvent, NetPacket};
use base::ids::{JobId, ProcId};
use base::{Peer, WorldRank, log};
use protocol::kind::{BODY_MAX, Kind, Part};
use protocol::lanes::LanePlan;
pub use protocol::processes::WorkerId;
use protocol::processes::{Processes, SharedProcesses, Workers};
use protocol::transport::Outcome;
use protocol::wire::Header;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use sys::epoll::Epoll;

/// Bytes of a packet behind its header and body, at most: so many are copied at once.
const PAYLOAD_MAX: usize = 64 << 10;

/// What a poll brings.
#[derive(Debug)]
pub enum Arrival {
    /// A packet; its bytes are in [`WorkerNet::contents`] until the next poll.
    Packet(WorkerId, Header),
    /// A worker can't be reached any more.
    Lost(WorkerId, String),
}

/// See the head of this file.
pub struct WorkerNet {
    net: Net,
    workers: Workers,
    processes: SharedProcesses,
    /// The first link with each worker.
    slots: HashMap<Peer, u32>,
    /// Of the last packet.
    bytes: Vec<u8>,
}

impl WorkerNet {
    /// Listens. The worker is the one that `job` describes; `epoll` watches everything from then on.
    pub fn open(job: &JobInfo, epoll: Arc<Epoll>) -> io::Result<WorkerNet> {
        let workers = Workers { nodes: job.node_names.clone(), per_node: job.offload.workers };
        let me = WorkerId {
            node: job.offload.node,
            index: job.offload.index.unwrap_or(0),
            incarnation: job.offload.incarnation,
        };
        let number = workers.number(me).ok_or(io::Error::other("too many workers have ended"))?;
        let security = Security::configured().map_err(io::Error::other)?;
        LanePlan::configured().map_err(io::Error::other)?;
        let me = ProcId { job: JobId(job.job_id), rank: WorldRank(number) };
        let processes = Processes::of_workers(me, workers.clone());
        let id = Identity {
            processes: processes.clone(),
            key: job.key,
            format: tcp::format_number(),
            security,
            ids: Ids::default(),
            others: HashMap::new(),
        };
        let one_host = job.local_ranks.len() == job.size as usize;
        let net = Net::open(id, epoll, one_host)?;
        Ok(WorkerNet { net, workers, processes, slots: HashMap::new(), bytes: Vec::new() })
    }

    /// Where other workers can dial this one.
    pub fn addresses(&self) -> &[SocketAddr] {
        self.net.addresses()
    }

    /// Bytes of a packet's payload, at most.
    pub fn payload_max(&self) -> usize {
        self.net.limits().eager_max.min(PAYLOAD_MAX + BODY_MAX) - BODY_MAX
    }

    fn peer(&self, worker: WorkerId) -> Option<Peer> {
        self.processes.borrow().peer_of_rank(WorldRank(self.workers.number(worker)?))
    }

    fn worker(&self, peer: Peer) -> WorkerId {
        // All its peers are of its own job.
        self.workers.worker(self.processes.borrow().rank(peer).map_or(0, |rank| rank.0))
    }

    fn slot(&mut self, worker: WorkerId, addresses: &[SocketAddr]) -> Option<u32> {
        let peer = self.peer(worker)?;
        let net = &mut self.net;
        let slot = self.slots.entry(peer).or_insert_with(|| net.dial(peer, addresses)[0]);
        Some(*slot)
    }

    /// Dials a worker, unless there is a link with it.
    pub fn dial(&mut self, worker: WorkerId, addresses: &[SocketAddr]) {
        self.slot(worker, addresses);
    }

    /// Sends a packet to a worker that has been dialled, or has called. `Again` while there is no room or no connection.
    pub fn send(&mut self, worker: WorkerId, header: &Header, body: &[u8], payload: &[u8]) -> Outcome {
        let Some(slot) = self.slot(worker, &[]) else { return Outcome::Lost };
        // SAFETY: packets of these kinds are copied, so the source is not in use any more when `send` returns.
        let source = unsafe { SendBuf::contiguous(payload.as_ptr(), payload.len()) };
        self.net.send(slot, header, body, Some((&source, 0, payload.len())))
    }

    /// Gives a worker up whose place another one has taken.
    pub fn forget(&mut self, worker: WorkerId) {
        if let Some(peer) = self.peer(worker) {
            self.slots.remove(&peer);
            self.net.peer_gone(peer);
        }
    }

    /// The next arrival.
    pub fn poll(&mut self) -> Option<Arrival> {
        loop {
            match self.net.poll()? {
                NetEvent::Packet(packet) => {
                    let worker = self.worker(packet.peer);
                    let taken = self.take(&packet);
                    self.net.release(&packet);
                    if taken {
                        return Some(Arrival::Packet(worker, packet.header));
                    }
                }
                NetEvent::Lost(peer, why) => return Some(Arrival::Lost(self.worker(peer), why)),
                NetEvent::Landed { .. } | NetEvent::Gathered { .. } | NetEvent::Sent(_) => {}
            }
        }
    }

    /// Copies a packet out of its connection. False if it isn't one of workers.
    fn take(&mut self, packet: &NetPacket) -> bool {
        let (kind, len) = (packet.header.kind, packet.len);
        let is_whole = len == kind.info().body || len > kind.info().body && kind == Kind::WORKER_DATA;
        if kind.info().part != Part::Workers || !is_whole {
            log!(Error, "a worker has sent a packet that it should not: {kind:?}, {len} bytes");
            return false;
        }
        self.bytes.resize(len, 0);
        // SAFETY: the vector has these bytes, and nobody else uses them before `deliver` returns.
        let sink = unsafe { RecvBuf::contiguous(self.bytes.as_mut_ptr(), len) };
        self.net.deliver(packet, 0, (&sink, 0, len), false);
        true
    }

    /// Body and payload of the last packet, whose header this is.
    pub fn contents(&self, header: &Header) -> (&[u8], &[u8]) {
        self.bytes.split_at(header.kind.info().body)
    }

    /// Prepares to sleep on the epoll set; poll until nothing comes before sleeping.
    pub fn arm(&mut self) {
        self.net.arm();
    }

    /// Awake again.
    pub fn disarm(&mut self) {
        self.net.disarm();
    }

    /// Whether there is something to do that epoll doesn't know of; `Some` of the longest sleep otherwise.
    pub fn may_sleep(&self) -> Option<Option<Duration>> {
        // What waits for room is watched by epoll after `arm`.
        (!self.net.has_unread()).then(|| self.net.sleep_limit())
    }
}
