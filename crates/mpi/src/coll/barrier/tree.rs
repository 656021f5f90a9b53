//! Tree: signals are gathered up a tree of some fan-out and released down it. With a fan-out of n - 1 it is flat.
//!
//! Cost: 2 d α for depth d = ⌈log_fanout n⌉, plus fan-out times the cost of a message at each level. Every process but the root
//! blocks at most twice whatever n is, which is what counts when processes share cores.

use crate::coll::program::Program;
use crate::coll::select::Needs;
use crate::coll::team::Team;

/// Runs everywhere.
pub const NEEDS: Needs = Needs::ANY;

/// Adds the steps of this process.
pub fn build(p: &mut Program, team: &Team<'_>, fanout: usize) {
    gather(p, team, fanout);
    release(p, team, fanout);
}

fn children(team: &Team<'_>, fanout: usize) -> std::ops::Range<usize> {
    let first = team.rank.saturating_mul(fanout).saturating_add(1).min(team.size);
    first..first.saturating_add(fanout).min(team.size)
}

/// The first half: rank 0 goes on when all have arrived.
pub fn gather(p: &mut Program, team: &Team<'_>, fanout: usize) {
    for child in children(team, fanout) {
        p.hear(team, child);
    }
    p.fence();
    if team.rank > 0 {
        p.signal(team, (team.rank - 1) / fanout);
    }
}

/// The second half: all others go on after rank 0.
pub fn release(p: &mut Program, team: &Team<'_>, fanout: usize) {
    if team.rank > 0 {
        p.hear(team, (team.rank - 1) / fanout);
        p.fence();
    }
    for child in children(team, fanout) {
        p.signal(team, child);
    }
    p.fence();
}
