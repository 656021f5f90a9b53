//! Swap: in each step the processes form pairs that exchange their blocks in place.
//!
//! Processes i and j meet in step (i + j) mod n. Cost: n (α + mβ) and a copy of what is sent. Memory: one block. Also for blocks of different
//! sizes and types.

use crate::coll::blocks::Blocks;
use crate::coll::builder::Builder;
use crate::coll::needs::Needs;
use crate::coll::team::Team;

/// Made for `MPI_IN_PLACE`.
pub const NEEDS: Needs = Needs { in_place: true, ..Needs::ANY };

/// Adds the steps of this process.
pub fn build(b: &mut Builder, team: &Team<'_>, blocks: Blocks<'_>) {
    let largest = (0..team.size).map(|i| blocks.get(i).bytes()).max().unwrap_or(0);
    let temp = b.temp_bytes(largest);
    for step in 0..team.size {
        let partner = (step + team.size - team.rank) % team.size;
        if partner == team.rank {
            continue;
        }
        let block = blocks.get(partner);
        let out = temp.slice(0, block.bytes());
        b.copy(block, out);
        b.recv(team, partner, block);
        b.send(team, partner, out);
        b.fence();
    }
}
