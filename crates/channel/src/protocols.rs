//! What the lanes of each locality can do, as this process would open them: for `ferrule info --protocols`.
//!
//! Nothing is computed twice: a lane through shared memory is really opened, between two inboxes of this process.

use crate::calibrate::{MEM_MIN_RATE, mem_rate};
use crate::shm::{PeerFds, ShmHub, ShmLane};
use crate::{locality, self_, tcp};
use base::ids::{JobId, ProcId};
use base::{Peer, WorldRank};
use protocol::processes::Processes;
use protocol::transport::Caps;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// A kind of lane.
#[derive(Debug)]
pub struct Kind {
    /// Where the peer is, and how its memory is reached.
    pub name: &'static str,
    /// What the lane can do.
    pub limits: Caps,
    /// What else is to be said.
    pub note: String,
}

/// All kinds; for shared memory that can't be had, why.
pub fn kinds() -> (Vec<Kind>, Option<String>) {
    let kind = |name, limits, note: &str| Kind { name, limits, note: note.into() };
    let mut kinds = vec![kind("self", self_::CAPS, "copied once inside the process")];
    let mut trouble = None;
    if locality::allowed().shm {
        match shm_lane() {
            Ok((lane, memory)) => kinds.extend(shm_kinds(&lane, memory)),
            Err(e) => trouble = Some(format!("no shared memory: {e}")),
        }
    } else {
        trouble = Some("shared memory is not allowed by FERRULE_CHANNELS".into());
    }
    if locality::allowed().tcp {
        kinds.push(kind("tcp", tcp::configured_limits(), "other hosts, and where shared memory isn't proven"));
    }
    (kinds, trouble)
}

fn shm_kinds(lane: &ShmLane, memory: Option<OwnedFd>) -> [Kind; 4] {
    let chosen = |name: &str| {
        if lane.single_copy().name() == Some(name) { "; chosen between two processes like this one" } else { "" }
    };
    let refused = |name: &str| {
        let rejected = lane.single_copy().rejected().iter().find(|(way, _)| *way == name);
        rejected.map(|(_, why)| format!("; not here: {why}")).unwrap_or_default()
    };
    let rate = memory.map_or(0.0, |memory| mem_rate(memory.as_fd()));
    let slow = match MEM_MIN_RATE.value() {
        least if rate < least => format!(", less than FERRULE_MEM_MIN_RATE={least}: only if FERRULE_SINGLE_COPY=mem"),
        _ => String::new(),
    };
    let kind = |name, can_pull, note: String| Kind { name, limits: lane.limits_if(can_pull), note };
    [
        kind("shm with cma", true, format!("process_vm_readv{}{}", chosen("cma"), refused("cma"))),
        kind(
            "shm with mem",
            true,
            format!("/proc/self/mem at {rate:.1} GB/s{slow}{}{}", chosen("mem"), refused("mem")),
        ),
        kind("shm, ring only", false, String::from("where single copy isn't proven or not worth while")),
        kind(locality::IVSHMEM, false, String::from("same host, other VM; smaller messages where the region is small")),
    ]
}

/// A lane from one inbox of this process to another.
fn shm_lane() -> io::Result<(ShmLane, Option<OwnedFd>)> {
    let peers = vec![Peer(0), Peer(1)];
    let process = |rank| Processes::shared(ProcId { job: JobId(0), rank: WorldRank(rank) }, 2);
    let from = ShmHub::create(&process(0), peers.clone(), 1, false)?;
    let to = ShmHub::create(&process(1), peers, 2, false)?;
    let fds = to.descriptors().into_iter().map(|fd| fd.try_clone_to_owned()).collect::<io::Result<Vec<OwnedFd>>>()?;
    let fds = PeerFds::from_vec(fds).ok_or_else(|| io::Error::other("descriptors are missing"))?;
    let memory = fds.memory.as_ref().map(OwnedFd::try_clone).transpose()?;
    Ok((ShmLane::open(&from, Peer(1), 2, Some(std::process::id() as i32), fds)?, memory))
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::engine::Mode;
    use protocol::protocols::Protocol;

    #[test]
    fn every_kind_has_a_protocol_for_every_size() {
        let (kinds, trouble) = kinds();
        assert_eq!((kinds.len(), trouble), (6, None));
        for kind in &kinds {
            let ranges = kind.limits.ranges(Mode::Standard);
            assert_eq!(ranges[0].2, Protocol::Eager, "{}", kind.name);
            assert_eq!(ranges.last().unwrap().1, None);
            let pulls = ranges.iter().any(|r| r.2 == Protocol::Pulled);
            assert_eq!(pulls, !["tcp", "shm, ring only", "ivshmem"].contains(&kind.name), "{}", kind.name);
        }
    }
}
