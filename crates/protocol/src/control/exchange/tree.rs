//! `tree`: endpoint addresses go up the tree of agents, and all of them down again. Agents keep them; a rank asks its own agent on first use.
//!
//! Each agent sends its parent the endpoint addresses of its subtree in one message, as soon as they are complete: O(N) bytes on each edge in each
//! direction, 2 messages per edge, depth log_k N.

use super::super::endpoint_address::EndpointAddress;
use base::WorldRank;
use std::collections::BTreeMap;

/// Stands for this and all later programs: nobody is left below.
pub const FOR_EVER: u32 = u32::MAX;

/// What has come from one agent below.
struct Report {
    generation: u32,
    addresses: Vec<(WorldRank, EndpointAddress)>,
}

/// What one agent, or mpiexec, has gathered for the present program.
#[derive(Default)]
pub struct Gather {
    generation: u32,
    own: BTreeMap<u32, EndpointAddress>,
    below: BTreeMap<u32, Report>,
    /// Reports of a program that some ranks have begun already.
    early: Vec<(u32, Report)>,
}

impl Gather {
    /// The program that is being gathered.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// A rank of this node has registered.
    pub fn own(&mut self, rank: u32, generation: u32, address: EndpointAddress) {
        if generation == self.generation {
            self.own.insert(rank, address);
        }
    }

    /// Whether that rank has registered.
    pub fn has(&self, rank: u32) -> bool {
        self.own.contains_key(&rank)
    }

    /// An agent below has reported its subtree. What is late doesn't count.
    pub fn report(&mut self, node: u32, generation: u32, addresses: Vec<(WorldRank, EndpointAddress)>) {
        let report = Report { generation, addresses };
        if generation == FOR_EVER || generation == self.generation {
            self.below.insert(node, report);
        } else if generation == self.generation + 1 {
            self.early.push((node, report));
        }
    }

    /// Whether all `nodes` below have reported, and whether they all have nobody left.
    pub fn complete(&self, mut nodes: std::ops::Range<u32>) -> (bool, bool) {
        let for_ever = |n: &u32| self.below.get(n).is_some_and(|r| r.generation == FOR_EVER);
        let all_gone = nodes.clone().all(|n| for_ever(&n));
        (nodes.all(|n| self.below.contains_key(&n)), all_gone)
    }

    /// Everything that has been gathered.
    pub fn take(&mut self) -> Vec<(WorldRank, EndpointAddress)> {
        let own = std::mem::take(&mut self.own).into_iter().map(|(rank, address)| (WorldRank(rank), address));
        let below = self.below.values_mut().flat_map(|report| std::mem::take(&mut report.addresses));
        own.chain(below.collect::<Vec<_>>()).collect()
    }

    /// Goes on to the program after `generation`; false if that isn't the present one.
    pub fn advance(&mut self, generation: u32) -> bool {
        if generation != self.generation {
            return false;
        }
        self.generation += 1;
        self.own.clear();
        self.below.retain(|_, report| report.generation == FOR_EVER);
        for (node, report) in std::mem::take(&mut self.early) {
            self.below.insert(node, report);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Random, offer};
    use super::*;
    use crate::control::tree::{ROOT, children, parent};

    /// Gathers one program in a tree of agents with one rank each, events in random order; what mpiexec has in the end.
    fn gather(all: &mut [Gather], width: u32, random: &mut Random) -> Vec<(WorldRank, EndpointAddress)> {
        let nodes = all.len() as u32 - 1;
        let generation = all[0].generation();
        let mut waiting: Vec<u32> = (0..nodes).collect();
        let mut sent = vec![false; all.len()];
        while !waiting.is_empty() {
            let node = waiting.swap_remove(random.below(waiting.len()));
            all[node as usize].own(node, generation, offer(node, nodes, false).address);
            let mut at = node;
            // Reports go up as far as they are complete.
            while at != ROOT {
                let gather = &mut all[at as usize];
                if sent[at as usize] || !gather.has(at) || !gather.complete(children(at, width, nodes)).0 {
                    break;
                }
                sent[at as usize] = true;
                let addresses = gather.take();
                let above = parent(at, width);
                let index = if above == ROOT { nodes } else { above };
                all[index as usize].report(at, generation, Vec::new());
                all[index as usize].below.get_mut(&at).unwrap().addresses = addresses;
                at = above;
            }
        }
        assert!(all[nodes as usize].complete(children(ROOT, width, nodes)).0);
        all[nodes as usize].take()
    }

    #[test]
    fn all_addresses_reach_the_root_for_every_shape_and_program() {
        let mut random = Random(3);
        for nodes in 1..=130u32 {
            let width = [1, 2, 3, 16][random.below(4)];
            let mut all: Vec<Gather> = (0..=nodes).map(|_| Gather::default()).collect();
            for program in 0..2 {
                let mut addresses = gather(&mut all, width, &mut random);
                addresses.sort_by_key(|c| c.0);
                let want: Vec<_> = (0..nodes).map(|r| (WorldRank(r), offer(r, nodes, false).address)).collect();
                assert_eq!(addresses, want);
                for gather in &mut all {
                    assert!(!gather.advance(program + 1) && gather.advance(program));
                }
            }
        }
    }

    #[test]
    fn late_reports_do_not_count_and_early_ones_wait() {
        let mut gather = Gather::default();
        let address = |rank| (WorldRank(rank), offer(rank, 3, false).address);
        gather.report(1, 1, vec![address(1)]);
        gather.report(2, 5, vec![address(2)]);
        assert_eq!(gather.complete(1..2), (false, false));
        gather.report(1, 0, vec![]);
        assert!(gather.complete(1..2).0 && gather.take().is_empty());
        assert!(gather.advance(0));
        assert!(gather.complete(1..2).0);
        assert_eq!(gather.take(), vec![address(1)]);
        gather.report(1, 0, vec![address(1)]);
        gather.report(2, FOR_EVER, vec![]);
        assert!(gather.advance(1));
        assert_eq!((gather.complete(2..3), gather.complete(1..3).0), ((true, true), false));
    }
}
