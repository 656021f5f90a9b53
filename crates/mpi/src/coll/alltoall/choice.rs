//! The algorithms of all-to-all exchanges by name, and the rules that choose among them.

use super::{bruck, pairwise, post_all, swap, transpose};
use crate::coll::select::{ALL, Rule, SHARED, algorithms, rule};

algorithms! {
    /// All-to-all exchanges.
    Alltoall {
        PostAll "post_all" post_all::NEEDS;
        Pairwise "pairwise" pairwise::NEEDS;
        Bruck "bruck" bruck::NEEDS;
        Transpose "transpose" transpose::NEEDS;
        Swap "swap" swap::NEEDS;
    }
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
