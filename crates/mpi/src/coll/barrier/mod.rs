//! Barrier (MPI-5.0, 6.3).

mod choice;
pub mod dissemination;
pub mod exchange;
pub mod hierarchical;
pub mod tree;

use super::builder::Builder;
use super::comm_view::CommView;
use base::Result;
pub use choice::Barrier;

/// Adds the steps of this process.
#[inline]
pub fn build(b: &mut Builder, view: &CommView<'_>) -> Result {
    match view.remote {
        None => intra(b, view),
        Some(remote) => inter(b, view, remote),
    }
    Ok(())
}

#[inline]
fn intra(b: &mut Builder, view: &CommView<'_>) {
    let team = view.team();
    match (view.choose(&view.selection_key(0)), view.layout) {
        (Barrier::Hierarchical, Some(layout)) => hierarchical::build(b, &team, layout),
        (Barrier::Exchange, _) => exchange::build(b, &team),
        (Barrier::Tree, _) => tree::build(b, &team, view.choices.barrier_fanout as usize),
        (Barrier::Flat, _) => tree::build(b, &team, team.size),
        (Barrier::Dissemination | Barrier::Hierarchical, _) => dissemination::build(b, &team),
    }
}

/// Nobody leaves before all of the other group have entered: the leaders tell each other that their groups have.
fn inter(b: &mut Builder, view: &CommView<'_>, remote: usize) {
    let (team, others) = (view.team(), view.remote_team(remote));
    let fanout = view.choices.barrier_fanout as usize;
    tree::gather(b, &team, fanout);
    if view.rank == 0 {
        b.recv_empty(&others, 0);
        b.send_empty(&others, 0);
        b.fence();
    }
    tree::release(b, &team, fanout);
}
