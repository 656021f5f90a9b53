//! The algorithms of prefix reductions by name, and the rules that choose among them.

use super::{linear, recursive_doubling};
use crate::coll::select::{ALL, Rule, SHARED, algorithms, rule};

algorithms! {
    /// Prefix reductions.
    Scan {
        RecursiveDoubling "recursive_doubling" recursive_doubling::NEEDS;
        Linear "linear" linear::NEEDS;
    }
}

impl Scan {
    const RULES: &'static [Rule<Scan>] =
        &[rule(ALL, ALL, SHARED, Scan::Linear), rule(ALL, ALL, None, Scan::RecursiveDoubling)];
}
