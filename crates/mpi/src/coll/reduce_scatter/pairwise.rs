//! Pairwise: in step k each process sends its operand of the block of the process k places ahead, and combines the one that it receives.
//!
//! Source: Thakur, Rabenseifner, Gropp, 2005. Cost: (n - 1)(α + m/n (β + γ)). Memory: one block.

use crate::coll::blocks::Blocks;
use crate::coll::builder::Builder;
use crate::coll::needs::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Exchanges operands.
pub const NEEDS: Needs = Needs { commutative: true, ..Needs::ANY };

/// Adds the steps of this process. `own` are the blocks of the operand; `result` may be where they begin: then the rest
/// of the operand stays as it is.
pub fn build(b: &mut Builder, team: &Team<'_>, own: Blocks<'_>, result: Span, in_place: bool) {
    let mine = own.get(team.rank);
    // In place the operand lies in the program's buffer, of which only the result may change.
    let acc = if in_place { b.temp_like(mine) } else { result };
    let temp = b.temp_like(mine);
    for distance in 1..team.size {
        let to = team.after(distance);
        let straight = distance == 1;
        let into = if straight { acc } else { temp };
        b.recv(team, team.before(distance), into);
        b.send(team, to, own.get(to));
        b.fence();
        b.reduce(if straight { mine } else { temp }, acc);
    }
    b.copy(acc, result);
}
