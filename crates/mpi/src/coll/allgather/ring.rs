//! Ring: each process passes on the block that it received last.
//!
//! Cost: (n - 1)(α + mβ). Each process talks to two others only. Also gathers blocks of different sizes.

use crate::coll::blocks::Blocks;
use crate::coll::builder::Builder;
use crate::coll::needs::Needs;
use crate::coll::team::Team;

/// Runs everywhere.
pub const NEEDS: Needs = Needs::ANY;

/// Adds the steps of this process, whose own block is in place.
pub fn build(b: &mut Builder, team: &Team<'_>, blocks: Blocks<'_>) {
    let (previous, next) = (team.before(1), team.after(1));
    for step in 0..team.size - 1 {
        let received = b.recv(team, previous, blocks.get(team.before(step + 1)));
        b.send(team, next, blocks.get(team.before(step)));
        b.wait_for(received);
    }
    b.fence();
}
