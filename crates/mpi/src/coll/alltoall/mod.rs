//! All-to-all exchange (MPI-5.0, 6.8).

pub mod bruck;
pub mod pairwise;
pub mod post_all;
pub mod swap;
pub mod transpose;

use super::args::{BlockBuffer, check_own_block};
use super::program::Program;
use super::select::Situation;
use super::select::rules::{Alltoall, COLL_ALLTOALL_WINDOW};
use super::site::Site;
use base::{Class, Error, Result};

/// Adds the steps of this process. `send` is `None` for `MPI_IN_PLACE`.
#[inline]
pub fn build(p: &mut Program, site: &Site<'_>, send: Option<BlockBuffer<'_>>, recv: BlockBuffer<'_>) -> Result {
    let (mut from_spans, mut into_spans, n) = (Vec::new(), Vec::new(), site.peers());
    let into = recv.blocks(p, n, &mut into_spans)?;
    let from = match send {
        Some(send) => Some(send.blocks(p, n, &mut from_spans)?),
        None => None,
    };
    if let Some(remote) = site.remote {
        let error = Error::new(Class::ERR_BUFFER, "MPI_IN_PLACE is not allowed on inter-communicators");
        let from = from.ok_or(error)?;
        let others = site.remote_team(remote);
        for i in 0..remote {
            p.recv(&others, i, into.get(i));
        }
        for i in (0..remote).map(|i| (site.rank + i) % remote) {
            p.send(&others, i, from.get(i));
        }
        return Ok(());
    }
    if let Some(from) = &from {
        check_own_block(&from.get(site.rank), &into.get(site.rank))?;
    }
    let team = site.team();
    let bytes = recv.block_bytes().unwrap_or(0);
    let situation = Situation { even: into.is_even(), in_place: from.is_none(), ..site.situation(bytes) };
    let from = from.unwrap_or(into);
    match site.choose(&situation) {
        Alltoall::PostAll => post_all::build(p, &team, from, into, COLL_ALLTOALL_WINDOW.value() as usize),
        Alltoall::Pairwise => pairwise::build(p, &team, from, into),
        Alltoall::Bruck => bruck::build(p, &team, from, into),
        Alltoall::Transpose => transpose::build(p, &team, from, into),
        Alltoall::Swap => swap::build(p, &team, into),
    }
    Ok(())
}
