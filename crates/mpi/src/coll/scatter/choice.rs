//! The algorithms of scatters by name, and the rules that choose among them.

use super::{binomial, linear};
use crate::coll::select::{ALL, KIB, Rule, algorithms, rule};

algorithms! {
    /// Scatters.
    Scatter {
        Linear "linear" linear::NEEDS;
        Binomial "binomial" binomial::NEEDS;
    }
}

impl Scatter {
    const RULES: &'static [Rule<Scatter>] = &[
        rule((0, 16), ALL, None, Scatter::Linear),
        rule(ALL, (0, 2 * KIB), None, Scatter::Binomial),
        rule(ALL, ALL, None, Scatter::Linear),
    ];
}
