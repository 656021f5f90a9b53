//! Bruck: blocks travel in ⌈log2 n⌉ rounds, each carrying all blocks whose distance has the round's bit.
//!
//! Source: Bruck and others, 1997. Cost: ⌈log2 n⌉ (α + n/2 mβ) plus copies: for short blocks and many processes.

use crate::coll::blocks::Blocks;
use crate::coll::builder::Builder;
use crate::coll::needs::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Blocks of one size.
pub const NEEDS: Needs = Needs { even: true, ..Needs::ANY };

/// Adds the steps of this process. `from` may be `into`.
pub fn build(b: &mut Builder, team: &Team<'_>, from: Blocks<'_>, into: Blocks<'_>) {
    let n = team.size;
    let bytes = into.get(0).bytes();
    let work = b.temp_bytes(n * bytes);
    let block = |i: usize| work.slice(i * bytes, bytes);
    // Block i is on its way to the process i places ahead.
    let behind = n - team.rank;
    b.copy(from.range(team.rank, n), work.slice(0, behind * bytes));
    b.copy(from.range(0, team.rank), work.slice(behind * bytes, team.rank * bytes));
    let half = n.div_ceil(2);
    let (out, incoming) = (b.temp_bytes(half * bytes), b.temp_bytes(half * bytes));
    let mut bit = 1;
    while bit < n {
        let moving = |i: &usize| i & bit != 0;
        let mut count = 0;
        for i in (0..n).filter(moving) {
            b.copy(block(i), out.slice(count * bytes, bytes));
            count += 1;
        }
        b.recv(team, team.before(bit), incoming.slice(0, count * bytes));
        b.send(team, team.after(bit), out.slice(0, count * bytes));
        b.fence();
        for (k, i) in (0..n).filter(moving).enumerate() {
            b.copy(incoming.slice(k * bytes, bytes), block(i));
        }
        bit *= 2;
    }
    for i in 0..n {
        let into: Span = into.get(team.before(i));
        b.copy(block(i), into);
    }
}
