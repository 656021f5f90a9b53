//! mpiexec's side of a migration epoch: which step comes when, and what follows when a rank refuses, dies or is silent. No I/O, no clock of its own.
//!
//! ```text
//!  pre-migration                   ready            migration         post-migration
//!  Agree ─► Drain ─► Settle ─► Release ─► Ready (held) ─ resume, or time ─► Publish ─► Activate ─► over
//!    │        └── failure ──┐     └── failure ───────────────────────────────►┘            ▲         ▲
//!    │                      └──────────────────────────────────────────────────────────────┘         │
//!    └── failure ────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//! A failure before anything is suspended ends the epoch. One before sockets are closed leads straight to `Activate`, and after that to `Publish`: the job
//! runs on either way. These two steps have no end by time: who doesn't answer them isn't in MPI, or has died, which is told. Until all have answered no
//! other epoch begins.
//!
//! Invariants: each step is ordered once; the next one follows when every rank that lives has answered; an answer that isn't awaited changes nothing.

use crate::control::epoch::{Done, NOTHING_SUSPENDED, Order, Outcome, PhaseTime, Step};
use std::collections::BTreeSet;

/// What mpiexec does next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Sends this to all ranks.
    Order(Order),
    /// The nodes may be moved.
    Ready,
    /// The epoch is over.
    Over,
    /// Tells the user.
    Notice(String),
}

/// Times of one epoch, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Of each step.
    pub step: u64,
    /// How long the endpoints stay suspended at most.
    pub hold: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Stage {
    /// No epoch, or it is over.
    Over,
    /// A step has been ordered.
    Stepping(Step),
    /// All is suspended.
    Ready,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Epochs {
    number: u64,
    nodes: Vec<u32>,
    stage: Stage,
    /// Ranks that live.
    alive: BTreeSet<u32>,
    /// Those that have not answered the present step.
    awaited: BTreeSet<u32>,
    limits: Limits,
    /// When the present step, or the hold, is over at the latest.
    deadline: Option<u64>,
    /// When the present phase began.
    since: u64,
    phases: Vec<PhaseTime>,
    endpoints: u64,
    failure: Option<String>,
}

impl Default for Epochs {
    fn default() -> Epochs {
        Epochs {
            number: 0,
            nodes: Vec::new(),
            stage: Stage::Over,
            alive: BTreeSet::new(),
            awaited: BTreeSet::new(),
            limits: Limits { step: 0, hold: 0 },
            deadline: None,
            since: 0,
            phases: Vec::new(),
            endpoints: 0,
            failure: None,
        }
    }
}

impl Epochs {
    /// Begins an epoch of these nodes; `alive` are the ranks that run. An error while another epoch is not over.
    pub fn begin(
        &mut self,
        nodes: Vec<u32>,
        alive: impl Iterator<Item = u32>,
        limits: Limits,
        now: u64,
    ) -> Result<Vec<Action>, String> {
        if self.stage != Stage::Over {
            return Err(format!("another epoch is not over: {}", self.describe()));
        }
        let (number, alive) = (self.number + 1, alive.collect());
        *self = Epochs { number, nodes, alive, limits, since: now, ..Epochs::default() };
        Ok(self.order(Step::Agree {}, now))
    }

    /// Whether no epoch is under way.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Whether all is suspended.
    pub fn is_ready(&self) -> bool {
        self.stage == Stage::Ready
    }

    /// When [`Epochs::on_time`] has something to do.
    pub fn deadline(&self) -> Option<u64> {
        self.deadline
    }

    /// A rank has answered.
    pub fn on_done(&mut self, rank: u32, done: &Done, now: u64) -> Vec<Action> {
        if done.epoch != self.number || self.stage != Stage::Stepping(done.step.clone()) || !self.awaited.remove(&rank)
        {
            return Vec::new();
        }
        if done.step == (Step::Settle {}) {
            self.endpoints += u64::from(done.endpoints);
        }
        if !done.refusal.is_empty() {
            return self.fail(format!("rank {rank}: {}", done.refusal), now);
        }
        self.step_if_all_have_answered(now)
    }

    /// A rank is gone.
    pub fn on_gone(&mut self, rank: u32, now: u64) -> Vec<Action> {
        if !self.alive.remove(&rank) {
            return Vec::new();
        }
        self.awaited.remove(&rank);
        match self.stage {
            Stage::Over => Vec::new(),
            Stage::Ready => {
                self.failure.get_or_insert(format!("rank {rank} is gone"));
                Vec::new()
            }
            Stage::Stepping(_) => self.fail(format!("rank {rank} is gone"), now),
        }
    }

    /// Whoever has asked for the epoch is gone: the endpoints stay suspended for `alone` at most from now on.
    pub fn on_alone(&mut self, alone: u64, now: u64) {
        self.limits.hold = self.limits.hold.min(alone);
        if self.stage == Stage::Ready {
            let latest = now.saturating_add(alone);
            self.deadline = Some(self.deadline.map_or(latest, |deadline| deadline.min(latest)));
        }
    }

    /// Resumes what is suspended; an error if that is not ready.
    pub fn resume(&mut self, now: u64) -> Result<Vec<Action>, String> {
        match self.stage {
            Stage::Ready => Ok(self.leave_hold(now)),
            Stage::Stepping(Step::Publish {} | Step::Activate {}) => Ok(Vec::new()),
            Stage::Over => Err(NOTHING_SUSPENDED.into()),
            Stage::Stepping(_) => Err(format!("not everything is suspended yet: {}", self.describe())),
        }
    }

    /// Time has passed.
    pub fn on_time(&mut self, now: u64) -> Vec<Action> {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return Vec::new();
        }
        self.deadline = None;
        match &self.stage {
            Stage::Over => Vec::new(),
            Stage::Ready => self.leave_hold(now),
            Stage::Stepping(Step::Publish {} | Step::Activate {}) => {
                vec![Action::Notice(format!("endpoints can't be resumed yet: {}", self.describe()))]
            }
            Stage::Stepping(_) => self.fail(self.describe(), now),
        }
    }

    /// What has happened so far.
    pub fn outcome(&self) -> Outcome {
        let text = self.failure.clone().unwrap_or_else(|| self.describe());
        Outcome { is_done: self.failure.is_none(), text, endpoints: self.endpoints, phases: self.phases.clone() }
    }

    /// The present state in words.
    fn describe(&self) -> String {
        let step = match &self.stage {
            Stage::Over if self.number == 0 => return "there was no epoch".into(),
            Stage::Over => return "all endpoints have been resumed".into(),
            Stage::Ready => return "all endpoints concerned are suspended".into(),
            Stage::Stepping(step) => step,
        };
        let doing = match step {
            Step::Agree {} => "answer",
            Step::Drain {} => "suspend its endpoints",
            Step::Settle {} => "finish suspending its endpoints",
            Step::Release {} => "close its sockets",
            Step::Publish {} => "tell its new address",
            Step::Activate {} => "resume its endpoints",
        };
        let first = self.awaited.iter().next().map_or(String::new(), u32::to_string);
        let more = match self.awaited.len() {
            0 | 1 => String::new(),
            n => format!(" (and {} others)", n - 1),
        };
        format!(
            "rank {first}{more} has yet to {doing}, which it does when it is in MPI, or at once with FERRULE_MIGRATION=mt"
        )
    }

    fn order(&mut self, step: Step, now: u64) -> Vec<Action> {
        self.stage = Stage::Stepping(step.clone());
        self.awaited.clone_from(&self.alive);
        self.deadline = Some(now.saturating_add(self.limits.step));
        let order = Action::Order(Order { epoch: self.number, step, nodes: self.nodes.clone() });
        let mut actions = vec![order];
        actions.extend(self.step_if_all_have_answered(now));
        actions
    }

    fn step_if_all_have_answered(&mut self, now: u64) -> Vec<Action> {
        let Stage::Stepping(step) = &self.stage else { return Vec::new() };
        if !self.awaited.is_empty() {
            return Vec::new();
        }
        match step {
            Step::Agree {} => self.order(Step::Drain {}, now),
            Step::Drain {} => self.order(Step::Settle {}, now),
            Step::Settle {} => {
                self.end_phase("pre-migration", now);
                self.order(Step::Release {}, now)
            }
            Step::Release {} => {
                self.end_phase("ready", now);
                self.stage = Stage::Ready;
                self.deadline = Some(now.saturating_add(self.limits.hold));
                vec![Action::Ready]
            }
            Step::Publish {} => self.order(Step::Activate {}, now),
            Step::Activate {} => {
                self.end_phase("post-migration", now);
                self.end()
            }
        }
    }

    fn end(&mut self) -> Vec<Action> {
        (self.stage, self.deadline) = (Stage::Over, None);
        vec![Action::Over]
    }

    fn leave_hold(&mut self, now: u64) -> Vec<Action> {
        self.end_phase("migration", now);
        self.order(Step::Publish {}, now)
    }

    fn end_phase(&mut self, name: &str, now: u64) {
        self.phases.push(PhaseTime { name: name.into(), micros: now.saturating_sub(self.since) });
        self.since = now;
    }

    /// Rolls back, or goes on where the way back leads forward.
    fn fail(&mut self, why: String, now: u64) -> Vec<Action> {
        self.failure.get_or_insert(why);
        match &self.stage {
            Stage::Stepping(Step::Agree {}) => self.end(),
            Stage::Stepping(Step::Drain {} | Step::Settle {}) => self.order(Step::Activate {}, now),
            Stage::Stepping(Step::Release {}) => self.order(Step::Publish {}, now),
            _ => self.step_if_all_have_answered(now),
        }
    }
}

#[cfg(test)]
#[path = "epoch/tests.rs"]
mod tests;
