//! Scatter, then ring allgather: each process passes on only its share.
//!
//! Source: Barnett and others, "Interprocessor collective communication library", 1994. Cost: (⌈log2 n⌉ + n - 1) α + 2 (n-1)/n mβ.

use crate::coll::builder::Builder;
use crate::coll::needs::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Runs everywhere.
pub const NEEDS: Needs = Needs::ANY;

/// Adds the steps of this process. Items that aren't contiguous are packed first.
pub fn build(b: &mut Builder, team: &Team<'_>, root: usize, data: Span) {
    let n = team.size;
    let bytes = b.packed(data);
    let me = team.relative(root);
    if me == 0 {
        b.copy(data, bytes);
    }
    // Binomial scatter: whoever is at distance d from the root gets the parts d .. d + (lowest set bit of d).
    let mut mask = 1;
    while mask < n && me & mask == 0 {
        mask *= 2;
    }
    if me != 0 {
        b.recv(team, team.absolute(me - mask, root), bytes.parts(me, (me + mask).min(n), n));
        b.fence();
    }
    while mask > 1 {
        mask /= 2;
        if me + mask < n {
            b.send(team, team.absolute(me + mask, root), bytes.parts(me + mask, (me + 2 * mask).min(n), n));
        }
    }
    b.fence();
    // Ring: parts that came with the scatter are received again in place, which keeps every process on the same steps.
    let (previous, next) = (team.before(1), team.after(1));
    for step in 0..n - 1 {
        b.recv(team, previous, bytes.part((me + n - step - 1) % n, n));
        b.send(team, next, bytes.part((me + n - step) % n, n));
        b.fence();
    }
    if me != 0 {
        b.copy(bytes, data);
    }
}
