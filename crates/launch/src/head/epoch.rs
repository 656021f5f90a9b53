//! Migration epochs (`protocol::epoch`): who has asked for one, and what is sent.

use super::Head;
use crate::top::server::{ClientId, Drain};
use protocol::control::epoch::{Done, Outcome};
use protocol::control::inquiry::Answer;
use protocol::control::tree::{ALL, Message};
use protocol::epoch::{Action, Epochs, Limits};
use std::time::{Duration, Instant};

/// The state, and who waits for what.
#[derive(Default)]
pub struct Migration {
    epochs: Epochs,
    /// Clients; true if they wait until the epoch is over, otherwise until all is suspended.
    askers: Vec<(ClientId, bool)>,
    /// Who has asked for the epoch, until it is over or the client hangs up, and how many microseconds the suspension may last after that.
    owner: Option<(ClientId, u64)>,
}

impl Head {
    fn now_us(&self) -> u64 {
        self.clock.started().elapsed().as_micros() as u64
    }

    /// When [`Head::watch_epoch`] has something to do.
    pub(super) fn epoch_deadline(&self) -> Option<Instant> {
        let deadline = self.migration.epochs.deadline().filter(|_| !self.clock.is_ending())?;
        self.clock.started().checked_add(Duration::from_micros(deadline))
    }

    /// Suspends all endpoints of some hosts' ranks.
    pub(super) fn begin_epoch(&mut self, client: ClientId, asked: &Drain) {
        let limits = Limits { step: asked.limit_ms.saturating_mul(1000), hold: asked.hold_ms.saturating_mul(1000) };
        let now = self.now_us();
        let begun = self.nodes_to_drain(&asked.hosts).and_then(|nodes| {
            let alive = (0..).zip(&self.ranks).filter(|(_, rank)| !rank.ended).map(|(number, _)| number);
            self.migration.epochs.begin(nodes, alive, limits, now)
        });
        match begun {
            Err(why) => self.refuse_epoch(client, why),
            Ok(actions) => {
                self.migration.askers.push((client, asked.resume));
                self.migration.owner = Some((client, asked.alone_ms.saturating_mul(1000)));
                self.follow(actions);
            }
        }
    }

    fn nodes_to_drain(&self, hosts: &[String]) -> Result<Vec<u32>, String> {
        if self.clock.is_ending() {
            return Err("the job is ending".into());
        }
        if self.job.offload > 0 {
            return Err("the job has workers (--offload), whose endpoints can't be suspended".into());
        }
        if self.ranks.iter().any(|rank| rank.pid == 0 && !rank.ended) {
            return Err("not all ranks of the job have been started".into());
        }
        let nodes_of = |host: &String| {
            let all = (0..).zip(&self.job.hosts);
            all.filter(|(_, own)| *own == host).map(|(node, _)| node).collect::<Vec<u32>>()
        };
        if let Some(unknown) = hosts.iter().find(|host| nodes_of(host).is_empty()) {
            return Err(format!("{unknown} is none of the job's hosts: {}", self.job.hosts.join(", ")));
        }
        Ok(hosts.iter().flat_map(nodes_of).collect())
    }

    /// Resumes what is suspended.
    pub(super) fn end_epoch(&mut self, client: ClientId) {
        let now = self.now_us();
        match self.migration.epochs.resume(now) {
            Err(why) => self.refuse_epoch(client, why),
            Ok(actions) => {
                self.migration.askers.push((client, true));
                self.follow(actions);
            }
        }
    }

    /// Says how far the epoch is.
    pub(super) fn tell_epoch(&mut self, client: ClientId) {
        let outcome = self.migration.epochs.outcome();
        self.top.answer(client, &Answer::Epoch { outcome });
    }

    fn refuse_epoch(&mut self, client: ClientId, text: String) {
        let outcome = Outcome { text, ..Outcome::default() };
        self.top.answer(client, &Answer::Epoch { outcome });
    }

    /// A rank has answered.
    pub(super) fn on_epoch_done(&mut self, rank: u32, done: &Done) {
        let actions = self.migration.epochs.on_done(rank, done, self.now_us());
        self.follow(actions);
    }

    /// A rank is gone.
    pub(super) fn epoch_without(&mut self, rank: u32) {
        let actions = self.migration.epochs.on_gone(rank, self.now_us());
        self.follow(actions);
    }

    /// Time has passed, or the client that has asked for the epoch has hung up.
    pub(super) fn watch_epoch(&mut self) {
        let now = self.now_us();
        if let Some((_, alone)) = self.migration.owner.take_if(|(client, _)| !self.top.is_there(*client)) {
            self.migration.epochs.on_alone(alone, now);
        }
        if self.epoch_deadline().is_some_and(|deadline| Instant::now() >= deadline) {
            let actions = self.migration.epochs.on_time(self.now_us());
            self.follow(actions);
        }
    }

    /// The job ends.
    pub(super) fn give_up_epoch(&mut self) {
        for (client, _) in std::mem::take(&mut self.migration.askers) {
            self.refuse_epoch(client, "the job has ended".into());
        }
    }

    fn follow(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Order(order) if !self.clock.is_ending() => self.send(ALL, Message::Epoch { order }),
                Action::Order(_) => {}
                Action::Ready => self.answer_askers(false),
                Action::Over => {
                    self.migration.owner = None;
                    self.answer_askers(true);
                }
                Action::Notice(text) => eprintln!("mpiexec: {text}"),
            }
        }
    }

    /// Answers those who have waited for that.
    fn answer_askers(&mut self, is_over: bool) {
        let outcome = self.migration.epochs.outcome();
        let askers = std::mem::take(&mut self.migration.askers);
        let (answered, waiting): (Vec<_>, Vec<_>) = askers.into_iter().partition(|(_, for_end)| is_over || !for_end);
        self.migration.askers = waiting;
        for (client, _) in answered {
            self.top.answer(client, &Answer::Epoch { outcome: outcome.clone() });
        }
    }
}
