//! The front's part in finding agents under one kernel: collects hints, arranges calls, forms groups (`protocol::control::near`).
//!
//! Phases: hints ─ of all agents that aren't lost ─► { sockets ─► calls } once or twice ─► over. A phase without anything to do is
//! skipped. An agent that is lost counts as one that has answered. The first round of calls is a forest of the candidates, by abstract
//! sockets where that may do, so that it costs O(agents) and mostly no file; the second tries what is left between its trees; in the
//! third those talk in a file that no socket has joined, again along a forest. At last kernels look for each other in memory that a hypervisor
//! shares between them ([`regions`]).

mod regions;

use protocol::control::near::{self, Call, Directory, Groups, Hints, Route};
use protocol::control::tree::{ALL, Message};
use regions::Regions;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Most reasons that are told to one agent.
const REASONS_MAX: usize = 256;
/// Most calls of one agent in the second round.
const CALLS_MAX: usize = 64;
/// Rounds of calls.
const ROUNDS: u32 = 3;
/// The one by files.
const BY_FILES: u32 = 3;

/// Two nodes, the lower one first.
type Pair = (u32, u32);

/// What one agent has to do.
#[derive(Default)]
struct Task {
    calls: Vec<Call>,
    listen: BTreeSet<Vec<u8>>,
    files: Vec<Vec<u8>>,
}

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
    /// Who was to talk in a file, and in which of its directories each.
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

    /// Finds out who may meet whom.
    fn find_candidates(&mut self) {
        let nodes = self.hints.len() as u32;
        for pair in (0..nodes).flat_map(|a| (a + 1..nodes).map(move |b| (a, b))) {
            let (Some(from), Some(to)) = (self.hints(pair.0), self.hints(pair.1)) else { continue };
            match near::route(from, to) {
                Ok(route) => _ = self.candidates.insert(pair, route),
                Err(why) if near::looks_near(from, to) => _ = self.reasons.insert(pair, why),
                Err(_) => {}
            }
        }
    }

    /// Who calls whom in the next round.
    fn choose(&mut self) -> Vec<Pair> {
        let nodes = self.hints.len() as u32;
        self.round += 1;
        if self.round == 1 {
            let all = self.candidates.keys().copied().collect();
            let parents = near::forest(nodes, &all);
            let edges = parents.iter().enumerate().map(|(node, parent)| (*parent, node as u32));
            return edges.filter(|(a, b)| a != b).map(|(a, b)| (a.min(b), a.max(b))).collect();
        }
        let parents = near::forest(nodes, &self.met);
        let mut kernel_of: Vec<u32> = (0..nodes).map(|node| near::kernel_of(&parents, node)).collect();
        if self.round == BY_FILES {
            // One file joins two groups: their trees of sockets stay as they are.
            let mut joins = |(a, b): &Pair| {
                let (to, from) = (kernel_of[*a as usize], kernel_of[*b as usize]);
                if to != from {
                    kernel_of.iter_mut().filter(|kernel| **kernel == from).for_each(|kernel| *kernel = to);
                }
                to != from
            };
            return self.candidates.keys().copied().filter(&mut joins).collect();
        }
        let mut calls = vec![0; nodes as usize];
        let mut left = |(a, b): &Pair| {
            let apart = kernel_of[*a as usize] != kernel_of[*b as usize];
            calls[*a as usize] += usize::from(apart);
            apart && calls[*a as usize] <= CALLS_MAX
        };
        let by_socket = self.candidates.iter().filter(|(_, route)| route.has_socket()).map(|(pair, _)| *pair);
        by_socket.filter(&mut left).collect()
    }

    /// The next round's tasks.
    fn plan(&mut self) -> BTreeMap<u32, Task> {
        let mut tasks: BTreeMap<u32, Task> = BTreeMap::new();
        let (mut files, mut by_file) = (Vec::new(), Vec::new());
        for pair in self.choose() {
            let Some(mut route) = self.candidates.remove(&pair) else { continue };
            let (Some(from), Some(to)) = (self.hints(pair.0), self.hints(pair.1)) else { continue };
            let mut call = Call { node: pair.1, name: Vec::new(), path: Vec::new(), given: false, file: Vec::new() };
            if self.round == BY_FILES {
                let Some((i, j)) = route.file else { continue };
                let name = [&to.name[..], format!("-{}", pair.0).as_bytes()].concat();
                call.file = socket_in(&from.directories[i].path, &name);
                let path = socket_in(&to.directories[j].path, &name);
                files.push((to.directories[j].clone(), OsStr::from_bytes(&path).into()));
                by_file.push((pair, (i, j)));
                tasks.entry(pair.1).or_default().files.push(path);
                tasks.entry(pair.0).or_default().calls.push(call);
                continue;
            }
            if !route.has_socket() {
                self.candidates.insert(pair, route);
                continue;
            }
            if route.abstract_socket {
                call.name.clone_from(&to.name);
            }
            call.given = route.given && !route.abstract_socket;
            // A file only where it is needed.
            let by_path = route.directory.filter(|_| call.name.is_empty() && !call.given || self.round > 1);
            if let Some((i, j)) = by_path {
                call.path = socket_in(&from.directories[i].path, &to.name);
                let path = socket_in(&to.directories[j].path, &to.name);
                files.push((to.directories[j].clone(), OsStr::from_bytes(&path).into()));
                tasks.entry(pair.1).or_default().listen.insert(path);
                (route.given, route.directory) = (false, None);
            }
            (route.abstract_socket, route.given) = (false, route.given && !call.given);
            if route.has_socket() || route.file.is_some() {
                self.candidates.insert(pair, route);
            }
            tasks.entry(pair.0).or_default().calls.push(call);
        }
        self.files.extend(files);
        self.by_file.extend(by_file);
        tasks
    }

    /// By node: the directory in which its ranks' inboxes are files, if some pair of its group has only files in common.
    fn directories(&mut self, parents: &[u32]) -> Vec<Vec<u8>> {
        let proved = self.by_file.iter().filter(|(pair, _)| self.met.contains(pair));
        let mut used: BTreeMap<u32, &Directory> = BTreeMap::new();
        let mut groups: BTreeMap<u32, &Directory> = BTreeMap::new();
        for ((a, b), (i, j)) in proved {
            for (node, at) in [(a, i), (b, j)] {
                if let Some(directory) = self.hints(*node).and_then(|hints| hints.directories.get(*at)) {
                    used.entry(*node).or_insert(directory);
                    groups.entry(near::kernel_of(parents, *node)).or_insert(directory);
                }
            }
        }
        if used.is_empty() {
            return Vec::new();
        }
        // Others of the group met by sockets, under one kernel, where numbers mean something.
        let same = |node: u32| {
            let (a, hints) = (groups.get(&near::kernel_of(parents, node))?, self.hints(node)?);
            hints.directories.iter().find(|b| (a.device, a.inode) == (b.device, b.inode))
        };
        let of = |node| used.get(&node).copied().or_else(|| same(node));
        let found: Vec<Option<Directory>> = (0..parents.len() as u32).map(|node| of(node).cloned()).collect();
        self.inboxes = found.iter().flatten().cloned().collect();
        self.inboxes.dedup();
        found.into_iter().map(|directory| directory.map_or(Vec::new(), |d| d.path)).collect()
    }

    /// By node: its parent in the tree of its group, and the processors of the group. Empty if all are alone.
    fn result(&self) -> (Vec<u32>, Vec<u32>) {
        if self.met.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let nodes = self.hints.len() as u32;
        let parents = near::forest(nodes, &self.met);
        let mut members: BTreeMap<u32, Vec<&Hints>> = BTreeMap::new();
        for node in 0..nodes {
            members.entry(near::kernel_of(&parents, node)).or_default().extend(self.hints(node));
        }
        let cpus: BTreeMap<u32, u32> = members.iter().map(|(root, group)| (*root, near::processors(group))).collect();
        let cpus = (0..nodes).map(|node| cpus[&near::kernel_of(&parents, node)]).collect();
        (parents, cpus)
    }

    /// Reasons for each agent why others that may be near are not in its group.
    fn apart(&self, parents: &[u32]) -> BTreeMap<u32, Vec<(u32, String)>> {
        let mut out: BTreeMap<u32, Vec<(u32, String)>> = BTreeMap::new();
        let mut tell = |to: u32, of: u32, why: &str| {
            let list = out.entry(to).or_default();
            if list.len() < REASONS_MAX {
                list.push((of, why.to_string()));
            }
        };
        for ((a, b), why) in &self.reasons {
            if near::kernel_of(parents, *a) != near::kernel_of(parents, *b) {
                tell(*a, *b, why);
                tell(*b, *a, why);
            }
        }
        out
    }
}

/// Where the agent with sockets called `name` listens in a directory.
fn socket_in(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let file = [b".", name].concat();
    Path::new(OsStr::from_bytes(directory)).join(OsStr::from_bytes(&file)).as_os_str().as_bytes().to_vec()
}

impl Meeting {
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
