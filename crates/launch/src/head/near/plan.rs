//! Which agent calls which in each round, and the results: groups, directories for inboxes, reasons.

use super::{Meeting, Pair};
use protocol::control::near::{self, Call, Directory, Hints};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Most reasons that are told to one agent.
const REASONS_MAX: usize = 256;
/// Most calls of one agent in the second round.
const CALLS_MAX: usize = 64;
/// The one by files.
const BY_FILES: u32 = 3;

/// What one agent has to do.
#[derive(Default)]
pub(super) struct Task {
    pub(super) calls: Vec<Call>,
    pub(super) listen: BTreeSet<Vec<u8>>,
    pub(super) files: Vec<Vec<u8>>,
}

impl Meeting {
    /// Finds out who may meet whom.
    pub(super) fn find_candidates(&mut self) {
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

    /// The calls of the next round.
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
    pub(super) fn plan(&mut self) -> BTreeMap<u32, Task> {
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
    pub(super) fn directories(&mut self, parents: &[u32]) -> Vec<Vec<u8>> {
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
    pub(super) fn result(&self) -> (Vec<u32>, Vec<u32>) {
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
    pub(super) fn apart(&self, parents: &[u32]) -> BTreeMap<u32, Vec<(u32, String)>> {
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
