//! Reduction to a root (MPI-5.0, 6.9.1).

pub mod binomial;
mod choice;
pub mod flat;
pub mod hierarchical;
pub mod scatter_gather;

use super::args::{ReduceArgs, is_in_place};
use super::builder::Builder;
use super::comm_view::{CommView, Role};
use super::needs::SelectionKey;
use super::span::Span;
use base::{Result, ensure};
pub use choice::Reduce;

/// Adds the steps of this process.
#[inline]
pub fn build(b: &mut Builder, view: &CommView<'_>, args: ReduceArgs<'_>, root: i32) -> Result {
    let role = view.role(root)?;
    if role == Role::Idle {
        return Ok(());
    }
    args.set_up(b)?;
    if let Some(remote) = view.remote {
        return inter(b, view, remote, role, args);
    }
    let (own, result) = if role == Role::Root {
        args.both(b)?
    } else {
        let own = args.operand(b)?;
        (own, own)
    };
    local(b, view, root as usize, own, result);
    Ok(())
}

/// Reduction in an intra-communicator or in the local group. `result` only matters at the root, where `own` may be the same.
#[inline]
pub fn local(b: &mut Builder, view: &CommView<'_>, root: usize, own: Span, result: Span) {
    let team = view.team();
    if own.bytes() == 0 {
        return;
    }
    if team.size == 1 {
        b.copy(own, result);
        return;
    }
    let key = SelectionKey { commutative: b.is_commutative(), ..view.selection_key(own.bytes()) };
    match (view.choose(&key), view.layout) {
        (Reduce::Hierarchical, Some(layout)) => hierarchical::build(b, &team, layout, root, own, result),
        (Reduce::Flat, _) => flat::build(b, &team, root, own, result),
        (Reduce::Binomial | Reduce::Hierarchical, _) => binomial::build(b, &team, root, own, result),
        (Reduce::ScatterGather, _) => scatter_gather::build(b, &team, root, own, result),
    }
}

/// The other group reduces to its rank 0, which sends the result to the root.
fn inter(b: &mut Builder, view: &CommView<'_>, remote: usize, role: Role, args: ReduceArgs<'_>) -> Result {
    let others = view.remote_team(remote);
    if let Role::Leaf(root) = role {
        let own = args.operand(b)?;
        let combined = to_leader(b, view, own);
        if view.rank == 0 {
            b.send(&others, root, combined);
        }
    } else {
        ensure!(!is_in_place(args.recv), ERR_BUFFER, "MPI_IN_PLACE is not allowed on inter-communicators");
        let result = ReduceArgs { send: args.recv, ..args }.operand(b)?;
        b.recv(&others, 0, result);
    }
    b.fence();
    Ok(())
}

/// Reduces the local group's operands; says where its rank 0 has the result.
pub fn to_leader(b: &mut Builder, view: &CommView<'_>, own: Span) -> Span {
    if view.size == 1 {
        return own;
    }
    let combined = if view.rank == 0 { b.temp_like(own) } else { own };
    local(b, view, 0, own, combined);
    b.fence();
    combined
}
