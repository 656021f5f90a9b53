//! Linear: the result goes from rank to rank.
//!
//! Cost: (n - 1)(α + mβ + mγ), but every process blocks only once.

use crate::coll::program::Program;
use crate::coll::select::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Keeps the order of operands.
pub const NEEDS: Needs = Needs::ANY;

/// Adds the steps of this process. `own` may be `result`.
pub fn inclusive(p: &mut Program, team: &Team<'_>, own: Span, result: Span) {
    if team.rank > 0 {
        let temp = p.temp_like(own);
        p.recv(team, team.rank - 1, temp);
        p.copy(own, result);
        p.fence();
        p.reduce(temp, result);
    } else {
        p.copy(own, result);
    }
    if team.rank + 1 < team.size {
        p.send(team, team.rank + 1, result);
    }
    p.fence();
}

/// As [`inclusive`] without this process's operand; the result of rank 0 is left alone.
pub fn exclusive(p: &mut Program, team: &Team<'_>, own: Span, result: Span) {
    let last = team.rank + 1 == team.size;
    let mut passed = own;
    if team.rank > 0 {
        if !last {
            passed = p.temp_like(own);
            p.copy(own, passed);
        }
        p.recv(team, team.rank - 1, result);
        p.fence();
        if !last {
            p.reduce(result, passed);
        }
    }
    if !last {
        p.send(team, team.rank + 1, passed);
    }
    p.fence();
}
