//! The processes that this one knows: which endpoint is which process.
//!
//! The one table that maps [`ProcId`] to [`Peer`] and back. Transports ask it at their edge, where a process is named by what travels; the launcher's
//! side of a process asks it for ranks. The engine and what is above it know endpoints only.
//!
//! Invariant: endpoints are dense and keep their process for ever. The own job comes first, in the order of its ranks, and takes no memory;
//! nothing but this file relies on that. Processes of other jobs follow as they become known.

use base::ids::ProcId;
use base::{Peer, Result, WorldRank, ensure};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The table as its users share it.
#[derive(Clone, Debug)]
pub struct SharedProcesses(Arc<RwLock<Processes>>);

impl SharedProcesses {
    /// To ask it.
    pub fn borrow(&self) -> RwLockReadGuard<'_, Processes> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// To learn of a process.
    pub fn borrow_mut(&self) -> RwLockWriteGuard<'_, Processes> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the head of this file.
#[derive(Debug)]
pub struct Processes {
    me: ProcId,
    /// Processes of the own job.
    size: u32,
    /// All others, in the order of their endpoints.
    others: Vec<ProcId>,
    by_id: HashMap<ProcId, Peer>,
    /// The processes are workers.
    workers: Option<Workers>,
}

/// A worker of a job (`mpiexec --offload`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkerId {
    /// Its node.
    pub node: u32,
    /// Which one of the node.
    pub index: u32,
    /// How many have been there before it.
    pub incarnation: u32,
}

/// The workers of a job. Their numbers count those of all nodes, and then those that have taken the places of others: no worker gets the number of an earlier one.
#[derive(Clone, Debug)]
pub struct Workers {
    /// Names of nodes.
    pub nodes: Vec<String>,
    /// Workers of each.
    pub per_node: u32,
}

impl Workers {
    fn at_a_time(&self) -> Option<u32> {
        (self.nodes.len() as u32).checked_mul(self.per_node)
    }

    /// The number of a worker; none if there have been too many.
    pub fn number(&self, worker: WorkerId) -> Option<u32> {
        let place = worker.node * self.per_node + worker.index;
        let number = worker.incarnation.checked_mul(self.at_a_time()?)?.checked_add(place)?;
        (number < WorldRank::COUNT_MAX).then_some(number)
    }

    /// The worker of a number.
    pub fn worker(&self, number: u32) -> WorkerId {
        let all = self.at_a_time().unwrap_or(u32::MAX).max(1);
        let (incarnation, place) = (number / all, number % all);
        let per_node = self.per_node.max(1);
        WorkerId { node: place / per_node, index: place % per_node, incarnation }
    }

    fn name(&self, number: u32) -> Name {
        let worker = self.worker(number);
        let node = self.nodes.get(worker.node as usize).map_or("?", String::as_str);
        Name::Worker { index: worker.index, node: node.into() }
    }
}

impl Processes {
    /// Process `me` of a job of `size` processes, which knows no other job.
    pub fn of_job(me: ProcId, size: u32) -> Processes {
        Processes { me, size, others: Vec::new(), by_id: HashMap::new(), workers: None }
    }

    /// Worker `me`, whose rank is its number among these workers: endpoints stand for workers, not for ranks.
    pub fn of_workers(me: ProcId, workers: Workers) -> SharedProcesses {
        let processes = Processes { workers: Some(workers), ..Processes::of_job(me, WorldRank::COUNT_MAX) };
        SharedProcesses(Arc::new(RwLock::new(processes)))
    }

    /// The same for those who share it.
    pub fn shared(me: ProcId, size: u32) -> SharedProcesses {
        SharedProcesses(Arc::new(RwLock::new(Processes::of_job(me, size))))
    }

    /// This process.
    pub fn me(&self) -> Peer {
        Peer(self.me.rank.0)
    }

    /// This process.
    pub fn own_id(&self) -> ProcId {
        self.me
    }

    /// The processes of the own job, by rank.
    pub fn own_job(&self) -> impl ExactSizeIterator<Item = Peer> + use<> {
        (0..self.size as usize).map(|at| Peer(at as u32))
    }

    /// Whether processes of other jobs are known.
    pub fn knows_other_jobs(&self) -> bool {
        !self.others.is_empty()
    }

    /// Known processes.
    pub fn count(&self) -> usize {
        self.size as usize + self.others.len()
    }

    /// The endpoint of a process, if it is known.
    pub fn peer(&self, id: ProcId) -> Option<Peer> {
        if id.job == self.me.job { self.peer_of_rank(id.rank) } else { self.by_id.get(&id).copied() }
    }

    /// The endpoint of a process of the own job.
    pub fn peer_of_rank(&self, rank: WorldRank) -> Option<Peer> {
        (rank.0 < self.size).then_some(Peer(rank.0))
    }

    /// The endpoint of a process that may be new. An error if it can't exist, or there is no endpoint left for it.
    pub fn learn(&mut self, id: ProcId) -> Result<Peer> {
        if let Some(peer) = self.peer(id) {
            return Ok(peer);
        }
        ensure!(id.job != self.me.job, ERR_OTHER, "the job has no process of that rank");
        ensure!(self.count() < WorldRank::COUNT_MAX as usize, ERR_OTHER, "no endpoint is left for another process");
        let peer = Peer(self.count() as u32);
        self.others.push(id);
        self.by_id.insert(id, peer);
        Ok(peer)
    }

    /// The process behind an endpoint.
    pub fn id(&self, peer: Peer) -> Option<ProcId> {
        match peer.0.checked_sub(self.size) {
            None => Some(ProcId { job: self.me.job, rank: WorldRank(peer.0) }),
            Some(at) => self.others.get(at as usize).copied(),
        }
    }

    /// Its rank, if it is of the own job: what the launcher calls it.
    pub fn rank(&self, peer: Peer) -> Option<WorldRank> {
        (peer.0 < self.size).then_some(WorldRank(peer.0))
    }

    /// How messages for humans name it.
    pub fn name(&self, peer: Peer) -> Name {
        match (self.rank(peer), self.id(peer)) {
            (Some(rank), _) => self.workers.as_ref().map_or(Name::Own(rank), |workers| workers.name(rank.0)),
            (None, Some(id)) => Name::Other(id),
            (None, None) => Name::Unknown,
        }
    }
}

/// A process as users read it: by its rank in `MPI_COMM_WORLD`, those of other jobs by their job, too; a worker by its number on its node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Name {
    /// Of the own job.
    Own(WorldRank),
    /// A worker of the own job.
    Worker {
        /// Its number on its node.
        index: u32,
        /// Name of the node.
        node: Arc<str>,
    },
    /// Of another one.
    Other(ProcId),
    /// There is no such process.
    Unknown,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Own(rank) => rank.fmt(f),
            Name::Worker { index, node } => write!(f, "worker {index} of node {node}"),
            Name::Other(id) => id.fmt(f),
            Name::Unknown => f.write_str("an unknown process"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ids::JobId;
    use proptest::prelude::*;

    const OWN: JobId = JobId(7);

    fn id(job: u64, rank: u32) -> ProcId {
        ProcId { job: JobId(job), rank: WorldRank(rank) }
    }

    #[test]
    fn the_own_job_is_known_from_the_beginning() {
        let mut processes = Processes::of_job(id(7, 2), 4);
        assert_eq!((processes.me(), processes.count()), (processes.peer(id(7, 2)).unwrap(), 4));
        for (rank, peer) in processes.own_job().enumerate() {
            let rank = WorldRank(rank as u32);
            assert_eq!(processes.peer_of_rank(rank), Some(peer));
            assert_eq!((processes.rank(peer), processes.id(peer)), (Some(rank), Some(ProcId { job: OWN, rank })));
        }
        assert_eq!(processes.peer(id(7, 4)), None);
        assert!(processes.learn(id(7, 4)).is_err());
        assert_eq!(processes.count(), 4);
    }

    #[test]
    fn processes_are_named_as_users_know_them() {
        let mut processes = Processes::of_job(id(7, 0), 2);
        let other = processes.learn(id(9, 1)).unwrap();
        let own = processes.peer(id(7, 1)).unwrap();
        assert_eq!(processes.name(own).to_string(), "rank 1");
        assert_eq!(processes.name(other).to_string(), "rank 1 of job 0000000000000009");
        assert_eq!(processes.name(Peer(3)).to_string(), "an unknown process");
    }

    #[test]
    fn workers_have_numbers_and_names_of_their_own() {
        let workers = Workers { nodes: ["h0", "h1", "h2"].map(String::from).to_vec(), per_node: 2 };
        let mut seen = Vec::new();
        for incarnation in 0..4 {
            for node in 0..3 {
                for index in 0..2 {
                    let worker = WorkerId { node, index, incarnation };
                    let number = workers.number(worker).unwrap();
                    assert_eq!(workers.worker(number), worker);
                    seen.push(number);
                }
            }
        }
        assert_eq!(seen, (0..24).collect::<Vec<u32>>());
        assert_eq!(workers.number(WorkerId { node: 0, index: 0, incarnation: u32::MAX }), None);
        let past = WorldRank::COUNT_MAX / 6 + 1;
        assert_eq!(workers.number(WorkerId { node: 0, index: 0, incarnation: past }), None);
        let processes = Processes::of_workers(id(7, 0), workers);
        // The worker that has taken the place of number 3 has its name.
        for number in [3, 9] {
            let peer = processes.borrow().peer(id(7, number)).unwrap();
            assert_eq!(processes.borrow().name(peer).to_string(), "worker 1 of node h1");
        }
    }

    proptest! {
        #[test]
        fn endpoints_are_dense_and_stay(size in 1u32..9, learned in proptest::collection::vec((0u64..4, 0u32..9), 0..60)) {
            let mut processes = Processes::of_job(id(7, 0), size);
            let mut known: Vec<ProcId> = (0..size).map(|rank| id(7, rank)).collect();
            for (job, rank) in learned {
                let id = id(job, rank);
                let peer = processes.learn(id).unwrap();
                if peer.0 as usize == known.len() {
                    known.push(id);
                }
                prop_assert_eq!(known[peer.0 as usize], id);
                prop_assert_eq!(processes.rank(peer), None);
            }
            prop_assert_eq!(processes.count(), known.len());
            for (at, id) in known.iter().enumerate() {
                prop_assert_eq!(processes.peer(*id), Some(Peer(at as u32)));
                prop_assert_eq!(processes.id(Peer(at as u32)), Some(*id));
            }
            prop_assert_eq!(processes.id(Peer(known.len() as u32)), None);
        }
    }
}
