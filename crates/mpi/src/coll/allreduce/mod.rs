//! Reduction to all (MPI-5.0, 6.9.6).

mod choice;
pub mod direct;
pub mod exchange;
pub mod hierarchical;
pub mod rabenseifner;
pub mod recursive_doubling;
pub mod reduce_bcast;
pub mod ring;

use super::args::{ReduceArgs, is_in_place};
use super::builder::Builder;
use super::comm_view::CommView;
use super::needs::SelectionKey;
use super::span::Span;
use super::{bcast, reduce};
use base::{Result, ensure};
pub use choice::Allreduce;

/// Adds the steps of this process.
#[inline]
pub fn build(b: &mut Builder, view: &CommView<'_>, args: ReduceArgs<'_>) -> Result {
    args.set_up(b)?;
    let (own, result) = args.both(b)?;
    match view.remote {
        None => local(b, view, own, result),
        Some(remote) => {
            ensure!(!is_in_place(args.send), ERR_BUFFER, "MPI_IN_PLACE is not allowed on inter-communicators");
            inter(b, view, remote, own, result);
        }
    }
    Ok(())
}

#[inline]
fn local(b: &mut Builder, view: &CommView<'_>, own: Span, result: Span) {
    let team = view.team();
    if own.bytes() == 0 || team.size == 1 {
        b.copy(own, result);
        return;
    }
    let key = SelectionKey { commutative: b.is_commutative(), ..view.selection_key(own.bytes()) };
    match (view.choose(&key), view.layout) {
        (Allreduce::Hierarchical, Some(layout)) => hierarchical::build(b, &team, layout, own, result),
        (Allreduce::Exchange, _) => exchange::build(b, &team, own, result),
        (Allreduce::RecursiveDoubling | Allreduce::Hierarchical, _) => {
            recursive_doubling::build(b, &team, own, result);
        }
        (Allreduce::Direct, _) => direct::build(b, &team, own, result, view.choices.segment_bytes as usize),
        (Allreduce::Rabenseifner, _) => rabenseifner::build(b, &team, own, result),
        (Allreduce::Ring, _) => ring::build(b, &team, own, result),
        (Allreduce::Flat, _) => reduce_bcast::build(b, &team, own, result, true),
        (Allreduce::ReduceBcast, _) => reduce_bcast::build(b, &team, own, result, false),
    }
}

/// Each group gets the other group's result: the leaders exchange them.
fn inter(b: &mut Builder, view: &CommView<'_>, remote: usize, own: Span, result: Span) {
    let others = view.remote_team(remote);
    let combined = reduce::to_leader(b, view, own);
    if view.rank == 0 {
        b.recv(&others, 0, result);
        b.send(&others, 0, combined);
        b.fence();
    }
    bcast::local(b, view, 0, result);
}
