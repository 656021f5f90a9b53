//! Receiving one operand from each member of a team and reducing them all here: the kernel of the flat algorithms.

use super::builder::Builder;
use super::schedule::Ticket;
use super::span::Span;
use super::team::Team;

/// A fold whose receives have been posted.
pub struct Fold {
    /// Where this process's own operand is to be read, also by sends.
    pub own: Span,
    acc: Span,
    /// Operand and receive of each member in the order of combination: the first lies in `acc`.
    operands: Vec<(Span, Ticket)>,
}

impl Fold {
    /// Posts the receives of operands like `acc` from everybody else. `own` is this process's operand, which may be `acc` itself.
    ///
    /// Operands are combined as x0 op (x1 op (… op xn)) if `strict` or if the operation isn't commutative; then the
    /// result is the same, bit for bit, wherever it is computed. Otherwise the order is the one that needs no copy.
    pub fn post(b: &mut Builder, team: &Team<'_>, own: Span, acc: Span, strict: bool) -> Fold {
        let n = team.size;
        let mut fold = Fold { own, acc, operands: b.lend() };
        if acc.count == 0 {
            return fold;
        }
        let in_place = own.ptr == acc.ptr;
        // Which operand is the innermost, and therefore starts in `acc`.
        let first = match (strict || !b.is_commutative(), team.rank == n - 1) {
            (true, _) => n - 1,
            (false, _) if in_place => team.rank,
            (false, true) => n.saturating_sub(2),
            (false, false) => n - 1,
        };
        if in_place && first != team.rank {
            fold.own = b.temp_like(acc);
            b.copy(own, fold.own);
        }
        fold.operand(b, team, first);
        for r in (0..n).rev().filter(|&r| r != first) {
            fold.operand(b, team, r);
        }
        fold
    }

    fn operand(&mut self, b: &mut Builder, team: &Team<'_>, r: usize) {
        let start = self.operands.is_empty();
        self.operands.push(if r == team.rank {
            if start {
                b.copy(self.own, self.acc);
            }
            (self.own, Ticket::NONE)
        } else {
            let into = if start { self.acc } else { b.temp_like(self.acc) };
            (into, b.recv(team, r, into))
        });
    }

    /// Waits for the operands one by one and combines them; the result is in `acc`.
    pub fn finish(self, b: &mut Builder) {
        for (i, &(operand, ticket)) in self.operands.iter().enumerate() {
            b.wait_for(ticket);
            if i > 0 {
                b.reduce(operand, self.acc);
            }
        }
        b.give_back(self.operands);
    }
}
