//! Transpose: rank 0 gathers what all have to send, and gives each what is for it.
//!
//! Cost: 2 α + 2 (n - 1)(α + n mβ) and n² copies at rank 0. Every process but rank 0 blocks once, and is woken once: for short
//! blocks when processes share cores.

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
    let (all_from, all_into) = (from.range(0, n), into.range(0, n));
    if team.rank > 0 {
        b.send(team, 0, all_from);
        b.fence();
        b.recv(team, 0, all_into);
        b.fence();
        return;
    }
    let bytes = into.get(0).bytes();
    let (rows, columns) = (b.temp_bytes(n * n * bytes), b.temp_bytes(n * n * bytes));
    let row = |matrix: Span, i: usize| matrix.slice(i * n * bytes, n * bytes);
    let cell = |matrix: Span, i: usize, j: usize| matrix.slice((i * n + j) * bytes, bytes);
    for r in 1..n {
        b.recv(team, r, row(rows, r));
    }
    b.copy(all_from, row(rows, 0));
    b.fence();
    for to in (0..n).rev() {
        for r in 0..n {
            b.copy(cell(rows, r, to), cell(columns, to, r));
        }
        if to > 0 {
            b.send(team, to, row(columns, to));
        }
    }
    b.copy(row(columns, 0), all_into);
    b.fence();
}
