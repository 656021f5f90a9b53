//! The algorithms of all-gathers by name, and the rules that choose among them.

use super::{bruck, exchange, gather_bcast, recursive_doubling, ring};
use crate::coll::select::{ALL, KIB, Rule, SHARED, algorithms, rule};

algorithms! {
    /// All-gathers.
    Allgather {
        Exchange "exchange" exchange::NEEDS;
        GatherBcast "gather_bcast" gather_bcast::NEEDS;
        Ring "ring" ring::NEEDS;
        RecursiveDoubling "recursive_doubling" recursive_doubling::NEEDS;
        Bruck "bruck" bruck::NEEDS;
    }
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
