//! Memory of mpiexec and its agent while many ranks sleep.

use super::results::Sleepers;
use super::run::{self, Failed};
use crate::orphans::parent_of;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use sys::process::Pid;

/// Starts `ranks` sleepers, looks at the memory, and lets them end.
pub fn measure(mpiexec: &Path, program: &Path, ranks: u32, limit: Duration) -> Result<Sleepers, Failed> {
    let before = available_bytes();
    let begin = Instant::now();
    // Whatever becomes of this process, the job ends.
    let mut child = Command::new(mpiexec)
        .args(["--timeout", &limit.as_secs().to_string(), "-n", &ranks.to_string()])
        .arg(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot run {}: {e}", mpiexec.display()))?;
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().ok_or("no output")?);
    let _ = stdout.read_line(&mut line);
    let ready_s = begin.elapsed().as_secs_f64();
    let mut found = Sleepers { ranks: ranks as usize, ready_s, ..Sleepers::default() };
    if line.contains("all are there") {
        std::thread::sleep(Duration::from_secs(1));
        found.machine_bytes = before.saturating_sub(available_bytes());
        look(child.id(), mpiexec, &mut found);
    }
    let end = Instant::now();
    drop(child.stdin.take());
    let mut errors = String::new();
    let _ = stdout.read_line(&mut line);
    let _ = child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut errors));
    let status = child.wait().map_err(|e| e.to_string())?;
    found.end_s = end.elapsed().as_secs_f64();
    if !status.success() || !line.contains("all are there") {
        return Err(format!("{status}: {}", run::tail(&errors)));
    }
    Ok(found)
}

fn available_bytes() -> u64 {
    bytes_in("/proc/meminfo", "MemAvailable:")
}

/// Adds up the processes below `root`, and itself.
fn look(root: u32, mpiexec: &Path, found: &mut Sleepers) {
    let mut below: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        below.entry(parent_of(pid as Pid).unwrap_or(0) as u32).or_default().push(pid);
    }
    let own = mpiexec.canonicalize().ok();
    let mut list = vec![root];
    while let Some(pid) = list.pop() {
        list.extend(below.get(&pid).into_iter().flatten());
        let bytes = bytes_in(&format!("/proc/{pid}/smaps_rollup"), "Pss:");
        if std::fs::read_link(format!("/proc/{pid}/exe")).ok() == own {
            found.launcher_bytes += bytes;
            found.launcher_processes += 1;
        } else {
            found.ranks_bytes += bytes;
        }
    }
}

/// The value of a line of such a file, which is in KiB; 0 if there is none.
fn bytes_in(path: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) * 1024
}
