//! Broadcast (MPI-5.0, 6.4).

pub mod binomial;
pub mod chain;
mod choice;
pub mod flat;
pub mod hierarchical;
pub mod scatter_allgather;

use super::args::Buffer;
use super::builder::Builder;
use super::comm_view::{CommView, Role};
use super::span::Span;
use base::Result;
pub use choice::Bcast;

/// Adds the steps of this process.
#[inline]
pub fn build(b: &mut Builder, view: &CommView<'_>, data: Buffer<'_>, root: i32) -> Result {
    let role = view.role(root)?;
    if role == Role::Idle {
        return Ok(());
    }
    let data = data.span(b)?;
    match view.remote {
        None => local(b, view, root as usize, data),
        Some(remote) => inter(b, view, remote, role, data),
    }
    Ok(())
}

/// Broadcast in an intra-communicator or in the local group.
#[inline]
pub fn local(b: &mut Builder, view: &CommView<'_>, root: usize, data: Span) {
    let team = view.team();
    if data.bytes() == 0 || team.size == 1 {
        return;
    }
    match (view.choose(&view.selection_key(data.bytes())), view.layout) {
        (Bcast::Hierarchical, Some(layout)) => hierarchical::build(b, &team, layout, root, data),
        (Bcast::Flat, _) => flat::build(b, &team, root, data),
        (Bcast::Binomial | Bcast::Hierarchical, _) => binomial::build(b, &team, root, data),
        (Bcast::Chain, _) => chain::build(b, &team, root, data, view.choices.segment_bytes as usize),
        (Bcast::ScatterAllgather, _) => scatter_allgather::build(b, &team, root, data),
    }
}

/// The root sends to rank 0 of the other group, which broadcasts.
fn inter(b: &mut Builder, view: &CommView<'_>, remote: usize, role: Role, data: Span) {
    let others = view.remote_team(remote);
    match role {
        Role::Root => {
            b.send(&others, 0, data);
            b.fence();
        }
        Role::Leaf(root) => {
            if view.rank == 0 {
                b.recv(&others, root, data);
                b.fence();
            }
            local(b, view, 0, data);
        }
        Role::Idle => {}
    }
}
