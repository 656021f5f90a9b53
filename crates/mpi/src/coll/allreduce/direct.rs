//! Direct reduce-scatter and allgather: each process combines its part of the vector, received from everybody in rank order, and
//! sends the result to everybody.
//!
//! Cost: 2 α + 2 (n-1)/n mβ + (n-1)/n mγ with n - 1 messages of each process in both phases. Two waits whatever n is. Memory: one
//! vector. With two processes and no `MPI_IN_PLACE` nothing is copied but by the messages.

use crate::coll::fold::Fold;
use crate::coll::program::Program;
use crate::coll::select::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Keeps the order of operands.
pub const NEEDS: Needs = Needs::ANY;

/// Adds the steps of this process. `own` may be `result`.
pub fn build(p: &mut Program, team: &Team<'_>, own: Span, result: Span) {
    let n = team.size;
    let part = result.part(team.rank, n);
    let fold = Fold::post(p, team, own.part(team.rank, n), part, false);
    for distance in 1..n {
        let to = team.after(distance);
        p.send(team, to, own.part(to, n));
    }
    fold.finish(p);
    p.fence();
    for distance in 1..n {
        let from = team.before(distance);
        p.recv(team, from, result.part(from, n));
    }
    for distance in 1..n {
        p.send(team, team.after(distance), part);
    }
    p.fence();
}
