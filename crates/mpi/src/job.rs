//! What this process knows of its job: who it is, how many there are, which of them are near.

use crate::cs::Section;
use crate::inside::Inside;
use base::ids::{JobId, ProcId, Proposer};
use base::{ContextId, Peer, Result, WorldRank};
use channel::bootstrap::Bootstrap;
use protocol::processes::{Processes, SharedProcesses};
use protocol::realm::{Realm, Realms};
use std::cell::RefCell;
use std::sync::{OnceLock, PoisonError, RwLock};

/// What stays known of the job.
pub struct Job {
    /// This process.
    me: Peer,
    /// The processes that this one knows.
    processes: SharedProcesses,
    /// Who makes communicators with this process.
    realms: RwLock<Realms>,
    /// Number of processes.
    size: u32,
    /// Name of this node.
    pub host: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Survivors go on when a process dies.
    pub continue_on_failure: bool,
    /// Where the program was started.
    pub working_directory: String,
    /// The port of whoever has spawned the job; empty if nobody has, or a program before this one has connected.
    parent_port: String,
    /// By rank.
    node_of: Vec<u32>,
    /// By node: the lowest one under the same kernel.
    kernel_of: Vec<u32>,
}

static JOB: OnceLock<Job> = OnceLock::new();

/// The connection with the node agent, if somebody wanted to know of the job before `MPI_Init`.
static EARLY: Inside<RefCell<Option<Bootstrap>>> = Inside::new(RefCell::new(None));

/// The job, once MPI has been initialised.
pub fn current() -> Option<&'static Job> {
    JOB.get()
}

/// This process.
#[inline]
pub fn me() -> Peer {
    JOB.get().map_or(Peer(0), |job| job.me)
}

/// Number of processes of the job.
pub fn world_size() -> u32 {
    JOB.get().map_or(1, |job| job.size)
}

/// The processes of the job, by rank.
pub fn world() -> Vec<Peer> {
    with_processes(|processes| processes.own_job().collect())
}

/// Asks for the processes that this one knows; before the job is known it is alone.
fn with_processes<R>(ask: impl FnOnce(&Processes) -> R) -> R {
    const ALONE: ProcId = ProcId { job: JobId(0), rank: WorldRank(0) };
    match JOB.get() {
        Some(job) => ask(&job.processes.borrow()),
        None => ask(&Processes::of_job(ALONE, 1)),
    }
}

/// The name of a process for all others, in the order on which all agree.
pub fn id_of(peer: Peer) -> ProcId {
    with_processes(|processes| processes.id(peer)).expect("an endpoint is a process")
}

/// The number of a process among those that make communicators with each other in the space of `context`: all of them agree on it. None if it isn't
/// one of them.
pub fn find_proposer(context: ContextId, peer: Peer) -> Option<Proposer> {
    let id = id_of(peer);
    match JOB.get() {
        Some(job) => job.realms.read().unwrap_or_else(PoisonError::into_inner).proposer(context, id),
        None => Some(Proposer(0)),
    }
}

/// The same for a process that is in a communicator of this space.
pub fn proposer(context: ContextId, peer: Peer) -> Proposer {
    find_proposer(context, peer).expect("the members of a communicator are in its realm")
}

/// The number of a process of this job among those of the job; that of nobody for others.
pub fn proposer_in_job(peer: Peer) -> Proposer {
    rank_of(peer).map_or(Proposer::NOBODY, |rank| Proposer(rank.0))
}

/// All numbers of processes that this one has met are below this.
pub fn proposers_end() -> u32 {
    JOB.get().map_or(1, |job| job.realms.read().unwrap_or_else(PoisonError::into_inner).end())
}

/// This process makes communicators with those of another realm, too.
pub(crate) fn enter_realm(realm: Realm) -> Result {
    match JOB.get() {
        Some(job) => job.realms.write().unwrap_or_else(PoisonError::into_inner).add(realm),
        None => Ok(()),
    }
}

/// The port of the processes that have spawned this job; none if nobody has.
pub fn parent_port() -> Option<&'static str> {
    JOB.get().map(|job| job.parent_port.as_str()).filter(|port| !port.is_empty())
}

/// Whether all processes are of this job.
pub fn contains_all(mut peers: impl Iterator<Item = Peer>) -> bool {
    with_processes(|processes| peers.all(|peer| processes.rank(peer).is_some()))
}

/// The process of that name, if this one knows it.
pub fn find(id: ProcId) -> Option<Peer> {
    with_processes(|processes| processes.peer(id))
}

/// The rank of a process in `MPI_COMM_WORLD`: what the launcher and users call it. None for those of other jobs.
pub fn rank_of(peer: Peer) -> Option<WorldRank> {
    with_processes(|processes| processes.rank(peer))
}

/// Number of the kernel under which a process runs, as far as it is proved: what hosts are for everything that asks who is near.
/// Several nodes of the job, for instance containers, may be under one. None for processes of other jobs.
pub fn node_of(peer: Peer) -> Option<i32> {
    let rank = rank_of(peer)?;
    let kernel = |job: &Job| job.kernel_of.get(*job.node_of.get(rank.0 as usize)? as usize).copied();
    Some(current().and_then(kernel).map_or(0, |kernel| kernel as i32))
}

/// Whether a process has the same node agent as this one, and so the same workers.
pub fn is_on_own_node(peer: Peer) -> bool {
    let node = |job: &Job, peer| job.node_of.get(rank_of(peer)?.0 as usize).copied();
    current().is_some_and(|job| node(job, peer).is_some_and(|other| node(job, job.me) == Some(other)))
}

/// The number by which workers know a process of the job.
pub fn number_of(peer: Peer) -> u64 {
    rank_of(peer).map_or(u64::MAX, |rank| rank.0.into())
}

/// Learns what can be known of the job before `MPI_Init`.
pub fn look(cs: &Section) {
    if JOB.get().is_some() {
        return;
    }
    if let Ok(bootstrap) = Bootstrap::from_environment() {
        remember(&bootstrap);
        *EARLY.get(cs).borrow_mut() = Some(bootstrap);
    }
}

/// The connection with the node agent, for the initialisation.
pub fn connect(cs: &Section) -> Result<Bootstrap> {
    let early = EARLY.get(cs).borrow_mut().take();
    early.map_or_else(Bootstrap::from_environment, Ok)
}

/// Keeps what the agent has told.
pub fn remember(bootstrap: &Bootstrap) {
    let (job, processes) = (bootstrap.job(), bootstrap.processes());
    let node = job.node_of.get(job.rank.0 as usize).copied().unwrap_or(0);
    let _ = JOB.set(Job {
        me: processes.borrow().me(),
        processes: processes.clone(),
        realms: RwLock::new(Realms::of_job(JobId(job.job_id), job.size)),
        size: job.size,
        host: job.node_names.get(node as usize).cloned().unwrap_or_default(),
        continue_on_failure: job.continue_on_failure,
        command: job.command.clone(),
        working_directory: job.working_directory.clone(),
        parent_port: if job.startup.generation == 0 { job.parent_port.clone() } else { String::new() },
        node_of: job.node_of.clone(),
        kernel_of: job.kernel_of.clone(),
    });
}
