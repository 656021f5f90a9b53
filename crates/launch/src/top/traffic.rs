//! The table of `ferrule top --traffic`: what each rank has moved to and from windows and files, and how fast it does so now.

use protocol::control::inquiry::Answer;
use protocol::control::report::Report;
use std::collections::HashMap;

/// Ways in which data are moved, as the table names them.
const WAYS: [&str; 5] = ["put", "get", "accumulate", "read", "write"];

/// Calls and bytes of each way.
fn moved(report: &Report) -> [(u64, u64); WAYS.len()] {
    let (windows, files) = (&report.accesses, &report.files);
    [
        (windows.puts, windows.put_bytes),
        (windows.gets, windows.get_bytes),
        (windows.accumulates, windows.accumulate_bytes),
        (files.reads, files.read_bytes),
        (files.writes, files.write_bytes),
    ]
}

/// Bytes of each rank and way at an earlier moment.
#[derive(Default)]
pub struct Sample {
    age_ms: u64,
    bytes: HashMap<(usize, &'static str), u64>,
}

impl Sample {
    /// Of an answer.
    pub fn of(answer: &Answer) -> Sample {
        let Answer::Job { age_ms, ranks, .. } = answer else { return Sample::default() };
        let reports = ranks.iter().enumerate().filter_map(|(rank, r)| Some((rank, r.report.as_ref()?)));
        let of_rank = |(rank, report)| WAYS.into_iter().zip(moved(report)).map(move |(way, (_, n))| ((rank, way), n));
        Sample { age_ms: *age_ms, bytes: reports.flat_map(of_rank).collect() }
    }

    /// Megabytes per second since then.
    fn rate(&self, key: (usize, &'static str), bytes: u64, age_ms: u64) -> Option<f64> {
        let (before, passed) = (self.bytes.get(&key)?, age_ms.saturating_sub(self.age_ms));
        (passed > 0).then(|| bytes.saturating_sub(*before) as f64 / 1e3 / passed as f64)
    }
}

/// The lines about one job; `width` is that of the terminal.
pub fn lines(pid: u32, answer: &Answer, before: &Sample, width: usize) -> Vec<String> {
    let Answer::Job { command, age_ms, ranks } = answer else { return Vec::new() };
    let mut lines = vec![
        format!("job {pid}: {command}"),
        format!("{:>6} {:16} {:10} {:>10} {:>12} {:>10}", "RANK", "HOST", "WAY", "CALLS", "MiB", "MB/s"),
    ];
    let (mut outside, mut none) = (0, 0);
    for (rank, r) in ranks.iter().enumerate() {
        let Some(report) = &r.report else {
            outside += 1;
            continue;
        };
        let used: Vec<_> = WAYS.into_iter().zip(moved(report)).filter(|(_, (calls, _))| *calls > 0).collect();
        none += usize::from(used.is_empty());
        let host: String = r.host.chars().take(16).collect();
        for (way, (calls, bytes)) in used {
            let rate = before.rate((rank, way), bytes, *age_ms).map_or("-".into(), |rate| format!("{rate:.1}"));
            let mib = bytes as f64 / f64::from(1 << 20);
            lines.push(format!("{rank:>6} {host:16} {way:10} {calls:>10} {mib:>12.1} {rate:>10}"));
        }
    }
    if outside + none > 0 {
        lines.push(format!(
            "{outside} of {} ranks are outside of MPI now, {none} have used no window and no file",
            ranks.len()
        ));
    }
    lines.into_iter().map(|line| line.chars().take(width).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::control::inquiry::RankStatus;
    use protocol::control::profile::{Accesses, FileUse};

    fn answer(age_ms: u64, bytes: u64) -> Answer {
        let report = Report {
            call: "MPI_Win_flush".into(),
            blocks: true,
            accesses: Accesses { puts: 7, put_bytes: bytes, ..Accesses::default() },
            files: FileUse { writes: 1, write_bytes: 1 << 20, ..FileUse::default() },
            ..Report::default()
        };
        let rank = |report| RankStatus { host: "node".into(), process: None, report };
        Answer::Job { command: "a.out".into(), age_ms, ranks: vec![rank(Some(report)), rank(None)] }
    }

    #[test]
    fn what_was_used_is_listed_with_its_rate() {
        let lines = lines(7, &answer(2000, 3 << 20), &Sample::of(&answer(1000, 1 << 20)), 200);
        assert_eq!(lines.len(), 5);
        let words = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<_>>();
        assert_eq!(words(&lines[2]), ["0", "node", "put", "7", "3.0", "2.1"]);
        assert_eq!(words(&lines[3]), ["0", "node", "write", "1", "1.0", "0.0"]);
        assert!(lines[4].starts_with("1 of 2 ranks are outside"), "{}", lines[4]);
    }
}
