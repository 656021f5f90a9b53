//! The algorithms of reductions whose result is scattered by name, and the rules that choose among them.

use super::{direct, pairwise, recursive_halving};
use crate::coll::select::{ALL, KIB, Rule, SHARED, algorithms, rule};

algorithms! {
    /// Reductions whose result is scattered.
    ReduceScatter {
        Direct "direct" direct::NEEDS;
        Pairwise "pairwise" pairwise::NEEDS;
        RecursiveHalving "recursive_halving" recursive_halving::NEEDS;
    }
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
