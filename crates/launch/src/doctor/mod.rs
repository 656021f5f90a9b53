//! `ferrule doctor`: what works on this host, what would make it faster, and the line that mends it.
//!
//! What can be tried is tried: two processes share memory and read each other's (`peers`), a program is compiled and run with two ranks (`job`).
//! The rest is read from the kernel (`host`).

mod host;
mod job;
mod peers;

use crate::environment::find_program;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// How it is with one thing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It works.
    Ok,
    /// Jobs run, but slower, or smaller, than they could.
    Slower,
    /// It is not here. Jobs that don't need it run.
    Missing,
    /// Jobs, or the program that was named, don't run.
    Error,
}

impl State {
    fn text(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Slower => "slower",
            State::Missing => "missing",
            State::Error => "error",
        }
    }
}

/// One line of the report.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// The part of the report: job, channels, limits, processors, launchers, containers, compilers, programs.
    pub area: &'static str,
    /// What was looked at.
    pub name: String,
    /// How it is.
    pub state: State,
    /// What was found.
    pub found: String,
    /// The line that mends it; empty if nothing is to be done.
    pub mend: String,
}

impl Finding {
    fn new(area: &'static str, name: &str, state: State, found: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding { area, name: name.into(), state, found: found.into(), mend: mend.into() }
    }

    fn ok(area: &'static str, name: &str, found: impl Into<String>) -> Finding {
        Finding::new(area, name, State::Ok, found, "")
    }
}

#[derive(Serialize)]
struct Report<'a> {
    version: &'a str,
    runs: bool,
    findings: &'a [Finding],
}

/// The command, after `doctor`; its exit code.
pub fn main(words: &[OsString]) -> i32 {
    if let [first, what] = words
        && first == peers::PEER
    {
        return peers::run(&what.to_string_lossy());
    }
    let (mut json, mut files) = (false, Vec::new());
    for word in words {
        match word.to_str() {
            Some("--json") => json = true,
            Some(option) if option.starts_with('-') => {
                eprint!("ferrule doctor: there is no option {option}\n{}", crate::commands::usage("doctor"));
                return 2;
            }
            _ => files.push(PathBuf::from(word)),
        }
    }
    let findings = all(&files);
    let runs = findings.iter().all(|f| f.state != State::Error);
    if json {
        let report = Report { version: env!("CARGO_PKG_VERSION"), runs, findings: &findings };
        println!("{}", serde_json::to_string_pretty(&report).expect("texts and flags"));
    } else {
        print!("{}", shown(&findings, runs));
    }
    i32::from(!runs)
}

fn all(files: &[PathBuf]) -> Vec<Finding> {
    let mut all = job::findings();
    all.extend(host::channels());
    all.extend(host::limits());
    all.extend(host::processors());
    all.extend(host::launchers());
    let libraries = crate::preload::plan::library_path(&[]);
    all.extend(files.iter().map(|file| program(file, OsStr::from_bytes(&libraries))));
    all
}

fn program(file: &Path, libraries: &OsStr) -> Finding {
    let name = file.display().to_string();
    let (state, found) = match crate::abi::describe(file, libraries) {
        Ok((text, runs)) => {
            let lines: Vec<&str> =
                text.lines().map(|line| line.strip_prefix(&format!("{name}: ")).unwrap_or(line)).collect();
            (if runs { State::Ok } else { State::Error }, lines.join("; "))
        }
        Err(why) => (State::Error, why),
    };
    let mend = if state == State::Error { "build the program and its libraries with Ferrule's mpicc" } else { "" };
    Finding::new("programs", &name, state, found, mend)
}

fn shown(findings: &[Finding], runs: bool) -> String {
    let mut text = String::new();
    let mut area = "";
    for finding in findings {
        if finding.area != area {
            area = finding.area;
            let _ = writeln!(text, "{area}");
        }
        let _ = writeln!(text, "  {:8}{}: {}", finding.state.text(), finding.name, finding.found);
        if !finding.mend.is_empty() {
            let _ = writeln!(text, "          to mend it: {}", finding.mend);
        }
    }
    text.push_str(if runs {
        "Jobs run here.\n"
    } else {
        "Not everything runs here: see the lines that begin with \"error\".\n"
    });
    text
}

/// The file that a shell would run for this name.
fn in_path(name: &str) -> Option<PathBuf> {
    let file = find_program(name.as_bytes(), std::env::var_os("PATH").as_deref(), None).ok()?;
    Some(OsString::from_vec(file.into_bytes()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_mends_stands_below_its_finding() {
        let findings =
            [Finding::ok("limits", "a", "1"), Finding::new("limits", "b", State::Slower, "2", "ulimit -n 3")];
        let text = shown(&findings, true);
        assert_eq!(text, "limits\n  ok      a: 1\n  slower  b: 2\n          to mend it: ulimit -n 3\nJobs run here.\n");
    }

    #[test]
    fn a_missing_program_is_an_error() {
        let finding = program(Path::new("/nonexistent"), OsStr::new(""));
        assert_eq!(finding.state, State::Error);
    }
}
