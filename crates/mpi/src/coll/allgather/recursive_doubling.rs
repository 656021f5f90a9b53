//! Recursive doubling: in round k processes at distance 2^k exchange the 2^k blocks that they have.
//!
//! Source: Thakur, Rabenseifner, Gropp, 2005. Cost: log2 n α + (n - 1) mβ.

use crate::coll::blocks::Blocks;
use crate::coll::builder::Builder;
use crate::coll::needs::Needs;
use crate::coll::team::Team;

/// A power of two of processes, blocks of one size.
pub const NEEDS: Needs = Needs { power_of_two: true, even: true, ..Needs::ANY };

/// Adds the steps of this process, whose own block is in place.
pub fn build(b: &mut Builder, team: &Team<'_>, blocks: Blocks<'_>) {
    let mut width = 1;
    while width < team.size {
        let mine = team.rank & !(width - 1);
        let theirs = mine ^ width;
        let partner = team.rank ^ width;
        b.recv(team, partner, blocks.range(theirs, theirs + width));
        b.send(team, partner, blocks.range(mine, mine + width));
        b.fence();
        width *= 2;
    }
}
