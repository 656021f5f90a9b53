//! Bruck: blocks are collected as bytes in the order of distance, then turned into place.
//!
//! Source: Bruck and others, "Efficient algorithms for all-to-all communications in multiport message-passing systems", 1997. Cost: ⌈log2 n⌉ α + (n - 1) mβ for any n.

use crate::coll::blocks::Blocks;
use crate::coll::builder::Builder;
use crate::coll::needs::Needs;
use crate::coll::team::Team;

/// Blocks of one size.
pub const NEEDS: Needs = Needs { even: true, ..Needs::ANY };

/// Adds the steps of this process, whose own block is in place.
pub fn build(b: &mut Builder, team: &Team<'_>, blocks: Blocks<'_>) {
    let (n, own) = (team.size, blocks.get(team.rank));
    let bytes = own.bytes();
    let work = b.temp_bytes(n * bytes);
    b.copy(own, work.slice(0, bytes));
    let mut have = 1;
    while have < n {
        let more = have.min(n - have);
        b.recv(team, team.after(have), work.slice(have * bytes, more * bytes));
        b.send(team, team.before(have), work.slice(0, more * bytes));
        b.fence();
        have += more;
    }
    let behind = n - team.rank;
    b.copy(work.slice(bytes, (behind - 1) * bytes), blocks.range(team.rank + 1, n));
    b.copy(work.slice(behind * bytes, team.rank * bytes), blocks.range(0, team.rank));
}
