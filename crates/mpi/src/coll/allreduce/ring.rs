//! Ring: the parts of the vector travel round, first being combined, then being distributed.
//!
//! Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
//! Cost: 2 (n-1)(α + m/n β) + (n-1)/n mγ. Each process talks to two others only.

use crate::coll::builder::Builder;
use crate::coll::needs::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Exchanges operands.
pub const NEEDS: Needs = Needs { commutative: true, ..Needs::ANY };

/// Adds the steps of this process. `own` may be `result`.
pub fn build(b: &mut Builder, team: &Team<'_>, own: Span, result: Span) {
    let n = team.size;
    let in_place = own.ptr == result.ptr;
    let (previous, next) = (team.before(1), team.after(1));
    let temp = if in_place { b.temp_like(own.slice(0, own.count.div_ceil(n))) } else { own };
    for step in 0..n - 1 {
        let (sent, received) = (team.before(step), team.before(step + 1));
        let target = result.part(received, n);
        let into = if in_place { temp.slice(0, target.count) } else { target };
        b.recv(team, previous, into);
        b.send(team, next, if step == 0 { own.part(sent, n) } else { result.part(sent, n) });
        b.fence();
        if in_place {
            b.reduce(into, target);
        } else {
            b.reduce(own.part(received, n), target);
        }
    }
    for step in 0..n - 1 {
        b.recv(team, previous, result.part(team.before(step), n));
        b.send(team, next, result.part((team.rank + 1 + n - step) % n, n));
        b.fence();
    }
}
