//! Barrier (MPI-5.0, 6.3).

pub mod dissemination;
pub mod exchange;
pub mod tree;

use super::hierarchical;
use super::program::Program;
use super::select::rules::{Barrier, COLL_BARRIER_FANOUT};
use super::site::Site;
use base::Result;

/// Adds the steps of this process.
#[inline]
pub fn build(p: &mut Program, site: &Site<'_>) -> Result {
    match site.remote {
        None => intra(p, site),
        Some(remote) => inter(p, site, remote),
    }
    Ok(())
}

#[inline]
fn intra(p: &mut Program, site: &Site<'_>) {
    let team = site.team();
    match (site.choose(&site.situation(0)), site.layout) {
        (Barrier::Hierarchical, Some(layout)) => hierarchical::barrier(p, &team, layout),
        (Barrier::Exchange, _) => exchange::build(p, &team),
        (Barrier::Tree, _) => tree::build(p, &team, COLL_BARRIER_FANOUT.value() as usize),
        (Barrier::Flat, _) => tree::build(p, &team, team.size),
        (Barrier::Dissemination | Barrier::Hierarchical, _) => dissemination::build(p, &team),
    }
}

/// Nobody leaves before all of the other group have entered: the leaders tell each other that their groups have.
fn inter(p: &mut Program, site: &Site<'_>, remote: usize) {
    let (team, others) = (site.team(), site.remote_team(remote));
    let fanout = COLL_BARRIER_FANOUT.value() as usize;
    tree::gather(p, &team, fanout);
    if site.rank == 0 {
        p.hear(&others, 0);
        p.signal(&others, 0);
        p.fence();
    }
    tree::release(p, &team, fanout);
}
