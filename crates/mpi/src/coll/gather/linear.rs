//! Linear: everybody sends its block to the root.
//!
//! Cost: (n - 1)(α + mβ) at the root, one message at the others. Also gathers blocks of different sizes.

use crate::coll::blocks::Blocks;
use crate::coll::builder::Builder;
use crate::coll::needs::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Runs everywhere.
pub const NEEDS: Needs = Needs::ANY;

/// Adds the steps of this process. `blocks` only matters at the root, where `own` is `None` if it lies in place.
pub fn build(b: &mut Builder, team: &Team<'_>, root: usize, own: Option<Span>, blocks: Option<Blocks<'_>>) {
    match blocks {
        Some(blocks) if team.rank == root => {
            for distance in 1..team.size {
                let from = team.after(distance);
                b.recv(team, from, blocks.get(from));
            }
            if let Some(own) = own {
                b.copy(own, blocks.get(root));
            }
        }
        _ => {
            b.send(team, root, own.unwrap_or(Span::EMPTY));
        }
    }
    b.fence();
}
