//! Bruck: blocks are collected as bytes in the order of distance, then turned into place.
//!
//! Source: Bruck and others, "Efficient algorithms for all-to-all communications in multiport message-passing systems", 1997. Cost: ⌈log2 n⌉ α + (n - 1) mβ for any n.

use crate::coll::blocks::Blocks;
use crate::coll::program::Program;
use crate::coll::select::Needs;
use crate::coll::team::Team;

/// Blocks of one size.
pub const NEEDS: Needs = Needs { even: true, ..Needs::ANY };

/// Adds the steps of this process, whose own block is in place.
pub fn build(p: &mut Program, team: &Team<'_>, blocks: Blocks<'_>) {
    let (n, own) = (team.size, blocks.get(team.rank));
    let bytes = own.bytes();
    let work = p.temp_bytes(n * bytes);
    p.copy(own, work.slice(0, bytes));
    let mut have = 1;
    while have < n {
        let more = have.min(n - have);
        p.recv(team, team.after(have), work.slice(have * bytes, more * bytes));
        p.send(team, team.before(have), work.slice(0, more * bytes));
        p.fence();
        have += more;
    }
    let behind = n - team.rank;
    p.copy(work.slice(bytes, (behind - 1) * bytes), blocks.range(team.rank + 1, n));
    p.copy(work.slice(behind * bytes, team.rank * bytes), blocks.range(0, team.rank));
}
