//! Flat: the root sends to everybody.
//!
//! Cost: (n - 1)(α + mβ) at the root, one message at the others. With single copy the receivers read the root's memory side
//! by side, so on a node it is also the one with the fewest copies.

use crate::coll::builder::Builder;
use crate::coll::needs::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Runs everywhere.
pub const NEEDS: Needs = Needs::ANY;

/// Adds the steps of this process.
pub fn build(b: &mut Builder, team: &Team<'_>, root: usize, data: Span) {
    if team.rank == root {
        for distance in 1..team.size {
            b.send(team, team.after(distance), data);
        }
    } else {
        b.recv(team, root, data);
    }
    b.fence();
}
