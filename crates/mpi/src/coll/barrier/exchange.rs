//! Exchange: everybody signals everybody and waits once.
//!
//! Cost: α + (n - 1) messages of each process. The fewest context switches when few processes share cores.

use crate::coll::program::Program;
use crate::coll::select::Needs;
use crate::coll::team::Team;

/// Runs everywhere.
pub const NEEDS: Needs = Needs::ANY;

/// Adds the steps of this process.
pub fn build(p: &mut Program, team: &Team<'_>) {
    for distance in 1..team.size {
        p.hear(team, team.before(distance));
    }
    for distance in 1..team.size {
        p.signal(team, team.after(distance));
    }
    p.fence();
}
