//! Recursive doubling: in round k processes at distance 2^k exchange and combine what they have.
//!
//! Both of a pair combine the same operands in the same order, so all results are equal. Source: Thakur, Rabenseifner, Gropp, 2005.
//! Cost: ⌈log2 n⌉ (α + mβ + mγ).

use crate::coll::builder::Builder;
use crate::coll::halving::Halving;
use crate::coll::needs::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Keeps the order of operands.
pub const NEEDS: Needs = Needs::ANY;

/// Adds the steps of this process. `own` may be `result`.
pub fn build(b: &mut Builder, team: &Team<'_>, own: Span, result: Span) {
    let members = Halving::new(team);
    let mut acc = members.fold_pairs(b, team, own, result);
    if let Some(me) = members.me {
        let mut temp = None;
        let mut bit = 1;
        while bit < members.members {
            let partner = me ^ bit;
            acc = exchange(b, team, members.rank_of(partner), me < partner, acc, result, &mut temp);
            bit *= 2;
        }
        b.copy(acc, result);
    }
    members.unfold_pairs(b, team, result);
}

/// One round; says where the combined operand is. The two places for it are `result` and `temp`.
fn exchange(
    b: &mut Builder,
    team: &Team<'_>,
    partner: usize,
    lower: bool,
    acc: Span,
    result: Span,
    temp: &mut Option<Span>,
) -> Span {
    let received = if acc.ptr != result.ptr && (lower || temp.is_some_and(|t| t.ptr == acc.ptr)) {
        result
    } else {
        *temp.get_or_insert_with(|| b.temp_like(result))
    };
    b.recv(team, partner, received);
    b.send(team, partner, acc);
    if lower {
        b.fence();
        b.reduce(acc, received);
        return received;
    }
    // The program's send buffer must stay as it is.
    let mine = if acc.ptr == result.ptr || received.ptr == result.ptr { acc } else { result };
    b.copy(acc, mine);
    b.fence();
    b.reduce(received, mine);
    mine
}
