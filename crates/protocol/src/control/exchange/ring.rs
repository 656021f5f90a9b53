//! `bc` and `mpd-bc`: the bootstrap channel, a ring of ranks round which every rank's block of ids travels.
//!
//! In round s a rank passes to its right neighbor the block of the rank s places to its left: its own first, then what came from the left.
//! N-1 rounds, all ranks at once: each sends (N-1)·(endpoint address + (N-1) ids), which is O(N²) per rank, without a bottleneck.

use super::{Exchange, Known, Offer, Step};
use base::{Result, WorldRank, ensure};

/// One rank's part of it.
pub struct Ring {
    me: u32,
    size: u32,
    generation: u32,
    known: Known,
    /// Rounds that have been sent.
    sent: u32,
}

impl Ring {
    /// For the rank that offers `own`, in a job of `size`.
    pub fn new(own: Offer, size: u32, generation: u32) -> Ring {
        Ring { me: own.rank.0, size, generation, known: Known::new(size, own), sent: 0 }
    }

    /// The rank that sends to `me`, and the one that `me` sends to.
    pub fn neighbors(me: WorldRank, size: u32) -> (WorldRank, WorldRank) {
        (WorldRank((me.0 + size - 1) % size), WorldRank((me.0 + 1) % size))
    }

    /// Whose block `rank` sends in `round`.
    fn origin(&self, rank: u32, round: u32) -> u32 {
        (rank + self.size - round) % self.size
    }
}

impl Exchange for Ring {
    fn next_outgoing(&mut self) -> Option<(WorldRank, Step)> {
        if self.sent + 1 >= self.size {
            return None;
        }
        let block = self.known.offers[self.origin(self.me, self.sent) as usize].clone()?;
        let step = Step { generation: self.generation, round: self.sent, blocks: vec![block] };
        self.sent += 1;
        Some((Ring::neighbors(WorldRank(self.me), self.size).1, step))
    }

    fn on_step(&mut self, from: WorldRank, step: Step) -> Result {
        if step.generation != self.generation {
            return Ok(());
        }
        let left = Ring::neighbors(WorldRank(self.me), self.size).0;
        let right_block = step.blocks.first().map(|b| b.rank.0);
        let awaited = step.round < self.size - 1 && Some(self.origin(left.0, step.round)) == right_block;
        ensure!(from == left && awaited, ERR_OTHER, "the left neighbor sent a block that is not its turn's");
        step.blocks.into_iter().try_for_each(|block| self.known.add(block))
    }

    fn is_done(&self) -> bool {
        self.sent + 1 >= self.size && self.known.is_complete()
    }

    fn into_offers(self: Box<Self>) -> Vec<Offer> {
        self.known.all()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, offer};
    use super::*;

    #[test]
    fn every_block_comes_round_whatever_the_order_of_messages() {
        let make = |own: Offer, size| Box::new(Ring::new(own, size, 1)) as Box<dyn Exchange>;
        check(make, true, |size| (size * (size - 1)) as usize);
    }

    #[test]
    fn only_the_left_neighbor_is_believed() {
        let mut ring = Ring::new(offer(1, 4, true), 4, 0);
        let step = |round, rank| Step { generation: 0, round, blocks: vec![offer(rank, 4, true)] };
        assert!(ring.on_step(WorldRank(2), step(0, 0)).is_err());
        assert!(ring.on_step(WorldRank(0), step(0, 3)).is_err());
        assert!(ring.on_step(WorldRank(0), step(3, 1)).is_err());
        assert!(ring.on_step(WorldRank(0), step(u32::MAX, 1)).is_err());
        ring.on_step(WorldRank(0), Step { generation: 7, ..step(9, 9) }).unwrap();
        ring.on_step(WorldRank(0), step(0, 0)).unwrap();
        assert!(!ring.is_done());
    }
}
