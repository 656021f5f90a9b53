//! Reduce-scatter by recursive halving, then allgather by recursive doubling.
//!
//! Source: Rabenseifner, "Optimization of collective reduction operations", 2004. Cost: 2 log2 n α + 2 (n-1)/n mβ + (n-1)/n mγ.

use crate::coll::builder::Builder;
use crate::coll::halving::{Cuts, Halving};
use crate::coll::needs::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Exchanges operands.
pub const NEEDS: Needs = Needs { commutative: true, ..Needs::ANY };

/// Adds the steps of this process. `own` may be `result`.
pub fn build(b: &mut Builder, team: &Team<'_>, own: Span, result: Span) {
    let halving = Halving::new(team);
    let cuts = Cuts::Even(halving.members);
    halving.reduce_scatter(b, team, own, result, cuts);
    halving.allgather(b, team, result, cuts);
    halving.unfold_pairs(b, team, result);
}
