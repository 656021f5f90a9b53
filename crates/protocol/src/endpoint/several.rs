//! Several lanes of one endpoint: packets are numbered and leave over each lane in turn, over the next one with room.
//!
//! So whole eager messages go in turn, and a large message, whose pieces are packets, is striped over all lanes.

use crate::order::{Numbering, Room};
use crate::transport::{Access, Outcome};
use crate::wire::Header;

/// See the head of this file. The numbers outlive the lanes, which a suspension closes.
pub(super) struct Several<L> {
    /// By number; a lost one leaves its place empty.
    lanes: Vec<Option<L>>,
    /// Whose turn it is.
    turn: usize,
    numbering: Numbering,
}

impl<L> Default for Several<L> {
    fn default() -> Several<L> {
        Several { lanes: Vec::new(), turn: 0, numbering: Numbering::default() }
    }
}

impl<L> Several<L> {
    /// Takes new lanes. Everything that was sent before has arrived.
    pub(super) fn open(&mut self, lanes: impl Iterator<Item = L>) {
        self.lanes = lanes.map(Some).collect();
        self.turn = 0;
        self.numbering.drained();
    }

    /// Gives the lanes back.
    pub(super) fn close(&mut self) -> impl Iterator<Item = L> {
        std::mem::take(&mut self.lanes).into_iter().flatten()
    }

    /// A lane is gone. False if it was the last one.
    pub(super) fn lose(&mut self, number: usize) -> bool {
        if let Some(lane) = self.lanes.get_mut(number) {
            *lane = None;
        }
        !self.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Lanes that are not lost.
    pub(super) fn count(&self) -> usize {
        self.lanes.iter().flatten().count()
    }

    pub(super) fn first(&self) -> Option<&L> {
        self.lanes.iter().flatten().next()
    }

    pub(super) fn first_mut(&mut self) -> Option<&mut L> {
        self.iter_mut().next()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut L> {
        self.lanes.iter_mut().flatten()
    }

    /// See [`Numbering::acknowledge`].
    pub(super) fn acknowledge(&mut self, count: u64) -> bool {
        self.numbering.acknowledge(count)
    }

    /// Sends a packet with the next number, if the window has room for it.
    pub(super) fn send(
        &mut self,
        header: &Header,
        room: Room,
        mut send: impl FnMut(&mut L, &Header) -> Outcome,
    ) -> Outcome {
        let Some(number) = self.numbering.next(room) else { return Outcome::Again };
        let header = Header { number, ..*header };
        let outcome = self.try_in_turn(|lane| Some(send(lane, &header)).filter(|outcome| outcome.has_happened()));
        if outcome.is_some() {
            self.numbering.advance();
        }
        // A lane that is lost is reported by the transport.
        outcome.unwrap_or(Outcome::Again)
    }

    /// Makes an access over the lane whose turn it is, or another one.
    pub(super) fn access(&mut self, mut access: impl FnMut(&mut L) -> Access) -> Access {
        let is_final = |outcome: &Access| !matches!(outcome, Access::Again | Access::Lost);
        self.try_in_turn(|lane| Some(access(lane)).filter(is_final)).unwrap_or(Access::Again)
    }

    /// Asks all lanes.
    pub(super) fn flush(&mut self, flush: impl FnMut(&mut L) -> Access) -> Access {
        let all = self.iter_mut().map(flush).all(|outcome| matches!(outcome, Access::Done(_)));
        if all { Access::Done(0) } else { Access::Again }
    }

    /// Tries the lane whose turn it is, and then the others, until one answers. The turn goes on from there.
    fn try_in_turn<O>(&mut self, mut attempt: impl FnMut(&mut L) -> Option<O>) -> Option<O> {
        for _ in 0..self.lanes.len() {
            self.turn = (self.turn + 1) % self.lanes.len();
            if let Some(lane) = &mut self.lanes[self.turn]
                && let Some(outcome) = attempt(lane)
            {
                return Some(outcome);
            }
        }
        None
    }
}

impl Outcome {
    /// Whether the packet has left, or will.
    fn has_happened(&self) -> bool {
        matches!(self, Outcome::Done | Outcome::Posted(_))
    }
}
