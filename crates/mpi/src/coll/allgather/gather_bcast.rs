//! Gather to rank 0, which sends all blocks to everybody.
//!
//! Cost: 2 α + (n - 1)(2 α + n mβ) at rank 0. Every process but rank 0 blocks once, and is woken once: for short blocks when processes
//! share cores.

use crate::coll::blocks::Blocks;
use crate::coll::builder::Builder;
use crate::coll::needs::Needs;
use crate::coll::team::Team;

/// Blocks of one size.
pub const NEEDS: Needs = Needs { even: true, ..Needs::ANY };

/// Adds the steps of this process, whose own block is in place.
pub fn build(b: &mut Builder, team: &Team<'_>, blocks: Blocks<'_>) {
    if team.rank == 0 {
        for from in 1..team.size {
            b.recv(team, from, blocks.get(from));
        }
        b.fence();
        for to in 1..team.size {
            b.send(team, to, blocks.range(0, team.size));
        }
    } else {
        b.send(team, 0, blocks.get(team.rank));
        b.fence();
        b.recv(team, 0, blocks.range(0, team.size));
    }
    b.fence();
}
