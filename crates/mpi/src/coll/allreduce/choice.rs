//! The algorithms of reductions to all by name, and the rules that choose among them.

use super::{direct, exchange, hierarchical, rabenseifner, recursive_doubling, reduce_bcast, ring};
use crate::coll::select::{ALL, KIB, Rule, SHARED, algorithms, rule};

algorithms! {
    /// Reductions to all.
    Allreduce {
        Exchange "exchange" exchange::NEEDS;
        RecursiveDoubling "recursive_doubling" recursive_doubling::NEEDS;
        Direct "direct" direct::NEEDS;
        Rabenseifner "rabenseifner" rabenseifner::NEEDS;
        Ring "ring" ring::NEEDS;
        Flat "flat" reduce_bcast::NEEDS;
        ReduceBcast "reduce_bcast" reduce_bcast::NEEDS;
        Hierarchical "hierarchical" hierarchical::NEEDS;
    }
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
