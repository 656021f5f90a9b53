//! A rank's side of the workers of its node (`mpiexec --offload`, decision 0042): the memory through which it hands them collectives, and the bells of both sides.
//!
//! The agent passes the descriptors on to the workers, and to no other process. With them a worker may read and write this process's memory; it only touches what the
//! operations announce (`crates/offload`).

use crate::bootstrap::{Bootstrap, OFFLOAD_FDS};
use crate::single_copy::ProbeWord;
pub use shm::offload::Request;
use shm::offload::{Area, Poster, Reach};
use shm::sleep;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use sys::cma;
use sys::epoll::{Epoll, Interest};
use sys::wake::Bell;

base::config! {
    /// How workers reach the memory of their ranks (`mpiexec --offload`): `auto`, `cma` (process_vm_readv and process_vm_writev) or `mem` (a descriptor of
    /// /proc/self/mem, which the node agent gives to the workers only).
    OFFLOAD_MEMORY: text = "auto";
}

const TOKEN: u64 = 8 << 32;

/// The workers of this rank's node.
#[derive(Debug)]
pub struct Workers {
    poster: Poster,
    /// Wakes the workers.
    doorbell: Bell,
    /// Wakes this rank.
    bell: Bell,
    armed: bool,
    has_processor: bool,
    _probe: ProbeWord,
}

/// An operation that a worker has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Posted {
    worker: usize,
    slot: u32,
}

impl Workers {
    /// Offers this process to the workers of its node; none if the job has none. `epoll` is what this process sleeps on.
    pub fn open(bootstrap: &mut Bootstrap, epoll: &Epoll) -> io::Result<Option<Workers>> {
        let job = bootstrap.job().clone();
        if job.offload.workers == 0 {
            return Ok(None);
        }
        // An operation talks to each process of the job through a communicator, and perhaps through its local group.
        let routes = 2 * job.size as usize;
        let (by_pid, by_fd) = match OFFLOAD_MEMORY.value() {
            "auto" => (true, true),
            "cma" => (true, false),
            "mem" => (false, true),
            other => {
                let text = format!("FERRULE_OFFLOAD_MEMORY={other} is not auto, cma or mem");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
        };
        if by_pid {
            cma::allow_readers();
        }
        let probe = ProbeWord::random();
        let reach = Reach { pid: cma::own_pid(), probe: (probe.address(), probe.value()), by_pid };
        let (area, fd) = Area::create(job.offload.workers as usize, routes, reach)?;
        let (doorbell, bell) = (Bell::new()?, Bell::new()?);
        // Level-triggered: it rings until this rank is awake.
        epoll.add(bell.as_fd(), TOKEN, Interest::READ)?;
        let memory = if by_fd { cma::own_writable_memory()? } else { std::fs::File::open("/dev/null")?.into() };
        let copy = |bell: &Bell| bell.as_fd().try_clone_to_owned();
        let fds: [OwnedFd; OFFLOAD_FDS] = [fd, copy(&doorbell)?, copy(&bell)?, memory];
        bootstrap.share_offload(fds).map_err(|_| io::Error::other("the node agent is gone"))?;
        let has_processor = job.offload.spare_cpus > 0;
        Ok(Some(Workers { poster: Poster::new(area), doorbell, bell, armed: false, has_processor, _probe: probe }))
    }

    /// Whether the ranks under this kernel leave a processor to the workers.
    pub fn have_processor(&self) -> bool {
        self.has_processor
    }

    /// Hands an operation with `endpoints` endpoints to the worker that all its processes choose: the one of `number`. `None` while that has too many.
    pub fn post(&mut self, number: u64, request: &Request, endpoints: usize) -> Option<Posted> {
        let worker = (number % self.poster.area().workers() as u64) as usize;
        let (slot, rings) = self.poster.post(worker, request, endpoints)?;
        if rings {
            self.doorbell.ring();
        }
        Some(Posted { worker, slot })
    }

    /// The most endpoints of an operation.
    pub fn endpoints_max(&self) -> usize {
        self.poster.area().routes()
    }

    /// The outcome of an operation that has ended, once: 0, or what `crates/offload` says.
    pub fn outcome(&mut self, posted: Posted) -> Option<u64> {
        self.poster.outcome(posted.worker, posted.slot)
    }

    /// Asks for the end of an operation; its outcome follows.
    pub fn cancel(&self, posted: Posted) {
        if self.poster.cancel(posted.worker, posted.slot) {
            self.doorbell.ring();
        }
    }

    /// From now on workers wake this rank; true if the operation has ended already.
    pub fn arm(&mut self, posted: Posted) -> bool {
        if !std::mem::replace(&mut self.armed, true) {
            sleep::fall_asleep(&self.poster.area().rank_sleeps());
        }
        self.poster.has_ended(posted.worker, posted.slot)
    }

    /// Awake again.
    pub fn disarm(&mut self) {
        if std::mem::take(&mut self.armed) {
            sleep::awake(&self.poster.area().rank_sleeps());
            self.bell.silence();
        }
    }
}
