//! Running one job and taking its time.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use sys::process::{Pid, signals};

/// Why something did not work, in words.
pub type Failed = String;

/// How long a job that was told to end may take.
const GRACE: Duration = Duration::from_secs(5);

/// Runs `command` and returns its wall time in seconds; it fails when the command does, or takes longer than `limit`.
pub fn timed(command: &mut Command, limit: Duration, scratch: &Path) -> Result<f64, Failed> {
    let path = scratch.join("output");
    let words = |e: std::io::Error| format!("{}: {e}", path.display());
    let mut output = File::options().create(true).truncate(true).write(true).read(true).open(&path).map_err(words)?;
    let (stdout, stderr) = (output.try_clone().map_err(words)?, output.try_clone().map_err(words)?);
    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).process_group(0);
    let program = command.get_program().to_string_lossy().into_owned();
    let begin = Instant::now();
    let child = command.spawn().map_err(|e| format!("cannot run {program}: {e}"))?;
    let pid = child.id() as Pid;
    let (status, seconds) = wait(child, pid, begin, limit);
    let mut text = String::new();
    if output.rewind().and_then(|()| output.read_to_string(&mut text).map(drop)).is_err() {
        text = "its output is not text".into();
    }
    match status {
        Some(status) if status.success() => Ok(seconds),
        Some(status) => Err(format!("{}: {}", how(status), tail(&text))),
        None => Err(format!("not done after {} s: {}", limit.as_secs(), tail(&text))),
    }
}

/// Waits for `child`, whose group gets SIGTERM, then SIGKILL, after `limit`; `None` if that was necessary.
fn wait(mut child: std::process::Child, pid: Pid, begin: Instant, limit: Duration) -> (Option<ExitStatus>, f64) {
    let (tell, told) = mpsc::channel();
    let waiter = std::thread::spawn(move || {
        let status = child.wait();
        let _ = tell.send((status.ok(), begin.elapsed().as_secs_f64()));
    });
    let result = match told.recv_timeout(limit) {
        Ok(result) => result,
        Err(_) => {
            let _ = sys::process::kill_group(pid, signals::TERM);
            if told.recv_timeout(GRACE).is_err() {
                let _ = sys::process::kill_group(pid, signals::KILL);
            }
            (None, begin.elapsed().as_secs_f64())
        }
    };
    let _ = waiter.join();
    result
}

fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, signal) => format!("ended by signal {}", signal.unwrap_or(0)),
    }
}

/// The last lines of an output, short enough for a message.
pub fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let text = lines[lines.len().saturating_sub(4)..].join(" / ");
    let skip = text.chars().count().saturating_sub(400);
    if text.is_empty() { "no output".into() } else { text.chars().skip(skip).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<f64, Failed> {
        let scratch = std::env::temp_dir().join(format!("ferrule-run-{}-{}", std::process::id(), script.len()));
        std::fs::create_dir_all(&scratch).unwrap();
        let result = timed(Command::new("sh").args(["-c", script]), limit, &scratch);
        std::fs::remove_dir_all(&scratch).unwrap();
        result
    }

    #[test]
    fn a_job_is_timed_and_its_failure_told() {
        assert!(shell("sleep 0.05", Duration::from_secs(60)).unwrap() >= 0.05);
        assert_eq!(shell("echo no luck >&2; exit 3", Duration::from_secs(60)).unwrap_err(), "exit code 3: no luck");
    }

    #[test]
    fn a_job_that_hangs_is_ended() {
        let error = shell("echo waiting; sleep 100", Duration::from_secs(4)).unwrap_err();
        assert_eq!(error, "not done after 4 s: waiting");
    }
}
