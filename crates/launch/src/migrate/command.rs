//! Programs that the administrator has named: run with a limit, and ended with their children when it is over.

use super::driver::Limit;
use ::migrate::machine::Side;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// So much of what a program says is kept.
const SAID_MAX: u64 = 64 << 10;
/// How long output may come after the end of a program, from its children.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code.
    pub code: i32,
    /// The beginning of its output.
    pub said: String,
    /// The beginning of its errors.
    pub complaint: String,
}

/// Runs it; an error if it can't be started, is ended by a signal, or takes too long.
pub fn run(command: &mut Command, limit: &Limit) -> Result<Ended, String> {
    limit.left()?;
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(|e| format!("cannot run {name}: {e}"))?;
    let said = child.stdout.take().map(read);
    let complaint = child.stderr.take().map(read);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => {}
            Err(e) => return Err(format!("cannot wait for {name}: {e}")),
        }
        if let Err(why) = limit.pause() {
            // The group is the child's, which has not been reaped: its number can't be another's.
            let _ = sys::process::kill_group(child.id() as i32, sys::process::signals::KILL);
            let _ = child.wait();
            return Err(format!("{name}: {why}"));
        }
    };
    let text = |from: Option<mpsc::Receiver<String>>| from.and_then(|from| from.recv_timeout(LAST_WORDS).ok());
    let (said, complaint) = (text(said).unwrap_or_default(), text(complaint).unwrap_or_default());
    match status.code() {
        Some(code) => Ok(Ended { code, said, complaint }),
        None => Err(format!("{name} was ended by signal {}", status.signal().unwrap_or_default())),
    }
}

/// Runs it; an error also if its exit code isn't 0.
pub fn succeed(command: &mut Command, limit: &Limit) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let ended = run(command, limit)?;
    if ended.code == 0 {
        return Ok(ended.said);
    }
    Err(format!("{name} has failed with exit code {}{}", ended.code, last_line(&ended)))
}

/// What it has said last, to be put behind a message.
pub fn last_line(ended: &Ended) -> String {
    let text = if ended.complaint.trim().is_empty() { &ended.said } else { &ended.complaint };
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let plain: String = line.trim().chars().filter(|c| !c.is_control()).take(300).collect();
    if plain.is_empty() { plain } else { format!(": {plain}") }
}

/// Runs a command again and again until it succeeds: what it tests takes its time. No command is a success. FERRULE_AT tells it where the guest runs.
pub fn until_ready(words: &[String], side: Side, limit: &Limit) -> Result<(), String> {
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let place = if side == Side::Source { "source" } else { "destination" };
    loop {
        let mut command = Command::new(program);
        command.args(arguments).env("FERRULE_AT", place);
        let ended = run(&mut command, limit).map_err(|why| format!("\"ready\": {why}"))?;
        if ended.code == 0 {
            return Ok(());
        }
        let late = |why| format!("\"ready\": {why}; {program}'s last exit code is {}{}", ended.code, last_line(&ended));
        limit.pause().map_err(late)?;
    }
}

/// Reads in a thread, so that a program never waits for room in a pipe.
fn read(from: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut from, mut bytes) = (from, Vec::new());
        let _ = from.by_ref().take(SAID_MAX).read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
        // What else it says isn't needed.
        let _ = std::io::copy(&mut from, &mut std::io::sink());
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Instant;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn limit(ms: u64) -> Limit {
        Limit::new(Duration::from_millis(ms), Arc::default())
    }

    #[test]
    fn ends_are_told_and_nothing_outlives_the_limit() {
        assert_eq!(succeed(&mut shell("echo yes"), &limit(9_000)).unwrap(), "yes\n");
        let why = succeed(&mut shell("echo no >&2; exit 3"), &limit(9_000)).unwrap_err();
        assert_eq!(why, "sh has failed with exit code 3: no");
        assert!(succeed(&mut Command::new("/does/not/exist"), &limit(9_000)).unwrap_err().contains("cannot run"));
        assert!(succeed(&mut shell("kill -9 $$"), &limit(9_000)).unwrap_err().contains("signal 9"));
        assert_eq!(run(&mut shell("yes | head -c 1000000"), &limit(9_000)).unwrap().said.len() as u64, SAID_MAX);
        let begin = Instant::now();
        assert!(run(&mut shell("sleep 60 & sleep 60"), &limit(100)).unwrap_err().contains("the limit is over"));
        assert!(begin.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_guest_becomes_ready_or_not() {
        let words = |script: &str| ["sh", "-c", script].map(String::from);
        let file = std::env::temp_dir().join(format!("ferrule-ready-{}", std::process::id()));
        let script = format!("test $FERRULE_AT = source && test -e {0} || {{ touch {0}; exit 1; }}", file.display());
        until_ready(&words(&script), Side::Source, &limit(9_000)).unwrap();
        std::fs::remove_file(file).unwrap();
        assert!(until_ready(&words("exit 4"), Side::Source, &limit(100)).is_err());
        until_ready(&[], Side::Source, &limit(9_000)).unwrap();
    }
}
