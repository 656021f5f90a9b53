//! Tree: empty messages are gathered up a tree of some fan-out and released down it. With a fan-out of n - 1 it is flat.
//!
//! Cost: 2 d α for depth d = ⌈log_fanout n⌉, plus fan-out times the cost of a message at each level. Every process but the root
//! blocks at most twice whatever n is, which is what counts when processes share cores.

use crate::coll::builder::Builder;
use crate::coll::needs::Needs;
use crate::coll::team::Team;

/// Runs everywhere.
pub const NEEDS: Needs = Needs::ANY;

/// Adds the steps of this process.
pub fn build(b: &mut Builder, team: &Team<'_>, fanout: usize) {
    gather(b, team, fanout);
    release(b, team, fanout);
}

fn children(team: &Team<'_>, fanout: usize) -> std::ops::Range<usize> {
    let first = team.rank.saturating_mul(fanout).saturating_add(1).min(team.size);
    first..first.saturating_add(fanout).min(team.size)
}

/// The first half: rank 0 goes on when all have arrived.
pub fn gather(b: &mut Builder, team: &Team<'_>, fanout: usize) {
    for child in children(team, fanout) {
        b.recv_empty(team, child);
    }
    b.fence();
    if team.rank > 0 {
        b.send_empty(team, (team.rank - 1) / fanout);
    }
}

/// The second half: all others go on after rank 0.
pub fn release(b: &mut Builder, team: &Team<'_>, fanout: usize) {
    if team.rank > 0 {
        b.recv_empty(team, (team.rank - 1) / fanout);
        b.fence();
    }
    for child in children(team, fanout) {
        b.send_empty(team, child);
    }
    b.fence();
}
