//! Post all: every receive and every send is started, a bounded number at a time; each process begins with its successor, so
//! that no destination is hit by everyone at once.
//!
//! Cost: α + (n - 1) mβ. One wait while all fit into the window. Also for blocks of different sizes and types.

use crate::coll::blocks::Blocks;
use crate::coll::builder::Builder;
use crate::coll::needs::Needs;
use crate::coll::schedule::Ticket;
use crate::coll::team::Team;
use crate::coll::throttle::Throttle;

/// Not in place.
pub const NEEDS: Needs = Needs { not_in_place: true, ..Needs::ANY };

/// Adds the steps of this process.
pub fn build(b: &mut Builder, team: &Team<'_>, from: Blocks<'_>, into: Blocks<'_>, window: usize) {
    if team.size <= window {
        for distance in 1..team.size {
            receive(b, team, into, distance);
        }
        for distance in 1..team.size {
            let to = team.after(distance);
            b.send(team, to, from.get(to));
        }
    } else {
        throttled(b, team, from, into, window);
    }
    b.copy(from.get(team.rank), into.get(team.rank));
    b.fence();
}

#[inline]
fn receive(b: &mut Builder, team: &Team<'_>, into: Blocks<'_>, distance: usize) -> Ticket {
    let source = team.before(distance);
    b.recv(team, source, into.get(source))
}

fn throttled(b: &mut Builder, team: &Team<'_>, from: Blocks<'_>, into: Blocks<'_>, window: usize) {
    let (mut receives, mut sends) = (Throttle::new(window), Throttle::new(window));
    for distance in 1..=window.min(team.size - 1) {
        let ticket = receive(b, team, into, distance);
        receives.started(b, ticket);
    }
    for distance in 1..team.size {
        let to = team.after(distance);
        let ticket = b.send(team, to, from.get(to));
        if distance + window < team.size {
            sends.started(b, ticket);
            let ticket = receive(b, team, into, distance + window);
            receives.started(b, ticket);
        }
    }
}
