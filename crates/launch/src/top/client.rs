//! `ferrule top` itself.

use super::find::{self, Job};
use super::{lanes, table, traffic};
use crate::commands;
use protocol::control::VERSION;
use protocol::control::inquiry::{Answer, Question};
use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// Longest wait for an answer: mpiexec gives its ranks less.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// Between the two samples of `--once`, from which the share of the processor is computed.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(400);
/// Columns, where no terminal says how many.
const WIDE: usize = 4096;

/// What is shown.
#[derive(Clone, Copy, PartialEq, Debug)]
enum View {
    Ranks,
    Lanes,
    Traffic,
    Waits,
}

/// What a table needs of the one before.
#[derive(Default)]
struct Sample {
    ranks: table::Sample,
    lanes: lanes::Sample,
    traffic: traffic::Sample,
}

struct Options {
    once: bool,
    view: View,
    interval: Duration,
    pid: Option<u32>,
}

fn parse(words: &[String]) -> Result<Options, String> {
    let mut options = Options { once: false, view: View::Ranks, interval: Duration::from_secs(1), pid: None };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--once" | "-1" => options.once = true,
            "--waits" | "--lanes" | "--traffic" if options.view != View::Ranks => {
                return Err("--waits, --lanes and --traffic are tables of their own: give one of them".into());
            }
            "--waits" => options.view = View::Waits,
            "--lanes" => options.view = View::Lanes,
            "--traffic" => options.view = View::Traffic,
            "--interval" => {
                let seconds = words.next().and_then(|w| w.parse::<f64>().ok()).filter(|s| (0.1..=3600.0).contains(s));
                options.interval =
                    Duration::from_secs_f64(seconds.ok_or("--interval needs seconds, from 0.1 to 3600")?);
            }
            other => match other.parse() {
                Ok(pid) if options.pid.is_none() => options.pid = Some(pid),
                _ => return Err(format!("{other} is neither an option nor a pid of mpiexec")),
            },
        }
    }
    Ok(options)
}

/// Runs with these words; returns the exit code.
pub fn run(words: &[String]) -> i32 {
    match parse(words) {
        Err(why) => {
            eprint!("ferrule top: {why}\n{}", commands::usage("top"));
            2
        }
        Ok(options) => watch(&options),
    }
}

fn watch(options: &Options) -> i32 {
    let terminal = io::stdout().is_terminal();
    let mut samples = HashMap::new();
    let mut rounds = 0;
    loop {
        let jobs: Vec<Job> =
            find::jobs().into_iter().filter(|job| options.pid.is_none_or(|pid| pid == job.pid)).collect();
        if jobs.is_empty() {
            let which = options.pid.map_or("no job of this user runs".into(), |pid| format!("mpiexec {pid} is not"));
            eprintln!("ferrule top: {which} in this network namespace");
            return i32::from(rounds == 0);
        }
        let text = match options.view {
            View::Waits => waits(&jobs),
            view => tables(view, &jobs, &mut samples),
        };
        rounds += 1;
        let first_of_two = options.once && options.view != View::Waits && rounds == 1;
        if !first_of_two {
            let clear = if terminal && !options.once { "\x1b[H\x1b[2J" } else { "" };
            if write!(io::stdout(), "{clear}{text}").and_then(|()| io::stdout().flush()).is_err() {
                return 0;
            }
            if options.once {
                return 0;
            }
        }
        std::thread::sleep(if first_of_two { SAMPLE_INTERVAL } else { options.interval });
    }
}

fn tables(view: View, jobs: &[Job], samples: &mut HashMap<String, Sample>) -> String {
    let width = if io::stdout().is_terminal() { sys::terminal::columns() } else { WIDE };
    let mut text = String::new();
    for job in jobs {
        match find::ask(job, &Question::Status { version: VERSION }, ANSWER_LIMIT) {
            Ok(Answer::Text { lines }) => text += &(lines.join("\n") + "\n"),
            Ok(answer) => {
                let before = samples.remove(&job.name).unwrap_or_default();
                let lines = match view {
                    View::Lanes => lanes::lines(job.pid, &answer, &before.lanes, width),
                    View::Traffic => traffic::lines(job.pid, &answer, &before.traffic, width),
                    _ => table::lines(job.pid, &answer, &before.ranks, width),
                };
                text += &(lines.join("\n") + "\n\n");
                let sample = Sample {
                    ranks: table::Sample::of(&answer),
                    lanes: lanes::Sample::of(&answer),
                    traffic: traffic::Sample::of(&answer),
                };
                samples.insert(job.name.clone(), sample);
            }
            Err(e) => text += &format!("job {}: no answer: {e}\n", job.pid),
        }
    }
    text
}

fn waits(jobs: &[Job]) -> String {
    let mut text = String::new();
    for job in jobs {
        text += &format!("job {}:\n", job.pid);
        match find::ask(job, &Question::Waits { version: VERSION }, ANSWER_LIMIT) {
            Ok(Answer::Text { lines }) => lines.iter().for_each(|line| text += &format!("  {line}\n")),
            Ok(Answer::Job { .. } | Answer::Epoch { .. }) => text += "  no graph\n",
            Err(e) => text += &format!("  no answer: {e}\n"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(String::from).collect()
    }

    #[test]
    fn options_and_a_pid_in_any_order() {
        let options = parse(&words("--once 77 --waits --interval 0.5")).unwrap_or_else(|e| panic!("{e}"));
        assert!(options.once && options.view == View::Waits);
        assert_eq!((options.pid, options.interval.as_millis()), (Some(77), 500));
        for wrong in ["--interval", "--interval 0", "--twice", "1 2", "x", "--lanes --waits", "--traffic --lanes"] {
            assert!(parse(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
