//! Opens the receiving sides: this process's inbox, its part of memory that VMs share, and its sockets.
//!
//! None of them is needed as such: what can't be had is said once, and peers use another channel.

use super::{TOKEN_DOORBELL, Transports};
use crate::bootstrap::JobInfo;
use crate::locality;
use crate::shm::ShmHub;
use crate::tcp::hello::{Identity, Ids};
use crate::tcp::security::Security;
use crate::tcp::{self, Net};
use base::{Peer, WorldRank, log};
use protocol::lanes::LanePlan;
use protocol::processes::SharedProcesses;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use sys::epoll::{Epoll, Interest};

impl Transports {
    /// The inbox for peers under other kernels of this host, if there are any; where it is.
    pub(super) fn open_region(&mut self, rank_id: u128) -> (u64, u64) {
        let job = &self.job;
        if job.region.len == 0 || !locality::allowed().ivshmem {
            return (0, 0);
        }
        let ranks = locality::across_kernels(job, job.rank);
        let peers = ranks.into_iter().filter_map(|rank| self.processes.borrow().peer_of_rank(rank)).collect();
        match ShmHub::create_in_region(&job.region, &self.processes, peers, rank_id) {
            Ok((hub, part)) => {
                self.region = Some(Box::new(hub));
                part
            }
            Err(e) => {
                log!(Warn, "no memory shared with other VMs: {}: {e}", path_of(&job.region.path).display());
                (0, 0)
            }
        }
    }

    /// Peers of the region wake this process at the port of its TCP listener.
    pub(super) fn open_doorbell(&mut self, epoll: &Epoll) {
        let address = self.net.as_ref().and_then(|net| net.listens_at());
        let (Some(region), Some(address)) = (&mut self.region, address) else { return };
        let opened = region.open_doorbell(address).and_then(|fd| epoll.add(fd, TOKEN_DOORBELL, Interest::READ));
        if let Err(e) = opened {
            log!(Info, "ranks of other VMs can't wake this one, so it sleeps shortly: UDP at {address}: {e}");
        }
    }
}

/// A path as the job's description has it.
pub(super) fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// This process's inbox, and its name if it is in a file; none if shared memory is not allowed, not needed or not to be had.
pub(super) fn hub(
    job: &JobInfo,
    processes: &SharedProcesses,
    rank_id: u128,
    oversubscribed: bool,
) -> (Option<ShmHub>, String) {
    if !locality::allowed().shm || job.local_ranks.len() < 2 {
        return (None, String::new());
    }
    let ranks = job.local_ranks.iter().map(|rank| WorldRank(*rank));
    let peers: Vec<Peer> = ranks.filter_map(|rank| processes.borrow().peer_of_rank(rank)).collect();
    let path = path_of(&job.inbox_file);
    if let Some(name) = path.file_name().and_then(OsStr::to_str) {
        // Of an earlier program of this rank that did not end by itself.
        let _ = std::fs::remove_file(path);
        match ShmHub::create_in(Some(path), processes, peers.clone(), rank_id, oversubscribed) {
            Ok(hub) => return (Some(hub), name.to_string()),
            Err(e) => log!(Warn, "no inbox at {}, so ranks of other sandboxes use TCP: {e}", path.display()),
        }
    }
    let hub = ShmHub::create(processes, peers, rank_id, oversubscribed);
    (hub.map_err(|e| log!(Warn, "no shared memory with other ranks: {e}")).ok(), String::new())
}

/// The sockets; none if TCP is not allowed or not to be had.
pub(super) fn net(job: &JobInfo, processes: &SharedProcesses, epoll: &Arc<Epoll>) -> Option<Box<Net>> {
    if !locality::allowed().tcp {
        return None;
    }
    let security = Security::configured().map_err(|e| log!(Error, "no TCP: {e}")).ok()?;
    LanePlan::configured().map_err(|e| log!(Error, "no TCP: {e}")).ok()?;
    let format = tcp::format_number();
    let id = Identity {
        processes: processes.clone(),
        key: job.key,
        format,
        security,
        ids: Ids::default(),
        others: HashMap::new(),
    };
    let one_host = job.local_ranks.len() == job.size as usize;
    Net::open(id, epoll.clone(), one_host)
        .map(Box::new)
        .map_err(|e| log!(Warn, "no TCP: cannot listen: {e} (FERRULE_PORT_RANGE)"))
        .ok()
}
