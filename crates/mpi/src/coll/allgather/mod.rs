//! Gather to all (MPI-5.0, 6.7).

pub mod bruck;
mod choice;
pub mod exchange;
pub mod gather_bcast;
pub mod recursive_doubling;
pub mod ring;

use super::args::{BlockBuffer, Buffer, check_own_block};
use super::blocks::Blocks;
use super::builder::Builder;
use super::comm_view::CommView;
use super::needs::SelectionKey;
use base::{Class, Error, Result};
pub use choice::Allgather;

/// Adds the steps of this process. `send` is `None` for `MPI_IN_PLACE`.
#[inline]
pub fn build(b: &mut Builder, view: &CommView<'_>, send: Option<Buffer<'_>>, recv: BlockBuffer<'_>) -> Result {
    let (mut spans, n) = (Vec::new(), view.peers());
    let blocks = recv.blocks(b, n, &mut spans)?;
    if let Some(remote) = view.remote {
        let error = Error::new(Class::ERR_BUFFER, "MPI_IN_PLACE is not allowed on inter-communicators");
        let own = send.ok_or(error)?.span(b)?;
        let others = view.remote_team(remote);
        for i in 0..remote {
            b.recv(&others, i, blocks.get(i));
        }
        for i in 0..remote {
            b.send(&others, (view.rank + i) % remote, own);
        }
        return Ok(());
    }
    let team = view.team();
    if let Some(send) = send {
        let own = send.span(b)?;
        check_own_block(&own, &blocks.get(view.rank))?;
        b.copy(own, blocks.get(view.rank));
    }
    let bytes = match blocks {
        Blocks::Even { .. } => blocks.get(0).bytes(),
        _ => (0..n).map(|i| blocks.get(i).bytes()).sum::<usize>() / n,
    };
    match view.choose(&SelectionKey { even: blocks.is_even(), ..view.selection_key(bytes) }) {
        Allgather::Exchange => exchange::build(b, &team, blocks),
        Allgather::GatherBcast => gather_bcast::build(b, &team, blocks),
        Allgather::Ring => ring::build(b, &team, blocks),
        Allgather::RecursiveDoubling => recursive_doubling::build(b, &team, blocks),
        Allgather::Bruck => bruck::build(b, &team, blocks),
    }
    Ok(())
}
