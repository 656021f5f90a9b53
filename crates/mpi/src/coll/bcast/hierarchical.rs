//! Hierarchical: a binomial tree of the leaders, then each leader to its node.
//!
//! Source and cost: see [`levels`](crate::coll::levels).

use super::{binomial, flat};
use crate::coll::builder::Builder;
use crate::coll::layout::Layout;
use crate::coll::levels::{FLAT_RANKS, Levels};
use crate::coll::needs::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Several nodes, some with several processes.
pub const NEEDS: Needs = Needs { nodes: true, ..Needs::ANY };

/// Adds the steps of a broadcast.
pub fn build(b: &mut Builder, team: &Team<'_>, layout: &Layout, root: usize, data: Span) {
    let levels = Levels::new(team, layout, root);
    if let Some(across) = levels.across(team) {
        binomial::build(b, &across, layout.node(root), data);
    }
    inside(b, &levels.inside(team), data);
}

/// From the leader to the other processes of the node.
pub fn inside(b: &mut Builder, team: &Team<'_>, data: Span) {
    if team.size <= FLAT_RANKS {
        flat::build(b, team, 0, data);
    } else {
        binomial::build(b, team, 0, data);
    }
}
