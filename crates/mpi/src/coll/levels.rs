//! The two levels of hierarchical algorithms: one leader per node talks to other nodes, the rest talks inside the node.
//!
//! Source: Karonis and others, "Exploiting hierarchy in parallel computer networks to optimize collective operation performance", 2000. Cost: that of the
//! parts, with the α and β of the node inside and of the network among as many processes as there are nodes.

use super::layout::Layout;
use super::team::Team;

/// Processes of a node up to this number use the flat algorithms.
pub const FLAT_RANKS: usize = 16;
/// Leaders combine longer vectors part by part.
pub const LONG_BYTES: usize = 16 << 10;

/// The two levels for a collective in which `chosen` leads its node.
pub struct Levels {
    node_peers: Vec<u32>,
    leaders: Vec<u32>,
    rank_in_node: usize,
    node: usize,
}

impl Levels {
    /// Those of the process that `team` is for.
    pub fn new(team: &Team<'_>, layout: &Layout, chosen: usize) -> Levels {
        let node_peers = layout.node_peers(chosen);
        let rank_in_node = node_peers.iter().position(|&r| r as usize == team.rank).unwrap_or(0);
        Levels { node_peers, leaders: layout.leaders(chosen), rank_in_node, node: layout.node(team.rank) }
    }

    /// The processes of the node; the leader is the first.
    pub fn inside<'a>(&'a self, team: &Team<'_>) -> Team<'a> {
        Team::subset(&self.node_peers, self.rank_in_node, team.via)
    }

    /// The leaders of all nodes; `None` for a process that isn't one.
    pub fn across<'a>(&'a self, team: &Team<'_>) -> Option<Team<'a>> {
        (self.rank_in_node == 0).then(|| Team::subset(&self.leaders, self.node, team.via))
    }
}
