//! The algorithms by name, and the rules that choose among them.
//!
//! Limits in bytes come from the cost models at the heads of the algorithms and from measurements on shared memory; a
//! process that waits on a shared core costs a context switch, so there the algorithms with the fewest waits win.

use super::{Algorithm, Needs, Rule};
use crate::coll::{
    allgather, allreduce, alltoall, barrier, bcast, gather, hierarchical, reduce, reduce_scatter, scan, scatter,
};
use std::sync::OnceLock;

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
    /// Whether ranks share cores, which favours algorithms with few waits: auto, yes, no. The same on all ranks.
    COLL_OVERSUBSCRIBED: text = "auto";
    /// Segments of pipelined collectives.
    COLL_SEGMENT_BYTES: u64 = 65536, 1..=1073741824, "bytes";
    /// Messages of one all-to-all exchange that a process has under way in each direction.
    COLL_ALLTOALL_WINDOW: u64 = 32, 1..=64, "messages";
    /// Fan-out of the tree barrier.
    COLL_BARRIER_FANOUT: u64 = 4, 1..=4096, "processes";
}

macro_rules! algorithms {
    ($(#[doc = $doc:literal] $collective:ident $setting:ident { $($variant:ident $name:literal $needs:expr;)+ })+) => {$(
        #[doc = $doc]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[expect(missing_docs, reason = "each has a file of its name")]
        pub enum $collective { $($variant),+ }

        impl Algorithm for $collective {
            const ALL: &'static [$collective] = &[$($collective::$variant),+];

            fn name(self) -> &'static str {
                match self { $($collective::$variant => $name),+ }
            }

            #[inline]
            fn needs(self) -> Needs {
                match self { $($collective::$variant => $needs),+ }
            }

            #[inline]
            fn rules() -> &'static [Rule<$collective>] {
                $collective::RULES
            }

            #[inline]
            fn forced() -> Option<$collective> {
                static FORCED: OnceLock<Option<$collective>> = OnceLock::new();
                match FORCED.get() {
                    Some(forced) => *forced,
                    None => super::parse(&$setting, &FORCED),
                }
            }
        }
    )+};
}

algorithms! {
    /// Barriers.
    Barrier COLL_BARRIER {
        Exchange "exchange" barrier::exchange::NEEDS;
        Dissemination "dissemination" barrier::dissemination::NEEDS;
        Tree "tree" barrier::tree::NEEDS;
        Flat "flat" barrier::tree::NEEDS;
        Hierarchical "hierarchical" hierarchical::NEEDS;
    }
    /// Broadcasts.
    Bcast COLL_BCAST {
        Flat "flat" bcast::flat::NEEDS;
        Binomial "binomial" bcast::binomial::NEEDS;
        Chain "chain" bcast::chain::NEEDS;
        ScatterAllgather "scatter_allgather" bcast::scatter_allgather::NEEDS;
        Hierarchical "hierarchical" hierarchical::NEEDS;
    }
    /// Reductions to a root.
    Reduce COLL_REDUCE {
        Flat "flat" reduce::flat::NEEDS;
        Binomial "binomial" reduce::binomial::NEEDS;
        ScatterGather "scatter_gather" reduce::scatter_gather::NEEDS;
        Hierarchical "hierarchical" hierarchical::NEEDS_COMMUTATIVE;
    }
    /// Reductions to all.
    Allreduce COLL_ALLREDUCE {
        Exchange "exchange" allreduce::exchange::NEEDS;
        RecursiveDoubling "recursive_doubling" allreduce::recursive_doubling::NEEDS;
        Direct "direct" allreduce::direct::NEEDS;
        Rabenseifner "rabenseifner" allreduce::rabenseifner::NEEDS;
        Ring "ring" allreduce::ring::NEEDS;
        Flat "flat" allreduce::reduce_bcast::NEEDS;
        ReduceBcast "reduce_bcast" allreduce::reduce_bcast::NEEDS;
        Hierarchical "hierarchical" hierarchical::NEEDS_COMMUTATIVE;
    }
    /// Gathers.
    Gather COLL_GATHER {
        Linear "linear" gather::linear::NEEDS;
        Binomial "binomial" gather::binomial::NEEDS;
    }
    /// Scatters.
    Scatter COLL_SCATTER {
        Linear "linear" scatter::linear::NEEDS;
        Binomial "binomial" scatter::binomial::NEEDS;
    }
    /// All-gathers.
    Allgather COLL_ALLGATHER {
        Exchange "exchange" allgather::exchange::NEEDS;
        GatherBcast "gather_bcast" allgather::gather_bcast::NEEDS;
        Ring "ring" allgather::ring::NEEDS;
        RecursiveDoubling "recursive_doubling" allgather::recursive_doubling::NEEDS;
        Bruck "bruck" allgather::bruck::NEEDS;
    }
    /// All-to-all exchanges.
    Alltoall COLL_ALLTOALL {
        PostAll "post_all" alltoall::post_all::NEEDS;
        Pairwise "pairwise" alltoall::pairwise::NEEDS;
        Bruck "bruck" alltoall::bruck::NEEDS;
        Transpose "transpose" alltoall::transpose::NEEDS;
        Swap "swap" alltoall::swap::NEEDS;
    }
    /// Reductions whose result is scattered.
    ReduceScatter COLL_REDUCE_SCATTER {
        Direct "direct" reduce_scatter::direct::NEEDS;
        Pairwise "pairwise" reduce_scatter::pairwise::NEEDS;
        RecursiveHalving "recursive_halving" reduce_scatter::recursive_halving::NEEDS;
    }
    /// Prefix reductions.
    Scan COLL_SCAN {
        RecursiveDoubling "recursive_doubling" scan::recursive_doubling::NEEDS;
        Linear "linear" scan::linear::NEEDS;
    }
}

const ALL: (usize, usize) = (0, usize::MAX);
const KIB: usize = 1 << 10;

const fn rule<A>(ranks: (usize, usize), bytes: (usize, usize), oversubscribed: Option<bool>, algorithm: A) -> Rule<A> {
    Rule { ranks, bytes, oversubscribed, algorithm }
}

const SHARED: Option<bool> = Some(true);

impl Barrier {
    const RULES: &'static [Rule<Barrier>] = &[
        rule((0, 2), ALL, None, Barrier::Exchange),
        rule(ALL, ALL, None, Barrier::Hierarchical),
        rule(ALL, ALL, SHARED, Barrier::Flat),
        rule(ALL, ALL, None, Barrier::Dissemination),
    ];
}

impl Bcast {
    const RULES: &'static [Rule<Bcast>] = &[
        rule((0, 2), ALL, None, Bcast::Flat),
        rule(ALL, (0, 512 * KIB), None, Bcast::Hierarchical),
        rule((3, 16), ALL, SHARED, Bcast::Flat),
        rule((3, 4), ALL, None, Bcast::Flat),
        rule(ALL, (0, 64 * KIB), None, Bcast::Binomial),
        rule((3, 8), ALL, None, Bcast::Chain),
        rule(ALL, (0, 4096 * KIB), None, Bcast::ScatterAllgather),
        rule(ALL, ALL, None, Bcast::Chain),
    ];
}

impl Reduce {
    const RULES: &'static [Rule<Reduce>] = &[
        rule((0, 2), (0, 256 * KIB), None, Reduce::Flat),
        rule(ALL, (0, 64 * KIB), None, Reduce::Hierarchical),
        rule((3, 16), (0, 16 * KIB), SHARED, Reduce::Flat),
        rule((17, 64), (0, 8 * KIB), SHARED, Reduce::Flat),
        rule((65, 256), (0, 256), SHARED, Reduce::Flat),
        rule(ALL, (64 * KIB, usize::MAX), None, Reduce::ScatterGather),
        rule(ALL, ALL, None, Reduce::Binomial),
    ];
}

impl Allreduce {
    const RULES: &'static [Rule<Allreduce>] = &[
        rule((0, 2), (0, 4 * KIB), None, Allreduce::Exchange),
        rule((0, 2), (0, 768 * KIB), None, Allreduce::Direct),
        rule((0, 2), ALL, None, Allreduce::Ring),
        rule((0, 2), ALL, None, Allreduce::Direct),
        rule(ALL, (0, 64 * KIB), None, Allreduce::Hierarchical),
        rule((3, 16), (0, 32 * KIB), SHARED, Allreduce::Flat),
        rule((17, 64), (0, 8 * KIB), SHARED, Allreduce::Flat),
        rule((65, 256), (0, 256), SHARED, Allreduce::Flat),
        rule((3, 16), ALL, SHARED, Allreduce::Rabenseifner),
        rule((3, 16), ALL, SHARED, Allreduce::Direct),
        rule(ALL, (0, 8 * KIB), None, Allreduce::RecursiveDoubling),
        rule((3, 8), ALL, None, Allreduce::Direct),
        rule(ALL, (0, 512 * KIB), None, Allreduce::Rabenseifner),
        rule(ALL, ALL, None, Allreduce::Ring),
        rule(ALL, (512 * KIB, usize::MAX), None, Allreduce::Direct),
        rule(ALL, ALL, None, Allreduce::RecursiveDoubling),
    ];
}

impl Gather {
    const RULES: &'static [Rule<Gather>] = &[
        rule((0, 16), ALL, None, Gather::Linear),
        rule(ALL, (0, 2 * KIB), None, Gather::Binomial),
        rule(ALL, ALL, None, Gather::Linear),
    ];
}

impl Scatter {
    const RULES: &'static [Rule<Scatter>] = &[
        rule((0, 16), ALL, None, Scatter::Linear),
        rule(ALL, (0, 2 * KIB), None, Scatter::Binomial),
        rule(ALL, ALL, None, Scatter::Linear),
    ];
}

impl Allgather {
    const RULES: &'static [Rule<Allgather>] = &[
        rule((0, 2), ALL, None, Allgather::Exchange),
        rule((3, 32), (0, KIB), SHARED, Allgather::GatherBcast),
        rule((33, 64), (0, 256), SHARED, Allgather::GatherBcast),
        rule((3, 4), ALL, None, Allgather::Exchange),
        rule((5, 16), ALL, SHARED, Allgather::Exchange),
        rule(ALL, (0, 4 * KIB), None, Allgather::RecursiveDoubling),
        rule(ALL, (0, KIB), None, Allgather::Bruck),
        rule(ALL, ALL, None, Allgather::Ring),
    ];
}

impl Alltoall {
    const RULES: &'static [Rule<Alltoall>] = &[
        rule((3, 16), (0, 256), SHARED, Alltoall::Transpose),
        rule((17, 64), (0, 64), SHARED, Alltoall::Transpose),
        rule((17, usize::MAX), (0, 256), None, Alltoall::Bruck),
        rule(ALL, ALL, None, Alltoall::Swap),
        rule(ALL, ALL, None, Alltoall::PostAll),
    ];
}

impl ReduceScatter {
    const RULES: &'static [Rule<ReduceScatter>] = &[
        rule((0, 4), ALL, None, ReduceScatter::Direct),
        rule((5, 16), (0, 64 * KIB), SHARED, ReduceScatter::Direct),
        rule(ALL, (0, 64 * KIB), None, ReduceScatter::RecursiveHalving),
        rule(ALL, ALL, None, ReduceScatter::Pairwise),
        rule(ALL, ALL, None, ReduceScatter::Direct),
    ];
}

impl Scan {
    const RULES: &'static [Rule<Scan>] =
        &[rule(ALL, ALL, SHARED, Scan::Linear), rule(ALL, ALL, None, Scan::RecursiveDoubling)];
}
