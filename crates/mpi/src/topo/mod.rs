//! Virtual topologies (MPI-5.0, chapter 8): what a communicator knows of the shape of its program.
//!
//! [`cart`] grids, [`graph`] graphs known to everybody, [`dist_graph`] graphs of which each process knows its own edges;
//! [`dims`] factors numbers of processes, `place` permutes ranks so that neighbours share a node.

pub mod cart;
pub mod dims;
pub mod dist_graph;
pub mod graph;
mod place;

pub use crate::coll::neighbor::Neighbors;

use crate::comm::Comm;
use base::{Result, fail};
use cart::Cart;
use dist_graph::DistGraph;
use graph::Graph;

/// Kinds of topologies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Kind {
    Cart,
    Graph,
    DistGraph,
}

/// The topology of a communicator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Topology {
    /// A grid.
    Cart(Cart),
    /// A graph known to everybody.
    Graph(Graph),
    /// A graph of which each process knows its own edges.
    DistGraph(DistGraph),
}

/// The topology of a communicator, if it has one.
fn of(comm: &Comm) -> Option<&Topology> {
    comm.topology()?.downcast_ref()
}

/// `MPI_Topo_test`.
pub fn test(comm: &Comm) -> Option<Kind> {
    Some(match of(comm)? {
        Topology::Cart(_) => Kind::Cart,
        Topology::Graph(_) => Kind::Graph,
        Topology::DistGraph(_) => Kind::DistGraph,
    })
}

/// The grid of a communicator.
pub fn cart_of(comm: &Comm) -> Result<&Cart> {
    match of(comm) {
        Some(Topology::Cart(cart)) => Ok(cart),
        _ => fail!(ERR_TOPOLOGY, "the communicator has no Cartesian topology"),
    }
}

/// The graph of a communicator.
pub fn graph_of(comm: &Comm) -> Result<&Graph> {
    match of(comm) {
        Some(Topology::Graph(graph)) => Ok(graph),
        _ => fail!(ERR_TOPOLOGY, "the communicator has no graph topology"),
    }
}

/// The distributed graph of a communicator.
pub fn dist_graph_of(comm: &Comm) -> Result<&DistGraph> {
    match of(comm) {
        Some(Topology::DistGraph(graph)) => Ok(graph),
        _ => fail!(ERR_TOPOLOGY, "the communicator has no distributed graph topology"),
    }
}

/// This process's neighbours.
pub fn neighbors(comm: &Comm) -> Result<Neighbors> {
    Ok(match of(comm) {
        None => fail!(ERR_TOPOLOGY, "the communicator has no topology"),
        Some(Topology::Cart(cart)) => {
            let all = cart.neighbors(comm.rank);
            Neighbors { sources: all.clone(), destinations: all, cartesian: true }
        }
        Some(Topology::Graph(graph)) => {
            let all = graph.neighbors(comm.rank)?.to_vec();
            Neighbors { sources: all.clone(), destinations: all, cartesian: false }
        }
        Some(Topology::DistGraph(graph)) => Neighbors {
            sources: graph.sources.ranks.clone(),
            destinations: graph.destinations.ranks.clone(),
            cartesian: false,
        },
    })
}
