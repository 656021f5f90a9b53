//! Reduction whose result is scattered (MPI-5.0, 6.10).

mod choice;
pub mod direct;
pub mod pairwise;
pub mod recursive_halving;

use super::args::{ReduceArgs, check_counts, is_in_place};
use super::blocks::Blocks;
use super::builder::Builder;
use super::comm_view::CommView;
use super::ints::Ints;
use super::needs::SelectionKey;
use super::span::Span;
use super::{reduce, scatter};
use base::{Result, ensure};
pub use choice::ReduceScatter;

/// How the result is cut.
#[derive(Clone, Copy)]
pub enum Counts<'a> {
    /// `MPI_Reduce_scatter_block`: this number of items for each process.
    Block(usize),
    /// `MPI_Reduce_scatter`: these numbers of items.
    List(Ints<'a>),
}

/// Adds the steps of this process. The count in `args` isn't used.
#[inline]
pub fn build(b: &mut Builder, view: &CommView<'_>, args: ReduceArgs<'_>, counts: Counts<'_>) -> Result {
    let n = view.size;
    let mut starts = Vec::with_capacity(n + 1);
    starts.push(0);
    match counts {
        Counts::Block(count) => starts.extend((1..=n).map(|i| i.saturating_mul(count))),
        Counts::List(counts) => {
            check_counts(counts, n)?;
            starts.extend((0..n).scan(0usize, |sum, i| {
                *sum = sum.saturating_add(counts.count(i));
                Some(*sum)
            }));
        }
    }
    args.set_up(b)?;
    // A sum that was too large fails here.
    let (own, result) = ReduceArgs { count: starts[n], ..args }.both(b)?;
    let result = result.slice(0, starts[view.rank + 1] - starts[view.rank]);
    let in_place = is_in_place(args.send);
    match view.remote {
        None => local(b, view, own, &starts, result, in_place),
        Some(remote) => {
            ensure!(!in_place, ERR_BUFFER, "MPI_IN_PLACE is not allowed on inter-communicators");
            inter(b, view, remote, own, &starts, result);
        }
    }
    Ok(())
}

fn local(b: &mut Builder, view: &CommView<'_>, own: Span, starts: &[usize], result: Span, in_place: bool) {
    let team = view.team();
    if own.bytes() == 0 || team.size == 1 {
        b.copy(own, result);
        return;
    }
    let blocks = Blocks::Starts { base: own, starts };
    let key = SelectionKey { commutative: b.is_commutative(), ..view.selection_key(own.bytes()) };
    match view.choose(&key) {
        ReduceScatter::Direct => direct::build(b, &team, blocks, result, in_place),
        ReduceScatter::Pairwise => pairwise::build(b, &team, blocks, result, in_place),
        ReduceScatter::RecursiveHalving => recursive_halving::build(b, &team, own, starts, result),
    }
}

/// Each group gets the other group's result: the leaders exchange them and scatter what they get.
fn inter(b: &mut Builder, view: &CommView<'_>, remote: usize, own: Span, starts: &[usize], result: Span) {
    let (team, others) = (view.team(), view.remote_team(remote));
    let combined = reduce::to_leader(b, view, own);
    let theirs = if view.rank == 0 { b.temp_like(own) } else { own };
    if view.rank == 0 {
        b.recv(&others, 0, theirs);
        b.send(&others, 0, combined);
        b.fence();
    }
    scatter::linear::build(b, &team, 0, Some(Blocks::Starts { base: theirs, starts }), Some(result));
}
