//! Reduction to a root (MPI-5.0, 6.9.1).

pub mod binomial;
pub mod flat;
pub mod scatter_gather;

use super::args::{ReduceArgs, is_in_place};
use super::hierarchical;
use super::program::Program;
use super::select::Situation;
use super::select::rules::Reduce;
use super::site::{Role, Site};
use super::span::Span;
use base::{Result, ensure};

/// Adds the steps of this process.
#[inline]
pub fn build(p: &mut Program, site: &Site<'_>, args: ReduceArgs<'_>, root: i32) -> Result {
    let role = site.role(root)?;
    if role == Role::Idle {
        return Ok(());
    }
    args.set_up(p)?;
    if let Some(remote) = site.remote {
        return inter(p, site, remote, role, args);
    }
    let (own, result) = if role == Role::Root {
        args.both(p)?
    } else {
        let own = args.operand(p)?;
        (own, own)
    };
    local(p, site, root as usize, own, result);
    Ok(())
}

/// Reduction in an intra-communicator or in the local group. `result` only matters at the root, where `own` may be the same.
#[inline]
pub fn local(p: &mut Program, site: &Site<'_>, root: usize, own: Span, result: Span) {
    let team = site.team();
    if own.bytes() == 0 {
        return;
    }
    if team.size == 1 {
        p.copy(own, result);
        return;
    }
    let situation = Situation { commutative: p.is_commutative(), ..site.situation(own.bytes()) };
    match (site.choose(&situation), site.layout) {
        (Reduce::Hierarchical, Some(layout)) => hierarchical::reduce(p, &team, layout, root, own, result),
        (Reduce::Flat, _) => flat::build(p, &team, root, own, result),
        (Reduce::Binomial | Reduce::Hierarchical, _) => binomial::build(p, &team, root, own, result),
        (Reduce::ScatterGather, _) => scatter_gather::build(p, &team, root, own, result),
    }
}

/// The other group reduces to its rank 0, which sends the result to the root.
fn inter(p: &mut Program, site: &Site<'_>, remote: usize, role: Role, args: ReduceArgs<'_>) -> Result {
    let others = site.remote_team(remote);
    if let Role::Leaf(root) = role {
        let own = args.operand(p)?;
        let combined = to_leader(p, site, own);
        if site.rank == 0 {
            p.send(&others, root, combined);
        }
    } else {
        ensure!(!is_in_place(args.recv), ERR_BUFFER, "MPI_IN_PLACE is not allowed on inter-communicators");
        let result = ReduceArgs { send: args.recv, ..args }.operand(p)?;
        p.recv(&others, 0, result);
    }
    p.fence();
    Ok(())
}

/// Reduces the local group's operands; says where its rank 0 has the result.
pub fn to_leader(p: &mut Program, site: &Site<'_>, own: Span) -> Span {
    if site.size == 1 {
        return own;
    }
    let combined = if site.rank == 0 { p.temp_like(own) } else { own };
    local(p, site, 0, own, combined);
    p.fence();
    combined
}
