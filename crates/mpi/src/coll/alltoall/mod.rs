//! All-to-all exchange (MPI-5.0, 6.8).

pub mod bruck;
mod choice;
pub mod pairwise;
pub mod post_all;
pub mod swap;
pub mod transpose;

use super::args::{BlockBuffer, check_own_block};
use super::builder::Builder;
use super::comm_view::CommView;
use super::needs::SelectionKey;
use super::select::settings::COLL_ALLTOALL_WINDOW;
use base::{Class, Error, Result};
pub use choice::Alltoall;

/// Adds the steps of this process. `send` is `None` for `MPI_IN_PLACE`.
#[inline]
pub fn build(b: &mut Builder, view: &CommView<'_>, send: Option<BlockBuffer<'_>>, recv: BlockBuffer<'_>) -> Result {
    let (mut from_spans, mut into_spans, n) = (Vec::new(), Vec::new(), view.peers());
    let into = recv.blocks(b, n, &mut into_spans)?;
    let from = match send {
        Some(send) => Some(send.blocks(b, n, &mut from_spans)?),
        None => None,
    };
    if let Some(remote) = view.remote {
        let error = Error::new(Class::ERR_BUFFER, "MPI_IN_PLACE is not allowed on inter-communicators");
        let from = from.ok_or(error)?;
        let others = view.remote_team(remote);
        for i in 0..remote {
            b.recv(&others, i, into.get(i));
        }
        for i in (0..remote).map(|i| (view.rank + i) % remote) {
            b.send(&others, i, from.get(i));
        }
        return Ok(());
    }
    if let Some(from) = &from {
        check_own_block(&from.get(view.rank), &into.get(view.rank))?;
    }
    let team = view.team();
    let bytes = recv.block_bytes().unwrap_or(0);
    let key = SelectionKey { even: into.is_even(), in_place: from.is_none(), ..view.selection_key(bytes) };
    let from = from.unwrap_or(into);
    match view.choose(&key) {
        Alltoall::PostAll => post_all::build(b, &team, from, into, COLL_ALLTOALL_WINDOW.value() as usize),
        Alltoall::Pairwise => pairwise::build(b, &team, from, into),
        Alltoall::Bruck => bruck::build(b, &team, from, into),
        Alltoall::Transpose => transpose::build(b, &team, from, into),
        Alltoall::Swap => swap::build(b, &team, into),
    }
    Ok(())
}
