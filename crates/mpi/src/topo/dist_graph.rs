//! Distributed graph topologies (MPI-5.0, 8.5.4, 8.5.5): each process knows its own edges.
//!
//! `MPI_Dist_graph_create` lets any process name any edge, so edges have to find the processes at both ends: everybody
//! gathers all edges and keeps its own. The order of a process's edges is that of the processes that named them.

use super::{Topology, place};
use crate::coll::internal::allgather_bytes;
use crate::comm::Comm;
use crate::constructors;
use crate::cs::Section;
use base::{Result, ensure};
use std::rc::Rc;

/// One side of a process's edges.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Side {
    /// The processes at the other end.
    pub ranks: Vec<i32>,
    /// As many weights; empty for an unweighted graph.
    pub weights: Vec<i32>,
}

/// A process's edges.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DistGraph {
    /// Edges that end here.
    pub sources: Side,
    /// Edges that begin here.
    pub destinations: Side,
    /// Whether edges have weights.
    pub weighted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Edge {
    from: i32,
    to: i32,
    weight: i32,
}

const EDGE_BYTES: usize = 12;

/// Neighbours of this process with their weights; `None` is `MPI_UNWEIGHTED`.
pub type Neighborhood<'a> = (&'a [i32], Option<&'a [i32]>);

/// `MPI_Dist_graph_create_adjacent`.
pub fn create_adjacent(
    cs: &mut Section,
    comm: &Rc<Comm>,
    sources: Neighborhood<'_>,
    destinations: Neighborhood<'_>,
    reorder: bool,
) -> Result<Rc<Comm>> {
    check(comm, sources.0.iter().chain(destinations.0))?;
    let mut weights = [sources.1, destinations.1].into_iter().flatten().flatten();
    ensure!(weights.all(|w| *w >= 0), ERR_ARG, "a weight is negative");
    let weighted = sources.1.is_some() && destinations.1.is_some();
    let side = |(ranks, weights): Neighborhood<'_>| Side {
        ranks: ranks.to_vec(),
        weights: weights.filter(|_| weighted).unwrap_or(&[]).to_vec(),
    };
    let own = DistGraph { sources: side(sources), destinations: side(destinations), weighted };
    if !reorder || !spans_nodes(comm) {
        return finish(cs, comm, None, own);
    }
    // Whoever gets this process's rank needs its lists in their order.
    let graphs: Vec<DistGraph> =
        gather(cs, comm, &own.encode())?.iter().map(|bytes| DistGraph::decode(bytes)).collect();
    let adjacency: Vec<Vec<(i32, i64)>> = graphs.iter().map(|g| g.destinations.weighted_ranks()).collect();
    let order = place::graph(&adjacency, &place::nodes(comm, comm.size()));
    finish(cs, comm, Some(&order), graphs[vertex_of(&order, comm.rank)].clone())
}

/// `MPI_Dist_graph_create`. `None` for weights is `MPI_UNWEIGHTED`.
pub fn create(
    cs: &mut Section,
    comm: &Rc<Comm>,
    sources: &[i32],
    degrees: &[i32],
    destinations: &[i32],
    weights: Option<&[i32]>,
    reorder: bool,
) -> Result<Rc<Comm>> {
    check(comm, sources.iter().chain(destinations))?;
    ensure!(degrees.iter().all(|d| *d >= 0), ERR_ARG, "a degree is negative");
    ensure!(weights.is_none_or(|w| w.iter().all(|w| *w >= 0)), ERR_ARG, "a weight is negative");
    let starts = sources.iter().zip(degrees).flat_map(|(from, n)| std::iter::repeat_n(*from, *n as usize));
    let edges = starts.zip(destinations).enumerate();
    let mine = edges.map(|(i, (from, to))| Edge { from, to: *to, weight: weights.map_or(1, |w| w[i]) });
    let all = gather(cs, comm, &encode_edges(mine))?;
    let edges: Vec<Edge> = all.iter().flat_map(|bytes| decode_edges(bytes)).collect();
    let order = (reorder && spans_nodes(comm)).then(|| {
        let mut adjacency = vec![Vec::new(); comm.size() as usize];
        for edge in &edges {
            adjacency[edge.from as usize].push((edge.to, i64::from(edge.weight)));
        }
        place::graph(&adjacency, &place::nodes(comm, comm.size()))
    });
    let vertex = order.as_ref().map_or(comm.rank as usize, |order| vertex_of(order, comm.rank));
    finish(cs, comm, order.as_deref(), edges_of(&edges, vertex as i32, weights.is_some()))
}

fn check<'a>(comm: &Comm, mut ranks: impl Iterator<Item = &'a i32>) -> Result {
    ensure!(!comm.is_inter(), ERR_COMM, "an intra-communicator is needed");
    ensure!(ranks.all(|r| (0..comm.size()).contains(r)), ERR_RANK, "an edge leads out of the communicator");
    Ok(())
}

fn spans_nodes(comm: &Comm) -> bool {
    let nodes = place::nodes(comm, comm.size());
    nodes.iter().any(|node| *node != nodes[0])
}

/// The new rank of the process with an old one.
fn vertex_of(order: &[i32], rank: i32) -> usize {
    order.iter().position(|r| *r == rank).unwrap_or(rank as usize)
}

fn finish(cs: &mut Section, comm: &Rc<Comm>, order: Option<&[i32]>, own: DistGraph) -> Result<Rc<Comm>> {
    let group = match order {
        Some(order) => comm.group.include(cs, order)?,
        None => Rc::clone(&comm.group),
    };
    let Some(new) = constructors::from_members(cs, comm, &group)? else {
        base::fail!(ERR_INTERN, "a graph lost this process");
    };
    new.set_topology(Rc::new(Topology::DistGraph(own)));
    Ok(new)
}

/// The bytes of every process, of any length.
fn gather(cs: &mut Section, comm: &Rc<Comm>, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
    let lengths = allgather_bytes(cs, comm, &(mine.len() as u64).to_le_bytes())?;
    let lengths: Vec<usize> = lengths.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b) as usize).collect();
    let longest = lengths.iter().copied().max().unwrap_or(0);
    if longest == 0 {
        return Ok(vec![Vec::new(); lengths.len()]);
    }
    let mut padded = mine.to_vec();
    padded.resize(longest, 0);
    let all = allgather_bytes(cs, comm, &padded)?;
    Ok(all.chunks_exact(longest).zip(lengths).map(|(bytes, len)| bytes[..len].to_vec()).collect())
}

fn words(bytes: &[u8]) -> Vec<i32> {
    bytes.as_chunks::<4>().0.iter().map(|b| i32::from_le_bytes(*b)).collect()
}

fn encode_edges(edges: impl Iterator<Item = Edge>) -> Vec<u8> {
    edges.flat_map(|e| [e.from, e.to, e.weight]).flat_map(i32::to_le_bytes).collect()
}

fn decode_edges(bytes: &[u8]) -> Vec<Edge> {
    let edge = |w: Vec<i32>| Edge { from: w[0], to: w[1], weight: w[2] };
    bytes.chunks_exact(EDGE_BYTES).map(|b| edge(words(b))).collect()
}

/// The edges of one vertex.
fn edges_of(edges: &[Edge], vertex: i32, weighted: bool) -> DistGraph {
    let side = |mine: fn(&Edge) -> i32, other: fn(&Edge) -> i32| {
        let own = || edges.iter().filter(|e| mine(e) == vertex);
        let weights = if weighted { own().map(|e| e.weight).collect() } else { Vec::new() };
        Side { ranks: own().map(other).collect(), weights }
    };
    DistGraph { sources: side(|e| e.to, |e| e.from), destinations: side(|e| e.from, |e| e.to), weighted }
}

impl Side {
    fn weighted_ranks(&self) -> Vec<(i32, i64)> {
        let weight = |i: usize| self.weights.get(i).map_or(1, |w| i64::from(*w));
        self.ranks.iter().enumerate().map(|(i, rank)| (*rank, weight(i))).collect()
    }
}

impl DistGraph {
    fn encode(&self) -> Vec<u8> {
        let counts = [self.sources.ranks.len() as i32, self.destinations.ranks.len() as i32, i32::from(self.weighted)];
        let sides = [&self.sources, &self.destinations];
        let lists = sides.into_iter().flat_map(|s| s.ranks.iter().chain(&s.weights));
        counts.iter().chain(lists).flat_map(|w| w.to_le_bytes()).collect()
    }

    fn decode(bytes: &[u8]) -> DistGraph {
        let words = words(bytes);
        let (sources, destinations, weighted) = (words[0] as usize, words[1] as usize, words[2] != 0);
        let mut rest = words[3..].iter().copied();
        let mut side = |n: usize| Side {
            ranks: rest.by_ref().take(n).collect(),
            weights: rest.by_ref().take(if weighted { n } else { 0 }).collect(),
        };
        DistGraph { sources: side(sources), destinations: side(destinations), weighted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacency_survives_the_wire() {
        let side = |ranks: &[i32], weights: &[i32]| Side { ranks: ranks.to_vec(), weights: weights.to_vec() };
        for graph in [
            DistGraph { sources: side(&[1, 2], &[5, 6]), destinations: side(&[3], &[7]), weighted: true },
            DistGraph { sources: side(&[], &[]), destinations: side(&[3, 3], &[]), weighted: false },
        ] {
            assert_eq!(DistGraph::decode(&graph.encode()), graph);
        }
    }

    #[test]
    fn edges_find_both_ends() {
        let list = [(0, 1, 4), (1, 1, 5), (1, 0, 6)].map(|(from, to, weight)| Edge { from, to, weight });
        let edges = decode_edges(&encode_edges(list.into_iter()));
        assert_eq!(edges, list);
        let one = edges_of(&edges, 1, true);
        assert_eq!(one.sources, Side { ranks: vec![0, 1], weights: vec![4, 5] });
        assert_eq!(one.destinations, Side { ranks: vec![1, 0], weights: vec![5, 6] });
        assert!(edges_of(&edges, 2, false).sources.ranks.is_empty());
    }
}
