//! Linear: the root sends everybody its block.
//!
//! Cost: (n - 1)(α + mβ) at the root, one message at the others. Also scatters blocks of different sizes.

use crate::coll::blocks::Blocks;
use crate::coll::program::Program;
use crate::coll::select::Needs;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Runs everywhere.
pub const NEEDS: Needs = Needs::ANY;

/// Adds the steps of this process. `blocks` only matters at the root, where `own` is `None` if the block stays in place.
pub fn build(p: &mut Program, team: &Team<'_>, root: usize, blocks: Option<Blocks<'_>>, own: Option<Span>) {
    match blocks {
        Some(blocks) if team.rank == root => {
            for distance in 1..team.size {
                let to = team.after(distance);
                p.send(team, to, blocks.get(to));
            }
            if let Some(own) = own {
                p.copy(blocks.get(root), own);
            }
        }
        _ => {
            p.recv(team, root, own.unwrap_or(Span::EMPTY));
        }
    }
    p.fence();
}
