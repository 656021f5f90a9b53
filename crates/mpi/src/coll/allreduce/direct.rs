//! Direct reduce-scatter and allgather: each process combines its part of the vector, received from everybody in rank order, and
//! sends the result to everybody. Long parts go in segments, each of which is passed on as soon as it is complete, while it
//! is in the cache.
//!
//! Cost: 2 α + 2 (n-1)/n mβ + (n-1)/n mγ with n - 1 messages of each process in both phases. Two waits whatever n is. Memory: one
//! vector. With two processes and no `MPI_IN_PLACE` nothing is copied but by the messages.

use crate::coll::builder::Builder;
use crate::coll::fold::Fold;
use crate::coll::needs::Needs;
use crate::coll::span::{Span, part_start};
use crate::coll::team::Team;

/// Keeps the order of operands.
pub const NEEDS: Needs = Needs::ANY;

/// The parts of a vector, cut into segments.
#[derive(Clone, Copy)]
struct Cut {
    parts: usize,
    segments: usize,
}

impl Cut {
    fn get(&self, whole: Span, part: usize, segment: usize) -> Span {
        let part = whole.part(part, self.parts);
        let from = part_start(part.count, segment, self.segments);
        part.slice(from, part_start(part.count, segment + 1, self.segments) - from)
    }
}

/// Adds the steps of this process. `own` may be `result`.
pub fn build(b: &mut Builder, team: &Team<'_>, own: Span, result: Span, segment_bytes: usize) {
    let n = team.size;
    // The same on all processes: the largest part decides.
    let segments = (own.bytes() / n / segment_bytes).max(1);
    let cut = Cut { parts: n, segments };
    let in_place = own.ptr == result.ptr;
    let me = team.rank;
    let folds: Vec<Fold> =
        (0..segments).map(|s| Fold::post(b, team, cut.get(own, me, s), cut.get(result, me, s), false)).collect();
    let mut sent = b.lend();
    for (s, to) in (0..segments).flat_map(|s| (1..n).map(move |distance| (s, team.after(distance)))) {
        let span = cut.get(own, to, s);
        sent.push((span, b.send(team, to, span)));
    }
    if !in_place {
        post_results(b, team, result, cut);
    }
    for (s, fold) in folds.into_iter().enumerate() {
        fold.finish(b);
        for distance in 1..n {
            b.send(team, team.after(distance), cut.get(result, me, s));
        }
    }
    if in_place {
        // What is about to be overwritten must have left. A fence would also wait for the results on their way.
        sent.iter().for_each(|&(_, ticket)| b.wait_for(ticket));
        post_results(b, team, result, cut);
    }
    b.give_back(sent);
    b.fence();
}

fn post_results(b: &mut Builder, team: &Team<'_>, result: Span, cut: Cut) {
    for s in 0..cut.segments {
        for distance in 1..team.size {
            let from = team.before(distance);
            b.recv(team, from, cut.get(result, from, s));
        }
    }
}
