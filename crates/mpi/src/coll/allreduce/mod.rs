//! Reduction to all (MPI-5.0, 6.9.6).

pub mod direct;
pub mod exchange;
pub mod rabenseifner;
pub mod recursive_doubling;
pub mod reduce_bcast;
pub mod ring;

use super::args::{ReduceArgs, is_in_place};
use super::program::Program;
use super::select::Situation;
use super::select::rules::{Allreduce, COLL_SEGMENT_BYTES};
use super::site::Site;
use super::span::Span;
use super::{bcast, hierarchical, reduce};
use base::{Result, ensure};

/// Adds the steps of this process.
#[inline]
pub fn build(p: &mut Program, site: &Site<'_>, args: ReduceArgs<'_>) -> Result {
    args.set_up(p)?;
    let (own, result) = args.both(p)?;
    match site.remote {
        None => local(p, site, own, result),
        Some(remote) => {
            ensure!(!is_in_place(args.send), ERR_BUFFER, "MPI_IN_PLACE is not allowed on inter-communicators");
            inter(p, site, remote, own, result);
        }
    }
    Ok(())
}

#[inline]
fn local(p: &mut Program, site: &Site<'_>, own: Span, result: Span) {
    let team = site.team();
    if own.bytes() == 0 || team.size == 1 {
        p.copy(own, result);
        return;
    }
    let situation = Situation { commutative: p.is_commutative(), ..site.situation(own.bytes()) };
    match (site.choose(&situation), site.layout) {
        (Allreduce::Hierarchical, Some(layout)) => hierarchical::allreduce(p, &team, layout, own, result),
        (Allreduce::Exchange, _) => exchange::build(p, &team, own, result),
        (Allreduce::RecursiveDoubling | Allreduce::Hierarchical, _) => {
            recursive_doubling::build(p, &team, own, result);
        }
        (Allreduce::Direct, _) => direct::build(p, &team, own, result, COLL_SEGMENT_BYTES.value() as usize),
        (Allreduce::Rabenseifner, _) => rabenseifner::build(p, &team, own, result),
        (Allreduce::Ring, _) => ring::build(p, &team, own, result),
        (Allreduce::Flat, _) => reduce_bcast::build(p, &team, own, result, true),
        (Allreduce::ReduceBcast, _) => reduce_bcast::build(p, &team, own, result, false),
    }
}

/// Each group gets the other group's result: the leaders exchange them.
fn inter(p: &mut Program, site: &Site<'_>, remote: usize, own: Span, result: Span) {
    let others = site.remote_team(remote);
    let combined = reduce::to_leader(p, site, own);
    if site.rank == 0 {
        p.recv(&others, 0, result);
        p.send(&others, 0, combined);
        p.fence();
    }
    bcast::local(p, site, 0, result);
}
