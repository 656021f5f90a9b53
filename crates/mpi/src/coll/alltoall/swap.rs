//! Swap: in each step the processes form pairs that exchange their blocks in place.
//!
//! Processes i and j meet in step (i + j) mod n. Cost: n (α + mβ) and a copy of what is sent. Memory: one block. Also for blocks of different
//! sizes and types.

use crate::coll::blocks::Blocks;
use crate::coll::program::Program;
use crate::coll::select::Needs;
use crate::coll::team::Team;

/// Made for `MPI_IN_PLACE`.
pub const NEEDS: Needs = Needs { in_place: true, ..Needs::ANY };

/// Adds the steps of this process.
pub fn build(p: &mut Program, team: &Team<'_>, blocks: Blocks<'_>) {
    let largest = (0..team.size).map(|i| blocks.get(i).bytes()).max().unwrap_or(0);
    let temp = p.temp_bytes(largest);
    for step in 0..team.size {
        let partner = (step + team.size - team.rank) % team.size;
        if partner == team.rank {
            continue;
        }
        let block = blocks.get(partner);
        let out = temp.slice(0, block.bytes());
        p.copy(block, out);
        p.recv(team, partner, block);
        p.send(team, partner, out);
        p.fence();
    }
}
