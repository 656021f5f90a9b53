//! The algorithms of reductions to a root by name, and the rules that choose among them.

use super::{binomial, flat, hierarchical, scatter_gather};
use crate::coll::select::{ALL, KIB, Rule, SHARED, algorithms, rule};

algorithms! {
    /// Reductions to a root.
    Reduce {
        Flat "flat" flat::NEEDS;
        Binomial "binomial" binomial::NEEDS;
        ScatterGather "scatter_gather" scatter_gather::NEEDS;
        Hierarchical "hierarchical" hierarchical::NEEDS;
    }
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
