//! Pairwise: in step k each process sends to the one k places ahead and receives from the one k places behind.
//!
//! Source: Thakur, Rabenseifner, Gropp, 2005. Cost: (n - 1)(α + mβ), two messages of a process under way at a time.

use crate::coll::blocks::Blocks;
use crate::coll::builder::Builder;
use crate::coll::needs::Needs;
use crate::coll::team::Team;

/// Not in place.
pub const NEEDS: Needs = Needs { not_in_place: true, ..Needs::ANY };

/// Adds the steps of this process.
pub fn build(b: &mut Builder, team: &Team<'_>, from: Blocks<'_>, into: Blocks<'_>) {
    b.copy(from.get(team.rank), into.get(team.rank));
    for distance in 1..team.size {
        let (source, to) = (team.before(distance), team.after(distance));
        b.recv(team, source, into.get(source));
        b.send(team, to, from.get(to));
        b.fence();
    }
}
