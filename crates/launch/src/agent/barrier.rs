//! A barrier of all ranks through the tree: each agent reports once its ranks and all agents below have entered.
//!
//! Reports carry the barrier's number: a report can overtake the release of the barrier before it. A subtree
//! whose ranks have all ended reports [`FOR_EVER`] once.

use super::Agent;
use crate::link::packet;
use protocol::control::ToRank;
use protocol::control::tree::{ALL, Message, children, parent};
use std::collections::{HashMap, HashSet};

/// Stands for this and all later barriers.
pub const FOR_EVER: u64 = u64::MAX;

/// Reports from the agents below, and what they add up to.
#[derive(Default)]
pub struct Collector {
    /// Number of the barrier that is being collected.
    epoch: u64,
    /// Last barrier that each agent below has reported.
    below: HashMap<u32, u64>,
}

impl Collector {
    /// Notes a report.
    pub fn report(&mut self, node: u32, epoch: u64) {
        self.below.insert(node, epoch);
    }

    /// The barrier that all of `nodes` have reported: the current one, [`FOR_EVER`] if they all said so, or none yet.
    pub fn complete(&self, mut nodes: std::ops::Range<u32>) -> Option<u64> {
        let reported = |n: &u32| self.below.get(n).copied();
        if nodes.clone().all(|n| reported(&n) == Some(FOR_EVER)) {
            return Some(FOR_EVER);
        }
        nodes.all(|n| reported(&n).is_some_and(|e| e >= self.epoch)).then_some(self.epoch)
    }

    /// Goes on to the barrier after `epoch`; false if that isn't the current one.
    pub fn advance(&mut self, epoch: u64) -> bool {
        let current = epoch == self.epoch;
        self.epoch += u64::from(current);
        current
    }
}

/// An agent's part of it.
#[derive(Default)]
pub struct Barrier {
    collector: Collector,
    /// Local ranks that wait.
    entered: HashSet<u32>,
    reported: Option<u64>,
}

impl Agent {
    pub(super) fn on_barrier(&mut self, rank: u32) {
        self.barrier.entered.insert(rank);
        self.barrier_changed();
    }

    pub(super) fn on_barrier_up(&mut self, node: u32, epoch: u64) {
        self.barrier.collector.report(node, epoch);
        self.barrier_changed();
    }

    /// An agent below is gone: no barrier waits for it.
    pub(super) fn barrier_lost(&mut self, node: u32) {
        self.barrier.collector.report(node, FOR_EVER);
        self.barrier_changed();
    }

    /// Reports if everybody at and below this node has entered; ranks that have ended count as entered.
    pub(super) fn barrier_changed(&mut self) {
        let Some(job) = &self.job else { return };
        let (width, nodes) = (job.launcher.width, job.hosts.len() as u32);
        let barrier = &mut self.barrier;
        let Some(below) = barrier.collector.complete(children(self.node, width, nodes)) else { return };
        let all_ended = self.ranks.iter().all(|r| r.ended.is_some());
        let all_here = self.ranks.iter().all(|r| r.ended.is_some() || barrier.entered.contains(&r.world));
        let epoch = if all_ended { below } else { barrier.collector.epoch };
        if !all_here || barrier.reported == Some(epoch) {
            return;
        }
        barrier.reported = Some(epoch);
        let message = Message::BarrierUp { node: self.node, epoch };
        self.up.send(packet(parent(self.node, width), message));
    }

    /// Everybody has entered: passes that on and wakes the ranks.
    pub(super) fn on_barrier_done(&mut self, epoch: u64) {
        self.children.broadcast(&packet(ALL, Message::BarrierDone { epoch }));
        if !self.barrier.collector.advance(epoch) {
            return;
        }
        let entered = std::mem::take(&mut self.barrier.entered);
        for rank in self.ranks.iter_mut().filter(|r| entered.contains(&r.world)) {
            rank.send(&ToRank::BarrierDone {}, Vec::new());
        }
        self.barrier_changed();
    }
}
