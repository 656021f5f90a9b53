//! Dissemination: in round k each process tells the one 2^k places ahead that everybody up to it has arrived.
//!
//! Source: Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization", 1988. Cost: ⌈log2 n⌉ α.

use crate::coll::builder::Builder;
use crate::coll::needs::Needs;
use crate::coll::team::Team;

/// Runs everywhere.
pub const NEEDS: Needs = Needs::ANY;

/// Adds the steps of this process.
pub fn build(b: &mut Builder, team: &Team<'_>) {
    let mut distance = 1;
    while distance < team.size {
        b.recv_empty(team, team.before(distance));
        b.send_empty(team, team.after(distance));
        b.fence();
        distance *= 2;
    }
}
