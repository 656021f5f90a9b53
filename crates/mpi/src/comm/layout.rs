//! Which processes of a communicator share a node, as the hierarchical collectives see it.

use super::Comm;
use crate::job;
use std::cell::OnceCell;

/// The layout of a communicator, found when it is first needed; `None` if all of its processes share a node.
#[derive(Default, Debug)]
pub struct Cache {
    layout: OnceCell<Option<Box<Layout>>>,
    is_one_node: OnceCell<bool>,
}

impl Cache {
    /// The layout of `comm`, to which this cache belongs.
    #[inline]
    pub fn of<'a>(&'a self, comm: &Comm) -> Option<&'a Layout> {
        self.layout.get_or_init(|| find(comm)).as_deref()
    }

    /// Whether all processes of `comm` are known to share a node, also those of its remote group.
    pub fn is_one_node(&self, comm: &Comm) -> bool {
        *self.is_one_node.get_or_init(|| {
            let mut nodes =
                comm.group.peers().chain(comm.remote.iter().flat_map(|remote| remote.peers())).map(job::node_of);
            let first = nodes.next().flatten();
            first.is_some() && nodes.all(|node| node == first)
        })
    }
}

#[cold]
fn find(comm: &Comm) -> Option<Box<Layout>> {
    if comm.is_inter() {
        return None;
    }
    // Nobody knows the nodes of another job, and all processes must see the same: then there is no layout.
    let nodes: Option<Vec<i32>> = comm.group.peers().map(job::node_of).collect();
    let nodes = nodes?;
    let layout = Layout::new(comm.rank as usize, comm.size() as usize, |rank| nodes[rank] as u64);
    (layout.nodes > 1).then(|| Box::new(layout))
}

/// The nodes of a communicator, as one of its processes sees them.
#[derive(Debug)]
pub struct Layout {
    /// Number of nodes.
    pub nodes: usize,
    /// Largest number of processes on one node.
    pub ranks_per_node: usize,
    /// Node of each rank, numbered by first appearance.
    node_of: Vec<u32>,
    /// The ranks of this process's node, ascending. The first is the leader.
    node_peers: Vec<u32>,
    /// Leader of each node.
    leaders: Vec<u32>,
}

impl Layout {
    /// `node_of(rank)` is any number that is the same for ranks of one node; all processes must agree on who is together.
    pub fn new(rank: usize, ranks: usize, node_of: impl Fn(usize) -> u64) -> Layout {
        let mut seen = std::collections::HashMap::new();
        let mut sizes: Vec<usize> = Vec::new();
        let mut leaders = Vec::new();
        let nodes: Vec<u32> = (0..ranks)
            .map(|r| {
                let index = *seen.entry(node_of(r)).or_insert_with(|| {
                    sizes.push(0);
                    leaders.push(r as u32);
                    leaders.len() as u32 - 1
                });
                sizes[index as usize] += 1;
                index
            })
            .collect();
        let node_peers = (0..ranks).filter(|&r| nodes[r] == nodes[rank]).map(|r| r as u32).collect();
        let ranks_per_node = sizes.iter().copied().max().unwrap_or(0);
        Layout { nodes: leaders.len(), ranks_per_node, node_of: nodes, node_peers, leaders }
    }

    /// Node of a rank.
    pub fn node(&self, rank: usize) -> usize {
        self.node_of[rank] as usize
    }

    /// The ranks of this process's node, `chosen` first if it is one of them.
    pub fn node_peers(&self, chosen: usize) -> Vec<u32> {
        let mut node_peers = self.node_peers.clone();
        if let Some(at) = node_peers.iter().position(|&r| r as usize == chosen) {
            node_peers[..=at].rotate_right(1);
        }
        node_peers
    }

    /// The leader of each node; `chosen` leads its own.
    pub fn leaders(&self, chosen: usize) -> Vec<u32> {
        let mut leaders = self.leaders.clone();
        leaders[self.node(chosen)] = chosen as u32;
        leaders
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_rank_leads_its_node() {
        let layout = Layout::new(4, 6, |r| [7, 7, 9, 9, 7, 9][r]);
        assert_eq!((layout.nodes, layout.ranks_per_node), (2, 3));
        assert_eq!(layout.node_peers(4), [4, 0, 1]);
        assert_eq!(layout.node_peers(2), [0, 1, 4]);
        assert_eq!(layout.leaders(4), [4, 2]);
        assert_eq!(layout.leaders(3), [0, 3]);
    }
}
