//! Asks an engine for something, with a limit of time: an engine that hangs must not hang the end of a job.

use std::io::Read;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Most bytes of an answer that are kept.
const ANSWER_MAX: usize = 1 << 20;
/// Pieces that are read at a time: more than a pipe holds. The command may write without end.
const PIECES_MAX: usize = 64;
/// Pause between two looks at the command.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Runs a command to its end; its standard output, or what went wrong, with the command's own words.
pub fn ask(words: &[String], limit: Duration) -> Result<String, String> {
    let shown = || words.iter().take(4).cloned().collect::<Vec<_>>().join(" ");
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot run {}: {e}", words[0]))?;
    let mut output = Answer::of(child.stdout.take());
    let mut errors = Answer::of(child.stderr.take());
    let deadline = Instant::now() + limit;
    let status = loop {
        let ended = child.try_wait();
        // Also while it runs: a pipe holds 64 KiB, and a command that can't write doesn't end.
        output.read();
        errors.read();
        match ended {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(LOOK_EVERY),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("'{}…' did not end within {} s", shown(), limit.as_secs()));
            }
        }
    };
    if status.success() {
        return Ok(output.text());
    }
    Err(format!("'{}…' failed ({status}): {}", shown(), errors.text().trim()))
}

/// What has come from a pipe so far. Its writer may stay open in a child of the command: nobody waits for the pipe's end.
struct Answer<R> {
    pipe: Option<R>,
    bytes: Vec<u8>,
}

impl<R: Read + AsFd> Answer<R> {
    fn of(pipe: Option<R>) -> Answer<R> {
        let pipe = pipe.filter(|pipe| sys::process::set_nonblocking(pipe.as_fd(), true).is_ok());
        Answer { pipe, bytes: Vec::new() }
    }

    /// Takes what is there.
    fn read(&mut self) {
        let mut piece = [0; 16 << 10];
        for _ in 0..PIECES_MAX {
            let Some(Ok(read @ 1..)) = self.pipe.as_mut().map(|pipe| pipe.read(&mut piece)) else { return };
            let kept = read.min(ANSWER_MAX - self.bytes.len());
            self.bytes.extend_from_slice(&piece[..kept]);
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_errors_and_silence() {
        let within = |ms, text: &str| ask(&["sh".into(), "-c".into(), text.into()], Duration::from_millis(ms));
        let sh = |text| within(60_000, text);
        assert_eq!(sh("echo yes").unwrap(), "yes\n");
        assert_eq!(sh("head -c 200000 /dev/zero; echo >&2").unwrap().len(), 200_000, "more than a pipe holds");
        assert!(sh("echo no such thing >&2; exit 3").unwrap_err().contains("no such thing"));
        assert!(within(300, "exec sleep 100").unwrap_err().contains("did not end"));
        assert!(ask(&["/no/such/engine".into()], Duration::from_secs(1)).unwrap_err().contains("cannot run"));
    }
}
