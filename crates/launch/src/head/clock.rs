//! When a job ends: by `--timeout`, and how long it may take once its end has been ordered.

use crate::cli::Options;
use crate::pollset::PollSet;
use std::time::{Duration, Instant};

/// How long after SIGKILL, at most, nodes may take to report.
const END_LIMIT: Duration = Duration::from_millis(2500);

/// The times of a job.
pub struct Clock {
    started: Instant,
    /// `--timeout`.
    timeout: Option<Duration>,
    /// The time is up, which has been noticed.
    is_late: bool,
    /// When the end was ordered.
    ending: Option<Instant>,
    end_limit: Duration,
}

impl Clock {
    /// Begins now; ranks get `grace_ms` milliseconds between SIGTERM and SIGKILL.
    pub fn begin(options: &Options, grace_ms: u32) -> Result<Clock, String> {
        let end_limit = END_LIMIT + Duration::from_millis(u64::from(grace_ms));
        Ok(Clock { started: Instant::now(), timeout: timeout(options)?, is_late: false, ending: None, end_limit })
    }

    /// When the job began.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Whether the end of the job has been ordered.
    pub fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// Orders the end; false if that was done already.
    pub fn end(&mut self) -> bool {
        let is_first = self.ending.is_none();
        self.ending.get_or_insert_with(Instant::now);
        is_first
    }

    /// Whether nodes that have not reported by now are given up.
    pub fn gives_up(&self) -> bool {
        self.ending.is_some_and(|at| at.elapsed() >= self.end_limit)
    }

    /// `--timeout`, when that time has passed.
    pub fn passed(&self) -> Option<Duration> {
        self.timeout.filter(|limit| self.started.elapsed() >= *limit)
    }

    /// True once, when the time is up.
    pub fn becomes_late(&mut self) -> bool {
        !std::mem::replace(&mut self.is_late, true)
    }

    /// Registers with the loop.
    pub fn register(&self, set: &mut PollSet) {
        match self.ending {
            Some(at) => set.until(at + self.end_limit),
            None => self.timeout.iter().filter(|_| !self.is_late).for_each(|limit| set.until(self.started + *limit)),
        }
    }
}

fn timeout(options: &Options) -> Result<Option<Duration>, String> {
    let text = if options.parent_port.is_none() { std::env::var("MPIEXEC_TIMEOUT").ok() } else { None };
    let from_environment = text.filter(|text| !text.trim().is_empty());
    let seconds = match (options.timeout_s, from_environment) {
        (Some(seconds), _) => Some(seconds),
        (None, Some(text)) => Some(crate::cli::seconds(&text).map_err(|e| format!("MPIEXEC_TIMEOUT: {e}"))?),
        (None, None) => None,
    };
    Ok(seconds.map(Duration::from_secs_f64))
}
