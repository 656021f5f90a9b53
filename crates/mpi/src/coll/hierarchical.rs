//! Hierarchical algorithms: one leader per node talks to other nodes, the rest talks inside the node.
//!
//! Source: Karonis and others, "Exploiting hierarchy in parallel computer networks to optimize collective operation performance", 2000. Cost: that of the
//! parts, with the α and β of the node inside and of the network among as many processes as there are nodes.

use super::layout::Layout;
use super::program::Program;
use super::select::Needs;
use super::span::Span;
use super::team::Team;
use super::{allreduce, barrier, bcast, reduce};

/// Several nodes, some with several processes.
pub const NEEDS: Needs = Needs { nodes: true, ..Needs::ANY };
/// As [`NEEDS`]; combines operands node by node.
pub const NEEDS_COMMUTATIVE: Needs = Needs { commutative: true, ..NEEDS };

/// Processes of a node up to this number use the flat algorithms.
const FLAT_RANKS: usize = 16;
/// Leaders combine longer vectors part by part.
const LONG_BYTES: usize = 16 << 10;

/// The two levels for a collective in which `chosen` leads its node.
struct Levels {
    mates: Vec<u32>,
    leaders: Vec<u32>,
    rank_in_node: usize,
    node: usize,
}

impl Levels {
    fn new(team: &Team<'_>, layout: &Layout, chosen: usize) -> Levels {
        let mates = layout.mates(chosen);
        let rank_in_node = mates.iter().position(|&r| r as usize == team.rank).unwrap_or(0);
        Levels { mates, leaders: layout.leaders(chosen), rank_in_node, node: layout.node(team.rank) }
    }

    fn inside<'a>(&'a self, team: &Team<'_>) -> Team<'a> {
        Team::subset(&self.mates, self.rank_in_node, team.via)
    }

    /// `None` for a process that isn't a leader.
    fn across<'a>(&'a self, team: &Team<'_>) -> Option<Team<'a>> {
        (self.rank_in_node == 0).then(|| Team::subset(&self.leaders, self.node, team.via))
    }
}

/// Adds the steps of a barrier.
pub fn barrier(p: &mut Program, team: &Team<'_>, layout: &Layout) {
    let levels = Levels::new(team, layout, 0);
    let inside = levels.inside(team);
    barrier::tree::gather(p, &inside, FLAT_RANKS);
    if let Some(across) = levels.across(team) {
        barrier::dissemination::build(p, &across);
    }
    barrier::tree::release(p, &inside, FLAT_RANKS);
}

fn bcast_inside(p: &mut Program, inside: &Team<'_>, data: Span) {
    if inside.size <= FLAT_RANKS {
        bcast::flat::build(p, inside, 0, data);
    } else {
        bcast::binomial::build(p, inside, 0, data);
    }
}

/// Adds the steps of a broadcast.
pub fn bcast(p: &mut Program, team: &Team<'_>, layout: &Layout, root: usize, data: Span) {
    let levels = Levels::new(team, layout, root);
    if let Some(across) = levels.across(team) {
        bcast::binomial::build(p, &across, layout.node(root), data);
    }
    bcast_inside(p, &levels.inside(team), data);
}

/// Combines the operands of the node; says where the leader has them.
fn reduce_inside(p: &mut Program, inside: &Team<'_>, own: Span, result: Span) -> Span {
    if inside.size == 1 {
        return own;
    }
    if inside.size <= FLAT_RANKS && own.bytes() <= LONG_BYTES {
        reduce::flat::build(p, inside, 0, own, result);
    } else {
        reduce::binomial::build(p, inside, 0, own, result);
    }
    result
}

/// Adds the steps of a reduction. `result` only matters at the root, where `own` may be the same.
pub fn reduce(p: &mut Program, team: &Team<'_>, layout: &Layout, root: usize, own: Span, result: Span) {
    let levels = Levels::new(team, layout, root);
    let inside = levels.inside(team);
    let Some(across) = levels.across(team) else {
        reduce_inside(p, &inside, own, own);
        return;
    };
    let mine = if team.rank == root { result } else { p.temp_like(own) };
    let mine = reduce_inside(p, &inside, own, mine);
    reduce::binomial::build(p, &across, layout.node(root), mine, result);
}

/// Adds the steps of an all-reduction. `own` may be `result`.
pub fn allreduce(p: &mut Program, team: &Team<'_>, layout: &Layout, own: Span, result: Span) {
    let levels = Levels::new(team, layout, 0);
    let inside = levels.inside(team);
    let mine = reduce_inside(p, &inside, own, result);
    if let Some(across) = levels.across(team) {
        if own.bytes() <= LONG_BYTES {
            allreduce::recursive_doubling::build(p, &across, mine, result);
        } else {
            allreduce::rabenseifner::build(p, &across, mine, result);
        }
    }
    bcast_inside(p, &inside, result);
}
