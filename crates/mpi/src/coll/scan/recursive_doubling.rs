//! Recursive doubling: after round k a process has combined the operands of the 2^k processes up to itself.
//!
//! Source: Hillis, Steele, "Data parallel algorithms", 1986. Cost: ⌈log2 n⌉ (α + mβ + mγ).

use crate::coll::program::Program;
use crate::coll::select::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Keeps the order of operands.
pub const NEEDS: Needs = Needs::ANY;

/// Adds the steps of this process. `own` may be `result`.
pub fn inclusive(p: &mut Program, team: &Team<'_>, own: Span, result: Span) {
    p.copy(own, result);
    let temp = if team.rank > 0 { p.temp_like(result) } else { result };
    let mut distance = 1;
    while distance < team.size {
        if team.rank >= distance {
            p.recv(team, team.rank - distance, temp);
        }
        if team.rank + distance < team.size {
            p.send(team, team.rank + distance, result);
        }
        p.fence();
        if team.rank >= distance {
            p.reduce(temp, result);
        }
        distance *= 2;
    }
}

/// As [`inclusive`] without this process's operand; the result of rank 0 is left alone.
pub fn exclusive(p: &mut Program, team: &Team<'_>, own: Span, result: Span) {
    let partial = p.temp_like(own);
    p.copy(own, partial);
    let temp = if team.rank > 1 { p.temp_like(own) } else { result };
    let mut distance = 1;
    while distance < team.size {
        let received = if distance == 1 { result } else { temp };
        if team.rank >= distance {
            p.recv(team, team.rank - distance, received);
        }
        if team.rank + distance < team.size {
            p.send(team, team.rank + distance, partial);
        }
        p.fence();
        if team.rank >= distance {
            if team.rank + 2 * distance < team.size {
                p.reduce(received, partial);
            }
            if distance > 1 {
                p.reduce(received, result);
            }
        }
        distance *= 2;
    }
}
