//! Direct: each process receives its block from everybody and combines the operands in rank order.
//!
//! Cost: α + (n-1)/n mβ + (n-1)/n mγ with n - 1 messages of each process. One wait. Memory: n - 2 blocks.

use crate::coll::blocks::Blocks;
use crate::coll::builder::Builder;
use crate::coll::fold::Fold;
use crate::coll::needs::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Keeps the order of operands.
pub const NEEDS: Needs = Needs::ANY;

/// Adds the steps of this process. `own` are the blocks of the operand; `result` may be where they begin: then the rest
/// of the operand stays as it is.
pub fn build(b: &mut Builder, team: &Team<'_>, own: Blocks<'_>, result: Span, in_place: bool) {
    let mine = own.get(team.rank);
    // In place the operand lies in the program's buffer, of which only the result may change.
    let acc = if in_place { b.temp_like(mine) } else { result };
    let fold = Fold::post(b, team, mine, acc, false);
    for distance in 1..team.size {
        let to = team.after(distance);
        b.send(team, to, own.get(to));
    }
    fold.finish(b);
    b.fence();
    b.copy(acc, result);
}
