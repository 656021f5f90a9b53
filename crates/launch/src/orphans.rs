//! Ends the processes that a job has left behind. The caller is a subreaper, so orphans become its children, generation after generation.

use sys::process::{Pid, kill, signals};

/// The direct children of this process.
pub fn children() -> Vec<Pid> {
    let me = std::process::id();
    if let Ok(text) = std::fs::read_to_string(format!("/proc/self/task/{me}/children")) {
        return text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    }
    // A kernel without CONFIG_PROC_CHILDREN.
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse::<Pid>().ok());
    pids.filter(|pid| parent_of(*pid) == Some(me as Pid)).collect()
}

/// The parent of a process.
pub fn parent_of(pid: Pid) -> Option<Pid> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; what follows the last one is: state, parent.
    text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Sends SIGKILL to every child but `spare`; returns whether there was one.
pub fn kill_children(spare: &[Pid]) -> bool {
    let doomed: Vec<Pid> = children().into_iter().filter(|pid| !spare.contains(pid)).collect();
    for pid in &doomed {
        let _ = kill(*pid, signals::KILL);
    }
    !doomed.is_empty()
}

/// Asks all children to end, once, and waits until they have, for `patience` at most: node agents further down remove their files then.
pub fn ask_children_to_end(patience: std::time::Duration) {
    let deadline = std::time::Instant::now() + patience;
    for pid in children() {
        let _ = kill(pid, signals::TERM);
    }
    while !children().is_empty() && std::time::Instant::now() < deadline {
        while let Ok(Some(_)) = sys::process::reap() {}
        std::thread::sleep(std::time::Duration::from_micros(500));
    }
}

/// Ends all children and their orphans; gives up after `limit` (a process can hang in the kernel).
pub fn end_all_children(limit: std::time::Duration) {
    let deadline = std::time::Instant::now() + limit;
    loop {
        while let Ok(Some(_)) = sys::process::reap() {}
        if !kill_children(&[]) || std::time::Instant::now() > deadline {
            return;
        }
        std::thread::sleep(std::time::Duration::from_micros(500));
    }
}
