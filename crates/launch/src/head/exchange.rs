//! mpiexec's part in exchanges of endpoints: it collects what ranks offer and sends it to them, one after another (`original`, `dr`), or
//! sends down what the agents have gathered (`tree`).

use super::Head;
use crate::agent::count_sent;
use crate::link::Frame;
use base::{WorldRank, log};
use protocol::control::EndpointAddress;
use protocol::control::exchange::original::Collector;
use protocol::control::exchange::tree::{FOR_EVER, Gather};
use protocol::control::exchange::{Offer, Scheme, dr};
use protocol::control::frame::{self, HEADER};
use protocol::control::tree::{ALL, Message, Packet, ROOT, children, next_hop};
use std::collections::{BTreeMap, VecDeque};

/// What goes out to the ranks of one program.
struct Answers {
    generation: u32,
    offers: Vec<Offer>,
    /// Ranks that have not got theirs.
    waiting: VecDeque<u32>,
}

/// What mpiexec knows of the exchanges that go on.
#[derive(Default)]
pub struct Exchange {
    /// By program.
    collectors: BTreeMap<u32, Collector>,
    gather: Gather,
    answers: VecDeque<Answers>,
}

/// Programs that ranks may be apart: more than a few can't be, as each exchange needs all ranks.
const PROGRAMS_MAX: usize = 4;

impl Head {
    pub(super) fn on_offer(&mut self, generation: u32, offer: Offer) {
        let all = &mut self.exchange.collectors;
        if !all.contains_key(&generation) && all.len() >= PROGRAMS_MAX {
            return log!(Error, "rank {} offers endpoints for a program that can't have begun", offer.rank.0);
        }
        let ranks = &self.ranks;
        let collector = all.entry(generation).or_insert_with(|| {
            let mut collector = Collector::new(ranks.len() as u32);
            let ended = ranks.iter().enumerate().filter(|(_, rank)| rank.ended);
            ended.for_each(|(rank, _)| collector.gone(rank as u32));
            collector
        });
        if let Err(e) = collector.add(offer) {
            log!(Error, "{}", e.origin);
        }
        self.answer_complete();
    }

    /// A rank has ended: nobody waits for what it offers.
    pub(super) fn exchange_without(&mut self, rank: u32) {
        self.exchange.collectors.values_mut().for_each(|collector| collector.gone(rank));
        self.answer_complete();
    }

    /// An agent is lost, and its ranks with it.
    pub(super) fn exchange_without_node(&mut self, node: u32) {
        let lost: Vec<u32> =
            (0..self.job.ranks.len() as u32).filter(|r| self.job.ranks[*r as usize].node == node).collect();
        lost.into_iter().for_each(|rank| self.exchange_without(rank));
        self.on_gathered(node, FOR_EVER, Vec::new());
    }

    fn answer_complete(&mut self) {
        let complete = self.exchange.collectors.iter().find(|(_, collector)| collector.is_complete());
        let Some(generation) = complete.map(|(generation, _)| *generation) else { return };
        if let Some(collector) = self.exchange.collectors.remove(&generation) {
            let offers = collector.offers();
            let waiting = offers.iter().map(|offer| offer.rank.0).collect();
            self.exchange.answers.push_back(Answers { generation, offers, waiting });
            self.pump_exchange();
        }
    }

    /// Sends answers, each when the way is free: no more than one of them waits in memory.
    pub(super) fn pump_exchange(&mut self) {
        let original = self.job.startup.scheme() == Scheme::Original;
        while let Some(mut answers) = self.exchange.answers.pop_front() {
            // The whole table is put into bytes once; each rank's copy differs in the address only.
            let mut table: Option<Vec<u8>> = None;
            while let Some(rank) = answers.waiting.front().copied() {
                let node = self.job.ranks[rank as usize].node;
                let Some(child) = next_hop(ROOT, node, self.job.launcher.width) else { break };
                if !self.children.is_flushed(child) {
                    self.exchange.answers.push_front(answers);
                    return;
                }
                answers.waiting.pop_front();
                let frame: Frame = if original {
                    let bytes = table.get_or_insert_with(|| table_frame(node, rank, &answers));
                    address(bytes, node, rank);
                    bytes.as_slice().into()
                } else {
                    let entries = dr::entries_for(WorldRank(rank), &answers.offers);
                    let body = Message::Entries { rank, generation: answers.generation, entries };
                    crate::link::packet(node, body)
                };
                count_sent(1, frame.len() - HEADER);
                self.children.send(child, &frame);
            }
        }
    }

    pub(super) fn on_gathered(&mut self, node: u32, generation: u32, addresses: Vec<(WorldRank, EndpointAddress)>) {
        if self.job.startup.scheme() != Scheme::Tree {
            return;
        }
        let nodes = children(ROOT, self.job.launcher.width, self.nodes.len() as u32);
        let gather = &mut self.exchange.gather;
        gather.report(node, generation, addresses);
        let (complete, nobody_left) = gather.complete(nodes);
        if !complete || nobody_left {
            return;
        }
        let (generation, addresses) = (gather.generation(), gather.take());
        gather.advance(generation);
        let frame = crate::link::packet(ALL, Message::Spread { generation, addresses });
        let copies = self.children.broadcast(&frame);
        count_sent(copies, frame.len() - HEADER);
    }
}

fn table_frame(to: u32, rank: u32, answers: &Answers) -> Vec<u8> {
    let body = Message::Table { rank, generation: answers.generation, offers: answers.offers.clone() };
    frame::frame(&Packet { to, body })
}

/// Writes the address into a table's frame: after its length the node, after the message's tag the rank.
fn address(frame: &mut [u8], node: u32, rank: u32) {
    frame[HEADER..HEADER + 4].copy_from_slice(&node.to_le_bytes());
    frame[HEADER + 5..HEADER + 9].copy_from_slice(&rank.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_readdressed_table_is_the_one_for_that_rank() {
        let answers = Answers { generation: 3, offers: Vec::new(), waiting: VecDeque::new() };
        let mut bytes = table_frame(1, 2, &answers);
        address(&mut bytes, 70_000, 80_000);
        assert_eq!(bytes, table_frame(70_000, 80_000, &answers));
    }
}
