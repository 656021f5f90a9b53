//! Reduce to rank 0, then broadcast: flat for few processes, else binomial.
//!
//! Cost: that of its parts.

use crate::coll::builder::Builder;
use crate::coll::needs::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;
use crate::coll::{bcast, reduce};

/// Keeps the order of operands.
pub const NEEDS: Needs = Needs::ANY;

/// Adds the steps of this process. `own` may be `result`.
pub fn build(b: &mut Builder, team: &Team<'_>, own: Span, result: Span, flat: bool) {
    if flat {
        reduce::flat::build(b, team, 0, own, result);
        bcast::flat::build(b, team, 0, result);
    } else {
        reduce::binomial::build(b, team, 0, own, result);
        bcast::binomial::build(b, team, 0, result);
    }
}
