//! This process's part in a migration epoch (docs/design/0044): what mpiexec orders step by step, by way of the node agent.
//!
//! | step | ranks of the nodes that move | all others |
//! |---|---|---|
//! | `Agree` | say whether it is possible | the same |
//! | `Drain` | suspend all endpoints | suspend those of ranks that move |
//! | `Settle` | finish what peers have begun; connections may end from now on | the same |
//! | `Release` | close sockets and listener, unmap shared regions | close the sockets concerned |
//! | `Publish` | listen again and tell where | |
//! | `Activate` | resume | resume |
//!
//! The engine suspends and resumes; it tells by `settled` when nothing is left to do, and only then is the step answered. Rings of the own kernel stay where
//! they are: a virtual machine moves with its kernel.

use super::{Change, Lane, Transports};
use crate::tcp;
use base::{Peer, log};
use protocol::control::epoch::{Done, Order, Step};
use protocol::endpoint::Endpoints;
use std::sync::Arc;
use std::time::{Duration, Instant};
use sys::wake::Bell;

/// Between two attempts to listen again.
pub(super) const LISTEN_PAUSE: Duration = Duration::from_millis(50);

/// A `Publish` that has not been answered.
pub(super) struct Unpublished {
    order: Order,
    since: Instant,
    /// When to try again.
    next: Instant,
    has_complained: bool,
}

impl Transports {
    /// A step is to be done.
    pub(super) fn on_order(&mut self, order: Order) {
        let concerned = self.concerned(&order);
        // A peer may begin to suspend its endpoint after this process has answered `Drain`, and waits for it.
        self.draining = matches!(order.step, Step::Drain {} | Step::Settle {});
        match order.step {
            Step::Agree {} => {
                let refusal = match () {
                    () if self.ucx.is_some() => "FERRULE_UCX is on, whose devices can't be released",
                    () if self.processes.borrow().knows_other_jobs() => {
                        "it has connected with another job, which can't be told of new addresses"
                    }
                    () => "",
                };
                self.answer(&order, 0, refusal.into());
            }
            Step::Drain {} => {
                self.changes.push_back(Change::Suspend(concerned));
                self.ordered = Some(order);
            }
            Step::Settle {} => {
                // Nobody is added: the engine only tells when it is done.
                self.changes.push_back(Change::Suspend(Vec::new()));
                self.ordered = Some(order);
            }
            Step::Release {} => {
                self.release_all(&concerned, self.moves_in(&order));
                self.answer(&order, 0, String::new());
            }
            Step::Publish {} => {
                concerned.iter().for_each(|peer| self.finder.forget_address(*peer));
                if let Some(net) = &mut self.net {
                    net.wake(&concerned);
                }
                if self.moves_in(&order) && self.net.is_some() {
                    let now = Instant::now();
                    self.unpublished =
                        Some(Box::new(Unpublished { order, since: now, next: now, has_complained: false }));
                    self.publish_if_due();
                } else {
                    self.answer(&order, 0, String::new());
                }
            }
            Step::Activate {} => {
                if let Some(net) = &mut self.net {
                    net.wake(&concerned);
                }
                self.changes.push_back(Change::Resume(concerned));
                self.ordered = Some(order);
            }
        }
        if let Some(bell) = self.step_bell.as_ref().filter(|_| self.has_step()) {
            bell.ring();
        }
    }

    /// Whether a step is under way, or peers need this process for theirs.
    fn has_step(&self) -> bool {
        self.ordered.is_some() || self.unpublished.is_some() || self.draining
    }

    /// No endpoint is being suspended any more.
    pub(super) fn on_settled(&mut self, suspended: usize) {
        let Some(order) = self.ordered.take() else { return };
        self.draining &= order.step == (Step::Drain {});
        if let (Step::Settle {}, Some(net)) = (&order.step, &mut self.net) {
            let concerned = concerned(&self.job, &self.processes.borrow(), &order);
            net.rest(&concerned);
        }
        self.answer(&order, suspended as u32, String::new());
    }

    fn answer(&mut self, order: &Order, endpoints: u32, refusal: String) {
        self.finder.tell_epoch(Done { epoch: order.epoch, step: order.step.clone(), endpoints, refusal });
    }

    /// Whether this process's node moves.
    fn moves_in(&self, order: &Order) -> bool {
        let node = self.job.node_of.get(self.job.rank.0 as usize);
        node.is_some_and(|node| order.nodes.contains(node))
    }

    fn concerned(&self, order: &Order) -> Vec<Peer> {
        concerned(&self.job, &self.processes.borrow(), order)
    }

    /// Closes what a hypervisor, or another address, would take away.
    fn release_all(&mut self, concerned: &[Peer], moves: bool) {
        if let Some(net) = &mut self.net {
            net.close_resting(concerned);
            if moves {
                net.stop_listening();
            }
        }
        for peer in concerned {
            if self.parked.get(peer).is_some_and(|lane| !self.is_of_this_kernel(*peer, lane)) {
                self.parked.remove(peer);
                if let Some(region) = &mut self.region {
                    region.forget(*peer);
                }
            }
        }
        if moves {
            self.region = None;
        }
    }

    fn is_of_this_kernel(&self, peer: Peer, lane: &Lane) -> bool {
        !matches!(lane, Lane::Shm(_)) || self.may_be_near(peer)
    }

    /// Listens again, tells where, and answers `Publish`. A host whose network isn't there yet is given the time that a connection may take.
    pub(super) fn publish_if_due(&mut self) {
        let now = Instant::now();
        let one_host = self.job.local_ranks.len() == self.job.size as usize;
        let (Some(net), Some(unpublished)) = (&mut self.net, &mut self.unpublished) else { return };
        if now < unpublished.next {
            return;
        }
        let refusal = match net.listen_again(one_host).map(<[_]>::to_vec) {
            Ok(addresses) => self.finder.move_to(addresses).map_or_else(|e| e.origin.into(), |()| String::new()),
            Err(e) if now - unpublished.since < tcp::connect_timeout() => {
                if !std::mem::replace(&mut unpublished.has_complained, true) {
                    log!(Warn, "cannot listen after the migration yet: {e}");
                }
                unpublished.next = now + LISTEN_PAUSE;
                return;
            }
            Err(e) => {
                let why = format!("cannot listen after the migration: {e} (FERRULE_TCP_CONNECT_TIMEOUT_MS)");
                log!(Error, "{why}");
                why
            }
        };
        if let Some(done) = self.unpublished.take() {
            self.answer(&done.order, 0, refusal);
        }
    }
}

/// Rings `bell` from now on when a step has come that needs progress.
pub fn tell_of_steps(endpoints: &mut Endpoints<Transports>, bell: Arc<Bell>) {
    endpoints.transport().step_bell = Some(bell);
}

/// Whether a step is under way, or peers need this process for theirs.
pub fn has_step(endpoints: &mut Endpoints<Transports>) -> bool {
    endpoints.transport().has_step()
}

/// Takes what the node agent has said. False if it is gone.
pub fn hear_agent(endpoints: &mut Endpoints<Transports>) -> bool {
    let transports = endpoints.transport();
    transports.poll_control();
    !transports.finder.agent_is_lost()
}

/// The peers whose endpoints an epoch suspends.
fn concerned(job: &crate::bootstrap::JobInfo, processes: &protocol::processes::Processes, order: &Order) -> Vec<Peer> {
    let moves = |peer: Peer| {
        let node = processes.rank(peer).and_then(|rank| job.node_of.get(rank.0 as usize));
        node.is_some_and(|node| order.nodes.contains(node))
    };
    let me = processes.me();
    processes.own_job().filter(|peer| *peer != me && (moves(me) || moves(*peer))).collect()
}
