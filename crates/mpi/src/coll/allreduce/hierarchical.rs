//! Hierarchical: each node combines its operands at its leader, the leaders combine theirs, and each sends its node the result.
//!
//! Source and cost: see [`levels`](crate::coll::levels).

use super::{rabenseifner, recursive_doubling};
use crate::coll::builder::Builder;
use crate::coll::layout::Layout;
use crate::coll::levels::{LONG_BYTES, Levels};
use crate::coll::needs::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;
use crate::coll::{bcast, reduce};

/// Several nodes, some with several processes; combines operands node by node.
pub const NEEDS: Needs = Needs { commutative: true, nodes: true, ..Needs::ANY };

/// Adds the steps of an all-reduction. `own` may be `result`.
pub fn build(b: &mut Builder, team: &Team<'_>, layout: &Layout, own: Span, result: Span) {
    let levels = Levels::new(team, layout, 0);
    let inside = levels.inside(team);
    let mine = reduce::hierarchical::inside_node(b, &inside, own, result);
    if let Some(across) = levels.across(team) {
        if own.bytes() <= LONG_BYTES {
            recursive_doubling::build(b, &across, mine, result);
        } else {
            rabenseifner::build(b, &across, mine, result);
        }
    }
    bcast::hierarchical::inside(b, &inside, result);
}
