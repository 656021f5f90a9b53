//! The head process's part in finding agents under one kernel: collects hints, arranges calls, forms groups (`protocol::control::near`).
//!
//! Phases: hints ─ of all agents that aren't lost ─► { sockets ─► calls } once or twice ─► over. A phase without anything to do is
//! skipped. An agent that is lost counts as one that has answered. The first round of calls is a forest of the candidates, by abstract
//! sockets where that may do, so that it costs O(agents) and mostly no file; the second tries what is left between its trees; in the
//! third, agents that no socket has joined talk through a file, again along a forest. At last, agents of different kernels look for each other in memory that a
//! hypervisor shares between them ([`regions`]).

mod plan;
mod regions;

use protocol::control::near::{self, Directory, Groups, Hints, Route};
use protocol::control::tree::{ALL, Message};
use regions::Regions;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Rounds of calls.
const ROUNDS: u32 = 3;

/// Two nodes, the lower one first.
type Pair = (u32, u32);

#[derive(PartialEq)]
enum Phase {
    Hints,
    Sockets,
    Calls,
    Regions,
    Over,
}

/// How far the agents have come.
pub struct Meeting {
    phase: Phase,
    round: u32,
    hints: Vec<Option<Hints>>,
    /// Agents whose answer the phase waits for.
    awaited: BTreeSet<u32>,
    /// Who may meet, and which ways have not been tried.
    candidates: BTreeMap<Pair, Route>,
    met: BTreeSet<Pair>,
    /// The pairs that were to meet in a file, and the directory of each agent.
    by_file: BTreeMap<Pair, (usize, usize)>,
    reasons: BTreeMap<Pair, String>,
    /// Agents that have somebody to call in this round.
    calling: BTreeSet<u32>,
    gone: BTreeSet<u32>,
    /// Sockets in directories that agents were told to open.
    files: Vec<(Directory, PathBuf)>,
    /// Directories in which ranks' inboxes are.
    inboxes: Vec<Directory>,
    regions: Regions,
    /// When the last hints came.
    since: Option<Instant>,
}

/// A message and the node that gets it, or `ALL`.
pub type Order = (u32, Message);

impl Meeting {
    /// Of `nodes` agents; 0 if they don't look for each other.
    pub fn new(nodes: usize) -> Meeting {
        Meeting {
            phase: if nodes == 0 { Phase::Over } else { Phase::Hints },
            round: 0,
            hints: vec![None; nodes],
            awaited: (0..nodes as u32).collect(),
            candidates: BTreeMap::new(),
            met: BTreeSet::new(),
            by_file: BTreeMap::new(),
            reasons: BTreeMap::new(),
            calling: BTreeSet::new(),
            gone: BTreeSet::new(),
            files: Vec::new(),
            inboxes: Vec::new(),
            regions: Regions::default(),
            since: None,
        }
    }

    fn hints(&self, node: u32) -> Option<&Hints> {
        self.hints.get(node as usize)?.as_ref().filter(|_| !self.gone.contains(&node))
    }

    /// An agent has told where it is.
    pub fn on_hints(&mut self, node: u32, hints: Hints) -> Vec<Order> {
        match self.hints.get_mut(node as usize) {
            Some(place) if self.phase == Phase::Hints => *place = Some(hints),
            _ => return Vec::new(),
        }
        self.on_answer(node, Phase::Hints)
    }

    /// An agent's sockets are open.
    pub fn on_listening(&mut self, node: u32) -> Vec<Order> {
        self.on_answer(node, Phase::Sockets)
    }

    /// An agent's calls are decided.
    pub fn on_met(&mut self, node: u32, proved: &[u32], refused: Vec<(u32, String)>) -> Vec<Order> {
        let nodes = self.hints.len() as u32;
        let pair = |other: u32| (node.min(other), node.max(other));
        if self.phase == Phase::Calls && node < nodes {
            let lives = |n: &&u32| **n < nodes && **n != node && !self.gone.contains(n);
            self.met.extend(proved.iter().filter(lives).map(|n| pair(*n)));
            for (other, why) in refused {
                let reasons = self.reasons.entry(pair(other)).or_default();
                *reasons = if reasons.is_empty() { why } else { format!("{reasons}; {why}") };
            }
        }
        self.on_answer(node, Phase::Calls)
    }

    /// What an agent has found in a region.
    pub fn on_seen(&mut self, node: u32, seen: Vec<(u32, u128)>) -> Vec<Order> {
        if self.phase == Phase::Regions {
            self.regions.on_seen(node, &seen);
        }
        self.on_answer(node, Phase::Regions)
    }

    /// Agents are lost: nobody waits for them, or meets them.
    pub fn on_gone(&mut self, nodes: &[u32]) -> Vec<Order> {
        if self.phase == Phase::Over {
            return Vec::new();
        }
        self.gone.extend(nodes);
        self.met.retain(|(a, b)| !nodes.contains(a) && !nodes.contains(b));
        self.awaited.retain(|node| !nodes.contains(node));
        self.regions.on_gone(nodes);
        self.advance()
    }

    /// Time since the last hints.
    pub fn elapsed(&self) -> Duration {
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Removes what agents may have left that were killed together with whoever stood above them, where this process sees the same
    /// directory.
    pub fn sweep(&mut self, job_id: u64) {
        let same = |path: &Path, directory: &Directory| {
            std::fs::metadata(path).is_ok_and(|m| (m.dev(), m.ino()) == (directory.device, directory.inode))
        };
        for directory in self.inboxes.drain(..) {
            let path = Path::new(OsStr::from_bytes(&directory.path));
            let Some(entries) = std::fs::read_dir(path).ok().filter(|_| same(path, &directory)) else { continue };
            let ours = format!("{}{job_id:016x}-", near::INBOX_PREFIX);
            for entry in entries.flatten().filter(|e| e.file_name().as_bytes().starts_with(ours.as_bytes())) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        for (directory, path) in self.files.drain(..) {
            if path.parent().is_some_and(|parent| same(parent, &directory)) {
                let _ = std::fs::remove_file(&path);
            }
        }
    }

    fn on_answer(&mut self, node: u32, phase: Phase) -> Vec<Order> {
        if self.phase == phase && self.awaited.remove(&node) { self.advance() } else { Vec::new() }
    }

    /// From phase to phase, as long as nobody has to be waited for.
    fn advance(&mut self) -> Vec<Order> {
        let mut orders = Vec::new();
        while self.awaited.is_empty() && self.phase != Phase::Over {
            self.phase = match self.phase {
                Phase::Hints => {
                    self.since = Some(Instant::now());
                    self.find_candidates();
                    self.open_sockets(&mut orders)
                }
                Phase::Sockets => self.make_calls(&mut orders),
                Phase::Calls if self.round < ROUNDS => self.open_sockets(&mut orders),
                Phase::Calls => self.look_into_regions(&mut orders),
                Phase::Regions | Phase::Over => self.conclude(&mut orders),
            };
            let gone = &self.gone;
            self.awaited.retain(|node| !gone.contains(node));
        }
        orders
    }

    /// Agents without sockets to open are not waited for: their abstract ones are open since the hints.
    fn open_sockets(&mut self, orders: &mut Vec<Order>) -> Phase {
        self.calling.clear();
        for (node, task) in self.plan() {
            if !task.calls.is_empty() {
                self.calling.insert(node);
            }
            if !task.listen.is_empty() || !task.files.is_empty() {
                self.awaited.insert(node);
            }
            let (calls, files) = (task.calls, task.files);
            orders.push((node, Message::Meet { calls, listen: task.listen.into_iter().collect(), files }));
        }
        Phase::Sockets
    }

    fn make_calls(&mut self, orders: &mut Vec<Order>) -> Phase {
        self.awaited.clone_from(&self.calling);
        orders.extend(self.calling.iter().map(|node| (*node, Message::Dial {})));
        Phase::Calls
    }

    /// Agents of different kernels that name the same region look for each other there.
    fn look_into_regions(&mut self, orders: &mut Vec<Order>) -> Phase {
        let parents = near::forest(self.hints.len() as u32, &self.met);
        let gone = &self.gone;
        let known =
            self.hints.iter().enumerate().map(|(node, h)| h.as_ref().filter(|_| !gone.contains(&(node as u32))));
        let hints: Vec<_> = known.collect();
        self.regions.choose(&parents, &hints);
        for (node, spots) in self.regions.spots() {
            self.awaited.insert(node);
            orders.push((node, Message::Look { spots }));
        }
        Phase::Regions
    }

    fn conclude(&mut self, orders: &mut Vec<Order>) -> Phase {
        let (parents, cpus) = self.result();
        orders.extend(self.apart(&parents).into_iter().map(|(node, reasons)| (node, Message::Apart { reasons })));
        let files = self.directories(&parents);
        let (hosts, regions) = self.regions.result();
        orders.push((ALL, Message::Kernels { groups: Groups { parents, cpus, files, hosts, regions } }));
        Phase::Over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::control::near::Mode;

    fn hints(network: u64, inode: u64) -> Hints {
        Hints {
            mode: Mode::Auto as u8,
            boot_id: Some("b".into()),
            network: Some(network),
            name: format!("n{network}").into_bytes(),
            directories: vec![Directory { device: 1, inode, named: false, path: b"/d".to_vec() }],
            inherited: false,
            uid: 0,
            cpus: vec![0],
            quota_milli: None,
            quota_group: 0,
            regions: Vec::new(),
        }
    }

    fn parents(orders: &[Order]) -> Option<&[u32]> {
        orders
            .iter()
            .find_map(|(_, m)| if let Message::Kernels { groups } = m { Some(groups.parents.as_slice()) } else { None })
    }

    #[test]
    fn without_candidates_the_hints_are_enough() {
        let mut meeting = Meeting::new(2);
        assert!(meeting.on_hints(1, hints(1, 1)).is_empty());
        let orders = meeting.on_hints(0, hints(2, 2));
        assert_eq!(parents(&orders), Some([].as_slice()));
        // They may be on one host, so both learn why they are apart.
        assert_eq!(orders.iter().filter(|o| matches!(o.1, Message::Apart { .. })).count(), 2);
    }

    #[test]
    fn a_shared_directory_needs_sockets_first() {
        let mut meeting = Meeting::new(3);
        meeting.on_hints(0, hints(1, 7));
        meeting.on_hints(1, hints(2, 7));
        let orders = meeting.on_hints(2, hints(3, 8));
        assert_eq!(orders.len(), 2);
        let Message::Meet { listen, .. } = &orders[1].1 else { panic!() };
        assert_eq!((orders[1].0, listen), (1, &vec![b"/d/.n2".to_vec()]));
        assert_eq!(meeting.on_listening(1), [(0, Message::Dial {})]);
        assert_eq!(parents(&meeting.on_met(0, &[1], Vec::new())), Some([0, 0, 2].as_slice()));
        assert!(meeting.on_met(0, &[2], Vec::new()).is_empty(), "too late");
    }

    #[test]
    fn abstract_sockets_need_no_file_but_what_they_refuse_is_tried_again_with_one() {
        let mut meeting = Meeting::new(3);
        meeting.on_hints(0, hints(1, 7));
        meeting.on_hints(1, hints(1, 7));
        let orders = meeting.on_hints(2, hints(1, 7));
        assert!(matches!(&orders[..], [(0, Message::Meet { calls, listen, .. }), (0, Message::Dial {})]
            if calls.len() == 2 && listen.is_empty() && calls.iter().all(|c| c.path.is_empty())));
        let orders = meeting.on_met(0, &[1], vec![(2, "refused".into())]);
        let calls: usize =
            orders.iter().map(|(_, m)| if let Message::Meet { calls, .. } = m { calls.len() } else { 0 }).sum();
        assert_eq!(calls, 2, "both 0 and 1 try 2, which is not in their tree: {orders:?}");
        assert_eq!(meeting.on_listening(2).len(), 2);
        meeting.on_met(0, &[], vec![(2, "refused again".into())]);
        assert_eq!(parents(&meeting.on_met(1, &[2], Vec::new())), Some([0, 0, 1].as_slice()));
    }

    #[test]
    fn who_can_only_share_files_talks_in_one_and_keeps_its_inbox_there() {
        let mut meeting = Meeting::new(3);
        meeting.on_hints(0, Hints { mode: Mode::Files as u8, ..hints(1, 7) });
        meeting.on_hints(1, hints(2, 7));
        let orders = meeting.on_hints(2, hints(3, 7));
        assert!(
            orders.iter().all(|(_, m)| !matches!(m, Message::Meet { files, .. } if !files.is_empty())),
            "{orders:?}"
        );
        meeting.on_listening(2);
        let orders = meeting.on_met(1, &[2], Vec::new());
        let files: Vec<_> = orders
            .iter()
            .filter_map(|(node, m)| if let Message::Meet { files, .. } = m { Some((*node, files.len())) } else { None })
            .collect();
        assert_eq!(files, [(0, 0), (1, 1)], "one file joins 0 to the group of 1 and 2");
        assert_eq!(meeting.on_listening(1), [(0, Message::Dial {})]);
        let orders = meeting.on_met(0, &[1], Vec::new());
        let Some((ALL, Message::Kernels { groups: Groups { parents, files, .. } })) = orders.last() else {
            panic!("{orders:?}")
        };
        assert_eq!(parents, &[0, 0, 1]);
        assert!(files.iter().all(|directory| directory == b"/d"), "{files:?}");
    }

    #[test]
    fn nobody_waits_for_the_lost() {
        for lost in 0..3 {
            for after in 0..3 {
                let mut meeting = Meeting::new(3);
                let mut orders = Vec::new();
                for node in (0..3).filter(|n| after > 0 || *n != lost) {
                    orders.extend(meeting.on_hints(node, hints(u64::from(node), 7)));
                }
                for step in 0..10 {
                    if step == after {
                        orders.extend(meeting.on_gone(&[lost]));
                    }
                    let dead = |node: u32| step >= after && node == lost;
                    let next: Vec<Order> = std::mem::take(&mut orders);
                    if parents(&next).is_some() {
                        orders = next;
                        break;
                    }
                    for (node, order) in next.iter().filter(|o| !dead(o.0)) {
                        orders.extend(match order {
                            Message::Meet { listen, .. } if !listen.is_empty() => meeting.on_listening(*node),
                            Message::Dial {} => meeting.on_met(*node, &(node + 1..3).collect::<Vec<_>>(), Vec::new()),
                            _ => Vec::new(),
                        });
                    }
                }
                let parents = parents(&orders).unwrap_or_else(|| panic!("{lost} lost before step {after}"));
                let others: Vec<u32> = (0..3).filter(|n| *n != lost).collect();
                let together = near::kernel_of(parents, others[0]) == near::kernel_of(parents, others[1]);
                assert!(together, "{lost} lost before step {after}: {parents:?}");
            }
        }
    }
}
