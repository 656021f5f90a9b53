//! Several lanes of one endpoint, in groups ([`crate::route`]). The packets of a group are numbered and leave over each of its lanes in turn, over the next
//! one with room.
//!
//! So whole eager messages go in turn, and a large message, whose pieces are packets, is striped over the lanes of its group. A group whose lanes are all
//! lost takes those of the others; its numbers stay its own.

use crate::lanes::{Class, LanePlan};
use crate::order::{Number, Numbering, Room};
use crate::route::Route;
use crate::transport::{Access, Outcome};
use crate::wire::Header;
use std::ops::Range;

/// What has been sent over one lane of several.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LaneCount {
    /// What the lane carries; `None` for everything.
    pub class: Option<Class>,
    /// Whether it has been lost.
    pub is_lost: bool,
    /// Packets that were sent over it since it was opened.
    pub packets: u64,
    /// Their bytes without headers.
    pub bytes: u64,
    /// How many of them had found no room, or no lane yet, and waited in this process. Pieces of a stream are sent when there is room, so they are not among them.
    pub waited: u64,
    /// How long all of those waited together.
    pub waited_ns: u64,
}

impl LaneCount {
    /// A packet of so many bytes has left.
    fn add(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

/// See the head of this file. The numbers outlive the lanes, which a suspension closes.
pub(super) struct Several<L> {
    /// By number; a lost one leaves its place empty.
    lanes: Vec<Option<L>>,
    /// Of each lane.
    sent: Vec<LaneCount>,
    /// What so many lanes carry.
    plan: LanePlan,
    /// Those of the plan, and behind them those that an earlier, larger plan had.
    groups: Vec<Group>,
    /// How many the plan has.
    in_use: usize,
}

/// The lanes of one class.
#[derive(Default)]
struct Group {
    lanes: Range<usize>,
    /// Whose turn it is, counted from the group's first lane.
    turn: usize,
    /// The lane that took the last packet.
    last: usize,
    numbering: Numbering,
}

impl<L> Several<L> {
    /// No lanes.
    pub(super) fn new() -> Several<L> {
        Several { lanes: Vec::new(), sent: Vec::new(), plan: LanePlan::SINGLE, groups: Vec::new(), in_use: 0 }
    }

    /// Takes new lanes. Everything that was sent before has arrived.
    pub(super) fn open(&mut self, lanes: impl Iterator<Item = L>, plan: &LanePlan) {
        self.lanes = lanes.map(Some).collect();
        self.sent = vec![LaneCount::default(); self.lanes.len()];
        self.plan = plan.with_lanes(self.lanes.len());
        let of_plan = self.plan.groups();
        self.in_use = of_plan.len();
        if self.groups.len() < self.in_use {
            self.groups.resize_with(self.in_use, Group::default);
        }
        for (group, lanes) in self.groups.iter_mut().zip(of_plan) {
            (group.turn, group.last, group.lanes) = (0, lanes.start, lanes);
        }
        self.groups.iter_mut().for_each(|group| group.numbering.drained());
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

    /// Groups of lanes.
    pub(super) fn groups(&self) -> usize {
        self.in_use
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
    pub(super) fn acknowledge(&mut self, group: usize, count: u64) -> bool {
        self.groups.get_mut(group).is_some_and(|group| group.numbering.acknowledge(count))
    }

    /// All packets of a group so far have counts below.
    pub(super) fn sent(&self, group: u8) -> u64 {
        self.groups.get(usize::from(group)).map_or(0, |group| group.numbering.count())
    }

    /// What has been sent over each lane; `pair` as of [`LanePlan::class`].
    pub(super) fn counts(&self, pair: u64) -> Vec<LaneCount> {
        let count = |(number, sent): (usize, &LaneCount)| LaneCount {
            class: self.plan.class(number, pair),
            is_lost: self.lanes.get(number).is_none_or(Option::is_none),
            ..*sent
        };
        self.sent.iter().enumerate().map(count).collect()
    }

    /// Sends a packet of so many bytes with the next number of a group, if its window has room for it.
    pub(super) fn send(
        &mut self,
        group: u8,
        (header, bytes): (&Header, usize),
        room: Room,
        mut send: impl FnMut(&mut L, &Header) -> Outcome,
    ) -> Outcome {
        // An answer names the group of the peer, who may have more.
        let at = usize::from(group).min(self.in_use.saturating_sub(1));
        let Some(group) = self.groups.get_mut(at) else { return Outcome::Again };
        let Some(count) = group.numbering.next(room) else { return Outcome::Again };
        let header = Header { number: Number::in_group(at as u8, count), ..*header };
        let attempt = |lane: &mut L| Some(send(lane, &header)).filter(|outcome| outcome.has_happened());
        let outcome = group.try_in_turn(&mut self.lanes, attempt);
        // A lane that is lost is reported by the transport.
        let Some((number, outcome)) = outcome else { return Outcome::Again };
        group.numbering.advance();
        group.last = number;
        self.sent[number].add(bytes);
        outcome
    }

    /// The last packet of a group had waited for so long.
    pub(super) fn note_wait(&mut self, group: u8, waited_ns: u64) {
        let at = usize::from(group).min(self.in_use.saturating_sub(1));
        if let Some(count) = self.groups.get(at).and_then(|group| self.sent.get_mut(group.last)) {
            count.waited += 1;
            count.waited_ns += waited_ns;
        }
    }

    /// Makes an access over the lane of a group whose turn it is, or another one.
    pub(super) fn access(&mut self, group: u8, mut access: impl FnMut(&mut L) -> Access) -> Access {
        let is_final = |outcome: &Access| !matches!(outcome, Access::Again | Access::Lost);
        let Some(group) = self.groups.get_mut(usize::from(group)) else { return Access::Again };
        let outcome = group.try_in_turn(&mut self.lanes, |lane| Some(access(lane)).filter(is_final));
        outcome.map_or(Access::Again, |(_, outcome)| outcome)
    }

    /// Asks all lanes.
    pub(super) fn flush(&mut self, flush: impl FnMut(&mut L) -> Access) -> Access {
        let all = self.iter_mut().map(flush).all(|outcome| matches!(outcome, Access::Done(_)));
        if all { Access::Done(0) } else { Access::Again }
    }

    /// See [`LanePlan::route`].
    pub(super) fn route(&self, class: Option<Class>, kind: Class) -> Route {
        self.plan.route(class, kind)
    }
}

impl Group {
    /// Tries the lane whose turn it is, and then the others of the group, until one answers: its number and its answer. The turn goes on from
    /// there.
    fn try_in_turn<L, O>(
        &mut self,
        all: &mut [Option<L>],
        mut attempt: impl FnMut(&mut L) -> Option<O>,
    ) -> Option<(usize, O)> {
        let own = all.get(self.lanes.clone()).is_some_and(|lanes| lanes.iter().any(Option::is_some));
        let (first, lanes) = if own { (self.lanes.start, &mut all[self.lanes.clone()]) } else { (0, all) };
        for _ in 0..lanes.len() {
            self.turn = (self.turn + 1) % lanes.len();
            if let Some(lane) = &mut lanes[self.turn]
                && let Some(outcome) = attempt(lane)
            {
                return Some((first + self.turn, outcome));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kind;

    #[test]
    fn a_wait_belongs_to_the_lane_that_took_the_packet() {
        let mut several = Several::new();
        several.open([0, 1, 2].into_iter(), &LanePlan::parse("3", "segregate").unwrap());
        let header = Header { kind: Kind::DATA, number: Number::NONE, source: 0, tag: 0, token: 0, context: 0 };
        let mut taken = Vec::new();
        for waited_ns in [40, 2] {
            several.send(1, (&header, 100), Room::Ordinary, |lane, _| {
                taken.push(*lane);
                Outcome::Done
            });
            several.note_wait(1, waited_ns);
        }
        taken.sort_unstable();
        assert_eq!(taken, [1, 2], "the lanes of the group for bulk take turns");
        let waits: Vec<_> = several.counts(0).iter().map(|count| (count.packets, count.bytes, count.waited)).collect();
        assert_eq!(waits, [(0, 0, 0), (1, 100, 1), (1, 100, 1)]);
        assert_eq!(several.counts(0).iter().map(|count| count.waited_ns).sum::<u64>(), 42);
    }
}
