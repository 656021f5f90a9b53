//! Asks an engine for something, with a limit of time: an engine that hangs must not hang the end of a job.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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
    // Answers are short: a pipe holds them, so nobody need read before the end.
    let deadline = Instant::now() + limit;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("'{}…' did not end within {} s", shown(), limit.as_secs()));
            }
        }
    };
    let text = |stream: Option<Box<dyn Read>>| {
        let mut bytes = Vec::new();
        let _ = stream.map(|s| s.take(1 << 20).read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    };
    if status.success() {
        return Ok(text(child.stdout.take().map(|s| Box::new(s) as Box<dyn Read>)));
    }
    let words = text(child.stderr.take().map(|s| Box::new(s) as Box<dyn Read>));
    Err(format!("'{}…' failed ({status}): {}", shown(), words.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_errors_and_silence() {
        let within = |ms, text: &str| ask(&["sh".into(), "-c".into(), text.into()], Duration::from_millis(ms));
        let sh = |text| within(60_000, text);
        assert_eq!(sh("echo yes").unwrap(), "yes\n");
        assert!(sh("echo no such thing >&2; exit 3").unwrap_err().contains("no such thing"));
        assert!(within(300, "exec sleep 100").unwrap_err().contains("did not end"));
        assert!(ask(&["/no/such/engine".into()], Duration::from_secs(1)).unwrap_err().contains("cannot run"));
    }
}
