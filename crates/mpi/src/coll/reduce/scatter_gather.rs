//! Reduce-scatter by recursive halving, then binomial gather to the root.
//!
//! Source: Rabenseifner, "Optimization of collective reduction operations", 2004. Cost: 2 log2 n α + 2 (n-1)/n mβ + (n-1)/n mγ.

use crate::coll::builder::Builder;
use crate::coll::halving::{Cuts, Halving};
use crate::coll::needs::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Exchanges operands.
pub const NEEDS: Needs = Needs { commutative: true, ..Needs::ANY };

/// Adds the steps of this process. `result` only matters at the root, where `own` may be the same.
pub fn build(b: &mut Builder, team: &Team<'_>, root: usize, own: Span, result: Span) {
    let work = if team.rank == root { result } else { b.temp_like(own) };
    let halving = Halving::new(team);
    let cuts = Cuts::Even(halving.members);
    halving.reduce_scatter(b, team, own, work, cuts);
    // If the root was folded away at the start, the process that it was folded into acts for it.
    let acting = halving.member(root);
    halving.gather(b, team, acting, work, cuts);
    let actor = halving.rank_of(acting);
    if actor != root {
        if team.rank == actor {
            b.send(team, root, work);
        } else if team.rank == root {
            b.recv(team, actor, work);
        }
    }
    b.fence();
}
