//! Binomial tree.
//!
//! Source: van de Geijn and others; see Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in
//! MPICH", 2005. Cost: ⌈log2 n⌉ (α + mβ).

use crate::coll::builder::Builder;
use crate::coll::needs::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Runs everywhere.
pub const NEEDS: Needs = Needs::ANY;

/// Adds the steps of this process.
pub fn build(b: &mut Builder, team: &Team<'_>, root: usize, data: Span) {
    let me = team.relative(root);
    // The lowest set bit of `me` leads to the parent; the bits below it to the children.
    let mut mask = 1;
    while mask < team.size && me & mask == 0 {
        mask *= 2;
    }
    if me != 0 {
        b.recv(team, team.absolute(me - mask, root), data);
        b.fence();
    }
    while mask > 1 {
        mask /= 2;
        if me + mask < team.size {
            b.send(team, team.absolute(me + mask, root), data);
        }
    }
    b.fence();
}
