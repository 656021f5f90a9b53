//! Which nodes share a region of memory although their kernels differ: the head process's part. Pure.
//!
//! Every agent that sees a region has left a random number there and told it with its hints, over the authenticated tree. Of the agents that name one
//! region each reads the others' numbers and says what it has read. Two nodes share memory if each has read what the other has left: a
//! copy of the region on another host, or in a restored snapshot, shows old numbers.

use protocol::control::near::{self, Hints, Spot};
use std::collections::{BTreeMap, BTreeSet};

/// Groups up to this size look at everybody, larger ones only at their lowest node and that one at all.
const ALL_TO_ALL_MAX: usize = 32;

/// What is known of regions.
#[derive(Default)]
pub struct Regions {
    nodes: u32,
    kernel_of: Vec<u32>,
    /// By node: region, block, and the number left there.
    left: BTreeMap<u32, (u128, u32, u128)>,
    /// Who has read whose number.
    seen: BTreeSet<(u32, u32)>,
}

impl Regions {
    /// Gives each node at most one region, one that joins kernels: the one that joins most.
    pub fn choose(&mut self, parents: &[u32], hints: &[Option<&Hints>]) {
        self.nodes = hints.len() as u32;
        self.kernel_of = (0..self.nodes).map(|node| near::kernel_of(parents, node)).collect();
        let mut kernels: BTreeMap<u128, BTreeSet<u32>> = BTreeMap::new();
        let every = |node: u32| hints[node as usize].iter().flat_map(|h| &h.regions);
        for node in 0..self.nodes {
            for hint in every(node) {
                kernels.entry(hint.id).or_default().insert(self.kernel_of[node as usize]);
            }
        }
        for node in 0..self.nodes {
            let joined = |id: u128| kernels.get(&id).map_or(0, BTreeSet::len);
            let best =
                every(node).filter(|hint| hint.id != 0 && joined(hint.id) > 1).max_by_key(|h| (joined(h.id), h.id));
            self.left.extend(best.map(|hint| (node, (hint.id, hint.block, hint.nonce))));
        }
    }

    /// Who has to look where.
    pub fn spots(&self) -> Vec<(u32, Vec<Spot>)> {
        let mut members: BTreeMap<u128, Vec<u32>> = BTreeMap::new();
        for (node, (id, ..)) in &self.left {
            members.entry(*id).or_default().push(*node);
        }
        let spot = |node: u32| self.left.get(&node).map(|(id, block, _)| Spot { node, id: *id, block: *block });
        let mut out = Vec::new();
        for group in members.values().filter(|group| group.len() > 1) {
            for node in group {
                let all = group.len() <= ALL_TO_ALL_MAX || *node == group[0];
                let others = group.iter().filter(|other| *other != node && (all || **other == group[0]));
                out.push((*node, others.filter_map(|other| spot(*other)).collect()));
            }
        }
        out
    }

    /// What a node has read.
    pub fn on_seen(&mut self, node: u32, numbers: &[(u32, u128)]) {
        let right = |(other, number): &&(u32, u128)| self.left.get(other).is_some_and(|(.., nonce)| nonce == number);
        let right: Vec<u32> = numbers.iter().filter(right).map(|(other, _)| *other).collect();
        self.seen.extend(right.into_iter().map(|other| (node, other)));
    }

    /// Nodes are lost.
    pub fn on_gone(&mut self, nodes: &[u32]) {
        self.left.retain(|node, _| !nodes.contains(node));
        self.seen.retain(|(a, b)| !nodes.contains(a) && !nodes.contains(b));
    }

    /// By node: the lowest node of its group, and its region; both empty if there is no group of several kernels.
    pub fn result(&self) -> (Vec<u32>, Vec<u128>) {
        let mutual = |(a, b): &&(u32, u32)| a < b && self.seen.contains(&(*b, *a));
        let edges: BTreeSet<(u32, u32)> = self.seen.iter().filter(mutual).copied().collect();
        let parents = near::forest(self.nodes, &edges);
        let hosts: Vec<u32> = (0..self.nodes).map(|node| near::kernel_of(&parents, node)).collect();
        let joins = |host: u32| {
            let kernels = (0..self.nodes as usize).filter(|n| hosts[*n] == host).map(|n| self.kernel_of[n]);
            kernels.collect::<BTreeSet<_>>().len() > 1
        };
        let region = |node: u32| match self.left.get(&node) {
            Some((id, ..)) if joins(hosts[node as usize]) => *id,
            _ => 0,
        };
        let regions: Vec<u128> = (0..self.nodes).map(region).collect();
        if regions.iter().all(|id| *id == 0) { (Vec::new(), Vec::new()) } else { (hosts, regions) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::control::near::{Mode, RegionHint};

    fn hints(regions: &[(u128, u32, u128)]) -> Hints {
        Hints {
            mode: Mode::Auto as u8,
            boot_id: None,
            network: None,
            name: Vec::new(),
            directories: Vec::new(),
            inherited: false,
            uid: 0,
            cpus: Vec::new(),
            quota_milli: None,
            quota_group: 0,
            regions: regions.iter().map(|&(id, block, nonce)| RegionHint { id, block, nonce }).collect(),
        }
    }

    fn after(parents: &[u32], all: &[Hints], honest: &[u32]) -> Regions {
        let mut regions = Regions::default();
        regions.choose(parents, &all.iter().map(Some).collect::<Vec<_>>());
        for (node, spots) in regions.spots() {
            let number = |spot: &Spot| {
                let left = all[spot.node as usize].regions.iter().find(|h| (h.id, h.block) == (spot.id, spot.block));
                (spot.node, left.unwrap().nonce + u128::from(!honest.contains(&node)))
            };
            regions.on_seen(node, &spots.iter().map(number).collect::<Vec<_>>());
        }
        regions
    }

    #[test]
    fn who_reads_each_other_shares_memory() {
        let all = [hints(&[(5, 1, 100)]), hints(&[(5, 2, 200)]), hints(&[]), hints(&[(5, 3, 300), (6, 1, 301)])];
        assert_eq!(after(&[], &all, &[0, 1, 3]).result(), (vec![0, 0, 2, 0], vec![5, 5, 0, 5]));
        assert_eq!(after(&[], &all, &[0, 1]).result(), (vec![0, 0, 2, 3], vec![5, 5, 0, 0]), "node 3 sees a copy");
        assert_eq!(after(&[], &all, &[0]).result(), (vec![], vec![]));
    }

    #[test]
    fn one_kernel_needs_no_region() {
        let all = [hints(&[(5, 1, 100)]), hints(&[(5, 2, 200)])];
        let regions = after(&[0, 0], &all, &[0, 1]);
        assert!(regions.spots().is_empty() && regions.result().0.is_empty());
        let three = [all[0].clone(), all[1].clone(), hints(&[(5, 3, 300)])];
        assert_eq!(after(&[0, 0, 2], &three, &[0, 1, 2]).result().1, [5, 5, 5]);
    }

    #[test]
    fn the_lost_are_in_no_group_and_nonsense_is_ignored() {
        let all = [hints(&[(5, 1, 100)]), hints(&[(5, 2, 200)])];
        let mut regions = after(&[], &all, &[0, 1]);
        regions.on_seen(77, &[(88, 1), (0, 100)]);
        assert_eq!(regions.result().1, [5, 5]);
        regions.on_gone(&[1]);
        assert!(regions.result().0.is_empty());
    }
}
