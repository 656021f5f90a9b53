//! Which peers are on this host: proof, not hints (decision 0020).
//!
//! Descriptors that came with an endpoint address were passed by node agents over unix sockets, which proves that both processes run on
//! the same kernel; agents of different containers find each other as `protocol::control::near` says. The nonce in the inbox that
//! the descriptors open must be that of the endpoint address, which proves that it is the right process. Anything else means that the peer is
//! reached over the network; nothing here is ever fatal. Peers under other kernels of the same host are proved by their agents, which have
//! found each other's random numbers in memory that a hypervisor shares between the kernels (`protocol::control::near`).

use crate::bootstrap::{EndpointAddress, JobInfo};
use crate::shm::{PeerFds, ShmHub, ShmLane};
use crate::why::Why;
use base::{Peer, WorldRank, log};
use protocol::control::near::INBOX_PREFIX;
use std::ffi::OsStr;
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

base::config! {
    /// Which localities are used: `auto` (prove that a peer is on this host), `host` (the same, and try harder: node agents try to
    /// meet although no hint says that they can), `file` (other agents share nothing but files of a directory, as between sandboxes
    /// that pass no descriptors), `node` (only ranks of the same node agent are near) or `off` (every peer is taken for remote).
    /// May differ between containers.
    LOCALITY: text = "auto";
    /// The channels that may be used, a list of `shm`, `ivshmem`, `ucx` and `tcp`, or `auto` for all.
    CHANNELS: text = "auto";
    /// Longest sleep of a process that some of its peers can't wake, because only a file is shared with them; or not for sure, because
    /// they are in other VMs.
    FILE_SLEEP_US: u64 = 2000, 10..=1000000, "µs";
}

/// The channel over memory that several kernels of one host share.
pub const IVSHMEM: &str = "ivshmem";
/// The channel over an inbox that only a file makes known.
const BY_FILE: &str = "shm-file";

/// What the settings allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allowed {
    /// Shared memory.
    pub shm: bool,
    /// Memory that several kernels of one host share.
    pub ivshmem: bool,
    /// UCX.
    pub ucx: bool,
    /// TCP.
    pub tcp: bool,
}

/// Reads the settings [`CHANNELS`] and [`LOCALITY`].
pub fn allowed() -> Allowed {
    let local = match LOCALITY.value() {
        "auto" | "host" | "file" | "node" => true,
        "off" => false,
        other => {
            log!(Warn, "FERRULE_LOCALITY={other} is not auto, host, file, node or off; using auto");
            true
        }
    };
    let list = parse_channels(CHANNELS.value());
    Allowed { shm: list.shm && local, ivshmem: list.ivshmem && local, ucx: list.ucx, tcp: list.tcp }
}

fn parse_channels(text: &str) -> Allowed {
    const NONE: Allowed = Allowed { shm: false, ivshmem: false, ucx: false, tcp: false };
    const ALL: Allowed = Allowed { shm: true, ivshmem: true, ucx: true, tcp: true };
    let mut out = NONE;
    for name in text.split([',', ' ']).filter(|n| !n.is_empty()) {
        match name {
            "auto" | "all" => out = ALL,
            "shm" => out.shm = true,
            "ivshmem" => out.ivshmem = true,
            "ucx" => out.ucx = true,
            "tcp" => out.tcp = true,
            "self" => {}
            other => log!(Warn, "FERRULE_CHANNELS names {other}, which is not shm, ivshmem, ucx or tcp"),
        }
    }
    if out == NONE { ALL } else { out }
}

/// Ranks under other kernels that share a region of memory with `rank`, ascending: in this order they send to it.
pub fn across_kernels(job: &JobInfo, rank: WorldRank) -> Vec<WorldRank> {
    let at = |of: &[u32], rank: u32| of.get(*job.node_of.get(rank as usize)? as usize).copied();
    let Some(host) = at(&job.host_of, rank.0) else { return Vec::new() };
    let kernel = at(&job.kernel_of, rank.0);
    let other = |r: &u32| at(&job.host_of, *r) == Some(host) && at(&job.kernel_of, *r) != kernel;
    (0..job.size).filter(other).map(WorldRank).collect()
}

/// Tries to reach `peer` through memory that this kernel and its one share.
pub fn try_region(
    hub: Option<&ShmHub>,
    job: &JobInfo,
    (peer, rank, address): (Peer, WorldRank, &EndpointAddress),
    why: &mut Why,
) -> Option<ShmLane> {
    let slot = across_kernels(job, rank).iter().position(|p| *p == job.rank);
    let reason = match (hub, slot) {
        // Nothing to tell where there is no such memory.
        (None, None) if job.region.why.is_empty() => return None,
        (None, _) if !allowed().ivshmem => no_hub_reason(),
        (None, _) if !job.region.why.is_empty() => job.region.why.clone(),
        (None, _) => "this process has no part of the memory that its host's VMs share".into(),
        (Some(_), None) => "nobody has proved that its node shares memory with this one".into(),
        (Some(_), Some(_)) if address.region_part.1 == 0 => {
            "its process has no part of the memory that both kernels share".into()
        }
        (Some(hub), Some(slot)) => match open_in_region(hub, job, (peer, slot), address) {
            Ok(lane) => {
                why.channel = IVSHMEM;
                return Some(lane);
            }
            Err(e) => e.to_string(),
        },
    };
    why.reject(IVSHMEM, reason);
    None
}

fn open_in_region(
    hub: &ShmHub,
    job: &JobInfo,
    to: (Peer, usize),
    address: &EndpointAddress,
) -> std::io::Result<ShmLane> {
    let (offset, len) = address.region_part;
    let file = shm::region::Region::open_file(Path::new(OsStr::from_bytes(&job.region.path)), job.region.id)?;
    let len = usize::try_from(len).map_err(|_| std::io::ErrorKind::InvalidData)?;
    ShmLane::open_in_region(hub, to, address.rank_id, (&file, (offset, len)), &address.tcp)
}

/// Tries to reach `peer` through shared memory.
pub fn try_shm(
    hub: Option<&ShmHub>,
    job: &JobInfo,
    (peer, rank, address, fds): (Peer, WorldRank, &EndpointAddress, Vec<OwnedFd>),
    far: &str,
    why: &mut Why,
) -> Option<ShmLane> {
    if !job.local_ranks.contains(&rank.0) {
        let reason = match across_kernels(job, job.rank).contains(&rank) {
            true => "same host, other VM".into(),
            false => far_reason(address, far),
        };
        why.reject("shm", reason);
        return None;
    }
    let Some(hub) = hub else {
        why.reject("shm", no_hub_reason());
        return None;
    };
    let channel = if fds.is_empty() { BY_FILE } else { "shm" };
    let fds = match PeerFds::from_vec(fds) {
        Some(fds) => PeerFds { in_file: !address.inbox_file.is_empty(), ..fds },
        None => match file_of(job, address) {
            Ok(Some(file)) => PeerFds::from_file(file),
            Ok(None) => {
                why.reject("shm", if far.is_empty() { "the peer passed no descriptors" } else { far });
                return None;
            }
            Err(error) => {
                why.reject(BY_FILE, format!("{far}: {error}").trim_start_matches(": "));
                return None;
            }
        },
    };
    match ShmLane::open(hub, peer, address.rank_id, i32::try_from(address.pid).ok(), fds) {
        Ok(lane) => {
            why.channel = channel;
            why.single_copy = lane.single_copy().name();
            Some(lane)
        }
        Err(error) => {
            why.reject("shm", error.to_string());
            None
        }
    }
}

/// The file of a peer's inbox, in the directory where this process has its own; none if there is no such directory.
fn file_of(job: &JobInfo, address: &EndpointAddress) -> std::io::Result<Option<File>> {
    let own = Path::new(OsStr::from_bytes(&job.inbox_file));
    let Some(directory) = own.parent().filter(|_| !address.inbox_file.is_empty()) else { return Ok(None) };
    if address.inbox_file.contains('/') || !address.inbox_file.starts_with(INBOX_PREFIX) {
        return Err(std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            "its endpoint address names an impossible file",
        ));
    }
    sys::shared_file::open(&directory.join(&address.inbox_file)).map(Some)
}

/// Why a peer is not taken to be on this host: what the agents found, or else what the boot ids say.
fn far_reason(address: &EndpointAddress, far: &str) -> String {
    let reason = match (far, &address.boot_id, boot_id()) {
        ("", Some(theirs), Some(mine)) if *theirs != mine => "another kernel: the boot ids differ",
        ("", ..) => "nobody has proved it",
        (far, ..) => far,
    };
    format!("not on this host: {reason}")
}

fn boot_id() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|t| t.trim().to_string())
}

fn no_hub_reason() -> String {
    match allowed().shm {
        true => "this process could not create its inbox".into(),
        false => format!("FERRULE_CHANNELS={}, FERRULE_LOCALITY={}", CHANNELS.value(), LOCALITY.value()),
    }
}

/// Who this process is, for its peers.
pub fn own_address(rank_id: u128, addresses: Vec<SocketAddr>) -> EndpointAddress {
    EndpointAddress {
        rank_id,
        boot_id: boot_id(),
        pid: sys::cma::own_pid() as u32,
        uid: sys::process::effective_uid(),
        tcp: addresses,
        numa: sys::affinity::current_cpu().and_then(sys::affinity::numa_node).map(|n| n as u32),
        inbox_file: String::new(),
        region_part: (0, 0),
        ucx: None,
        extra: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channel_lists_are_read() {
        let of = |shm, ivshmem, ucx, tcp| Allowed { shm, ivshmem, ucx, tcp };
        assert_eq!(parse_channels("auto"), of(true, true, true, true));
        assert_eq!(parse_channels("tcp"), of(false, false, false, true));
        assert_eq!(parse_channels("self,shm"), of(true, false, false, false));
        assert_eq!(parse_channels("ivshmem,tcp"), of(false, true, false, true));
        assert_eq!(parse_channels("ucx"), of(false, false, true, false));
        assert_eq!(parse_channels(""), of(true, true, true, true));
    }
}
