//! Hierarchical: each node combines its operands at its leader, a binomial tree of the leaders combines the rest.
//!
//! Source and cost: see [`levels`](crate::coll::levels).

use super::{binomial, flat};
use crate::coll::builder::Builder;
use crate::coll::layout::Layout;
use crate::coll::levels::{FLAT_RANKS, LONG_BYTES, Levels};
use crate::coll::needs::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Several nodes, some with several processes; combines operands node by node.
pub const NEEDS: Needs = Needs { commutative: true, nodes: true, ..Needs::ANY };

/// Adds the steps of a reduction. `result` only matters at the root, where `own` may be the same.
pub fn build(b: &mut Builder, team: &Team<'_>, layout: &Layout, root: usize, own: Span, result: Span) {
    let levels = Levels::new(team, layout, root);
    let inside = levels.inside(team);
    let Some(across) = levels.across(team) else {
        inside_node(b, &inside, own, own);
        return;
    };
    let mine = if team.rank == root { result } else { b.temp_like(own) };
    let mine = inside_node(b, &inside, own, mine);
    binomial::build(b, &across, layout.node(root), mine, result);
}

/// Combines the operands of the node; says where the leader has them.
pub fn inside_node(b: &mut Builder, inside: &Team<'_>, own: Span, result: Span) -> Span {
    if inside.size == 1 {
        return own;
    }
    if inside.size <= FLAT_RANKS && own.bytes() <= LONG_BYTES {
        flat::build(b, inside, 0, own, result);
    } else {
        binomial::build(b, inside, 0, own, result);
    }
    result
}
