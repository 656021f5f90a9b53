//! Binomial tree: blocks are collected as bytes in the order of distance from the root.
//!
//! Source: Thakur, Rabenseifner, Gropp, 2005. Cost: ⌈log2 n⌉ α + (n-1) mβ.

use crate::coll::blocks::Blocks;
use crate::coll::builder::Builder;
use crate::coll::needs::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Blocks of one size.
pub const NEEDS: Needs = Needs { even: true, ..Needs::ANY };

/// Adds the steps of this process. `block_bytes` is the same everywhere; for the rest see [`linear`](super::linear).
pub fn build(
    b: &mut Builder,
    team: &Team<'_>,
    root: usize,
    own: Option<Span>,
    blocks: Option<Blocks<'_>>,
    block_bytes: usize,
) {
    let me = team.relative(root);
    let mut reach = 1;
    while reach < team.size && me & reach == 0 {
        reach *= 2;
    }
    let held = reach.min(team.size - me);
    if me != 0 && held == 1 {
        b.send(team, team.absolute(me - reach, root), own.unwrap_or(Span::EMPTY));
        b.fence();
        return;
    }
    let bytes = b.temp_bytes(held * block_bytes);
    let mut mask = 1;
    while mask < reach {
        if me + mask < team.size {
            let width = mask.min(team.size - me - mask);
            b.recv(team, team.absolute(me + mask, root), bytes.slice(mask * block_bytes, width * block_bytes));
        }
        mask *= 2;
    }
    let blocks = blocks.filter(|_| me == 0);
    if let (None, Some(own)) = (blocks, own) {
        b.copy(own, bytes.slice(0, block_bytes));
    }
    if let (Some(blocks), Some(own)) = (blocks, own) {
        b.copy(own, blocks.get(root));
    }
    b.fence();
    match blocks {
        None => {
            b.send(team, team.absolute(me - reach, root), bytes);
            b.fence();
        }
        Some(blocks) => {
            // Distances 1.. are the ranks after the root, then those before it.
            let behind = team.size - root;
            b.copy(bytes.slice(block_bytes, (behind - 1) * block_bytes), blocks.range(root + 1, team.size));
            b.copy(bytes.slice(behind * block_bytes, root * block_bytes), blocks.range(0, root));
        }
    }
}
