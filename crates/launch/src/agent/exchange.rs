//! An agent's part in exchanges of endpoints (`protocol::control::exchange`), and what it tells of its ranks' start.
//!
//! `original`, `dr`: the agent passes ranks' offers to mpiexec, and the answers to the ranks. `tree`: the agent gathers endpoint addresses
//! and passes them up; when all come down, it keeps them and tells the ranks that they may ask.

use super::Agent;
use crate::link::{Frame, packet};
use base::{WorldRank, counters, log};
use protocol::control::exchange::tree::{FOR_EVER, Gather};
use protocol::control::exchange::{Id, Offer, Scheme};
use protocol::control::frame::HEADER;
use protocol::control::rank::Times;
use protocol::control::tree::{Message, ROOT, RankTimes, children, parent};
use protocol::control::{EndpointAddress, ToRank};

/// What an agent knows of the exchange that goes on.
#[derive(Default)]
pub struct Exchange {
    gather: Gather,
    /// The program for which this subtree has been reported.
    reported: Option<u32>,
    /// The times of the ranks have been told.
    told: bool,
}

/// What a packet says of its way: node, rank, program.
const ADDRESS_BYTES: usize = 12;

/// Counts `copies` of a message of the exchange, whose body has `bytes`.
pub fn count_sent(copies: usize, bytes: usize) {
    counters::EXCHANGE_MESSAGES_SENT.add(copies as u64);
    counters::EXCHANGE_BYTES_SENT.add((copies * (bytes + HEADER)) as u64);
}

fn counted(frame: Frame) -> Frame {
    count_sent(1, frame.len() - HEADER);
    frame
}

impl Agent {
    fn scheme(&self) -> Scheme {
        self.job.as_ref().map_or(Scheme::Lazy, |job| job.startup.scheme())
    }

    /// A rank takes part, and waits.
    pub(super) fn on_offer(&mut self, at: usize, ids: Vec<Id>) {
        let rank = &self.ranks[at];
        let (world, generation) = (rank.world, rank.generation);
        let Some((address, _)) = &rank.address else {
            return log!(Warn, "rank {world} offers endpoints without an endpoint address");
        };
        let address = address.clone();
        match self.scheme() {
            Scheme::Original | Scheme::Dr => {
                let offer = Offer { rank: WorldRank(world), address, ids };
                self.up.send(counted(packet(ROOT, Message::Offer { generation, offer })));
            }
            Scheme::Tree => {
                self.exchange.gather.own(world, generation, address);
                self.exchange_changed();
            }
            _ => log!(Warn, "rank {world} offers endpoints, which the scheme of this job does not want"),
        }
    }

    /// Tells a rank what it waits for, in `bytes`, unless that is for a program that has ended.
    fn tell_exchanged(&mut self, (world, generation): (u32, u32), message: &ToRank, bytes: usize) {
        let Some(rank) = self.ranks.iter_mut().find(|r| r.world == world && r.generation == generation) else { return };
        if rank.ended.is_none() {
            count_sent(1, bytes);
            rank.send(message, Vec::new());
        }
    }

    /// mpiexec's answer for one rank; it came in `bytes`.
    pub(super) fn answer_rank(&mut self, to: (u32, u32), answer: &ToRank, bytes: usize) {
        self.tell_exchanged(to, answer, bytes.saturating_sub(ADDRESS_BYTES));
    }

    pub(super) fn on_gathered(&mut self, node: u32, generation: u32, addresses: Vec<(WorldRank, EndpointAddress)>) {
        self.exchange.gather.report(node, generation, addresses);
        self.exchange_changed();
    }

    /// An agent below is gone, with all below it.
    pub(super) fn forget_below(&mut self, node: u32) {
        self.barrier_lost(node);
        self.exchange.gather.report(node, FOR_EVER, Vec::new());
        self.exchange_changed();
    }

    /// Passes the subtree's endpoint addresses up as soon as they are complete; ranks that have ended are not waited for.
    pub(super) fn exchange_changed(&mut self) {
        let Some(job) = self.job.as_ref().filter(|job| job.startup.scheme() == Scheme::Tree) else { return };
        let (width, nodes) = (job.launcher.width, job.hosts.len() as u32);
        let gather = &mut self.exchange.gather;
        let (complete, gone_below) = gather.complete(children(self.node, width, nodes));
        let all_gone = self.ranks.iter().all(|r| r.ended.is_some());
        let all_here = self.ranks.iter().all(|r| r.ended.is_some() || gather.has(r.world));
        let generation = if all_gone && gone_below { FOR_EVER } else { gather.generation() };
        if !complete || !all_here || self.exchange.reported == Some(generation) {
            return;
        }
        self.exchange.reported = Some(generation);
        let message = Message::Gathered { node: self.node, generation, addresses: self.exchange.gather.take() };
        self.up.send(counted(packet(parent(self.node, width), message)));
    }

    /// All endpoint addresses are here.
    pub(super) fn on_spread(&mut self, generation: u32, addresses: Vec<(WorldRank, EndpointAddress)>) {
        if !self.exchange.gather.advance(generation) {
            return;
        }
        let far: Vec<_> = addresses.into_iter().filter(|(peer, _)| self.node_of(*peer) != Some(self.node)).collect();
        self.addresses.learn(generation, far);
        let waiting: Vec<u32> = self.ranks.iter().map(|rank| rank.world).collect();
        for world in waiting {
            self.tell_exchanged((world, generation), &ToRank::Exchanged {}, 1);
        }
        self.exchange_changed();
    }

    /// A rank has left `MPI_Init`.
    pub(super) fn on_times(&mut self, at: usize, times: Times) {
        self.ranks[at].times.get_or_insert(Box::new(times));
        self.tell_times();
    }

    /// Tells how the ranks have started, once all have or never will.
    pub(super) fn tell_times(&mut self) {
        let wanted = self.job.as_ref().is_some_and(|job| job.startup.report);
        let ready = self.ranks.iter().all(|rank| rank.times.is_some() || rank.ended.is_some());
        if !wanted || !ready || std::mem::replace(&mut self.exchange.told, true) {
            return;
        }
        let ranks = self.ranks.iter().filter_map(|rank| {
            let times = (**rank.times.as_ref()?).clone();
            let (began_ns, spawned_ns) = rank.spawned_ns;
            let exec_ns = times.began_ns.saturating_sub(spawned_ns);
            Some(RankTimes { rank: rank.world, fork_ns: spawned_ns - began_ns, exec_ns, times })
        });
        let ranks = ranks.collect();
        let sent = (counters::EXCHANGE_MESSAGES_SENT.value(), counters::EXCHANGE_BYTES_SENT.value());
        self.send_up(ROOT, Message::StartupTimes { node: self.node, sent, ranks });
    }
}
