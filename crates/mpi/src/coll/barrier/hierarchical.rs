//! Hierarchical: the processes of a node meet at their leader, the leaders meet by dissemination.
//!
//! Source and cost: see [`levels`](crate::coll::levels).

use super::{dissemination, tree};
use crate::coll::builder::Builder;
use crate::coll::layout::Layout;
use crate::coll::levels::{FLAT_RANKS, Levels};
use crate::coll::needs::Needs;
use crate::coll::team::Team;

/// Several nodes, some with several processes.
pub const NEEDS: Needs = Needs { nodes: true, ..Needs::ANY };

/// Adds the steps of a barrier.
pub fn build(b: &mut Builder, team: &Team<'_>, layout: &Layout) {
    let levels = Levels::new(team, layout, 0);
    let inside = levels.inside(team);
    tree::gather(b, &inside, FLAT_RANKS);
    if let Some(across) = levels.across(team) {
        dissemination::build(b, &across);
    }
    tree::release(b, &inside, FLAT_RANKS);
}
