//! Flat: the root receives every operand and combines them in rank order.
//!
//! Cost: (n - 1)(α + mβ + mγ) at the root, one message at the others. Memory at the root: n - 2 operands.

use crate::coll::builder::Builder;
use crate::coll::fold::Fold;
use crate::coll::needs::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Keeps the order of operands.
pub const NEEDS: Needs = Needs::ANY;

/// Adds the steps of this process. `result` only matters at the root, where `own` may be the same.
pub fn build(b: &mut Builder, team: &Team<'_>, root: usize, own: Span, result: Span) {
    if team.rank == root {
        Fold::post(b, team, own, result, false).finish(b);
    } else {
        b.send(team, root, own);
    }
    b.fence();
}
