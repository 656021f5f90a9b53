//! Recursive halving.
//!
//! Source: Thakur, Rabenseifner, Gropp, 2005. Cost: log2 n α + (n-1)/n m (β + γ). Memory: one vector and a half.

use crate::coll::blocks::Blocks;
use crate::coll::halving::{Cuts, Halving};
use crate::coll::program::Program;
use crate::coll::select::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Exchanges operands.
pub const NEEDS: Needs = Needs { commutative: true, ..Needs::ANY };

/// Adds the steps of this process. `own` is the whole operand, `starts` where its blocks begin (and the end).
pub fn build(p: &mut Program, team: &Team<'_>, own: Span, starts: &[usize], result: Span) {
    let halving = Halving::new(team);
    let work = p.temp_like(own);
    let members: Vec<usize> =
        (0..halving.members).map(|m| starts[halving.rank_of(m)]).chain(starts.last().copied()).collect();
    halving.reduce_scatter(p, team, own, work, Cuts::Listed(&members));
    let blocks = Blocks::Starts { base: work, starts };
    p.fence();
    if team.rank < 2 * halving.pairs {
        if halving.me.is_some() {
            p.send(team, team.rank + 1, blocks.get(team.rank + 1));
        } else {
            p.recv(team, team.rank - 1, result);
        }
    }
    if halving.me.is_some() {
        p.copy(blocks.get(team.rank), result);
    }
    p.fence();
}
