//! Recursive halving.
//!
//! Source: Thakur, Rabenseifner, Gropp, 2005. Cost: log2 n α + (n-1)/n m (β + γ). Memory: one vector and a half.

use crate::coll::blocks::Blocks;
use crate::coll::builder::Builder;
use crate::coll::halving::{Cuts, Halving};
use crate::coll::needs::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Exchanges operands.
pub const NEEDS: Needs = Needs { commutative: true, ..Needs::ANY };

/// Adds the steps of this process. `own` is the whole operand, `starts` where its blocks begin (and the end).
pub fn build(b: &mut Builder, team: &Team<'_>, own: Span, starts: &[usize], result: Span) {
    let halving = Halving::new(team);
    let work = b.temp_like(own);
    let members: Vec<usize> =
        (0..halving.members).map(|m| starts[halving.rank_of(m)]).chain(starts.last().copied()).collect();
    halving.reduce_scatter(b, team, own, work, Cuts::Listed(&members));
    let blocks = Blocks::Starts { base: work, starts };
    b.fence();
    if team.rank < 2 * halving.pairs {
        if halving.me.is_some() {
            b.send(team, team.rank + 1, blocks.get(team.rank + 1));
        } else {
            b.recv(team, team.rank - 1, result);
        }
    }
    if halving.me.is_some() {
        b.copy(blocks.get(team.rank), result);
    }
    b.fence();
}
