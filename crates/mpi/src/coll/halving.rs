//! Recursive halving and doubling over a power of two of processes: what Rabenseifner's algorithms are made of.
//!
//! If the team isn't a power of two, the first pairs of processes are folded into one member each: the odd one hands
//! its operand to the even one.

use super::builder::Builder;
use super::span::Span;
use super::team::Team;

/// A team seen as a power of two of members.
#[derive(Clone, Copy)]
pub struct Halving {
    /// Number of members, a power of two.
    pub members: usize,
    /// Number of pairs that are one member.
    pub pairs: usize,
    /// This process's member, or `None` if its operand has gone to its neighbour.
    pub me: Option<usize>,
}

impl Halving {
    /// The members of `team`.
    pub fn new(team: &Team<'_>) -> Halving {
        let members = 1 << team.size.ilog2();
        let pairs = team.size - members;
        let me = match team.rank {
            r if r >= 2 * pairs => Some(r - pairs),
            r if r % 2 == 0 => Some(r / 2),
            _ => None,
        };
        Halving { members, pairs, me }
    }

    /// The member to which the process belongs.
    pub fn member(&self, rank: usize) -> usize {
        if rank < 2 * self.pairs { rank / 2 } else { rank - self.pairs }
    }

    /// The process that acts for a member.
    pub fn rank_of(&self, member: usize) -> usize {
        if member < self.pairs { 2 * member } else { member + self.pairs }
    }

    /// Folds pairs. Says where the member's operand is: `own`, or `result`, into which it has been combined. Keeps the order.
    pub fn fold_pairs(&self, b: &mut Builder, team: &Team<'_>, own: Span, result: Span) -> Span {
        if team.rank >= 2 * self.pairs {
            return own;
        }
        if self.me.is_none() {
            b.send(team, team.rank - 1, own);
            b.fence();
            return own;
        }
        if own.ptr != result.ptr {
            b.recv(team, team.rank + 1, result);
            b.fence();
            b.reduce(own, result);
        } else {
            let temp = b.temp_like(own);
            b.recv(team, team.rank + 1, temp);
            b.fence();
            if b.is_commutative() {
                b.reduce(temp, own);
            } else {
                b.reduce(own, temp);
                b.copy(temp, own);
            }
        }
        result
    }

    /// Gives the result to those that were folded away.
    pub fn unfold_pairs(&self, b: &mut Builder, team: &Team<'_>, result: Span) {
        b.fence();
        if team.rank < 2 * self.pairs {
            if self.me.is_some() {
                b.send(team, team.rank + 1, result);
            } else {
                b.recv(team, team.rank - 1, result);
            }
            b.fence();
        }
    }

    /// Commutative reduce-scatter: each member ends with its part of the result in `work`, which may be `own`.
    pub fn reduce_scatter(&self, b: &mut Builder, team: &Team<'_>, own: Span, work: Span, cuts: Cuts<'_>) {
        let mut have = self.fold_pairs(b, team, own, work);
        let Some(me) = self.me else { return };
        let n = self.members;
        let in_place = |have: Span| have.ptr == work.ptr;
        let temp = if in_place(have) || n > 2 {
            let largest = cuts.span(work, 0, n / 2).count.max(cuts.span(work, n / 2, n).count);
            b.temp_like(work.slice(0, largest))
        } else {
            work
        };
        let (mut low, mut high) = (0, n);
        while high - low > 1 {
            let half = (high - low) / 2;
            let middle = low + half;
            let partner = self.rank_of(me ^ half);
            let (keep, give) =
                if me < middle { ((low, middle), (middle, high)) } else { ((middle, high), (low, middle)) };
            let kept = cuts.span(work, keep.0, keep.1);
            let into = if in_place(have) { temp.slice(0, kept.count) } else { kept };
            b.recv(team, partner, into);
            b.send(team, partner, cuts.span(have, give.0, give.1));
            b.fence();
            if in_place(have) {
                b.reduce(into, kept);
            } else {
                b.reduce(cuts.span(have, keep.0, keep.1), kept);
            }
            have = work;
            (low, high) = keep;
        }
        b.copy(have, work);
    }

    /// Recursive doubling: every member ends with all parts.
    pub fn allgather(&self, b: &mut Builder, team: &Team<'_>, work: Span, cuts: Cuts<'_>) {
        let Some(me) = self.me else { return };
        let mut half = 1;
        while half < self.members {
            let low = me & !(half - 1);
            let theirs = low ^ half;
            let partner = self.rank_of(me ^ half);
            b.recv(team, partner, cuts.span(work, theirs, theirs + half));
            b.send(team, partner, cuts.span(work, low, low + half));
            b.fence();
            half *= 2;
        }
    }

    /// Binomial gather: member `root` ends with all parts.
    pub fn gather(&self, b: &mut Builder, team: &Team<'_>, root: usize, work: Span, cuts: Cuts<'_>) {
        let Some(me) = self.me else { return };
        let mut half = 1;
        while half < self.members {
            let low = me & !(half - 1);
            let partner = self.rank_of(me ^ half);
            // Of each pair, the one that agrees with the root in this bit takes over.
            if (me ^ root) & half != 0 {
                b.send(team, partner, cuts.span(work, low, low + half));
                b.fence();
                return;
            }
            let theirs = low ^ half;
            b.recv(team, partner, cuts.span(work, theirs, theirs + half));
            b.fence();
            half *= 2;
        }
    }
}

/// Where a vector is cut into one part for each member.
#[derive(Clone, Copy)]
pub enum Cuts<'a> {
    /// Nearly equal parts for this number of members.
    Even(usize),
    /// Part `i` begins at item `starts[i]`; one more entry marks the end.
    Listed(&'a [usize]),
}

impl Cuts<'_> {
    /// Parts `i .. j` of `whole`.
    #[inline]
    pub fn span(&self, whole: Span, i: usize, j: usize) -> Span {
        match self {
            Cuts::Even(members) => whole.parts(i, j, *members),
            Cuts::Listed(starts) => whole.slice(starts[i], starts[j] - starts[i]),
        }
    }
}
