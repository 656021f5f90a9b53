//! Exchange: everybody sends everybody an empty message and waits once.
//!
//! Cost: α + (n - 1) messages of each process. The fewest context switches when few processes share cores.

use crate::coll::builder::Builder;
use crate::coll::needs::Needs;
use crate::coll::team::Team;

/// Runs everywhere.
pub const NEEDS: Needs = Needs::ANY;

/// Adds the steps of this process.
pub fn build(b: &mut Builder, team: &Team<'_>) {
    for distance in 1..team.size {
        b.recv_empty(team, team.before(distance));
    }
    for distance in 1..team.size {
        b.send_empty(team, team.after(distance));
    }
    b.fence();
}
