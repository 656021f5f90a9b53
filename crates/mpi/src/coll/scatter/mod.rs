//! Scatter from a root (MPI-5.0, 6.6).

pub mod binomial;
mod choice;
pub mod linear;

use super::args::{BlockBuffer, Buffer, check_own_block};
use super::builder::Builder;
use super::comm_view::{CommView, Role};
use super::needs::SelectionKey;
use base::{Class, Error, Result, ensure};
pub use choice::Scatter;

/// Adds the steps of this process. `recv` is `None` for `MPI_IN_PLACE` and where it has no meaning; `send` only matters at the
/// root. `even` says that all blocks have the same size (`MPI_Scatter`), on all processes alike.
#[inline]
pub fn build(
    b: &mut Builder,
    view: &CommView<'_>,
    send: Option<BlockBuffer<'_>>,
    recv: Option<Buffer<'_>>,
    root: i32,
    even: bool,
) -> Result {
    let role = view.role(root)?;
    if role == Role::Idle {
        return Ok(());
    }
    let (mut spans, n) = (Vec::new(), view.peers());
    let (mut blocks, mut own, mut bytes) = (None, None, 0);
    if role == Role::Root {
        let send = send.ok_or(Error::new(Class::ERR_BUFFER, "the root has no send buffer"))?;
        bytes = send.block_bytes().unwrap_or(0);
        blocks = Some(send.blocks(b, n, &mut spans)?);
    }
    if role != Role::Root || view.remote.is_none() {
        ensure!(recv.is_some() || role == Role::Root, ERR_BUFFER, "MPI_IN_PLACE is only allowed at the root");
        own = recv.map(|r| r.span(b)).transpose()?;
    }
    if role != Role::Root {
        bytes = own.map_or(0, |o| o.bytes());
    }
    if let Some(remote) = view.remote {
        let others = view.remote_team(remote);
        if let (Role::Leaf(root), Some(own)) = (role, own) {
            b.recv(&others, root, own);
        }
        if let Some(blocks) = blocks {
            (0..remote).for_each(|i| {
                b.send(&others, i, blocks.get(i));
            });
        }
        return Ok(());
    }
    if let (Some(own), Some(blocks)) = (&own, &blocks) {
        check_own_block(&blocks.get(root as usize), own)?;
    }
    let team = view.team();
    match view.choose(&SelectionKey { even, ..view.selection_key(bytes) }) {
        Scatter::Linear => linear::build(b, &team, root as usize, blocks, own),
        Scatter::Binomial => binomial::build(b, &team, root as usize, blocks, own, bytes),
    }
    Ok(())
}
