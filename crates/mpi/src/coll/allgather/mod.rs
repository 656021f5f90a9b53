//! Gather to all (MPI-5.0, 6.7).

pub mod bruck;
pub mod exchange;
pub mod gather_bcast;
pub mod recursive_doubling;
pub mod ring;

use super::args::{BlockBuffer, Buffer, check_own_block};
use super::blocks::Blocks;
use super::program::Program;
use super::select::Situation;
use super::select::rules::Allgather;
use super::site::Site;
use base::{Class, Error, Result};

/// Adds the steps of this process. `send` is `None` for `MPI_IN_PLACE`.
#[inline]
pub fn build(p: &mut Program, site: &Site<'_>, send: Option<Buffer<'_>>, recv: BlockBuffer<'_>) -> Result {
    let (mut spans, n) = (Vec::new(), site.peers());
    let blocks = recv.blocks(p, n, &mut spans)?;
    if let Some(remote) = site.remote {
        let error = Error::new(Class::ERR_BUFFER, "MPI_IN_PLACE is not allowed on inter-communicators");
        let own = send.ok_or(error)?.span(p)?;
        let others = site.remote_team(remote);
        for i in 0..remote {
            p.recv(&others, i, blocks.get(i));
        }
        for i in 0..remote {
            p.send(&others, (site.rank + i) % remote, own);
        }
        return Ok(());
    }
    let team = site.team();
    if let Some(send) = send {
        let own = send.span(p)?;
        check_own_block(&own, &blocks.get(site.rank))?;
        p.copy(own, blocks.get(site.rank));
    }
    let bytes = match blocks {
        Blocks::Even { .. } => blocks.get(0).bytes(),
        _ => (0..n).map(|i| blocks.get(i).bytes()).sum::<usize>() / n,
    };
    match site.choose(&Situation { even: blocks.is_even(), ..site.situation(bytes) }) {
        Allgather::Exchange => exchange::build(p, &team, blocks),
        Allgather::GatherBcast => gather_bcast::build(p, &team, blocks),
        Allgather::Ring => ring::build(p, &team, blocks),
        Allgather::RecursiveDoubling => recursive_doubling::build(p, &team, blocks),
        Allgather::Bruck => bruck::build(p, &team, blocks),
    }
    Ok(())
}
