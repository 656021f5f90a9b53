//! Linear: the root sends everybody its block.
//!
//! Cost: (n - 1)(α + mβ) at the root, one message at the others. Also scatters blocks of different sizes.

use crate::coll::blocks::Blocks;
use crate::coll::builder::Builder;
use crate::coll::needs::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Runs everywhere.
pub const NEEDS: Needs = Needs::ANY;

/// Adds the steps of this process. `blocks` only matters at the root, where `own` is `None` if the block stays in place.
pub fn build(b: &mut Builder, team: &Team<'_>, root: usize, blocks: Option<Blocks<'_>>, own: Option<Span>) {
    match blocks {
        Some(blocks) if team.rank == root => {
            for distance in 1..team.size {
                let to = team.after(distance);
                b.send(team, to, blocks.get(to));
            }
            if let Some(own) = own {
                b.copy(blocks.get(root), own);
            }
        }
        _ => {
            b.recv(team, root, own.unwrap_or(Span::EMPTY));
        }
    }
    b.fence();
}
