//! `ferrule drain` and `ferrule resume`: suspends all endpoints of some hosts' ranks in a running job, so that the hosts may get other addresses or move to
//! other machines, and resumes them.

use crate::commands;
use crate::top::find::{self, Job};
use protocol::control::VERSION;
use protocol::control::epoch::Outcome;
use protocol::control::inquiry::{Answer, Question};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Beside what mpiexec may take by its own limits.
const SLACK: Duration = Duration::from_secs(10);
/// Steps with a limit of their own, forward and back.
const STEPS: u32 = 6;

#[derive(Debug, PartialEq)]
enum Verb {
    Drain,
    Resume,
    Status,
}

#[derive(Debug)]
struct Options {
    verb: Verb,
    job: Option<u32>,
    hosts: Vec<String>,
    /// Resumes after that time.
    stay: Option<Duration>,
    hold: Duration,
    limit: Duration,
    json: bool,
}

fn parse(verb: &str, words: &[String]) -> Result<Options, String> {
    let mut options = Options {
        verb: if verb == "resume" { Verb::Resume } else { Verb::Drain },
        job: None,
        hosts: Vec::new(),
        stay: None,
        hold: Duration::from_secs(600),
        limit: Duration::from_secs(30),
        json: false,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--json" => options.json = true,
            "--status" if verb == "drain" => options.verb = Verb::Status,
            "--job" => options.job = Some(value()?.parse().map_err(|_| "--job needs a pid of mpiexec")?),
            "--limit" => options.limit = seconds(word, value()?, 0.0)?,
            "--hold" if verb == "drain" => options.hold = seconds(word, value()?, 0.0)?,
            "--for" if verb == "drain" => options.stay = Some(seconds(word, value()?, 0.0)?),
            hosts if verb == "drain" && !hosts.starts_with('-') && options.hosts.is_empty() => {
                options.hosts = hosts.split(',').map(String::from).collect();
            }
            other => return Err(format!("{other} is not understood")),
        }
    }
    if (options.verb == Verb::Drain) == options.hosts.is_empty() {
        return Err(if options.hosts.is_empty() { "no host is named" } else { "--status takes no host" }.into());
    }
    Ok(options)
}

/// The value of an option: seconds, at least so many.
pub(crate) fn seconds(name: &str, text: &str, least: f64) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|s| (least..=1e6).contains(s));
    seconds.map(Duration::from_secs_f64).ok_or(format!("{name} needs seconds, from {least} to 1000000"))
}

/// Runs with these words; returns the exit code: 0 if it was done, 1 if not, 2 for words that are not understood.
pub fn run(verb: &str, words: &[String]) -> i32 {
    let options = match parse(verb, words) {
        Ok(options) => options,
        Err(why) => {
            eprint!("ferrule {verb}: {why}\n{}", commands::usage(verb));
            return 2;
        }
    };
    match find_job(options.job).and_then(|job| ask(&options, &job)) {
        Ok(outcome) => {
            println!("{}", if options.json { json(&outcome) } else { text(&outcome) });
            i32::from(!outcome.is_done)
        }
        Err(why) => {
            eprintln!("ferrule {verb}: {why}");
            1
        }
    }
}

/// The job of that mpiexec, or the only one.
pub(crate) fn find_job(pid: Option<u32>) -> Result<Job, String> {
    let mut jobs: Vec<Job> = find::jobs().into_iter().filter(|job| pid.is_none_or(|pid| pid == job.pid)).collect();
    match (jobs.len(), pid) {
        (1, _) => Ok(jobs.remove(0)),
        (0, Some(pid)) => Err(format!("mpiexec {pid} is not in this network namespace, or not this user's")),
        (0, None) => Err("no job of this user runs in this network namespace".into()),
        _ => {
            let pids: Vec<String> = jobs.iter().map(|job| job.pid.to_string()).collect();
            Err(format!("several jobs run: name one by --job ({})", pids.join(", ")))
        }
    }
}

fn ask(options: &Options, job: &Job) -> Result<Outcome, String> {
    let ms = |time: Duration| time.as_millis() as u64;
    let hold = options.stay.unwrap_or(options.hold);
    let question = match options.verb {
        Verb::Drain => Question::Drain {
            version: VERSION,
            hosts: options.hosts.clone(),
            limit_ms: ms(options.limit),
            hold_ms: ms(hold),
            alone_ms: ms(hold),
            resume: options.stay.is_some(),
        },
        Verb::Resume => Question::Resume { version: VERSION },
        Verb::Status => Question::Epoch { version: VERSION },
    };
    put(job, &question, patience(options.limit) + options.stay.unwrap_or_default())
}

/// How long mpiexec may take if each step has this limit.
pub(crate) fn patience(step: Duration) -> Duration {
    step.saturating_mul(STEPS) + SLACK
}

/// Asks mpiexec, and waits so long for its answer.
pub(crate) fn put(job: &Job, question: &Question, limit: Duration) -> Result<Outcome, String> {
    put_and_stay(job, question, limit).map(|(outcome, _)| outcome)
}

/// The same; mpiexec sees that the asker lives as long as the connection is open.
pub(crate) fn put_and_stay(job: &Job, question: &Question, limit: Duration) -> Result<(Outcome, UnixStream), String> {
    match find::ask_and_stay(job, question, limit) {
        Ok((Answer::Epoch { outcome }, stream)) => Ok((outcome, stream)),
        Ok((Answer::Text { lines }, _)) => Err(lines.join("; ")),
        Ok((Answer::Job { .. }, _)) => Err("mpiexec has answered something else".into()),
        Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
            Err(format!("no answer within {} s; `ferrule drain --status` tells what is awaited", limit.as_secs()))
        }
        Err(e) => Err(format!("no answer of mpiexec {}: {e}", job.pid)),
    }
}

fn text(outcome: &Outcome) -> String {
    let mut lines = vec![if outcome.is_done { outcome.text.clone() } else { format!("not done: {}", outcome.text) }];
    if !outcome.phases.is_empty() {
        lines.push(format!("{} endpoints were suspended", outcome.endpoints));
    }
    lines.extend(outcome.phases.iter().map(|p| format!("{:<16}{:>12.3} ms", p.name, p.micros as f64 / 1e3)));
    lines.join("\n")
}

fn json(outcome: &Outcome) -> String {
    let quoted = |text: &str| {
        let plain = |c: char| match c {
            '"' | '\\' => format!("\\{c}"),
            c if (c as u32) < 32 => format!("\\u{:04x}", c as u32),
            c => c.to_string(),
        };
        format!("\"{}\"", text.chars().map(plain).collect::<String>())
    };
    let phases: Vec<String> = outcome.phases.iter().map(|p| format!("{}:{}", quoted(&p.name), p.micros)).collect();
    format!(
        "{{\"done\":{},\"text\":{},\"endpoints\":{},\"phases_us\":{{{}}}}}",
        outcome.is_done,
        quoted(&outcome.text),
        outcome.endpoints,
        phases.join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::control::epoch::PhaseTime;

    fn options(verb: &str, line: &str) -> Result<Options, String> {
        parse(verb, &line.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_understood_or_refused() {
        let drain = options("drain", "--job 7 n1,n2 --for 0.5 --limit 3 --json").unwrap();
        assert_eq!((drain.job, drain.hosts.len(), drain.json), (Some(7), 2, true));
        assert_eq!((drain.stay, drain.limit.as_secs()), (Some(Duration::from_millis(500)), 3));
        assert_eq!(options("resume", "--job 7").unwrap().verb, Verb::Resume);
        assert_eq!(options("drain", "--status").unwrap().verb, Verb::Status);
        for (verb, wrong) in [
            ("drain", ""),
            ("drain", "n1 n2"),
            ("drain", "--status n1"),
            ("drain", "n1 --for"),
            ("drain", "n1 --for -1"),
            ("drain", "n1 --job x"),
            ("resume", "n1"),
            ("resume", "--for 1"),
        ] {
            assert!(options(verb, wrong).is_err(), "{verb} {wrong}");
        }
    }

    #[test]
    fn an_outcome_is_one_json_object() {
        let phases = vec![PhaseTime { name: "ready".into(), micros: 12 }];
        let outcome = Outcome { is_done: false, text: "a \"b\"\n".into(), endpoints: 3, phases };
        let wanted = r#"{"done":false,"text":"a \"b\"\u000a","endpoints":3,"phases_us":{"ready":12}}"#;
        assert_eq!(json(&outcome), wanted);
        assert!(text(&outcome).contains("ready                  0.012 ms"));
    }
}
