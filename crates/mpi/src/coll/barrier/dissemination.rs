//! Dissemination: in round k each process tells the one 2^k places ahead that everybody up to it has arrived.
//!
//! Source: Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization", 1988. Cost: ⌈log2 n⌉ α.

use crate::coll::program::Program;
use crate::coll::select::Needs;
use crate::coll::team::Team;

/// Runs everywhere.
pub const NEEDS: Needs = Needs::ANY;

/// Adds the steps of this process.
pub fn build(p: &mut Program, team: &Team<'_>) {
    let mut distance = 1;
    while distance < team.size {
        p.hear(team, team.before(distance));
        p.signal(team, team.after(distance));
        p.fence();
        distance *= 2;
    }
}
