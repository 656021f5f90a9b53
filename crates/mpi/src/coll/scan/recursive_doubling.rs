//! Recursive doubling: after round k a process has combined the operands of the 2^k processes up to itself.
//!
//! Source: Hillis, Steele, "Data parallel algorithms", 1986. Cost: ⌈log2 n⌉ (α + mβ + mγ).

use crate::coll::builder::Builder;
use crate::coll::needs::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Keeps the order of operands.
pub const NEEDS: Needs = Needs::ANY;

/// Adds the steps of this process. `own` may be `result`.
pub fn inclusive(b: &mut Builder, team: &Team<'_>, own: Span, result: Span) {
    b.copy(own, result);
    let temp = if team.rank > 0 { b.temp_like(result) } else { result };
    let mut distance = 1;
    while distance < team.size {
        if team.rank >= distance {
            b.recv(team, team.rank - distance, temp);
        }
        if team.rank + distance < team.size {
            b.send(team, team.rank + distance, result);
        }
        b.fence();
        if team.rank >= distance {
            b.reduce(temp, result);
        }
        distance *= 2;
    }
}

/// As [`inclusive`] without this process's operand; the result of rank 0 is left alone.
pub fn exclusive(b: &mut Builder, team: &Team<'_>, own: Span, result: Span) {
    let partial = b.temp_like(own);
    b.copy(own, partial);
    let temp = if team.rank > 1 { b.temp_like(own) } else { result };
    let mut distance = 1;
    while distance < team.size {
        let received = if distance == 1 { result } else { temp };
        if team.rank >= distance {
            b.recv(team, team.rank - distance, received);
        }
        if team.rank + distance < team.size {
            b.send(team, team.rank + distance, partial);
        }
        b.fence();
        if team.rank >= distance {
            if team.rank + 2 * distance < team.size {
                b.reduce(received, partial);
            }
            if distance > 1 {
                b.reduce(received, result);
            }
        }
        distance *= 2;
    }
}
