//! Memory that this agent may share with other kernels of its host: ivshmem devices of a virtual machine, or files that somebody has named.
//!
//! Before anything is known of others, the agent leaves a random number in a block of each region that it can open ([`Regions::find`]).
//! If the head process finds that another kernel shares one, the agent claims a part of it for its ranks and gives each a piece ([`Regions::settle`]). As long as it
//! lives it writes heartbeats into its part ([`Regions::heartbeat`]); at its end it gives the part back. Only one failure is fatal: the loss of
//! a part that ranks may be writing to.

use super::hints;
use crate::settings::{IVSHMEM, IVSHMEM_LEASE};
use base::log;
use protocol::control::near::{Groups, RegionHint, Spot, kernel_of};
use protocol::control::rank::Region as Part;
use protocol::control::tree::JobSpec;
use shm::region::{Extent, Region, Seen};
use std::io::{ErrorKind, Result};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Vendor and device of ivshmem.
const DEVICE: (&str, &str) = ("0x1af4", "0x1110");
/// Time between two heartbeats; how long silent owners are watched at least is twice that.
const HEARTBEAT_EVERY: Duration = Duration::from_millis(500);
const WATCH: Duration = Duration::from_millis(1000);
/// Most regions of an agent.
const REGIONS_MAX: usize = 8;

/// One region.
struct Held {
    path: PathBuf,
    region: Region,
    /// The block with the number.
    note: Extent,
    nonce: u128,
    /// What belongs to the ranks.
    ranks: Option<Extent>,
    /// What was there when it was opened, until that was looked through.
    seen: Option<Seen>,
    since: Instant,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.region.release(&self.note);
        self.ranks.iter().for_each(|extent| self.region.release(extent));
    }
}

/// All of this agent.
#[derive(Default)]
pub struct Regions {
    held: Vec<Held>,
    /// Why a region is not used that was there or that somebody has named.
    why: String,
    next_heartbeat: Option<Instant>,
}

impl Regions {
    /// Opens what there is, by the settings.
    pub fn find(job: &JobSpec) -> Regions {
        let mut regions = Regions::default();
        for path in candidates(job).into_iter().take(REGIONS_MAX) {
            match Held::open(&path) {
                Ok(held) => regions.held.push(held),
                Err(e) => regions.complain(&path, &e),
            }
        }
        regions.next_heartbeat = (!regions.held.is_empty()).then(|| Instant::now() + HEARTBEAT_EVERY);
        regions
    }

    fn complain(&mut self, path: &Path, error: &std::io::Error) {
        let hint = if error.kind() == ErrorKind::PermissionDenied { " (docs/user/locality.md: udev)" } else { "" };
        let why = format!("{}: {error}{hint}", path.display());
        log!(Info, "a region of memory that VMs share is not used: {why}");
        self.why = if self.why.is_empty() { why } else { format!("{}; {why}", self.why) };
    }

    /// What others are told.
    pub fn hints(&self) -> Vec<RegionHint> {
        let hint = |h: &Held| RegionHint { id: h.region.id(), block: h.region.block(&h.note), nonce: h.nonce };
        self.held.iter().map(hint).collect()
    }

    /// What others have left.
    pub fn look(&self, spots: &[Spot]) -> Vec<(u32, u128)> {
        let find = |spot: &Spot| {
            let held = self.held.iter().find(|h| h.region.id() == spot.id)?;
            Some((spot.node, held.region.find(spot.block).ok()?))
        };
        spots.iter().filter_map(find).collect()
    }

    /// The pieces of this node's ranks `own`, by the result of the search; all else is given back.
    pub fn settle(&mut self, (job, node): (&JobSpec, u32), groups: &Groups, own: &[u32]) -> Vec<Part> {
        let id = groups.regions.get(node as usize).copied().unwrap_or(0);
        self.held.retain(|held| id != 0 && held.region.id() == id);
        let Some(held) = self.held.first_mut() else { return self.none(own) };
        let host = |node: u32| groups.hosts.get(node as usize);
        let kernel = |node: u32| kernel_of(&groups.parents, node);
        let group: Vec<u32> = job.ranks.iter().map(|r| r.node).filter(|n| host(*n) == host(node)).collect();
        let senders = group.iter().filter(|n| kernel(**n) != kernel(node)).count();
        match held.claim(own.len() as u64, senders, group.len() as u64) {
            Ok(bytes) => own.iter().enumerate().map(|(i, _)| held.part(i as u64, bytes)).collect(),
            Err(e) => {
                let path = held.path.clone();
                self.complain(&path, &e);
                self.none(own)
            }
        }
    }

    fn none(&self, own: &[u32]) -> Vec<Part> {
        own.iter().map(|_| Part { why: self.why.clone(), ..Part::default() }).collect()
    }

    /// When to wake up.
    pub fn next_heartbeat(&self) -> Option<Instant> {
        self.next_heartbeat.filter(|_| !self.held.is_empty())
    }

    /// Says that this agent lives. An error if something was taken from it, because it was silent for too long.
    pub fn heartbeat(&mut self) -> std::result::Result<(), String> {
        let now = Instant::now();
        if self.next_heartbeat().is_none_or(|at| now < at) {
            return Ok(());
        }
        self.next_heartbeat = Some(now + HEARTBEAT_EVERY);
        let mut lost = Vec::new();
        for held in &mut self.held {
            let keeps = held.region.beat(&held.note, now_ms());
            if !held.ranks.is_none_or(|ranks| held.region.beat(&ranks, now_ms())) {
                held.ranks = None;
                lost.push(held.path.display().to_string());
            }
            if !keeps {
                log!(Debug, "somebody has taken a block of {}", held.path.display());
            }
            if held.since.elapsed() >= WATCH {
                held.take_from_the_dead();
            }
        }
        if lost.is_empty() {
            return Ok(());
        }
        Err(format!(
            "its part of the memory shared by VMs ({}) was taken by others: it was stopped for longer than FERRULE_IVSHMEM_LEASE={} s",
            lost.join(", "),
            IVSHMEM_LEASE.value()
        ))
    }

    /// Gives all back. The ranks are gone.
    pub fn give_back(&mut self) {
        self.held.clear();
    }
}

impl Held {
    fn open(path: &Path) -> Result<Held> {
        let region = Region::open(path, random())?;
        let seen = region.watch();
        let no_room = || std::io::Error::other("no block of it is free");
        let claim = |region: &Region| region.claim(random() as u64 | 1, 1, now_ms());
        let note = match claim(&region) {
            Some(note) => note,
            // Room may come from the dead only after they were watched.
            None => {
                std::thread::sleep(WATCH);
                region.reclaim(&seen, now_ms(), IVSHMEM_LEASE.value() * 1000);
                claim(&region).ok_or_else(no_room)?
            }
        };
        let nonce = random();
        region.leave(&note, nonce)?;
        Ok(Held { path: path.into(), region, note, nonce, ranks: None, seen: Some(seen), since: Instant::now() })
    }

    fn take_from_the_dead(&mut self) {
        let Some(seen) = self.seen.take() else { return };
        let blocks = self.region.reclaim(&seen, now_ms(), IVSHMEM_LEASE.value() * 1000);
        if blocks > 0 {
            log!(Info, "{blocks} blocks of {} were still owned by the dead", self.path.display());
        }
    }

    /// Room for so many ranks that receive from `senders` each, of so many ranks that use the region in this job; bytes for each.
    fn claim(&mut self, ranks: u64, senders: usize, of: u64) -> Result<u64> {
        let no_room = || std::io::Error::other("it has no room for this job's ranks");
        let (least, most) = channel::shm::part_bytes(senders).ok_or_else(no_room)?;
        // Not all of it, so that other jobs find some.
        let share = self.region.capacity() * 3 / 4 / of.max(1);
        let most = most.min(share).max(least);
        if self.claim_within(ranks, least, most).is_none() {
            std::thread::sleep(WATCH.saturating_sub(self.since.elapsed()));
            self.take_from_the_dead();
            self.claim_within(ranks, least, most).ok_or_else(no_room)?;
        }
        let bytes = self.ranks.map_or(0, |extent| self.region.place(&extent).1 as u64) / ranks.max(1);
        Ok(bytes / PAGE * PAGE)
    }

    fn claim_within(&mut self, ranks: u64, least: u64, most: u64) -> Option<Extent> {
        let owner = random() as u64 | 1;
        let sizes = std::iter::successors(Some(most), |size| (*size > least).then(|| (size / 2).max(least)));
        let rounded = |size: u64| ranks * size.next_multiple_of(PAGE);
        self.ranks = sizes.map(rounded).find_map(|bytes| self.region.claim(owner, bytes, now_ms()));
        self.ranks
    }

    fn part(&self, index: u64, bytes: u64) -> Part {
        let start = self.ranks.map_or(0, |extent| self.region.place(&extent).0);
        Part {
            path: self.path.as_os_str().as_bytes().to_vec(),
            id: self.region.id(),
            offset: start + index * bytes,
            len: bytes,
            why: String::new(),
        }
    }
}

const PAGE: u64 = 4096;

fn random() -> u128 {
    u128::from_le_bytes(sys::process::random())
}

/// The time of day: other kernels have no other clock in common with this one, and they may set it differently.
fn now_ms() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(1, |time| time.as_millis() as u64)
}

/// Where regions may be: what somebody has named, or devices of this machine.
fn candidates(job: &JobSpec) -> Vec<PathBuf> {
    let locality = hints::of_node(channel::locality::LOCALITY.read(), "LOCALITY", job);
    match hints::of_node(IVSHMEM.read(), "IVSHMEM", job).as_str() {
        _ if locality == "off" => Vec::new(),
        "off" | "" => Vec::new(),
        "auto" if locality == "node" => Vec::new(),
        "auto" => devices(),
        paths => paths.split(':').filter(|path| !path.is_empty()).map(PathBuf::from).collect(),
    }
}

/// The memory of the ivshmem devices of this machine.
pub(crate) fn devices() -> Vec<PathBuf> {
    // One short file tells whether it is worth while to look through the devices.
    let list = std::fs::read_to_string("/proc/bus/pci/devices").unwrap_or_default();
    if !list.contains("1af41110") {
        return Vec::new();
    }
    let entries = std::fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().flatten();
    let says = |path: &Path, name: &str, what: &str| {
        std::fs::read_to_string(path.join(name)).is_ok_and(|text| text.trim() == what)
    };
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| says(path, "vendor", DEVICE.0) && says(path, "device", DEVICE.1))
        // Firmware may have left its memory switched off, which root may change; where that fails, all bytes read as ones.
        .inspect(|path| _ = says(path, "enable", "0").then(|| std::fs::write(path.join("enable"), "1")))
        .map(|path| path.join("resource2"))
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_get_pieces_that_do_not_overlap_and_all_comes_back() {
        let path = std::env::temp_dir().join(format!("ferrule-regions-{}", std::process::id()));
        std::fs::File::create(&path).unwrap().set_len(4 << 20).unwrap();
        let (mut a, mut b) = (Held::open(&path).unwrap(), Held::open(&path).unwrap());
        assert_eq!(b.region.find(a.region.block(&a.note)).unwrap(), a.nonce);
        let mut pieces = Vec::new();
        for held in [&mut a, &mut b] {
            let bytes = held.claim(2, 2, 4).unwrap();
            assert!(bytes.is_multiple_of(PAGE) && bytes > 100 << 10, "{bytes}");
            pieces.extend((0..2).map(|i| held.part(i, bytes)).map(|p| (p.offset, p.len)));
        }
        pieces.sort_unstable();
        assert!(pieces.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0), "{pieces:?}");
        assert!(Held::open(&path).unwrap().claim(500, 900, 1400).is_err(), "there is no room for so many");
        drop((a, b));
        let free = Held::open(&path).unwrap();
        assert!(free.region.watch().iter().filter(|(owner, _)| *owner != 0).count() <= 1);
        std::fs::remove_file(&path).unwrap();
    }
}
