//! Binomial tree: blocks are handed down as bytes in the order of distance from the root.
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
    blocks: Option<Blocks<'_>>,
    own: Option<Span>,
    block_bytes: usize,
) {
    let me = team.relative(root);
    let mut mask = 1;
    while mask < team.size && me & mask == 0 {
        mask *= 2;
    }
    let held = mask.min(team.size - me);
    let parent = team.absolute(me - if me == 0 { 0 } else { mask }, root);
    if me != 0 && held == 1 {
        b.recv(team, parent, own.unwrap_or(Span::EMPTY));
        b.fence();
        return;
    }
    let bytes = b.temp_bytes(held * block_bytes);
    if me != 0 {
        b.recv(team, parent, bytes);
        b.fence();
    } else if let Some(blocks) = blocks {
        let behind = team.size - root;
        b.copy(blocks.range(root + 1, team.size), bytes.slice(block_bytes, (behind - 1) * block_bytes));
        b.copy(blocks.range(0, root), bytes.slice(behind * block_bytes, root * block_bytes));
    }
    while mask > 1 {
        mask /= 2;
        if me + mask < team.size {
            let width = mask.min(team.size - me - mask);
            b.send(team, team.absolute(me + mask, root), bytes.slice(mask * block_bytes, width * block_bytes));
        }
    }
    if let Some(own) = own {
        match blocks {
            Some(blocks) if me == 0 => b.copy(blocks.get(root), own),
            _ => b.copy(bytes.slice(0, block_bytes), own),
        }
    }
    b.fence();
}
