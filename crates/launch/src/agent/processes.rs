//! What the system says about the processes of this node's ranks.

use super::Agent;
use protocol::control::report::Process;
use protocol::control::tree::{Message, ROOT};

/// Length of the unit in which /proc tells processor times; the same on every Linux that programs see.
const TICK_MS: u64 = 10;

impl Agent {
    /// Answers for the processes at once; ranks answer for themselves when they are in MPI.
    pub(super) fn on_dump(&mut self) {
        let processes = self.ranks.iter().map(|rank| {
            let pid = if rank.ended.is_some() { 0 } else { rank.pid as u32 };
            let empty =
                Process { rank: rank.world, pid, phase: rank.phase.clone(), state: b'Z', cpu_ms: 0, resident_kib: 0 };
            if pid == 0 { empty } else { look(empty) }
        });
        let processes = processes.collect();
        self.send_up(ROOT, Message::Processes { processes });
        for rank in &mut self.ranks {
            rank.send(&protocol::control::ToRank::Dump {}, Vec::new());
        }
    }
}

/// Fills in what /proc knows.
fn look(mut process: Process) -> Process {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", process.pid)).unwrap_or_default();
    let (stat, status) = (read("stat"), read("status"));
    if let Some((state, cpu_ms)) = parse_stat(&stat) {
        (process.state, process.cpu_ms) = (state, cpu_ms);
    }
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    process.resident_kib =
        resident.and_then(|text| text.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0);
    process
}

/// State and processor time of a line of /proc/pid/stat; the program's name in it may hold anything.
fn parse_stat(line: &str) -> Option<(u8, u64)> {
    let mut words = line.rsplit_once(')')?.1.split_whitespace();
    let state = *words.next()?.as_bytes().first()?;
    // utime and stime are the 14th and 15th word; the state is the third.
    let mut times = words.skip(10);
    let mut next = || times.next()?.parse::<u64>().ok();
    Some((state, (next()? + next()?) * TICK_MS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::control::tree::Phase;

    #[test]
    fn a_name_with_blanks_and_brackets_is_no_obstacle() {
        let line = "12 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 70 5 0 0 20 0";
        assert_eq!(parse_stat(line), Some((b'S', 750)));
        assert_eq!(parse_stat("12 (x"), None);
    }

    #[test]
    fn this_process_runs_and_has_memory() {
        let process = Process {
            rank: 0,
            pid: std::process::id(),
            phase: Phase::Started {},
            state: 0,
            cpu_ms: 0,
            resident_kib: 0,
        };
        let process = look(process);
        assert!(b"RS".contains(&process.state) && process.resident_kib > 100);
    }
}
