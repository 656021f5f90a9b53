//! Broadcast (MPI-5.0, 6.4).

pub mod binomial;
pub mod chain;
pub mod flat;
pub mod scatter_allgather;

use super::args::Buffer;
use super::hierarchical;
use super::program::Program;
use super::select::rules::{Bcast, COLL_SEGMENT_BYTES};
use super::site::{Role, Site};
use super::span::Span;
use base::Result;

/// Adds the steps of this process.
#[inline]
pub fn build(p: &mut Program, site: &Site<'_>, data: Buffer<'_>, root: i32) -> Result {
    let role = site.role(root)?;
    if role == Role::Idle {
        return Ok(());
    }
    let data = data.span(p)?;
    match site.remote {
        None => local(p, site, root as usize, data),
        Some(remote) => inter(p, site, remote, role, data),
    }
    Ok(())
}

/// Broadcast in an intra-communicator or in the local group.
#[inline]
pub fn local(p: &mut Program, site: &Site<'_>, root: usize, data: Span) {
    let team = site.team();
    if data.bytes() == 0 || team.size == 1 {
        return;
    }
    match (site.choose(&site.situation(data.bytes())), site.layout) {
        (Bcast::Hierarchical, Some(layout)) => hierarchical::bcast(p, &team, layout, root, data),
        (Bcast::Flat, _) => flat::build(p, &team, root, data),
        (Bcast::Binomial | Bcast::Hierarchical, _) => binomial::build(p, &team, root, data),
        (Bcast::Chain, _) => chain::build(p, &team, root, data, COLL_SEGMENT_BYTES.value() as usize),
        (Bcast::ScatterAllgather, _) => scatter_allgather::build(p, &team, root, data),
    }
}

/// The root sends to rank 0 of the other group, which broadcasts.
fn inter(p: &mut Program, site: &Site<'_>, remote: usize, role: Role, data: Span) {
    let others = site.remote_team(remote);
    match role {
        Role::Root => {
            p.send(&others, 0, data);
            p.fence();
        }
        Role::Leaf(root) => {
            if site.rank == 0 {
                p.recv(&others, root, data);
                p.fence();
            }
            local(p, site, 0, data);
        }
        Role::Idle => {}
    }
}
