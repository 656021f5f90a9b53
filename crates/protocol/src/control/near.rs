//! Which agents run under one kernel: hints, calls, and what follows from the calls that succeeded. Pure.
//!
//! ```text
//! agent ─ Hints ─► head ─ Meet ─► agent ─ Listening ─► head ─ Dial ─► agent ─ Met ─► head ─ Apart, Kernels ─► agent
//! ```
//! A hint only makes a pair a candidate: of two candidates the one with the lower node index calls the other's unix socket, and both
//! prove that they know the job key (`handshake`). To be under one kernel is transitive, so a tree of calls is enough for a group,
//! and the links of that tree carry descriptors between any two of its agents. Candidates that no tree has joined are all tried once
//! more. Afterwards agents of different kernels that name the same region of memory tell what they find there (`Look`, `Seen`): who
//! sees the number that the other has left, and the other way round, shares that memory with it. Every step is skipped that nobody needs: without candidates `Kernels` follows the hints at once.

use super::codec::wire;
use super::endpoint_address::EndpointAddress;
use base::WorldRank;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

wire! {
    /// A directory that another agent may see too.
    pub struct Directory {
        /// Its device.
        pub device: u64,
        /// Its inode there.
        pub inode: u64,
        /// The user has named it for this purpose, so equal numbers mean something even if the boot ids differ.
        pub named: bool,
        /// Its path, as this agent sees it.
        pub path: Vec<u8>,
    }
}

/// Names of ranks' inboxes in shared directories begin so.
pub const INBOX_PREFIX: &str = ".ferrule-";

/// Where an agent looks for others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mode {
    /// Nowhere.
    Alone = 0,
    /// Where a hint says so.
    Auto = 1,
    /// Wherever the boot id doesn't say that it is useless.
    Host = 2,
    /// As `Auto`, but by files only.
    Files = 3,
}

wire! {
    /// A region of memory that an agent sees and other kernels may see too.
    pub struct RegionHint {
        /// The region's random name, as it says in it.
        pub id: u128,
        /// The block of it in which this agent has left `nonce`.
        pub block: u32,
        /// A random number that nobody knows who doesn't see the region or this job's messages.
        pub nonce: u128,
    }
}

wire! {
    /// Where another agent says that it has left a random number.
    pub struct Spot {
        /// Its node.
        pub node: u32,
        /// The region.
        pub id: u128,
        /// The block.
        pub block: u32,
    }
}

wire! {
    /// What an agent knows about where it is. All of it may lie.
    pub struct Hints {
        /// A [`Mode`].
        pub mode: u8,
        /// Boot id of its kernel.
        pub boot_id: Option<String>,
        /// Inode of its network namespace: unique under one kernel, the same on many.
        pub network: Option<u64>,
        /// Name of its abstract socket; empty if it has none.
        pub name: Vec<u8>,
        /// Directories for a socket, best first.
        pub directories: Vec<Directory>,
        /// It has inherited a socket that leads to mpiexec.
        pub inherited: bool,
        /// Its user, as it sees it.
        pub uid: u32,
        /// Processors that its ranks may use.
        pub cpus: Vec<u32>,
        /// Thousandths of a processor that its control group grants.
        pub quota_milli: Option<u32>,
        /// Which control group that is.
        pub quota_group: u64,
        /// Memory that it may share with other kernels of its host.
        pub regions: Vec<RegionHint>,
    }
}

wire! {
    /// Which nodes share a kernel.
    #[derive(Default)]
    pub struct Groups {
        /// By node: its parent in the tree of its kernel, itself for a root; empty if all are alone.
        pub parents: Vec<u32>,
        /// By node: processors that the ranks under its kernel may use together.
        pub cpus: Vec<u32>,
        /// By node: the directory in which its ranks' inboxes are files, or none; empty if that is so for all.
        pub files: Vec<Vec<u8>>,
        /// By node: the lowest node that shares a region of memory with it across kernels, itself if none does; empty if that is so for all.
        pub hosts: Vec<u32>,
        /// By node: the name of that region, 0 for none; as long as `hosts`.
        pub regions: Vec<u128>,
    }
}

wire! {
    /// An agent to call.
    pub struct Call {
        /// Its node.
        pub node: u32,
        /// Its abstract socket; empty if it is not to be tried.
        pub name: Vec<u8>,
        /// Its socket's path as the caller sees it; empty if there is none.
        pub path: Vec<u8>,
        /// mpiexec gives both an end of a new connection, over the sockets that they have inherited.
        pub given: bool,
        /// A file in which to talk, as the caller sees it; empty if that is not to be tried.
        pub file: Vec<u8>,
    }
}

wire! {
    /// What agents say to each other over links that have proved that both ends are under one kernel.
    pub enum SameKernel {
        /// To the rank's home: its endpoint address is wanted, with its descriptors.
        Want = 1 {
            /// Whose.
            peer: WorldRank,
            /// How many programs the asking rank has finalized before.
            generation: u32,
            /// Node that asks.
            from: u32,
        },
        /// The answer.
        Have = 2 {
            /// Node that has asked.
            to: u32,
            /// Whose.
            peer: WorldRank,
            /// As in `Want`.
            generation: u32,
            /// The endpoint address, or none if the peer has ended.
            address: Option<EndpointAddress>,
            /// Why there is none.
            why: String,
            /// Number of descriptors sent with this message.
            fd_count: u8,
        },
        /// To everybody: the link from this node to its parent is gone.
        Cut = 3 {
            /// The node.
            node: u32,
        },
    }
}

/// How two agents may meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// By the abstract socket.
    pub abstract_socket: bool,
    /// By a connection that mpiexec gives to both.
    pub given: bool,
    /// By a socket in this directory of the first agent's list, which is that one of the second's.
    pub directory: Option<(usize, usize)>,
    /// By a file there or, as numbers lie in sandboxes, in the directory that the user has named to both.
    pub file: Option<(usize, usize)>,
}

impl Route {
    /// Whether they may meet by sockets.
    pub fn has_socket(&self) -> bool {
        self.abstract_socket || self.given || self.directory.is_some()
    }
}

fn boot_ids_differ(a: &Hints, b: &Hints) -> bool {
    matches!((&a.boot_id, &b.boot_id), (Some(a), Some(b)) if a != b)
}

/// How agents with these hints may meet, or why not.
pub fn route(a: &Hints, b: &Hints) -> Result<Route, String> {
    if a.mode == Mode::Alone as u8 || b.mode == Mode::Alone as u8 {
        return Err("FERRULE_LOCALITY does not allow it".into());
    }
    let differ = boot_ids_differ(a, b);
    let only_files = a.mode == Mode::Files as u8 || b.mode == Mode::Files as u8;
    let forced = !differ && (a.mode == Mode::Host as u8 || b.mode == Mode::Host as u8);
    let named = !a.name.is_empty() && !b.name.is_empty();
    // Namespace numbers of different kernels are often equal.
    let same_network = a.network.is_some() && a.network == b.network && !differ;
    let find = |same: &dyn Fn(&Directory, &Directory) -> bool| {
        let with = |i: usize| b.directories.iter().position(|d| same(&a.directories[i], d)).map(|j| (i, j));
        (0..a.directories.len()).find_map(with)
    };
    let seen = find(&|x, y| x.device == y.device && x.inode == y.inode && (!differ || (x.named && y.named)));
    let route = Route {
        abstract_socket: named && (same_network || forced) && !only_files,
        given: a.inherited && b.inherited && !only_files,
        directory: seen.or_else(|| if forced { find(&|x, y| x.path == y.path) } else { None }).filter(|_| !only_files),
        file: seen.or_else(|| if differ { None } else { find(&|x, y| x.named && y.named) }),
    };
    if route.has_socket() || route.file.is_some() {
        return Ok(route);
    }
    if differ {
        return Err("another kernel: the boot ids differ".into());
    }
    let network = if same_network { "no abstract socket" } else { "other network namespace" };
    Err(format!("no shared directory, {network}"))
}

/// Whether it is worth telling the user why two agents did not meet: they may well be on one host.
pub fn looks_near(a: &Hints, b: &Hints) -> bool {
    !boot_ids_differ(a, b)
}

/// For each of `nodes` agents its parent in a tree of `edges` (lower node first) that reaches every agent which they connect; a root,
/// the lowest of its tree, is its own parent. Trees are as flat as the edges allow.
pub fn forest(nodes: u32, edges: &BTreeSet<(u32, u32)>) -> Vec<u32> {
    let mut beside: Vec<Vec<u32>> = vec![Vec::new(); nodes as usize];
    for &(a, b) in edges.iter().filter(|(a, b)| *a < nodes && *b < nodes) {
        beside[a as usize].push(b);
        beside[b as usize].push(a);
    }
    let mut parents: Vec<Option<u32>> = vec![None; nodes as usize];
    for root in 0..nodes {
        if parents[root as usize].is_some() {
            continue;
        }
        parents[root as usize] = Some(root);
        let mut queue = VecDeque::from([root]);
        while let Some(node) = queue.pop_front() {
            for &next in &beside[node as usize] {
                if parents[next as usize].is_none() {
                    parents[next as usize] = Some(node);
                    queue.push_back(next);
                }
            }
        }
    }
    parents.into_iter().enumerate().map(|(node, parent)| parent.unwrap_or(node as u32)).collect()
}

/// From `node` to the root of its tree, both included. Whatever `parents` says, this ends.
fn way_up(parents: &[u32], node: u32) -> impl Iterator<Item = u32> {
    let above = move |at: &u32| parents.get(*at as usize).copied().filter(|p| p != at);
    std::iter::successors(Some(node), above).take(parents.len().max(1))
}

/// The root of the tree of `node`: the name of its kernel.
pub fn kernel_of(parents: &[u32], node: u32) -> u32 {
    way_up(parents, node).last().unwrap_or(node)
}

/// The next node from `from` on the way to `to` in the tree; none if they are in different trees, or if the way leads over the edge above
/// one of the nodes `cut`.
pub fn next_hop(parents: &[u32], cut: &BTreeSet<u32>, from: u32, to: u32) -> Option<u32> {
    if from == to || kernel_of(parents, from) != kernel_of(parents, to) {
        return None;
    }
    let up: Vec<u32> = way_up(parents, from).collect();
    let down: Vec<u32> = way_up(parents, to).take_while(|n| !up.contains(n)).collect();
    let meets = down.last().map_or(to, |n| parents[*n as usize]);
    let mut edges = up.iter().take_while(|n| **n != meets).chain(&down);
    if edges.any(|n| cut.contains(n)) {
        return None;
    }
    if meets == from { down.last().copied() } else { parents.get(from as usize).copied() }
}

/// Processors that agents under one kernel may use together, rounded; 0 if unknown.
pub fn processors(group: &[&Hints]) -> u32 {
    let all: BTreeSet<u32> = group.iter().flat_map(|h| h.cpus.iter().copied()).collect();
    let mut quotas: BTreeMap<u64, u64> = BTreeMap::new();
    for hints in group {
        let Some(milli) = hints.quota_milli else { return all.len() as u32 };
        quotas.insert(hints.quota_group, u64::from(milli));
    }
    let granted = quotas.values().sum::<u64>();
    (all.len() as u32).min(granted.saturating_add(500).wrapping_div(1000).min(u64::from(u32::MAX)) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{decode, encode};

    fn hints(boot: &str, network: u64, directories: &[(u64, u64)]) -> Hints {
        Hints {
            mode: Mode::Auto as u8,
            boot_id: Some(boot.into()),
            network: Some(network),
            name: b"x".to_vec(),
            directories: directories
                .iter()
                .map(|&(device, inode)| Directory { device, inode, named: false, path: b"/d".to_vec() })
                .collect(),
            inherited: false,
            uid: 0,
            cpus: vec![0, 1],
            quota_milli: None,
            quota_group: 0,
            regions: Vec::new(),
        }
    }

    #[test]
    fn any_hint_makes_a_candidate_and_its_absence_a_reason() {
        let a = hints("k", 7, &[(1, 2), (3, 4)]);
        assert!(route(&a, &hints("k", 7, &[])).unwrap().abstract_socket);
        let by_directory = route(&a, &hints("k", 8, &[(9, 9), (3, 4)])).unwrap();
        assert_eq!(
            by_directory,
            Route { abstract_socket: false, given: false, directory: Some((1, 1)), file: Some((1, 1)) }
        );
        // With different boot ids the numbers are worthless, unless the user has named the directory.
        let mut fake = hints("fake", 7, &[(1, 2)]);
        assert!(route(&a, &fake).is_err());
        let mut named = a.clone();
        (fake.directories[0].named, named.directories[0].named) = (true, true);
        assert_eq!(
            route(&named, &fake).unwrap(),
            Route { abstract_socket: false, given: false, directory: Some((0, 0)), file: Some((0, 0)) }
        );
        assert!(route(&a, &hints("fake", 7, &[])).unwrap_err().contains("boot ids"));
        let why = route(&a, &hints("k", 8, &[])).unwrap_err();
        assert!(why.contains("no shared directory, other network namespace"), "{why}");
    }

    #[test]
    fn the_user_has_the_last_word() {
        let (a, mut b) = (hints("k", 7, &[(1, 2)]), hints("k", 8, &[(5, 6)]));
        b.mode = Mode::Host as u8;
        assert_eq!(
            route(&a, &b),
            Ok(Route { abstract_socket: true, given: false, directory: Some((0, 0)), file: None })
        );
        b.boot_id = Some("other".into());
        assert!(route(&a, &b).is_err());
        let mut off = a.clone();
        off.mode = Mode::Alone as u8;
        assert!(route(&a, &off).unwrap_err().contains("FERRULE_LOCALITY"));
    }

    #[test]
    fn trees_join_what_is_connected_and_lead_everywhere() {
        let edges = |pairs: &[(u32, u32)]| pairs.iter().copied().collect::<BTreeSet<_>>();
        assert_eq!(forest(3, &edges(&[])), [0, 1, 2]);
        assert_eq!(forest(4, &edges(&[(0, 1), (0, 2), (1, 2)])), [0, 0, 0, 3]);
        assert_eq!(forest(4, &edges(&[(0, 2), (1, 2), (2, 3)])), [0, 2, 0, 2]);
        let none = BTreeSet::new();
        let mut state = 1u64;
        for _ in 0..500 {
            let mut pairs = BTreeSet::new();
            for a in 0..8 {
                for b in a + 1..8 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    if state >> 61 == 0 {
                        pairs.insert((a, b));
                    }
                }
            }
            let parents = forest(8, &pairs);
            for (a, b) in (0..8u32).flat_map(|a| (0..8).map(move |b| (a, b))) {
                let together = kernel_of(&parents, a) == kernel_of(&parents, b);
                assert!(together || !pairs.contains(&(a.min(b), a.max(b))));
                let mut at = a;
                for _ in 0..8 {
                    at = next_hop(&parents, &none, at, b).unwrap_or(at);
                }
                assert_eq!(at == b, together || a == b);
                // Without the edge above b, nobody outside of its subtree gets there.
                let cut = BTreeSet::from([b]);
                let below = way_up(&parents, a).any(|n| n == b);
                if a != b && together {
                    assert_eq!(next_hop(&parents, &cut, a, b).is_some(), below);
                }
            }
        }
        // Nonsense does not loop.
        assert!(next_hop(&[1, 2, 0], &none, 0, 1).is_none() || kernel_of(&[1, 2, 0], 0) < 3);
    }

    #[test]
    fn processors_are_counted_once() {
        let with = |cpus: &[u32], quota: Option<u32>, group: u64| Hints {
            cpus: cpus.to_vec(),
            quota_milli: quota,
            quota_group: group,
            ..hints("k", 1, &[])
        };
        assert_eq!(processors(&[&with(&[0, 1], None, 0), &with(&[1, 2], None, 0)]), 3);
        assert_eq!(processors(&[&with(&[0, 1, 2, 3], Some(1000), 1), &with(&[0, 1, 2, 3], Some(1500), 2)]), 3);
        assert_eq!(processors(&[&with(&[0, 1, 2, 3], Some(1000), 1), &with(&[0, 1, 2, 3], Some(1000), 1)]), 1);
        assert_eq!(processors(&[]), 0);
    }

    #[test]
    fn no_bytes_of_an_agent_panic() {
        let message = SameKernel::Have {
            to: 1,
            peer: WorldRank(3),
            generation: 1,
            address: None,
            why: "gone".into(),
            fd_count: 2,
        };
        let bytes = encode(&message);
        assert_eq!(decode::<SameKernel>(&bytes).unwrap(), message);
        for at in 0..bytes.len() {
            for value in 0..=255 {
                let mut hostile = bytes.clone();
                hostile[at] = value;
                if let Ok(message) = decode::<SameKernel>(&hostile) {
                    assert_eq!(encode(&message), hostile);
                }
            }
        }
    }
}
