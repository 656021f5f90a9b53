//! `--report-startup`: where the time of the start went, as a table for people and as JSON for programs.
//!
//! Phases, each as seen by the ranks: *fork* (making the process until its program is loaded), *exec* (from then until `MPI_Init`: the
//! loader, and what the program does before), *locality* (until it is known who is under one kernel), *connect* (opening channels, and
//! with `--connect=all` all connections), *exchange* (of endpoints), *fence* (until all ranks have arrived). The wall time goes from mpiexec's
//! first step to the last rank's report that it has left `MPI_Init`.

use super::Head;
use base::counters;
use protocol::control::tree::RankTimes;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

/// What has been told so far.
#[derive(Default)]
pub struct Report {
    nodes: BTreeSet<u32>,
    ranks: Vec<RankTimes>,
    /// Messages of the exchange that agents have sent, and their bytes.
    agents_sent: (u64, u64),
    printed: bool,
}

/// A phase's name and its time in nanoseconds.
type Phase = (&'static str, fn(&RankTimes) -> u64);

const PHASES: [Phase; 6] = [
    ("fork", |r| r.fork_ns),
    ("exec", |r| r.exec_ns),
    ("locality", |r| r.times.locality_ns),
    ("connect", |r| r.times.connect_ns),
    ("exchange", |r| r.times.exchange_ns),
    ("fence", |r| r.times.fence_ns),
];

/// Smallest, middle and largest value.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Spread {
    min: u64,
    median: u64,
    max: u64,
}

fn spread(values: impl Iterator<Item = u64>) -> Spread {
    let mut all: Vec<u64> = values.collect();
    all.sort_unstable();
    let at = |index: usize| all.get(index).copied().unwrap_or(0);
    Spread { min: at(0), median: at(all.len() / 2), max: at(all.len().saturating_sub(1)) }
}

impl Spread {
    fn seconds(self) -> String {
        let s = |ns: u64| ns as f64 / 1e9;
        format!("{{\"min\": {:.9}, \"median\": {:.9}, \"max\": {:.9}}}", s(self.min), s(self.median), s(self.max))
    }

    fn plain(self) -> String {
        format!("{{\"min\": {}, \"median\": {}, \"max\": {}}}", self.min, self.median, self.max)
    }
}

/// What is known besides the ranks' times.
struct Job {
    scheme: &'static str,
    connect_all: bool,
    ranks: usize,
    hosts: usize,
    wall: Duration,
}

impl Report {
    fn total(&self, front_sent: (u64, u64)) -> (u64, u64) {
        let ranks = self.ranks.iter().map(|r| (r.times.sent_messages, r.times.sent_bytes));
        ranks.chain([self.agents_sent, front_sent]).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    fn exchanged(&self) -> [Spread; 2] {
        [
            spread(self.ranks.iter().map(|r| r.times.sent_messages + r.times.received_messages)),
            spread(self.ranks.iter().map(|r| r.times.sent_bytes + r.times.received_bytes)),
        ]
    }

    fn json(&self, job: &Job, front_sent: (u64, u64)) -> String {
        let (messages, bytes) = self.total(front_sent);
        let [rank_messages, rank_bytes] = self.exchanged();
        let connections = spread(self.ranks.iter().map(|r| r.times.connections));
        let agent_messages = spread(self.ranks.iter().map(|r| r.times.agent_messages));
        let phases: Vec<String> = (PHASES.iter())
            .map(|(name, time)| format!("    \"{name}\": {}", spread(self.ranks.iter().map(time)).seconds()))
            .collect();
        format!(
            "{{\n  \"scheme\": \"{}\",\n  \"connect\": \"{}\",\n  \"ranks\": {},\n  \"hosts\": {},\n  \"initialized\": {},\n  \
             \"wall\": {:.9},\n  \"phases\": {{\n{}\n  }},\n  \"exchange\": {{\n    \"bytes\": {bytes},\n    \
             \"messages\": {messages},\n    \"per_rank\": {{\"bytes\": {}, \"messages\": {}}}\n  }},\n  \
             \"agent_messages\": {},\n  \"connections\": {{\"total\": {}, \"per_rank\": {}}}\n}}\n",
            job.scheme,
            if job.connect_all { "all" } else { "demand" },
            job.ranks,
            job.hosts,
            self.ranks.len(),
            job.wall.as_secs_f64(),
            phases.join(",\n"),
            rank_bytes.plain(),
            rank_messages.plain(),
            agent_messages.plain(),
            self.ranks.iter().map(|r| r.times.connections).sum::<u64>(),
            connections.plain(),
        )
    }

    fn text(&self, job: &Job, front_sent: (u64, u64)) -> String {
        let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let mut out = format!(
            "mpiexec: startup {}: {} on {} in {:.1} ms\n",
            job.scheme,
            plural(job.ranks, "rank"),
            plural(job.hosts, "host"),
            job.wall.as_secs_f64() * 1e3
        );
        if self.ranks.len() < job.ranks {
            let _ = writeln!(out, "mpiexec:   {} of them called MPI_Init", self.ranks.len());
        }
        let _ = writeln!(out, "mpiexec:   {:9} {:>10} {:>10} {:>10} ms", "phase", "min", "median", "max");
        for (name, time) in &PHASES {
            let Spread { min, median, max } = spread(self.ranks.iter().map(time));
            let ms = |ns: u64| ns as f64 / 1e6;
            let _ = writeln!(out, "mpiexec:   {name:9} {:10.3} {:10.3} {:10.3}", ms(min), ms(median), ms(max));
        }
        let (messages, bytes) = self.total(front_sent);
        let [rank_messages, rank_bytes] = self.exchanged();
        let connections: u64 = self.ranks.iter().map(|r| r.times.connections).sum();
        let _ = writeln!(
            out,
            "mpiexec:   exchange: {messages} messages, {bytes} bytes in all; a rank {} messages, {} bytes (median); {connections} open \
             lanes",
            rank_messages.median, rank_bytes.median
        );
        out
    }
}

impl Head {
    pub(super) fn on_times(&mut self, node: u32, sent: (u64, u64), ranks: Vec<RankTimes>) {
        let known = self.job.ranks.len() as u32;
        if (node as usize) < self.nodes.len() && ranks.iter().all(|r| r.rank < known) && self.report.nodes.insert(node)
        {
            self.report.agents_sent.0 += sent.0;
            self.report.agents_sent.1 += sent.1;
            self.report.ranks.extend(ranks);
        }
        if self.report.nodes.len() == self.nodes.len() {
            self.print_report();
        }
    }

    /// At the end of the job, if some nodes never told: what the others did.
    pub(super) fn report_unfinished(&mut self) {
        if self.options.report_startup {
            self.print_report();
        }
    }

    fn print_report(&mut self) {
        if std::mem::replace(&mut self.report.printed, true) {
            return;
        }
        let job = Job {
            scheme: self.job.startup.scheme().described().name,
            connect_all: self.job.startup.connect_all,
            ranks: self.job.ranks.len(),
            hosts: self.nodes.len(),
            wall: self.clock.started().elapsed(),
        };
        let sent = (counters::EXCHANGE_MESSAGES_SENT.value(), counters::EXCHANGE_BYTES_SENT.value());
        match &self.options.startup_file {
            None => eprint!("{}", self.report.text(&job, sent)),
            Some(path) => {
                if let Err(e) = std::fs::write(path, self.report.json(&job, sent)) {
                    eprintln!("mpiexec: cannot write {}: {e}", path.display());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_nothing_is_nothing() {
        assert_eq!(spread([].into_iter()), Spread { min: 0, median: 0, max: 0 });
        assert_eq!(spread([5, 1, 9].into_iter()), Spread { min: 1, median: 5, max: 9 });
    }
}
