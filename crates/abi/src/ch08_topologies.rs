//! Process topologies (MPI-5.0, chapter 8).

use crate::api::api;
use crate::kinds::*;

api! {
    /// Cartesian coordinates of a rank
    MPI_Cart_coords => (comm: Comm, rank: Rank, maxdims: Int, coords: OutIntArray) on comm later

    /// Creates a communicator with Cartesian topology
    MPI_Cart_create => (
        comm_old: Comm, ndims: Int, dims: IntArray, periods: IntArray, reorder: Flag, comm_cart: OutComm
    ) on comm_old later

    /// Dimensions, periods and own coordinates of a Cartesian communicator
    MPI_Cart_get => (
        comm: Comm, maxdims: Int, dims: OutIntArray, periods: OutIntArray, coords: OutIntArray
    ) on comm later

    /// The rank that a Cartesian topology would give this process
    MPI_Cart_map => (comm: Comm, ndims: Int, dims: IntArray, periods: IntArray, newrank: OutInt) on comm later

    /// Rank at Cartesian coordinates
    MPI_Cart_rank => (comm: Comm, coords: IntArray, rank: OutInt) on comm later

    /// Source and destination of a shift along one dimension
    MPI_Cart_shift => (comm: Comm, direction: Int, disp: Int, rank_source: OutInt, rank_dest: OutInt) on comm later

    /// Splits a Cartesian communicator into sub-grids
    MPI_Cart_sub => (comm: Comm, remain_dims: IntArray, newcomm: OutComm) on comm later

    /// Number of dimensions of a Cartesian communicator
    MPI_Cartdim_get => (comm: Comm, ndims: OutInt) on comm later

    /// Chooses balanced dimensions for a Cartesian grid
    MPI_Dims_create => (nnodes: Int, ndims: Int, dims: OutIntArray) on none later

    /// Creates a communicator with a distributed graph from arbitrary edges
    MPI_Dist_graph_create => (
        comm_old: Comm, n: Int, sources: IntArray, degrees: IntArray, destinations: IntArray, weights: Weights,
        info: Info, reorder: Flag, comm_dist_graph: OutComm
    ) on comm_old later

    /// Creates a communicator with a distributed graph from each process's own edges
    MPI_Dist_graph_create_adjacent => (
        comm_old: Comm, indegree: Int, sources: IntArray, sourceweights: Weights, outdegree: Int,
        destinations: IntArray, destweights: Weights, info: Info, reorder: Flag, comm_dist_graph: OutComm
    ) on comm_old later

    /// Neighbours and weights of this process in a distributed graph
    MPI_Dist_graph_neighbors => (
        comm: Comm, maxindegree: Int, sources: OutIntArray, sourceweights: OutInt, maxoutdegree: Int,
        destinations: OutIntArray, destweights: OutInt
    ) on comm later

    /// Number of neighbours of this process in a distributed graph
    MPI_Dist_graph_neighbors_count => (
        comm: Comm, indegree: OutInt, outdegree: OutInt, weighted: OutInt
    ) on comm later

    /// Creates a communicator with graph topology
    MPI_Graph_create => (
        comm_old: Comm, nnodes: Int, indx: IntArray, edges: IntArray, reorder: Flag, comm_graph: OutComm
    ) on comm_old later

    /// The graph of a communicator
    MPI_Graph_get => (comm: Comm, maxindex: Int, maxedges: Int, indx: OutIntArray, edges: OutIntArray) on comm later

    /// The rank that a graph topology would give this process
    MPI_Graph_map => (comm: Comm, nnodes: Int, indx: IntArray, edges: IntArray, newrank: OutInt) on comm later

    /// Neighbours of a rank in a graph
    MPI_Graph_neighbors => (comm: Comm, rank: Rank, maxneighbors: Int, neighbors: OutIntArray) on comm later

    /// Number of neighbours of a rank in a graph
    MPI_Graph_neighbors_count => (comm: Comm, rank: Rank, nneighbors: OutInt) on comm later

    /// Numbers of nodes and edges of a graph
    MPI_Graphdims_get => (comm: Comm, nnodes: OutInt, nedges: OutInt) on comm later

    /// Kind of topology of a communicator
    MPI_Topo_test => (comm: Comm, status: OutInt) on comm later
}
