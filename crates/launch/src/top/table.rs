//! The table of `ferrule top`.

use crate::waits::Seen;
use crate::waits::text::{seconds, state};
use protocol::control::inquiry::{Answer, RankStatus};
use std::collections::HashMap;

/// Processor time of each rank at an earlier moment.
#[derive(Default)]
pub struct Sample {
    age_ms: u64,
    cpu_ms: HashMap<usize, u64>,
}

impl Sample {
    /// Of an answer.
    pub fn of(answer: &Answer) -> Sample {
        let Answer::Job { age_ms, ranks, .. } = answer else { return Sample::default() };
        let times = ranks.iter().enumerate().filter_map(|(rank, r)| Some((rank, r.process.as_ref()?.cpu_ms)));
        Sample { age_ms: *age_ms, cpu_ms: times.collect() }
    }

    /// Processor time since then, in per cent of the time that has passed.
    fn share(&self, rank: usize, now: &RankStatus, age_ms: u64) -> Option<u64> {
        let (before, after) = (self.cpu_ms.get(&rank)?, now.process.as_ref()?.cpu_ms);
        let passed = age_ms.saturating_sub(self.age_ms);
        (passed > 0).then(|| (after.saturating_sub(*before) * 100 + passed / 2) / passed)
    }
}

fn letter(rank: &RankStatus) -> &'static str {
    let ended = rank.process.as_ref().is_some_and(|p| p.pid == 0);
    match &rank.report {
        _ if ended => "ended",
        Some(report) if report.blocks => "waits",
        Some(_) => "tests",
        None => match rank.process.as_ref().map(|p| p.state) {
            Some(b'R') => "runs",
            Some(b'T' | b't') => "stopped",
            Some(b'D') => "device",
            Some(_) => "sleeps",
            None => "?",
        },
    }
}

/// The lines about one job; `width` is that of the terminal.
pub fn lines(pid: u32, answer: &Answer, before: &Sample, width: usize) -> Vec<String> {
    let Answer::Job { command, age_ms, ranks } = answer else { return Vec::new() };
    let mut lines = vec![
        format!(
            "job {pid}: {command} ({} rank{}, for {})",
            ranks.len(),
            if ranks.len() == 1 { "" } else { "s" },
            seconds(*age_ms)
        ),
        format!(
            "{:>6} {:16} {:>8} {:7} {:>5} {:>8} {:>7}  {}",
            "RANK", "HOST", "PID", "STATE", "CPU%", "MEM/MiB", "PENDING", "WHAT"
        ),
    ];
    for (rank, r) in ranks.iter().enumerate() {
        let (process_pid, memory) = r.process.as_ref().map_or((0, 0), |p| (p.pid, p.resident_kib));
        let pending = r.report.as_ref().map_or("-".into(), |p| (p.waits.len() + p.more as usize).to_string());
        let share = before.share(rank, r, *age_ms).map_or("-".into(), |share| share.to_string());
        let host: String = r.host.chars().take(16).collect();
        let seen = Seen { host: r.host.clone(), process: r.process.clone(), report: r.report.clone(), ended: false };
        lines.push(format!(
            "{rank:>6} {host:16} {process_pid:>8} {:7} {share:>5} {:>8.1} {pending:>7}  {}",
            letter(r),
            memory as f64 / 1024.0,
            state(&seen)
        ));
    }
    lines.into_iter().map(|line| line.chars().take(width).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::control::report::Process;
    use protocol::control::tree::Phase;

    #[test]
    fn a_share_is_the_difference_of_two_samples() {
        let answer = |age_ms, cpu_ms| Answer::Job {
            command: "a.out".into(),
            age_ms,
            ranks: vec![RankStatus {
                host: "node".into(),
                process: Some(Process {
                    rank: 0,
                    pid: 9,
                    phase: Phase::Initialized {},
                    state: b'R',
                    cpu_ms,
                    resident_kib: 2048,
                }),
                report: None,
            }],
        };
        let lines = lines(7, &answer(3000, 1500), &Sample::of(&answer(1000, 500)), 200);
        assert_eq!(lines[0], "job 7: a.out (1 rank, for 3.0 s)");
        assert!(lines[2].contains("runs       50      2.0       -  runs outside of MPI"), "{}", lines[2]);
    }
}
