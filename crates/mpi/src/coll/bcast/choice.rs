//! The algorithms of broadcasts by name, and the rules that choose among them.

use super::{binomial, chain, flat, hierarchical, scatter_allgather};
use crate::coll::select::{ALL, KIB, Rule, SHARED, algorithms, rule};

algorithms! {
    /// Broadcasts.
    Bcast {
        Flat "flat" flat::NEEDS;
        Binomial "binomial" binomial::NEEDS;
        Chain "chain" chain::NEEDS;
        ScatterAllgather "scatter_allgather" scatter_allgather::NEEDS;
        Hierarchical "hierarchical" hierarchical::NEEDS;
    }
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
