//! `hypercube`: recursive doubling. In round k ranks whose numbers differ in bit k-1 tell each other all endpoint addresses that they know.
//!
//! For N ranks let p be the largest power of two that is at most N. Each of the N-p ranks above gives its endpoint address to the rank p below
//! it (round 0), those p run log2 p rounds, and give the result back (the last round): ceil(log2 N)+1 rounds at most, any N.
//! A round is sent only when all before it are complete, so that a partner who is ahead can't make anybody pass on too little.

use super::{Exchange, Known, Offer, Step};
use base::{Result, WorldRank, ensure};

/// One rank's part of it.
pub struct Hypercube {
    me: u32,
    size: u32,
    /// Largest power of two that is at most `size`.
    cube: u32,
    generation: u32,
    known: Known,
    /// The next round to be sent or skipped.
    next: u32,
    /// By round: its message has come.
    heard: Vec<bool>,
    /// Messages of rounds that are not due yet.
    early: Vec<Option<Vec<Offer>>>,
}

impl Hypercube {
    /// For the rank that offers `own`, in a job of `size`.
    pub fn new(own: Offer, size: u32, generation: u32) -> Hypercube {
        let cube = 1 << size.ilog2();
        let rounds = size.ilog2() as usize + 2;
        Hypercube {
            me: own.rank.0,
            size,
            cube,
            generation,
            known: Known::new(size, own),
            next: 0,
            heard: vec![false; rounds],
            early: (0..rounds).map(|_| None).collect(),
        }
    }

    fn last(&self) -> u32 {
        self.heard.len() as u32 - 1
    }

    /// The partner above or below the cube, if there is one.
    fn fold(&self) -> Option<u32> {
        let other = if self.me >= self.cube { self.me - self.cube } else { self.me + self.cube };
        (other < self.size).then_some(other)
    }

    /// Whom this rank sends to in `round`.
    fn target(&self, round: u32) -> Option<u32> {
        let above = self.me >= self.cube;
        match round {
            0 => self.fold().filter(|_| above),
            r if r == self.last() => self.fold().filter(|_| !above),
            _ if above => None,
            r => Some(self.me ^ (1 << (r - 1))),
        }
    }

    /// Whom this rank hears in `round`.
    fn source(&self, round: u32) -> Option<u32> {
        let above = self.me >= self.cube;
        match round {
            0 => self.fold().filter(|_| !above),
            r if r == self.last() => self.fold().filter(|_| above),
            _ if above => None,
            r => Some(self.me ^ (1 << (r - 1))),
        }
    }

    /// What arrived in `round` counts now.
    fn take(&mut self, round: u32) -> Result {
        match self.early[round as usize].take() {
            Some(blocks) => blocks.into_iter().try_for_each(|block| self.known.add(block)),
            None => Ok(()),
        }
    }

    fn is_heard(&self, round: u32) -> bool {
        self.source(round).is_none() || self.heard[round as usize]
    }
}

impl Exchange for Hypercube {
    fn next_outgoing(&mut self) -> Option<(WorldRank, Step)> {
        while self.next <= self.last() {
            let round = self.next;
            // What came in the rounds before is passed on in this one.
            if round > 0 && !self.is_heard(round - 1) {
                return None;
            }
            if round > 0 {
                self.take(round - 1).ok()?;
            }
            self.next += 1;
            if let Some(target) = self.target(round) {
                let step = Step { generation: self.generation, round, blocks: self.known.all() };
                return Some((WorldRank(target), step));
            }
        }
        if self.is_heard(self.last()) {
            self.take(self.last()).ok()?;
        }
        None
    }

    fn on_step(&mut self, from: WorldRank, step: Step) -> Result {
        if step.generation != self.generation {
            return Ok(());
        }
        let awaited = step.round <= self.last() && self.source(step.round) == Some(from.0);
        ensure!(awaited, ERR_OTHER, "a rank sent endpoints in a round in which it has no turn");
        let sound = step.blocks.iter().all(|block| block.is_sound(self.size));
        ensure!(sound, ERR_OTHER, "an exchange of endpoints names an impossible rank");
        let heard = &mut self.heard[step.round as usize];
        if !std::mem::replace(heard, true) {
            self.early[step.round as usize] = Some(step.blocks);
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.next > self.last() && self.known.is_complete()
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
    fn everybody_knows_everything_after_a_logarithm_of_rounds() {
        let make = |own: Offer, size| Box::new(Hypercube::new(own, size, 1)) as Box<dyn Exchange>;
        check(make, false, |size| {
            let cube = 1 << size.ilog2();
            (cube * size.ilog2() + 2 * (size - cube)) as usize
        });
    }

    #[test]
    fn messages_out_of_turn_are_refused_and_those_of_other_programs_ignored() {
        let mut cube = Hypercube::new(offer(1, 6, false), 6, 3);
        let step = |round| Step { generation: 3, round, blocks: vec![offer(0, 6, false)] };
        assert!(cube.on_step(WorldRank(2), step(1)).is_err());
        assert!(cube.on_step(WorldRank(0), step(2)).is_err());
        assert!(cube.on_step(WorldRank(0), step(u32::MAX)).is_err());
        assert!(cube.on_step(WorldRank(0), Step { blocks: vec![offer(8, 9, false)], ..step(1) }).is_err());
        cube.on_step(WorldRank(0), Step { generation: 2, ..step(1) }).unwrap();
        assert!(!cube.heard[1]);
        // Rank 5 is above the cube and gives its endpoint address first: until then nothing can be passed on.
        assert_eq!(cube.next_outgoing(), None);
        cube.on_step(WorldRank(5), Step { blocks: vec![offer(5, 6, false)], ..step(0) }).unwrap();
        let (to, sent) = cube.next_outgoing().unwrap();
        assert_eq!((to, sent.round, sent.blocks.len()), (WorldRank(0), 1, 2));
    }
}
