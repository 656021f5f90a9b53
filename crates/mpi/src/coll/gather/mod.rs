//! Gather to a root (MPI-5.0, 6.5).

pub mod binomial;
pub mod linear;

use super::args::{BlockBuffer, Buffer, check_own_block};
use super::program::Program;
use super::select::Situation;
use super::select::rules::Gather;
use super::site::{Role, Site};
use base::{Class, Error, Result, ensure};

/// Adds the steps of this process. `send` is `None` for `MPI_IN_PLACE` and where it has no meaning; `recv` only matters at the
/// root. `even` says that all blocks have the same size (`MPI_Gather`), on all processes alike.
#[inline]
pub fn build(
    p: &mut Program,
    site: &Site<'_>,
    send: Option<Buffer<'_>>,
    recv: Option<BlockBuffer<'_>>,
    root: i32,
    even: bool,
) -> Result {
    let role = site.role(root)?;
    if role == Role::Idle {
        return Ok(());
    }
    let (mut spans, n) = (Vec::new(), site.peers());
    let (mut blocks, mut own, mut bytes) = (None, None, 0);
    if role == Role::Root {
        let recv = recv.ok_or(Error::new(Class::ERR_BUFFER, "the root has no receive buffer"))?;
        bytes = recv.block_bytes().unwrap_or(0);
        blocks = Some(recv.blocks(p, n, &mut spans)?);
    }
    if role != Role::Root || site.remote.is_none() {
        ensure!(send.is_some() || role == Role::Root, ERR_BUFFER, "MPI_IN_PLACE is only allowed at the root");
        own = send.map(|s| s.span(p)).transpose()?;
    }
    if role != Role::Root {
        bytes = own.map_or(0, |o| o.bytes());
    }
    if let Some(remote) = site.remote {
        let others = site.remote_team(remote);
        if let (Role::Leaf(root), Some(own)) = (role, own) {
            p.send(&others, root, own);
        }
        if let Some(blocks) = blocks {
            (0..remote).for_each(|i| {
                p.recv(&others, i, blocks.get(i));
            });
        }
        return Ok(());
    }
    if let (Some(own), Some(blocks)) = (&own, &blocks) {
        check_own_block(own, &blocks.get(root as usize))?;
    }
    let team = site.team();
    match site.choose(&Situation { even, ..site.situation(bytes) }) {
        Gather::Linear => linear::build(p, &team, root as usize, own, blocks),
        Gather::Binomial => binomial::build(p, &team, root as usize, own, blocks, bytes),
    }
    Ok(())
}
