//! The algorithms of gathers by name, and the rules that choose among them.

use super::{binomial, linear};
use crate::coll::select::{ALL, KIB, Rule, algorithms, rule};

algorithms! {
    /// Gathers.
    Gather {
        Linear "linear" linear::NEEDS;
        Binomial "binomial" binomial::NEEDS;
    }
}

impl Gather {
    const RULES: &'static [Rule<Gather>] = &[
        rule((0, 16), ALL, None, Gather::Linear),
        rule(ALL, (0, 2 * KIB), None, Gather::Binomial),
        rule(ALL, ALL, None, Gather::Linear),
    ];
}
