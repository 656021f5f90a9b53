//! The table of `ferrule top --lanes`: what each rank has sent over its lanes of each class, and how long packets waited for them.

use protocol::control::inquiry::Answer;
use protocol::lanes::Class;
use std::collections::HashMap;

/// Bytes of each rank and class at an earlier moment.
#[derive(Default)]
pub struct Sample {
    age_ms: u64,
    bytes: HashMap<(usize, Option<u8>), u64>,
}

impl Sample {
    /// Of an answer.
    pub fn of(answer: &Answer) -> Sample {
        let Answer::Job { age_ms, ranks, .. } = answer else { return Sample::default() };
        let reports = ranks.iter().enumerate().filter_map(|(rank, r)| Some((rank, r.report.as_ref()?)));
        let bytes = reports.flat_map(|(rank, report)| report.lanes.iter().map(move |of| ((rank, of.class), of.bytes)));
        Sample { age_ms: *age_ms, bytes: bytes.collect() }
    }

    /// Megabits per second since then.
    fn rate(&self, key: (usize, Option<u8>), bytes: u64, age_ms: u64) -> Option<f64> {
        let (before, passed) = (self.bytes.get(&key)?, age_ms.saturating_sub(self.age_ms));
        (passed > 0).then(|| bytes.saturating_sub(*before) as f64 * 8.0 / 1e3 / passed as f64)
    }
}

/// The lines about one job; `width` is that of the terminal.
pub fn lines(pid: u32, answer: &Answer, before: &Sample, width: usize) -> Vec<String> {
    let Answer::Job { command, age_ms, ranks } = answer else { return Vec::new() };
    let mut lines = vec![
        format!("job {pid}: {command}"),
        format!(
            "{:>6} {:16} {:12} {:>5} {:>4} {:>10} {:>10} {:>8} {:>8} {:>12}",
            "RANK", "HOST", "CLASS", "LANES", "LOST", "PACKETS", "MiB", "Mbit/s", "WAITED", "ms EACH"
        ),
    ];
    let mut without = 0;
    for (rank, r) in ranks.iter().enumerate() {
        let used = r.report.as_ref().map_or(&[][..], |report| &report.lanes);
        without += usize::from(used.is_empty());
        for of in used {
            let class = of.class.and_then(Class::of_code).map_or("-".into(), |class| class.to_string());
            let host: String = r.host.chars().take(16).collect();
            let rate = before.rate((rank, of.class), of.bytes, *age_ms).map_or("-".into(), |rate| format!("{rate:.1}"));
            let each = if of.waited == 0 { 0.0 } else { of.waited_ns as f64 / 1e6 / of.waited as f64 };
            lines.push(format!(
                "{rank:>6} {host:16} {class:12} {:>5} {:>4} {:>10} {:>10.1} {rate:>8} {:>8} {each:>12.3}",
                of.lanes,
                of.lost,
                of.packets,
                of.bytes as f64 / f64::from(1 << 20),
                of.waited
            ));
        }
    }
    if without > 0 {
        lines.push(format!("{without} of {} ranks: outside of MPI now, or no peer with several lanes", ranks.len()));
    }
    lines.into_iter().map(|line| line.chars().take(width).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::control::inquiry::RankStatus;
    use protocol::control::report::{LaneUse, Report};

    fn answer(age_ms: u64, bytes: u64) -> Answer {
        let of = LaneUse {
            class: Class::Bulk.code(),
            lanes: 1,
            packets: 7,
            bytes,
            waited: 2,
            waited_ns: 3_000_000,
            ..LaneUse::default()
        };
        let report = Report { call: "MPI_Wait".into(), blocks: true, lanes: vec![of], ..Report::default() };
        let rank = |report| RankStatus { host: "node".into(), process: None, report };
        Answer::Job { command: "a.out".into(), age_ms, ranks: vec![rank(Some(report)), rank(None)] }
    }

    #[test]
    fn a_rate_is_the_difference_of_two_samples() {
        let lines = lines(7, &answer(2000, 3 << 20), &Sample::of(&answer(1000, 1 << 20)), 200);
        assert_eq!(lines.len(), 4);
        let words: Vec<&str> = lines[2].split_whitespace().collect();
        assert_eq!(words, ["0", "node", "bulk", "1", "0", "7", "3.0", "16.8", "2", "1.500"]);
        assert!(lines[3].starts_with("1 of 2 ranks"), "{}", lines[3]);
    }
}
