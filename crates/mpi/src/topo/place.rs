//! Reordering: which process gets which place in a topology, so that neighbours share a node.
//!
//! Pure functions of data that every process has, so that all compute the same. The result is always a permutation of the
//! first `n` ranks: entry `i` is the old rank of new rank `i`.

use crate::comm::Comm;
use crate::job;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// For each of the first `n` ranks the number of its node. All the same if some are of another job, of which no nodes are known: all
/// processes must see the same.
pub fn nodes(comm: &Comm, n: i32) -> Vec<i32> {
    let known: Option<Vec<i32>> = comm.group.peers().map(job::node_of).collect();
    known.map_or(vec![0; n as usize], |nodes| nodes[..n as usize].to_vec())
}

/// The ranks of each node, nodes in the order of their first rank.
fn by_node(nodes: &[i32]) -> Vec<Vec<i32>> {
    let mut order: Vec<Vec<i32>> = Vec::new();
    let mut position = HashMap::new();
    for (rank, node) in nodes.iter().enumerate() {
        let at = *position.entry(*node).or_insert_with(|| {
            order.push(Vec::new());
            order.len() - 1
        });
        order[at].push(rank as i32);
    }
    order
}

/// A grid: each node gets a block of the grid. Without blocks of one shape for all nodes the order stays as it was.
pub fn grid(dims: &[i32], nodes: &[i32]) -> Vec<i32> {
    let identity = || (0..nodes.len() as i32).collect();
    let groups = by_node(nodes);
    let size = groups.first().map_or(0, Vec::len);
    if groups.len() < 2 || size < 2 || groups.iter().any(|g| g.len() != size) {
        return identity();
    }
    let Some(block) = best_block(dims, size as i32) else { return identity() };
    let process = |place: i32| {
        let (mut rest, mut outer, mut inner) = (place, 0, 0);
        let (mut outer_stride, mut inner_stride) = (1, 1);
        for (dim, side) in dims.iter().zip(&block).rev() {
            let coord = rest % dim;
            rest /= dim;
            outer += coord / side * outer_stride;
            inner += coord % side * inner_stride;
            outer_stride *= dim / side;
            inner_stride *= side;
        }
        groups[outer as usize][inner as usize]
    };
    (0..nodes.len() as i32).map(process).collect()
}

/// The sides of the block of `size` cells that divides the grid and cuts the fewest edges of it.
fn best_block(dims: &[i32], size: i32) -> Option<Vec<i32>> {
    let mut best: Option<(i64, Vec<i32>)> = None;
    let mut block = vec![1; dims.len()];
    search(dims, size, 0, &mut block, &mut |block| {
        let cells: i64 = dims.iter().map(|dim| i64::from(*dim)).product();
        let cuts = block.iter().zip(dims).map(|(side, dim)| i64::from(dim / side - 1) * cells / i64::from(*dim));
        let cuts: i64 = cuts.sum();
        if best.as_ref().is_none_or(|(least, _)| cuts < *least) {
            best = Some((cuts, block.to_vec()));
        }
    });
    best.map(|(_, block)| block)
}

fn search(dims: &[i32], rest: i32, at: usize, block: &mut Vec<i32>, found: &mut impl FnMut(&[i32])) {
    if at == dims.len() {
        if rest == 1 {
            found(block);
        }
        return;
    }
    for side in (1..=rest.min(dims[at])).filter(|side| rest % side == 0 && dims[at] % side == 0) {
        block[at] = side;
        search(dims, rest / side, at + 1, block, found);
    }
    block[at] = 1;
}

/// A graph: nodes are filled one after the other, each with the vertex that has most weight to those already there.
/// `adjacency` has for each vertex its neighbours and weights; weights of both directions count.
pub fn graph(adjacency: &[Vec<(i32, i64)>], nodes: &[i32]) -> Vec<i32> {
    let n = adjacency.len();
    let groups = by_node(nodes);
    if groups.len() < 2 || groups.len() == n {
        return (0..n as i32).collect();
    }
    let mut both: Vec<Vec<(usize, i64)>> = vec![Vec::new(); n];
    for (from, list) in adjacency.iter().enumerate() {
        for &(to, weight) in list {
            both[from].push((to as usize, weight.max(0)));
            both[to as usize].push((from, weight.max(0)));
        }
    }
    let mut order = vec![-1; n];
    for group in groups {
        let mut node = Node::default();
        for process in group {
            let vertex = node.next(&order);
            order[vertex] = process;
            node.add(&both[vertex]);
        }
    }
    order
}

/// The node that is being filled.
#[derive(Default)]
struct Node {
    /// Weight of each vertex to those on the node.
    weight: HashMap<usize, i64>,
    /// Most weight first, then the lowest vertex. Entries that are no longer true are skipped.
    queue: BinaryHeap<(i64, Reverse<usize>)>,
    /// No vertex before this one is free.
    free: usize,
}

impl Node {
    /// The free vertex that fits best.
    fn next(&mut self, order: &[i32]) -> usize {
        while let Some((weight, Reverse(vertex))) = self.queue.pop() {
            if order[vertex] < 0 && self.weight.get(&vertex) == Some(&weight) {
                return vertex;
            }
        }
        while order[self.free] >= 0 {
            self.free += 1;
        }
        self.free
    }

    fn add(&mut self, neighbors: &[(usize, i64)]) {
        for &(neighbor, weight) in neighbors {
            let sum = self.weight.entry(neighbor).or_default();
            *sum += weight;
            self.queue.push((*sum, Reverse(neighbor)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_permutation(order: &[i32]) -> bool {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        sorted.iter().enumerate().all(|(i, r)| i as i32 == *r)
    }

    /// Edges of the open grid between places on different nodes.
    fn cut(dims: &[i32], order: &[i32], nodes: &[i32]) -> usize {
        let strides: Vec<i32> = (0..dims.len()).map(|d| dims[d + 1..].iter().product()).collect();
        let mut cut = 0;
        for place in 0..order.len() as i32 {
            for (dim, stride) in dims.iter().zip(&strides) {
                if place / stride % dim + 1 < *dim {
                    let (a, b) = (order[place as usize], order[(place + stride) as usize]);
                    cut += usize::from(nodes[a as usize] != nodes[b as usize]);
                }
            }
        }
        cut
    }

    #[test]
    fn blocks_cut_fewer_edges_than_rows() {
        let nodes: Vec<i32> = (0..16).map(|r| r / 4).collect();
        let order = grid(&[4, 4], &nodes);
        assert!(is_permutation(&order));
        assert_eq!(cut(&[4, 4], &order, &nodes), 8);
        let rows: Vec<i32> = (0..16).collect();
        assert_eq!(cut(&[4, 4], &rows, &nodes), 12);
        let cyclic: Vec<i32> = (0..16).map(|r| r % 4).collect();
        assert_eq!(cut(&[4, 4], &grid(&[4, 4], &cyclic), &cyclic), 8);
    }

    proptest! {
        #[test]
        fn grids_are_permuted(dims in proptest::collection::vec(1..5, 1..4), spread in 1..5, blocks: bool) {
            let n: i32 = dims.iter().product();
            let nodes: Vec<i32> = (0..n).map(|r| if blocks { r / spread } else { r % spread }).collect();
            prop_assert!(is_permutation(&grid(&dims, &nodes)));
        }

        #[test]
        fn graphs_are_permuted(
            edges in proptest::collection::vec((0..20i32, 0..20i32, -2..9i64), 0..60),
            nodes in proptest::collection::vec(0..4, 20)
        ) {
            let mut adjacency = vec![Vec::new(); 20];
            for (a, b, w) in edges {
                adjacency[a as usize].push((b, w));
            }
            prop_assert!(is_permutation(&graph(&adjacency, &nodes)));
        }
    }

    #[test]
    fn cliques_come_together() {
        // Two cliques, even and odd vertices, on two nodes of four.
        let clique = |v: i32| (0..8).filter(|u| u % 2 == v % 2 && *u != v).map(|u| (u, 1)).collect();
        let adjacency: Vec<Vec<(i32, i64)>> = (0..8).map(clique).collect();
        let nodes = [0, 0, 0, 0, 1, 1, 1, 1];
        let order = graph(&adjacency, &nodes);
        for v in 0..8 {
            assert_eq!(nodes[order[v] as usize], nodes[order[v % 2] as usize]);
        }
    }
}
