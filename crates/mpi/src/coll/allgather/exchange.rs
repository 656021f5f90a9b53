//! Exchange: everybody sends its block to everybody.
//!
//! Cost: α + (n - 1) mβ with n - 1 messages of each process. One wait. Also gathers blocks of different sizes.

use crate::coll::blocks::Blocks;
use crate::coll::builder::Builder;
use crate::coll::needs::Needs;
use crate::coll::team::Team;

/// Runs everywhere.
pub const NEEDS: Needs = Needs::ANY;

/// Adds the steps of this process, whose own block is in place.
pub fn build(b: &mut Builder, team: &Team<'_>, blocks: Blocks<'_>) {
    for distance in 1..team.size {
        let from = team.before(distance);
        b.recv(team, from, blocks.get(from));
    }
    for distance in 1..team.size {
        b.send(team, team.after(distance), blocks.get(team.rank));
    }
    b.fence();
}
