//! Linear: the result goes from rank to rank.
//!
//! Cost: (n - 1)(α + mβ + mγ), but every process blocks only once.

use crate::coll::builder::Builder;
use crate::coll::needs::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Keeps the order of operands.
pub const NEEDS: Needs = Needs::ANY;

/// Adds the steps of this process. `own` may be `result`.
pub fn inclusive(b: &mut Builder, team: &Team<'_>, own: Span, result: Span) {
    if team.rank > 0 {
        let temp = b.temp_like(own);
        b.recv(team, team.rank - 1, temp);
        b.copy(own, result);
        b.fence();
        b.reduce(temp, result);
    } else {
        b.copy(own, result);
    }
    if team.rank + 1 < team.size {
        b.send(team, team.rank + 1, result);
    }
    b.fence();
}

/// As [`inclusive`] without this process's operand; the result of rank 0 is left alone.
pub fn exclusive(b: &mut Builder, team: &Team<'_>, own: Span, result: Span) {
    let last = team.rank + 1 == team.size;
    let mut passed = own;
    if team.rank > 0 {
        if !last {
            passed = b.temp_like(own);
            b.copy(own, passed);
        }
        b.recv(team, team.rank - 1, result);
        b.fence();
        if !last {
            b.reduce(result, passed);
        }
    }
    if !last {
        b.send(team, team.rank + 1, passed);
    }
    b.fence();
}
