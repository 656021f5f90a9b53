//! What agents report, and what follows from it.

use super::Head;
use super::files::Source;
use super::verdict::{judge, who};
use crate::children::ChildEvent;
use crate::link::reframe;
use crate::pollset::PollSet;
use base::{WorldRank, log};
use protocol::control::decode;
use protocol::control::tree::{ALL, End, Message, Packet, Phase, ROOT, children, next_hop};

impl Head {
    pub(super) fn on_child(&mut self, event: ChildEvent) {
        match event {
            ChildEvent::Lost { node, why } => self.on_node_lost(node, why),
            ChildEvent::Packet(body) => {
                let Some(to) = body.first_chunk::<4>().map(|b| u32::from_le_bytes(*b)) else { return };
                if to != ROOT {
                    if let Some(child) = next_hop(ROOT, to, self.job.launcher.width) {
                        self.children.send(child, &reframe(&body));
                    }
                    return;
                }
                match decode::<Packet>(&body) {
                    Ok(packet) => self.on_message(packet.body),
                    Err(e) => log!(Error, "malformed packet dropped: {}", e.origin),
                }
            }
        }
    }

    pub(super) fn host_of(&self, rank: u32) -> &str {
        self.node_name(self.job.ranks.get(rank as usize).map_or(0, |r| r.node))
    }

    fn node_name(&self, node: u32) -> &str {
        self.job.hosts.get(node as usize).map_or("?", String::as_str)
    }

    fn on_message(&mut self, message: Message) {
        match message {
            Message::Started { node, agent_pid, pids } => self.on_started(node, agent_pid, pids),
            Message::StartFailed { rank, errno, text } => self.on_start_failed(rank, errno, &text),
            Message::Output { rank, stream, bytes, .. } => self.on_output(rank, stream, bytes),
            Message::StdinAck { .. } => self.stdio.input.acknowledged(),
            Message::Exited { rank, pid, end, phase, killed } => self.on_exited(rank, pid, (&end, &phase), killed),
            Message::Aborted { rank, code, text, ranks } => self.on_aborted(rank, code, &text, &ranks),
            Message::BarrierUp { node, epoch } => {
                self.barrier.report(node, epoch);
                self.check_barrier();
            }
            Message::ChunkAck { node, bytes } => {
                if let Some(preload) = &mut self.launching.preload {
                    preload.acknowledged(node, bytes);
                }
            }
            Message::PreloadFailed { node, text } => {
                let text = format!("cannot send files to {}: {text}", self.node_name(node));
                self.verdict.add(text, 1, false);
                self.end();
            }
            Message::Offer { generation, offer } => self.on_offer(generation, offer),
            Message::Gathered { node, generation, addresses } => self.on_gathered(node, generation, addresses),
            Message::ProfileRank { head } => self.on_profile_rank(head),
            Message::ProfilePart { rank, part, rows } => self.on_profile_part(rank, part, rows),
            Message::StartupTimes { node, sent, ranks } => self.on_times(node, sent, ranks),
            Message::Hints { node, hints } => {
                let orders = self.near.on_hints(node, hints);
                self.give(orders);
            }
            Message::Listening { node } => {
                let orders = self.near.on_listening(node);
                self.give(orders);
            }
            Message::Met { node, proved, refused } => {
                let orders = self.near.on_met(node, &proved, refused);
                self.give(orders);
            }
            Message::Seen { node, seen } => {
                let orders = self.near.on_seen(node, seen);
                self.give(orders);
            }
            Message::NodeDone { node } => self.node_over(node),
            Message::NodeLost { node, why } => self.on_node_lost(node, why),
            Message::Ask { rank, number, request } => self.on_ask(rank, number, request),
            Message::EpochDone { rank, done } => self.on_epoch_done(rank, &done),
            Message::Processes { processes } => self.on_processes(processes),
            Message::Report { rank, report } => self.on_report(rank, *report),
            Message::Notice { text } => eprintln!("mpiexec: {text}"),
            other => log!(Warn, "message for an agent arrived at the head process: {other:?}"),
        }
    }

    /// The ranks of a node run.
    fn on_started(&mut self, node: u32, agent_pid: u32, pids: Vec<(u32, u32)>) {
        if self.options.verbose {
            let host = self.node_name(node);
            eprintln!("mpiexec: node agent on {host}: pid {agent_pid}, {} ranks", pids.len());
        }
        for (rank, pid) in pids {
            if let Some(rank) = self.ranks.get_mut(rank as usize) {
                rank.pid = pid;
            }
        }
        self.node_started(node);
    }

    fn on_start_failed(&mut self, rank: u32, errno: i32, text: &str) {
        let cause = std::io::Error::from_raw_os_error(errno);
        let hint = if errno == 24 { "; raise the limit of open files (ulimit -n)" } else { "" };
        let text = format!("cannot start {text} (rank {rank} on {}): {cause}{hint}", self.host_of(rank));
        self.verdict.add(text, if errno == 2 { 127 } else { 126 }, false);
        self.end();
    }

    fn on_exited(&mut self, rank: u32, pid: u32, (end, phase): (&End, &Phase), killed: bool) {
        let Some(state) = self.ranks.get_mut(rank as usize) else { return };
        state.ended = true;
        self.exchange_without(rank);
        self.epoch_without(rank);
        self.note_end(rank, end, phase, killed);
        let who = who(rank, pid, self.host_of(rank));
        if let Some((text, code, crash)) = judge(&who, end, phase).filter(|_| !killed) {
            let harmless = *phase == (Phase::Finalized {}) && !crash;
            self.on_rank_failure(rank, text, code, crash, harmless);
        }
        if self.ranks[rank as usize].aborted && !self.clock.is_ending() {
            let why = format!("{who} was ended by MPI_Abort");
            self.send(ALL, Message::PeerGone { peer: WorldRank(rank), why });
        }
        // Behind the news of the death: who gets the verdict knows of it.
        self.agreements_without(rank);
        if self.job.stdin_rank == rank {
            self.stdio.input.stop();
        }
    }

    fn on_aborted(&mut self, rank: u32, code: i32, text: &str, ranks: &[WorldRank]) {
        let host = self.host_of(rank).to_string();
        let pid = self.ranks.get(rank as usize).map_or(0, |r| r.pid);
        let who = who(rank, pid, &host);
        self.note_abort(rank, format!("called MPI_Abort with code {code}"));
        // The library's own words may already say everything.
        let text = match text {
            "" => format!("{who} called MPI_Abort with code {code}"),
            text if text.starts_with("MPI_Abort") => format!("{who}: {text}"),
            text => format!("{who} called MPI_Abort with code {code}: {text}"),
        };
        let status = if code & 0xff == 0 && code != 0 { 1 } else { code & 0xff };
        if self.is_part(ranks) {
            eprintln!("mpiexec: {text}; the others go on");
            for peer in ranks {
                if let Some(state) = self.ranks.get_mut(peer.0 as usize) {
                    state.aborted = true;
                }
            }
            self.verdict.add(text, status, false);
            return self.send(ALL, Message::KillRanks { ranks: ranks.to_vec() });
        }
        self.verdict.add(text, status, false);
        self.end();
    }

    /// Whether an abort of these ranks leaves the others alone.
    fn is_part(&self, ranks: &[WorldRank]) -> bool {
        self.job.continue_on_failure && !self.clock.is_ending() && self.interrupts == 0 && !ranks.is_empty()
    }

    fn give(&mut self, orders: Vec<super::near::Order>) {
        for (to, message) in orders {
            if self.options.verbose
                && let Message::Kernels { groups } = &message
            {
                let parents = &groups.parents;
                let roots = parents.iter().enumerate().filter(|(node, parent)| *node == **parent as usize).count();
                let kernels = if parents.is_empty() { self.nodes.len() } else { roots };
                let ms = self.near.elapsed().as_secs_f64() * 1e3;
                let hosts = groups.hosts.iter().enumerate().filter(|(node, host)| *node == **host as usize).count();
                let hosts = if hosts > 0 { format!(", on {hosts} hosts") } else { String::new() };
                eprintln!(
                    "mpiexec: {} node agents are under {kernels} kernels{hosts}, found in {ms:.1} ms",
                    self.nodes.len()
                );
            }
            if let Message::Meet { calls, .. } = &message {
                // Before the order to call, so that they are there when it comes.
                calls.iter().filter(|call| call.given).for_each(|call| self.children.join(to, call.node));
            }
            self.send(to, message);
        }
    }

    /// A rank has failed: the job ends, or the others are told.
    fn on_rank_failure(&mut self, rank: u32, text: String, code: i32, crash: bool, harmless: bool) {
        let interrupted = self.interrupts > 0 && self.job.ranks.len() > 1;
        if self.job.continue_on_failure && !harmless && !interrupted {
            eprintln!("mpiexec: {text}; the others go on");
            self.send(ALL, Message::PeerGone { peer: WorldRank(rank), why: text.clone() });
        }
        self.verdict.add(text, code, crash);
        if (!self.job.continue_on_failure && !harmless) || interrupted {
            self.end();
        }
    }

    fn check_barrier(&mut self) {
        let nodes = self.nodes.len() as u32;
        let complete = self.barrier.complete(children(ROOT, self.job.launcher.width, nodes));
        if let Some(epoch) = complete.filter(|e| *e != crate::agent::barrier::FOR_EVER)
            && self.barrier.advance(epoch)
        {
            self.send(ALL, Message::BarrierDone { epoch });
        }
    }

    fn node_over(&mut self, node: u32) {
        if let Some(state) = self.nodes.get_mut(node as usize) {
            state.over = true;
        }
        if self.job.ranks.get(self.job.stdin_rank as usize).is_some_and(|r| r.node == node) {
            self.stdio.input.stop();
        }
    }

    /// An agent is gone, and with it everything below it in the tree.
    fn on_node_lost(&mut self, node: u32, why: String) {
        let width = self.job.launcher.width;
        let below = |n: &u32| *n == node || next_hop(node, *n, width).is_some();
        // An agent that has not understood its job doesn't know what it is called there.
        let why = why.replace("{host}", self.node_name(node));
        let gone: Vec<u32> =
            (0..self.nodes.len() as u32).filter(below).filter(|n| !self.nodes[*n as usize].over).collect();
        if gone.is_empty() {
            return;
        }
        gone.iter().for_each(|n| self.node_over(*n));
        self.node_started(node);
        let orders = self.near.on_gone(&gone);
        self.give(orders);
        let lost = |rank: &usize| gone.contains(&self.job.ranks[*rank].node) && !self.ranks[*rank].ended;
        let ranks: Vec<usize> = (0..self.ranks.len()).filter(lost).collect();
        for node in &gone {
            self.barrier.report(*node, crate::agent::barrier::FOR_EVER);
            self.exchange_without_node(*node);
        }
        if self.job.continue_on_failure && !self.clock.is_ending() {
            eprintln!("mpiexec: {why}; the others go on");
            for rank in ranks {
                self.ranks[rank].ended = true;
                self.epoch_without(rank as u32);
                self.send(ALL, Message::PeerGone { peer: WorldRank(rank as u32), why: why.clone() });
                self.agreements_without(rank as u32);
            }
            self.verdict.add(why, 1, false);
            self.check_barrier();
        } else {
            // While the job ends, it may be why somebody has aborted, as a crash may be.
            self.verdict.add(why, 1, self.clock.is_ending());
            self.end();
        }
    }

    fn on_output(&mut self, rank: u32, stream: u8, bytes: Vec<u8>) {
        let Some(placed) = self.job.ranks.get(rank as usize) else { return };
        let host = self.job.hosts.get(placed.node as usize).map_or("", String::as_str);
        let source = Source { rank, ranks: self.job.ranks.len(), host, node: placed.node, is_second: stream == 2 };
        self.stdio.take(&self.options, &source, bytes);
        self.pump_output();
    }

    pub(super) fn pump_output(&mut self) {
        for (node, bytes) in self.stdio.pump() {
            self.send(node, Message::OutputAck { bytes });
        }
        if self.stdio.is_broken() && !self.clock.is_ending() {
            self.verdict.add("standard output is closed".into(), 128 + sys::process::signals::PIPE, false);
            self.end();
        }
    }

    pub(super) fn pump_input(&mut self, set: &PollSet) {
        if let Some(bytes) = self.stdio.input.pump(set) {
            let to = self.job.ranks.get(self.job.stdin_rank as usize).map_or(ALL, |r| r.node);
            self.send(to, Message::Stdin { bytes });
        }
    }
}
