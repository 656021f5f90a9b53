//! The algorithms of barriers by name, and the rules that choose among them.

use super::{dissemination, exchange, hierarchical, tree};
use crate::coll::select::{ALL, Rule, SHARED, algorithms, rule};

algorithms! {
    /// Barriers.
    Barrier {
        Exchange "exchange" exchange::NEEDS;
        Dissemination "dissemination" dissemination::NEEDS;
        Tree "tree" tree::NEEDS;
        Flat "flat" tree::NEEDS;
        Hierarchical "hierarchical" hierarchical::NEEDS;
    }
}

impl Barrier {
    const RULES: &'static [Rule<Barrier>] = &[
        rule((0, 2), ALL, None, Barrier::Exchange),
        rule(ALL, ALL, None, Barrier::Hierarchical),
        rule(ALL, ALL, SHARED, Barrier::Flat),
        rule(ALL, ALL, None, Barrier::Dissemination),
    ];
}
