//! Migration epochs: each step goes to the ranks of this node, whose answers go up. The agent answers for ranks that have nothing to suspend.

use super::Agent;
use base::WorldRank;
use protocol::control::ToRank;
use protocol::control::epoch::{Done, Order, Step};
use protocol::control::tree::{Message, Phase, ROOT};

impl Agent {
    /// A step is to be done.
    pub(super) fn on_epoch(&mut self, order: Order) {
        if let Step::Publish {} | Step::Activate {} = order.step {
            self.forget_addresses(&order.nodes);
        }
        for at in 0..self.ranks.len() {
            let rank = &mut self.ranks[at];
            if rank.ended.is_some() {
                continue;
            }
            if rank.phase == (Phase::Initialized {}) {
                rank.ordered = Some(order.clone());
                rank.send(&ToRank::Epoch { order: order.clone() }, Vec::new());
                continue;
            }
            let early = rank.phase == (Phase::Started {}) && order.step == (Step::Agree {});
            let refusal = if early { "it has not called MPI_Init, or not come back from it" } else { "" };
            let rank = rank.world;
            self.send_up(ROOT, Message::EpochDone { rank, done: done(&order, refusal) });
        }
    }

    /// What is known of ranks that move is out of date.
    fn forget_addresses(&mut self, nodes: &[u32]) {
        let Some(job) = &self.job else { return };
        for (rank, placed) in job.ranks.iter().enumerate() {
            if nodes.contains(&placed.node) {
                self.addresses.forget(WorldRank(rank as u32));
            }
        }
    }

    /// A rank has answered.
    pub(super) fn on_epoch_done(&mut self, at: usize, done: Done) {
        let rank = &mut self.ranks[at];
        // It may answer an order that has been given up, after another one.
        rank.ordered.take_if(|order| (order.epoch, &order.step) == (done.epoch, &done.step));
        let rank = rank.world;
        self.send_up(ROOT, Message::EpochDone { rank, done });
    }

    /// A rank is finalized, and won't answer any more.
    pub(super) fn answer_epoch_for(&mut self, at: usize) {
        if let Some(order) = self.ranks[at].ordered.take() {
            let rank = self.ranks[at].world;
            self.send_up(ROOT, Message::EpochDone { rank, done: done(&order, "") });
        }
    }
}

fn done(order: &Order, refusal: &str) -> Done {
    Done { epoch: order.epoch, step: order.step.clone(), endpoints: 0, refusal: refusal.into() }
}
