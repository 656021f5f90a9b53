//! Exchange: everybody sends its operand to everybody, and all combine them in the same order.
//!
//! Cost: α + (n - 1)(mβ + mγ) at every process. One wait: the fewest context switches for short vectors when processes share cores.

use crate::coll::builder::Builder;
use crate::coll::fold::Fold;
use crate::coll::needs::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Keeps the order of operands.
pub const NEEDS: Needs = Needs::ANY;

/// Adds the steps of this process. `own` may be `result`.
pub fn build(b: &mut Builder, team: &Team<'_>, own: Span, result: Span) {
    let fold = Fold::post(b, team, own, result, true);
    for distance in 1..team.size {
        b.send(team, team.after(distance), fold.own);
    }
    if fold.own.ptr == result.ptr {
        // What is being sent is about to be overwritten.
        b.fence();
    }
    fold.finish(b);
    b.fence();
}
