//! `ferrule migrate`: moves virtual machines to other hosts while a job runs in them. The job's endpoints are suspended (`drain.rs`), a driver detaches
//! devices, moves the machine and attaches devices again, and the endpoints are resumed.
//!
//! What comes next is decided by `::migrate::machine`; here are the command line, the threads that call drivers, and the drivers.

mod command;
mod control;
mod controller;
mod driver;
mod guard;
mod libvirt;
mod monitor;
mod qmp;
mod report;
mod script;

use crate::drain;
use ::migrate::config::{self, Config};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

const CONFIG: &str = "/etc/ferrule/vms.json";
/// Shortest limit of a step, in seconds.
const LEAST_S: f64 = 0.1;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Verb {
    Migrate,
    Plan,
    Status,
    Abort,
}

#[derive(Debug)]
struct Options {
    verb: Verb,
    vms: Vec<String>,
    to: String,
    config: String,
    job: Option<u32>,
    limit: Duration,
    migrate_limit: Duration,
    hold: Option<Duration>,
    json: bool,
}

fn parse(words: &[String]) -> Result<Options, String> {
    let mut options = Options {
        verb: Verb::Migrate,
        vms: Vec::new(),
        to: String::new(),
        config: CONFIG.into(),
        job: None,
        limit: Duration::from_secs(30),
        migrate_limit: Duration::from_secs(300),
        hold: None,
        json: false,
    };
    let mut verbs = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--vm" => options.vms.push(value()?.clone()),
            "--to" => options.to = value()?.clone(),
            "--config" => options.config = value()?.clone(),
            "--job" => options.job = Some(value()?.parse().map_err(|_| "--job needs a pid of mpiexec")?),
            "--limit" => options.limit = drain::seconds(word, value()?, LEAST_S)?,
            "--migrate-limit" => options.migrate_limit = drain::seconds(word, value()?, LEAST_S)?,
            "--hold" => options.hold = Some(drain::seconds(word, value()?, 0.0)?),
            "--json" => options.json = true,
            "--plan" | "--dry-run" => verbs.push(Verb::Plan),
            "--status" => verbs.push(Verb::Status),
            "--abort" => verbs.push(Verb::Abort),
            other => match other.parse() {
                Ok(pid) if options.job.is_none() => options.job = Some(pid),
                _ => return Err(format!("{other} is neither an option nor a pid of mpiexec")),
            },
        }
    }
    verbs.dedup();
    match verbs[..] {
        [] => {}
        [verb] => options.verb = verb,
        _ => return Err("--plan, --status and --abort exclude each other".into()),
    }
    let moves = matches!(options.verb, Verb::Migrate | Verb::Plan);
    if moves && (options.vms.is_empty() || options.to.is_empty()) {
        return Err("--vm and --to are needed".into());
    }
    let is_named = !options.vms.is_empty() || !options.to.is_empty();
    if !moves && is_named {
        return Err("--status and --abort take neither --vm nor --to".into());
    }
    let mut names = options.vms.clone();
    names.sort();
    names.dedup();
    if names.len() != options.vms.len() {
        return Err("a virtual machine is named twice".into());
    }
    Ok(options)
}

/// Runs with these words; returns the exit code: 0 if it was done, 1 if not, 2 for words that are not understood.
pub fn run(words: &[String]) -> i32 {
    let options = match parse(words) {
        Ok(options) => options,
        Err(why) => {
            eprint!("ferrule migrate: {why}\n{}", crate::commands::usage("migrate"));
            return 2;
        }
    };
    let done = match options.verb {
        Verb::Status => ask(&options, control::Request::Status),
        Verb::Abort => ask(&options, control::Request::Abort),
        Verb::Migrate | Verb::Plan => guard::run(|| code(migrate(&options))),
    };
    code(done)
}

fn code(done: Result<i32, String>) -> i32 {
    done.unwrap_or_else(|why| {
        report::complain(&format!("ferrule migrate: {why}"));
        1
    })
}

fn ask(options: &Options, request: control::Request) -> Result<i32, String> {
    let answer = control::ask(&drain::find_job(options.job)?, request)?;
    println!("{}", if options.json { answer.to_json() } else { answer.text.clone() });
    Ok(i32::from(!answer.is_done))
}

fn migrate(options: &Options) -> Result<i32, String> {
    let config = read(&options.config)?;
    let mut vms = Vec::new();
    for name in &options.vms {
        let vm =
            config.vms.get(name).ok_or_else(|| format!("{} describes no virtual machine {name}", options.config))?;
        let host = vm.host().unwrap_or(name).to_string();
        vms.push(controller::Vm { name: name.clone(), host, driver: Some(driver::open(name, vm, &options.to)?) });
    }
    let job = drain::find_job(options.job)?;
    let asked = controller::Asked {
        is_plan: options.verb == Verb::Plan,
        limit: options.limit,
        migrate_limit: options.migrate_limit,
        hold: options.hold,
        to: options.to.clone(),
        say_to_stderr: options.json,
    };
    let outcome = controller::conduct(&job, vms, &asked)?;
    report::print(&if options.json { outcome.to_json() } else { outcome.to_text() });
    Ok(i32::from(!outcome.is_done))
}

/// The administrator's file. It names programs to run, so nobody else may be able to write it.
fn read(path: &str) -> Result<Config, String> {
    let failed = |e: std::io::Error| format!("{path}: {e}");
    let about = std::fs::metadata(path).map_err(failed)?;
    let own = sys::process::effective_uid();
    if ![own, 0].contains(&about.uid()) || about.mode() & 0o022 != 0 {
        return Err(format!("{path} names programs to run: only its owner may write it, who is this user or root"));
    }
    if about.len() > config::SIZE_MAX {
        return Err(format!("{path} has more than {} bytes", config::SIZE_MAX));
    }
    config::parse(&std::fs::read_to_string(path).map_err(failed)?).map_err(|why| format!("{path}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Result<Options, String> {
        parse(&line.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_understood_or_refused() {
        let both = options("--job 7 --vm a --vm b --to h2 --limit 3 --json --dry-run --plan --config x").unwrap();
        assert_eq!((both.job, both.vms.len(), both.json, both.verb), (Some(7), 2, true, Verb::Plan));
        assert_eq!((both.limit.as_secs(), both.config.as_str(), both.to.as_str()), (3, "x", "h2"));
        assert_eq!(options("--abort --job 7").unwrap().verb, Verb::Abort);
        assert_eq!(options("7 --vm a --to h").unwrap().job, Some(7));
        for wrong in [
            "",
            "--vm a",
            "--to h",
            "--vm a --vm a --to h",
            "--vm a --to h more",
            "--vm a --to h --limit 0",
            "--vm a --to h --limit",
            "--status --abort",
            "--status --vm a",
            "--vm a --to h --job x",
            "7 --vm a --to h 8",
        ] {
            assert!(options(wrong).is_err(), "{wrong}");
        }
    }
}
