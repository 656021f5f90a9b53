//! What this process knows of its job: who it is, how many there are, which of them are near.

use crate::cs::Section;
use crate::inside::Inside;
use base::{Peer, Result};
use channel::bootstrap::{Bootstrap, JobInfo};
use std::cell::RefCell;
use std::sync::OnceLock;

/// What stays known of the job.
pub struct Job {
    /// This process.
    pub me: Peer,
    /// Number of processes.
    pub size: u32,
    /// Name of this node.
    pub host: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Survivors go on when a process dies.
    pub continue_on_failure: bool,
    /// Where the program was started.
    pub working_directory: String,
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

/// Number of the kernel under which a process runs, as far as it is proved: what hosts are for everything that asks who is near.
/// Several nodes of the job, for instance containers, may be under one.
pub fn node_of(peer: Peer) -> i32 {
    let kernel = |job: &Job| job.kernel_of.get(*job.node_of.get(peer.0 as usize)? as usize).copied();
    current().and_then(kernel).map_or(0, |kernel| kernel as i32)
}

/// Learns what can be known of the job before `MPI_Init`.
pub fn look(cs: &Section) {
    if JOB.get().is_some() {
        return;
    }
    if let Ok(bootstrap) = Bootstrap::from_environment() {
        remember(bootstrap.job());
        *EARLY.get(cs).borrow_mut() = Some(bootstrap);
    }
}

/// The connection with the node agent, for the initialisation.
pub fn connect(cs: &Section) -> Result<Bootstrap> {
    let early = EARLY.get(cs).borrow_mut().take();
    early.map_or_else(Bootstrap::from_environment, Ok)
}

/// Keeps what the agent has told.
pub fn remember(job: &JobInfo) {
    let node = job.node_of.get(job.rank.0 as usize).copied().unwrap_or(0);
    let _ = JOB.set(Job {
        me: job.rank,
        size: job.size,
        host: job.node_names.get(node as usize).cloned().unwrap_or_default(),
        continue_on_failure: job.continue_on_failure,
        command: job.command.clone(),
        working_directory: job.working_directory.clone(),
        node_of: job.node_of.clone(),
        kernel_of: job.kernel_of.clone(),
    });
}
