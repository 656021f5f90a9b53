//! Asking the ranks what they do: for SIGQUIT, at `--timeout`, and for `ferrule top`.
//!
//! Agents answer for the processes at once; ranks that are in MPI answer for themselves. A rank that is not in MPI can't answer. So an inquiry
//! ends when all answers have come, or after its limit; a rank without an answer counts as outside of MPI.

use super::Head;
use crate::top::server::{Asked, ClientId};
use crate::waits::{Seen, explain};
use protocol::control::inquiry::{Answer, RankStatus};
use protocol::control::report::{Process, Report};
use protocol::control::tree::{ALL, Message, Phase};
use std::time::{Duration, Instant};

/// What ranks get when a person waits for the graph.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// What they get for a line in a table that is drawn again soon.
pub const HASTE: Duration = Duration::from_millis(250);

/// One round of questions.
pub struct Inquiry {
    started: Instant,
    limit: Duration,
    /// By rank.
    seen: Vec<(Option<Process>, Option<Report>)>,
    /// The graph goes to standard error.
    print: bool,
    askers: Vec<(ClientId, Asked)>,
}

impl Inquiry {
    /// When it ends at the latest.
    pub fn deadline(&self) -> Instant {
        self.started + self.limit
    }
}

impl Head {
    /// Asks all ranks; the answer is printed.
    pub(super) fn inquire(&mut self) {
        self.begin_inquiry(PATIENCE).print = true;
    }

    /// Asks all ranks for somebody else.
    pub(super) fn inquire_for(&mut self, client: ClientId, asked: Asked) {
        let limit = if asked == Asked::Waits { PATIENCE } else { HASTE };
        self.begin_inquiry(limit).askers.push((client, asked));
    }

    fn begin_inquiry(&mut self, limit: Duration) -> &mut Inquiry {
        if self.inquiry.is_none() {
            self.send(ALL, Message::Dump {});
        }
        let ranks = self.ranks.len();
        let inquiry = self.inquiry.get_or_insert_with(|| Inquiry {
            started: Instant::now(),
            limit,
            seen: vec![(None, None); ranks],
            print: false,
            askers: Vec::new(),
        });
        inquiry.limit = inquiry.limit.max(limit);
        inquiry
    }

    pub(super) fn on_processes(&mut self, processes: Vec<Process>) {
        let Some(inquiry) = &mut self.inquiry else { return };
        for process in processes {
            if let Some(slot) = inquiry.seen.get_mut(process.rank as usize) {
                slot.0 = Some(process);
            }
        }
    }

    pub(super) fn on_report(&mut self, rank: u32, report: Report) {
        let slot = self.inquiry.as_mut().and_then(|inquiry| inquiry.seen.get_mut(rank as usize));
        if let Some(slot) = slot {
            slot.1 = Some(report);
        }
    }

    /// Ends the inquiry if there is nothing more to be expected; true if it has ended now.
    pub(super) fn conclude_inquiry(&mut self) -> bool {
        let Some(inquiry) = &self.inquiry else { return false };
        let answered = |(rank, (process, report)): (usize, &(Option<Process>, Option<Report>))| {
            let absent = |p: &Process| p.pid == 0 || p.phase != (Phase::Initialized {});
            self.ranks[rank].ended || report.is_some() || process.as_ref().is_some_and(absent)
        };
        let complete = inquiry.seen.iter().enumerate().all(answered);
        if !complete && Instant::now() < inquiry.deadline() {
            return false;
        }
        let Some(inquiry) = self.inquiry.take() else { return false };
        let seen = self.seen(inquiry.seen);
        let lines = explain(&seen);
        if inquiry.print {
            lines.iter().for_each(|line| eprintln!("mpiexec: {line}"));
        }
        for (client, asked) in inquiry.askers {
            let answer = match asked {
                Asked::Status => self.status(&seen),
                _ => Answer::Text { lines: lines.clone() },
            };
            self.top.answer(client, &answer);
        }
        true
    }

    fn seen(&self, answers: Vec<(Option<Process>, Option<Report>)>) -> Vec<Seen> {
        let with_host = |(rank, (process, report)): (usize, (Option<Process>, Option<Report>))| Seen {
            host: self.host_of(rank as u32).to_string(),
            process,
            report,
            ended: self.ranks[rank].ended,
        };
        answers.into_iter().enumerate().map(with_host).collect()
    }

    fn status(&self, seen: &[Seen]) -> Answer {
        let rank = |seen: &Seen| RankStatus {
            host: seen.host.clone(),
            process: seen.process.clone(),
            report: seen.report.clone(),
        };
        let words = self.job.apps.first().map_or(&[][..], |app| app.argv.as_slice());
        let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
        Answer::Job {
            command: words.join(" "),
            age_ms: self.clock.started().elapsed().as_millis() as u64,
            ranks: seen.iter().map(rank).collect(),
        }
    }
}
