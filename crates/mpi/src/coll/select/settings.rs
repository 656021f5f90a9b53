//! Settings of collectives. Those that all processes must share go into the job's [`Choices`](crate::comm::choices::Choices): the launcher tells
//! everybody those of rank 0, whatever the others were started with.

base::config! {
    /// Algorithm of barriers: auto, exchange, dissemination, tree, flat, hierarchical.
    COLL_BARRIER: text = "auto";
    /// Algorithm of broadcasts: auto, flat, binomial, chain, scatter_allgather, hierarchical.
    COLL_BCAST: text = "auto";
    /// Algorithm of reductions: auto, flat, binomial, scatter_gather, hierarchical.
    COLL_REDUCE: text = "auto";
    /// Algorithm of all-reductions: auto, exchange, recursive_doubling, direct, rabenseifner, ring, flat, reduce_bcast, hierarchical.
    COLL_ALLREDUCE: text = "auto";
    /// Algorithm of gathers: auto, linear, binomial.
    COLL_GATHER: text = "auto";
    /// Algorithm of scatters: auto, linear, binomial.
    COLL_SCATTER: text = "auto";
    /// Algorithm of all-gathers: auto, exchange, gather_bcast, ring, recursive_doubling, bruck.
    COLL_ALLGATHER: text = "auto";
    /// Algorithm of all-to-all exchanges: auto, post_all, pairwise, bruck, transpose, swap.
    COLL_ALLTOALL: text = "auto";
    /// Algorithm of reduce-scatters: auto, direct, pairwise, recursive_halving.
    COLL_REDUCE_SCATTER: text = "auto";
    /// Algorithm of scans: auto, recursive_doubling, linear.
    COLL_SCAN: text = "auto";
    /// Whether ranks share cores, which favours algorithms with few waits: auto, yes, no.
    COLL_OVERSUBSCRIBED: text = "auto";
    /// Segments of pipelined collectives.
    COLL_SEGMENT_BYTES: u64 = 65536, 1..=1073741824, "bytes";
    /// Messages of one all-to-all exchange that a process has under way in each direction.
    COLL_ALLTOALL_WINDOW: u64 = 32, 1..=64, "messages";
    /// Fan-out of the tree barrier.
    COLL_BARRIER_FANOUT: u64 = 4, 1..=4096, "processes";
    /// Which non-blocking collectives the workers of `mpiexec --offload` run: auto (those of at least COLL_OFFLOAD_MIN_BYTES, if all ranks know the size), all, off.
    COLL_OFFLOAD: text = "auto";
    /// The least bytes of the vector, or of one block, with which a worker runs a non-blocking collective.
    COLL_OFFLOAD_MIN_BYTES: u64 = 32768, 1..=4294967294, "bytes";
}
