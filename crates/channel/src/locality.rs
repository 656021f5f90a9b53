//! Who is near: proof, not hints (DESIGN.md, section 4).
//!
//! Descriptors that came with a card were passed by node agents over unix sockets, which proves that both processes run on
//! the same kernel; agents of different containers find each other as `protocol::control::near` says. The nonce in the inbox that
//! the descriptors open must be that of the card, which proves that it is the right process. Anything else means that the peer is
//! reached over the network; nothing here is ever fatal.

use crate::bootstrap::{Card, JobInfo};
use crate::shm::{PeerFds, ShmHub, ShmLane};
use crate::why::Why;
use base::{Peer, log};
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
    /// The channels that may be used, a list of `shm` and `tcp`, or `auto` for all.
    CHANNELS: text = "auto";
    /// Longest sleep of a process that some of its peers can't wake, because only a file is shared with them.
    FILE_SLEEP_US: u64 = 2000, 10..=1000000, "µs";
}

/// The channel over an inbox that only a file makes known.
const BY_FILE: &str = "shm-file";

/// What the settings allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allowed {
    /// Shared memory.
    pub shm: bool,
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
    Allowed { shm: list.shm && local, tcp: list.tcp }
}

fn parse_channels(text: &str) -> Allowed {
    let mut out = Allowed { shm: false, tcp: false };
    for name in text.split([',', ' ']).filter(|n| !n.is_empty()) {
        match name {
            "auto" | "all" => out = Allowed { shm: true, tcp: true },
            "shm" => out.shm = true,
            "tcp" => out.tcp = true,
            "self" => {}
            other => log!(Warn, "FERRULE_CHANNELS names {other}, which is not shm or tcp"),
        }
    }
    if out == (Allowed { shm: false, tcp: false }) { Allowed { shm: true, tcp: true } } else { out }
}

/// Tries to reach `peer` through shared memory.
pub fn try_shm(
    hub: Option<&ShmHub>,
    job: &JobInfo,
    (peer, card, fds): (Peer, &Card, Vec<OwnedFd>),
    far: &str,
    why: &mut Why,
) -> Option<ShmLane> {
    if !job.local_ranks.contains(&peer.0) {
        why.reject("shm", far_reason(card, far));
        return None;
    }
    let Some(hub) = hub else {
        why.reject("shm", no_hub_reason());
        return None;
    };
    let channel = if fds.is_empty() { BY_FILE } else { "shm" };
    let fds = match PeerFds::from_vec(fds) {
        Some(fds) => PeerFds { in_file: !card.inbox_file.is_empty(), ..fds },
        None => match file_of(job, card) {
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
    match ShmLane::open(hub, peer, card.rank_id, i32::try_from(card.pid).ok(), fds) {
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
fn file_of(job: &JobInfo, card: &Card) -> std::io::Result<Option<File>> {
    let own = Path::new(OsStr::from_bytes(&job.inbox_file));
    let Some(directory) = own.parent().filter(|_| !card.inbox_file.is_empty()) else { return Ok(None) };
    if card.inbox_file.contains('/') || !card.inbox_file.starts_with(INBOX_PREFIX) {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "its card names an impossible file"));
    }
    sys::shared_file::open(&directory.join(&card.inbox_file)).map(Some)
}

/// Why a peer is not taken to be on this host: what the agents found, or else what the boot ids say.
fn far_reason(card: &Card, far: &str) -> String {
    let reason = match (far, &card.boot_id, boot_id()) {
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
pub fn own_card(rank_id: u128, addresses: Vec<SocketAddr>) -> Card {
    Card {
        rank_id,
        boot_id: boot_id(),
        pid: sys::cma::own_pid() as u32,
        uid: sys::process::effective_uid(),
        addresses,
        numa: sys::affinity::current_cpu().and_then(sys::affinity::numa_node).map(|n| n as u32),
        inbox_file: String::new(),
        extra: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channel_lists_are_read() {
        assert_eq!(parse_channels("auto"), Allowed { shm: true, tcp: true });
        assert_eq!(parse_channels("tcp"), Allowed { shm: false, tcp: true });
        assert_eq!(parse_channels("self,shm"), Allowed { shm: true, tcp: false });
        assert_eq!(parse_channels(""), Allowed { shm: true, tcp: true });
    }
}
