//! Process topologies (MPI-5.0, chapter 8).

use crate::api::api;
use crate::chosen::Chosen;
use crate::convert::{Abi, number};
use crate::kinds::*;
use base::{Result, ensure};
use core::ffi::c_int;
use mpi::comm;
use mpi::topo::{self, cart, dims, dist_graph, graph};

/// `MPI_UNWEIGHTED`.
const UNWEIGHTED: usize = 10;
/// `MPI_WEIGHTS_EMPTY`.
const WEIGHTS_EMPTY: usize = 11;

/// Truth values.
///
/// # Safety
/// `array` has `n` elements.
unsafe fn flags(array: *const c_int, n: usize) -> Vec<bool> {
    // SAFETY: by the caller.
    unsafe { slice(array, n) }.iter().map(|&flag| flag != 0).collect()
}

/// Weights of `n` edges; none for `MPI_UNWEIGHTED`.
///
/// # Safety
/// `array` has `n` elements or is one of the special addresses.
unsafe fn weighted<'a>(array: *const c_int, n: usize) -> Option<&'a [c_int]> {
    match array.addr() {
        UNWEIGHTED => None,
        WEIGHTS_EMPTY => Some(&[]),
        // SAFETY: by the caller.
        _ => Some(unsafe { slice(array, n) }),
    }
}

/// The arrays that describe a graph of `nodes` nodes: where each node's edges end, and the edges.
///
/// # Safety
/// The arrays have as many elements as that says.
unsafe fn edge_lists<'a>(index: *const c_int, edges: *const c_int, nodes: usize) -> (&'a [c_int], &'a [c_int]) {
    // SAFETY: by the caller.
    let index = unsafe { slice(index, nodes) };
    let count = index.last().map_or(0, |&end| end.max(0) as usize);
    // SAFETY: by the caller.
    (index, unsafe { slice(edges, count) })
}

/// Writes the first `room` values.
///
/// # Safety
/// `place` has room for them.
unsafe fn write(place: *mut c_int, room: usize, values: &[c_int]) -> Result {
    let n = room.min(values.len());
    ensure!(n == 0 || !place.is_null(), ERR_ARG, "null pointer for a result");
    // SAFETY: by the caller.
    unsafe { slice_mut(place, n) }.copy_from_slice(&values[..n]);
    Ok(())
}

/// As [`write`], unless the program wants no weights.
///
/// # Safety
/// As for [`write`], or `place` is one of the special addresses.
unsafe fn write_weights(place: *mut c_int, room: usize, values: &[c_int]) -> Result {
    if matches!(place.addr(), UNWEIGHTED | WEIGHTS_EMPTY) {
        return Ok(());
    }
    // SAFETY: by the caller.
    unsafe { write(place, room, values) }
}

api! {
    with cs;

    /// Cartesian coordinates of a rank
    MPI_Cart_coords => (comm: Comm, rank: Rank, maxdims: Room, coords: OutIntArray) on comm {
        let found = topo::cart_of(&comm)?.coords(rank)?;
        write(coords, maxdims, &found)
    }

    /// Creates a communicator with Cartesian topology
    MPI_Cart_create => (
        comm_old: Comm, ndims: Dims, dims: IntArray, periods: IntArray, reorder: Flag, comm_cart: OutComm
    ) on comm_old {
        let (dims, periods) = (slice(dims, ndims), flags(periods, ndims));
        comm_cart.set(CComm::of(comm::handle_of(cart::create(cs, &comm_old, dims, &periods, reorder)?.as_ref())));
        Ok(())
    }

    /// Dimensions, periods and own coordinates of a Cartesian communicator
    MPI_Cart_get => (
        comm: Comm, maxdims: Room, dims: OutIntArray, periods: OutIntArray, coords: OutIntArray
    ) on comm {
        let grid = topo::cart_of(&comm)?;
        let turns: Vec<c_int> = grid.periods.iter().map(|&period| c_int::from(period)).collect();
        write(dims, maxdims, &grid.dims)?;
        write(periods, maxdims, &turns)?;
        write(coords, maxdims, &grid.coords(comm.rank)?)
    }

    /// The rank that a Cartesian topology would give this process
    MPI_Cart_map => (comm: Comm, ndims: Dims, dims: IntArray, periods: IntArray, newrank: OutInt) on comm {
        newrank.set(Chosen::c_rank(cart::map(cs, &comm, slice(dims, ndims), &flags(periods, ndims))?));
        Ok(())
    }

    /// Rank at Cartesian coordinates
    MPI_Cart_rank => (comm: Comm, coords: IntArray, rank: OutInt) on comm {
        let grid = topo::cart_of(&comm)?;
        rank.set(grid.rank(slice(coords, grid.ndims()))?);
        Ok(())
    }

    /// Source and destination of a shift along one dimension
    MPI_Cart_shift => (comm: Comm, direction: Int, disp: Int, rank_source: OutInt, rank_dest: OutInt) on comm {
        let (source, dest) = topo::cart_of(&comm)?.shift(comm.rank, direction, disp)?;
        rank_source.set(Chosen::c_rank(source));
        rank_dest.set(Chosen::c_rank(dest));
        Ok(())
    }

    /// Splits a Cartesian communicator into sub-grids
    MPI_Cart_sub => (comm: Comm, remain_dims: IntArray, newcomm: OutComm) on comm {
        let remain = flags(remain_dims, topo::cart_of(&comm)?.ndims());
        newcomm.set(CComm::of(comm::handle_of(Some(&cart::sub(cs, &comm, &remain)?))));
        Ok(())
    }

    /// Number of dimensions of a Cartesian communicator
    MPI_Cartdim_get => (comm: Comm, ndims: OutInt) on comm {
        ndims.set(topo::cart_of(&comm)?.ndims() as c_int);
        Ok(())
    }

    /// Chooses balanced dimensions for a Cartesian grid
    MPI_Dims_create => (nnodes: Int, ndims: Dims, dims: OutIntArray) on none {
        dims::create(nnodes, slice_mut(dims, ndims))
    }

    /// Creates a communicator with a distributed graph from arbitrary edges
    MPI_Dist_graph_create => (
        comm_old: Comm, n: Room, sources: IntArray, degrees: IntArray, destinations: IntArray, weights: Weights,
        info: Info, reorder: Flag, comm_dist_graph: OutComm
    ) on comm_old {
        let (sources, degrees) = (slice(sources, n), slice(degrees, n));
        let edges = degrees.iter().map(|&degree| degree.max(0) as usize).sum();
        let (destinations, weights) = (slice(destinations, edges), weighted(weights, edges));
        let new = dist_graph::create(cs, &comm_old, sources, degrees, destinations, weights, reorder)?;
        comm_dist_graph.set(CComm::of(comm::handle_of(Some(&new))));
        Ok(())
    }

    /// Creates a communicator with a distributed graph from each process's own edges
    MPI_Dist_graph_create_adjacent => (
        comm_old: Comm, indegree: Room, sources: IntArray, sourceweights: Weights, outdegree: Room,
        destinations: IntArray, destweights: Weights, info: Info, reorder: Flag, comm_dist_graph: OutComm
    ) on comm_old {
        let sources = (slice(sources, indegree), weighted(sourceweights, indegree));
        let destinations = (slice(destinations, outdegree), weighted(destweights, outdegree));
        let new = dist_graph::create_adjacent(cs, &comm_old, sources, destinations, reorder)?;
        comm_dist_graph.set(CComm::of(comm::handle_of(Some(&new))));
        Ok(())
    }

    /// Neighbours and weights of this process in a distributed graph
    MPI_Dist_graph_neighbors => (
        comm: Comm, maxindegree: Room, sources: OutIntArray, sourceweights: OutWeights, maxoutdegree: Room,
        destinations: OutIntArray, destweights: OutWeights
    ) on comm {
        let graph = topo::dist_graph_of(&comm)?;
        write(sources, maxindegree, &graph.sources.ranks)?;
        write(destinations, maxoutdegree, &graph.destinations.ranks)?;
        if graph.weighted {
            write_weights(sourceweights, maxindegree, &graph.sources.weights)?;
            write_weights(destweights, maxoutdegree, &graph.destinations.weights)?;
        }
        Ok(())
    }

    /// Number of neighbours of this process in a distributed graph
    MPI_Dist_graph_neighbors_count => (
        comm: Comm, indegree: OutInt, outdegree: OutInt, weighted: OutInt
    ) on comm {
        let graph = topo::dist_graph_of(&comm)?;
        indegree.set(graph.sources.ranks.len() as c_int);
        outdegree.set(graph.destinations.ranks.len() as c_int);
        weighted.set_flag(graph.weighted);
        Ok(())
    }

    /// Creates a communicator with graph topology
    MPI_Graph_create => (
        comm_old: Comm, nnodes: Room, indx: IntArray, edges: IntArray, reorder: Flag, comm_graph: OutComm
    ) on comm_old {
        let (index, edges) = edge_lists(indx, edges, nnodes);
        comm_graph.set(CComm::of(comm::handle_of(graph::create(cs, &comm_old, index, edges, reorder)?.as_ref())));
        Ok(())
    }

    /// The graph of a communicator
    MPI_Graph_get => (comm: Comm, maxindex: Room, maxedges: Room, indx: OutIntArray, edges: OutIntArray) on comm {
        let graph = topo::graph_of(&comm)?;
        write(indx, maxindex, &graph.index)?;
        write(edges, maxedges, &graph.edges)
    }

    /// The rank that a graph topology would give this process
    MPI_Graph_map => (comm: Comm, nnodes: Room, indx: IntArray, edges: IntArray, newrank: OutInt) on comm {
        let (index, edges) = edge_lists(indx, edges, nnodes);
        newrank.set(Chosen::c_rank(graph::map(cs, &comm, index, edges)?));
        Ok(())
    }

    /// Neighbours of a rank in a graph
    MPI_Graph_neighbors => (comm: Comm, rank: Rank, maxneighbors: Room, neighbors: OutIntArray) on comm {
        write(neighbors, maxneighbors, topo::graph_of(&comm)?.neighbors(rank)?)
    }

    /// Number of neighbours of a rank in a graph
    MPI_Graph_neighbors_count => (comm: Comm, rank: Rank, nneighbors: OutInt) on comm {
        nneighbors.set(topo::graph_of(&comm)?.neighbors(rank)?.len() as c_int);
        Ok(())
    }

    /// Numbers of nodes and edges of a graph
    MPI_Graphdims_get => (comm: Comm, nnodes: OutInt, nedges: OutInt) on comm {
        let graph = topo::graph_of(&comm)?;
        nnodes.set(graph.size());
        nedges.set(graph.edges.len() as c_int);
        Ok(())
    }

    /// Kind of topology of a communicator
    MPI_Topo_test => (comm: Comm, status: OutInt) on comm {
        let kind = topo::test(&comm).and_then(|kind| number(Chosen::TOPOLOGIES, kind));
        status.set(kind.unwrap_or(Chosen::UNDEFINED));
        Ok(())
    }
}
