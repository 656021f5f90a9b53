//! Flat: the root sends to everybody.
//!
//! Cost: (n - 1)(α + mβ) at the root, one message at the others. With single copy the receivers read the root's memory side
//! by side, so on a node it is also the one with the fewest copies.

use crate::coll::program::Program;
use crate::coll::select::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Runs everywhere.
pub const NEEDS: Needs = Needs::ANY;

/// Adds the steps of this process.
pub fn build(p: &mut Program, team: &Team<'_>, root: usize, data: Span) {
    if team.rank == root {
        for distance in 1..team.size {
            p.send(team, team.after(distance), data);
        }
    } else {
        p.recv(team, root, data);
    }
    p.fence();
}
