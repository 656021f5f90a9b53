//! Graph topologies (MPI-5.0, 8.5.3, 8.5.5): every process knows the whole graph.

use super::{Topology, place};
use crate::comm::Comm;
use crate::constructors;
use crate::cs::Section;
use crate::group::Group;
use crate::status::UNDEFINED;
use base::{Result, ensure};
use std::rc::Rc;

/// A graph of processes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Graph {
    /// For each process the end of its neighbours in `edges`.
    pub index: Vec<i32>,
    /// Neighbours of all processes.
    pub edges: Vec<i32>,
}

impl Graph {
    /// A graph. `edges` may be longer than `index` says.
    pub fn new(index: &[i32], edges: &[i32]) -> Result<Graph> {
        ensure!(index.is_sorted() && index.first().is_none_or(|i| *i >= 0), ERR_ARG, "the graph's index decreases");
        let used = index.last().map_or(0, |last| *last as usize);
        ensure!(used <= edges.len(), ERR_ARG, "the graph's index is longer than its edges");
        let edges = &edges[..used];
        let size = index.len() as i32;
        ensure!(edges.iter().all(|e| (0..size).contains(e)), ERR_ARG, "an edge leads out of the graph");
        Ok(Graph { index: index.to_vec(), edges: edges.to_vec() })
    }

    /// Number of processes.
    pub fn size(&self) -> i32 {
        self.index.len() as i32
    }

    /// `MPI_Graph_neighbors`.
    pub fn neighbors(&self, rank: i32) -> Result<&[i32]> {
        ensure!((0..self.size()).contains(&rank), ERR_RANK, "the rank is not in the graph");
        let rank = rank as usize;
        let from = if rank == 0 { 0 } else { self.index[rank - 1] };
        Ok(&self.edges[from as usize..self.index[rank] as usize])
    }
}

/// `MPI_Graph_create`; none for processes that aren't in the graph.
pub fn create(
    cs: &mut Section,
    comm: &Rc<Comm>,
    index: &[i32],
    edges: &[i32],
    reorder: bool,
) -> Result<Option<Rc<Comm>>> {
    ensure!(!comm.is_inter(), ERR_COMM, "an intra-communicator is needed");
    ensure!(index.len() <= comm.size() as usize, ERR_ARG, "the graph is larger than the communicator");
    let graph = Graph::new(index, edges)?;
    let group = group_of(cs, comm, &graph, reorder)?;
    let new = constructors::from_members(cs, comm, &group)?;
    if let Some(new) = &new {
        new.set_topology(Rc::new(Topology::Graph(graph)));
    }
    Ok(new)
}

/// The processes of the graph in the order of their new ranks.
fn group_of(cs: &Section, comm: &Comm, graph: &Graph, reorder: bool) -> Result<Rc<Group>> {
    if !reorder {
        return comm.group.include(cs, &(0..graph.size()).collect::<Vec<i32>>());
    }
    let list = |rank| graph.neighbors(rank).unwrap_or(&[]).iter().map(|n| (*n, 1)).collect();
    let adjacency: Vec<Vec<(i32, i64)>> = (0..graph.size()).map(list).collect();
    comm.group.include(cs, &place::graph(&adjacency, &place::nodes(comm, graph.size())))
}

/// `MPI_Graph_map`: the rank that this process would get.
pub fn map(cs: &Section, comm: &Comm, index: &[i32], edges: &[i32]) -> Result<i32> {
    ensure!(index.len() <= comm.size() as usize, ERR_ARG, "the graph is larger than the communicator");
    let group = group_of(cs, comm, &Graph::new(index, edges)?, true)?;
    Ok(group.rank_of(comm.group.peer(comm.rank)).unwrap_or(UNDEFINED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Class;

    #[test]
    fn example_of_the_standard() {
        let graph = Graph::new(&[2, 3, 4, 6], &[1, 3, 0, 3, 0, 2]).unwrap();
        let lists: Vec<&[i32]> = (0..4).map(|r| graph.neighbors(r).unwrap()).collect();
        assert_eq!(lists, [&[1, 3][..], &[0], &[3], &[0, 2]]);
        assert_eq!(graph.neighbors(4).unwrap_err().class, Class::ERR_RANK);
    }

    #[test]
    fn wrong_graphs_are_refused() {
        for (index, edges) in [(&[2, 1][..], &[0, 1][..]), (&[1], &[]), (&[1], &[1]), (&[-1], &[])] {
            assert_eq!(Graph::new(index, edges).unwrap_err().class, Class::ERR_ARG);
        }
        assert_eq!(Graph::new(&[], &[]).unwrap().size(), 0);
    }
}
