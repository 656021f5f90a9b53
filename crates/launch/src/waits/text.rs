//! One line for each rank: what it does, and what is pending.

use crate::waits::Seen;
use protocol::control::report::{Report, Wait, What};
use protocol::control::tree::Phase;

/// Ranks that get a line of their own.
const LINES_MAX: usize = 256;
/// Operations that a line names.
const WAITS_MAX: usize = 4;

/// `0-2, 5` for 0, 1, 2, 5. The numbers are in order.
pub fn ranges(numbers: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for n in numbers {
        match parts.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*n) => *last = *n,
            _ => parts.push((*n, *n)),
        }
    }
    let text = |(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    parts.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// `send to 1 tag 5 on MPI_COMM_WORLD, 8 bytes: no matching receive yet`.
pub fn operation(wait: &Wait) -> String {
    let verb = match wait.what {
        What::Send {} => "send to",
        What::Receive {} => "receive from",
        What::Probe {} => "probe for a message from",
    };
    let peer = match wait.peer {
        Some(peer) => peer.to_string(),
        None if wait.candidates.is_empty() => "anybody".into(),
        None => format!("one of {}", ranges(&wait.candidates)),
    };
    let tag = match (wait.internal, wait.tag) {
        (true, _) => String::new(),
        (false, Some(tag)) => format!(" tag {tag}"),
        (false, None) => " any tag".into(),
    };
    let bytes = if wait.what == (What::Probe {}) { String::new() } else { format!(", {} bytes", wait.bytes) };
    format!("{verb} {peer}{tag} on {}{bytes}: {}", wait.comm, wait.stage)
}

/// `12.3 s`.
pub fn seconds(milliseconds: u64) -> String {
    format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100)
}

fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// What a rank does in MPI, in words.
pub fn in_mpi(report: &Report) -> String {
    let since = if report.idle_ms > 0 { format!(" for {}", seconds(report.idle_ms)) } else { String::new() };
    let verb = if report.blocks { "waits in" } else { "tests in" };
    let mut text = format!("{verb} {}{since}", report.call);
    let awaited: Vec<&Wait> = report.waits.iter().filter(|w| w.awaited).collect();
    let others = report.waits.len() - awaited.len() + report.more as usize;
    let joint = if report.any { " or " } else { "; " };
    let shown: Vec<String> = awaited.iter().take(WAITS_MAX).map(|w| operation(w)).collect();
    if !shown.is_empty() {
        text += &format!(": {}", shown.join(joint));
    }
    if awaited.len() > WAITS_MAX {
        text += &format!("; and {} more", awaited.len() - WAITS_MAX);
    }
    if others > 0 {
        text += &format!("; {} pending", counted(others, "other operation"));
    }
    if report.unreceived > 0 {
        text += &format!("; {} not received yet", counted(report.unreceived as usize, "message"));
    }
    text
}

/// What a rank does, in words.
pub fn state(seen: &Seen) -> String {
    match (&seen.report, &seen.process) {
        _ if seen.ended => "has ended".into(),
        (Some(report), _) => in_mpi(report),
        (None, None) => "no word from its node agent".into(),
        (None, Some(p)) if p.pid == 0 => "has ended".into(),
        (None, Some(p)) => {
            let how = match p.state {
                b'R' => "runs",
                b'T' | b't' => "is stopped",
                b'D' => "waits for a device",
                _ => "sleeps",
            };
            match p.phase {
                Phase::Started {} => format!("{how}, has not called MPI_Init"),
                Phase::Initialized {} => format!("{how} outside of MPI"),
                Phase::Finalized {} => format!("{how}, has called MPI_Finalize"),
            }
        }
    }
}

/// One line for each rank.
pub fn wait_line(ranks: &[Seen]) -> Vec<String> {
    let name = |(rank, seen): (usize, &Seen)| {
        let pid = seen.process.as_ref().map_or(0, |p| p.pid);
        let pid = if pid == 0 { String::new() } else { format!(" (pid {pid})") };
        format!("rank {rank} on {}{pid}: {}", seen.host, state(seen))
    };
    let mut lines: Vec<String> = ranks.iter().enumerate().take(LINES_MAX).map(name).collect();
    if ranks.len() > LINES_MAX {
        lines.push(format!("… and {} ranks more", ranks.len() - LINES_MAX));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_drawn_together() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2, 5, 7-8");
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[u32::MAX, 0, 0]), format!("{}, 0, 0", u32::MAX));
    }

    #[test]
    fn operations_in_words() {
        let mut wait = Wait {
            what: What::Send {},
            peer: Some(3),
            candidates: Vec::new(),
            tag: Some(5),
            comm: "MPI_COMM_WORLD".into(),
            internal: false,
            bytes: 8,
            stage: "no matching receive yet".into(),
            awaited: true,
        };
        assert_eq!(operation(&wait), "send to 3 tag 5 on MPI_COMM_WORLD, 8 bytes: no matching receive yet");
        wait.what = What::Receive {};
        (wait.peer, wait.candidates, wait.tag) = (None, vec![1, 2, 4], None);
        assert_eq!(
            operation(&wait),
            "receive from one of 1-2, 4 any tag on MPI_COMM_WORLD, 8 bytes: no matching receive yet"
        );
        assert_eq!(seconds(12_345), "12.3 s");
    }
}
