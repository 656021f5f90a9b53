//! Packets that arrive from above or below: for this agent, or to be passed on.

use super::Agent;
use super::exchange::count_sent;
use crate::link::{Frame, reframe};
use crate::pollset::PollSet;
use base::log;
use protocol::control::tree::{ALL, Message, Packet, Phase, ROOT, next_hop};
use protocol::control::{ToRank, decode};
use std::time::Duration;

/// How long whoever is above may take to hear why this agent ends.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl Agent {
    pub(super) fn poll_parent(&mut self, set: &PollSet) {
        self.up.handle(set);
        loop {
            match self.up.next_packet() {
                Ok(Some(body)) => self.route(&body),
                Ok(None) => return,
                Err(e) => {
                    // Perhaps it is heard: nothing is wrong with the other direction.
                    let why =
                        format!("the node agent on {{host}} can't understand what comes from above: {}", e.origin);
                    self.send_up(ROOT, Message::NodeLost { node: self.node, why });
                    self.die();
                    self.up.take_leave(LAST_WORDS);
                    sys::process::exit_now(1);
                }
            }
        }
    }

    /// Hands on, or obeys.
    pub(super) fn route(&mut self, body: &[u8]) {
        let Some(to) = body.first_chunk::<4>().map(|b| u32::from_le_bytes(*b)) else { return };
        if to != self.node && to != ALL {
            return self.forward(to, &reframe(body));
        }
        match decode::<Packet>(body) {
            Ok(packet) => self.obey(packet, body),
            Err(e) => log!(Error, "malformed packet dropped: {}", e.origin),
        }
    }

    /// One hop on the way to `node`.
    pub(super) fn forward(&mut self, node: u32, frame: &Frame) {
        let width = self.job.as_ref().map_or(1, |j| j.launcher.width);
        match if node == ROOT { None } else { next_hop(self.node, node, width) } {
            Some(child) => self.children.send(child, frame),
            None => self.up.send(frame.clone()),
        }
    }

    fn obey(&mut self, packet: Packet, body: &[u8]) {
        let down = packet.to == ALL && !matches!(packet.body, Message::Start { .. } | Message::BarrierDone { .. });
        if down {
            let copies = self.children.broadcast(&reframe(body));
            if let Message::Spread { .. } = packet.body {
                count_sent(copies, body.len());
            }
        }
        match packet.body {
            Message::Start { job } => self.start(job, reframe(body)),
            Message::OutputAck { bytes } => self.output.acknowledged(bytes as usize),
            Message::Stdin { bytes } => self.feed_stdin(bytes),
            Message::Signal { signal } => self.signal_ranks(signal),
            Message::Kill { now, code } => self.kill(now, code),
            Message::KillRanks { ranks } => self.kill_some(&ranks),
            Message::Want { peer, from, generation } => self.on_want(peer, from, generation),
            Message::Have { peer, generation, address, why } => self.on_have(peer, generation, address, &why),
            Message::FindWorker { index, from } => self.on_find_worker(index, from),
            Message::WorkerAt { node, index, incarnation, tcp } => self.on_worker_at(node, index, incarnation, tcp),
            Message::PeerGone { peer, why } => self.on_peer_gone(peer, &why),
            Message::Meet { calls, listen, files } => self.on_meet(calls, listen, files),
            Message::Dial {} => self.on_dial(),
            Message::Apart { reasons } => self.on_apart(reasons),
            Message::Look { spots } => self.on_look(&spots),
            Message::Kernels { groups } if self.files.are_awaited() => self.files.hold_kernels(groups),
            Message::Kernels { groups } => self.on_kernels(groups),
            Message::Chunk { file, offset, bytes } => self.on_chunk(file, offset, &bytes),
            Message::Dump {} => self.on_dump(),
            Message::Epoch { order } => self.on_epoch(order),
            Message::Revoked { context } => {
                for rank in self.ranks.iter_mut().filter(|rank| rank.ended.is_none()) {
                    if let Phase::Started {} | Phase::Initialized {} = rank.phase {
                        rank.send(&ToRank::Revoked { context }, Vec::new());
                    }
                }
            }
            Message::Table { rank, generation, offers } => {
                self.answer_rank((rank, generation), &ToRank::Table { offers }, body.len());
            }
            Message::Entries { rank, generation, entries } => {
                self.answer_rank((rank, generation), &ToRank::Entries { entries }, body.len());
            }
            Message::Answer { rank, number, answer } => {
                if let Some(rank) = self.ranks.iter_mut().find(|known| known.world == rank && known.ended.is_none()) {
                    rank.send(&ToRank::Answer { number, answer }, Vec::new());
                }
            }
            Message::Gathered { node, generation, addresses } => self.on_gathered(node, generation, addresses),
            Message::Spread { generation, addresses } => self.on_spread(generation, addresses),
            Message::BarrierUp { node, epoch } => self.on_barrier_up(node, epoch),
            Message::BarrierDone { epoch } => self.on_barrier_done(epoch),
            other => log!(Warn, "message for the head process arrived at an agent: {other:?}"),
        }
    }
}
