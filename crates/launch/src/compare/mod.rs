//! `ferrule startup`: ways to start a job, measured beside each other, and models of them.
//!
//! Schemes run on [`hosts`] that are emulated on this machine; launchers are compared on this host alone, down to the floor of what fork and exec
//! cost. Arms take turns in each repeat. What fails once is left out and listed; results are written after each point.

mod hosts;
mod launchers;
mod options;
mod predict;
mod programs;
mod results;
mod run;
mod schemes;
mod sleepers;
mod table;

use clap::{CommandFactory, Parser};
use options::Options;
use results::{Machine, Results};
use run::Failed;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The command line, for its pages.
pub fn command() -> clap::Command {
    Options::command()
}

/// Runs the command; `words` are those after `startup`.
pub fn main(words: &[std::ffi::OsString]) -> i32 {
    let name = std::ffi::OsString::from("ferrule startup");
    let options = match Options::try_parse_from(std::iter::once(&name).chain(words)) {
        Ok(options) => options,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { 2 } else { 0 };
        }
    };
    match compare(options, words) {
        Ok(true) => 0,
        Ok(false) => {
            eprintln!("ferrule startup: nothing could be measured");
            1
        }
        Err(why) => {
            eprintln!("ferrule startup: {why}");
            1
        }
    }
}

/// One run of the command.
struct Comparison {
    options: Options,
    mpiexec: PathBuf,
    scratch: programs::Scratch,
    results: Results,
    begin: Instant,
    /// Points that are done, and all.
    progress: (usize, usize),
}

fn compare(options: Options, words: &[std::ffi::OsString]) -> Result<bool, Failed> {
    let out = options.out.clone();
    let predict = options.predict;
    let mut results = match &options.from {
        Some(path) => Results::read(path)?,
        None => measure(options, words)?,
    };
    if predict {
        predict::fit_all(&mut results);
    }
    print!("{}", table::text(&results));
    if let Some(path) = out {
        results.write(&path)?;
    }
    Ok(!(results.schemes.is_empty() && results.launchers.is_empty() && results.sleepers.is_empty()))
}

fn measure(options: Options, words: &[std::ffi::OsString]) -> Result<Results, Failed> {
    let mpiexec = std::env::current_exe().map_err(|e| e.to_string())?.with_file_name("mpiexec");
    if !mpiexec.exists() {
        return Err(format!("{} is not there", mpiexec.display()));
    }
    let results = Results {
        ferrule: env!("CARGO_PKG_VERSION").into(),
        machine: Machine::here(),
        command: words.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        rate: options.rate.clone(),
        tree_width: options.tree_width,
        ranks_per_host: options.ranks_per_host,
        ..Results::default()
    };
    let (begin, scratch) = (Instant::now(), programs::Scratch::new()?);
    let mut comparison = Comparison { options, mpiexec, scratch, results, begin, progress: (0, 0) };
    let program = match &comparison.options.program {
        Some(program) => program.canonicalize().map_err(|e| format!("{}: {e}", program.display()))?,
        None => comparison.scratch.empty("ferrule", &comparison.mpiexec)?,
    };
    comparison.launchers(&program)?;
    comparison.sleepers()?;
    comparison.schemes(&program)?;
    Ok(comparison.results)
}

impl Comparison {
    fn limit(&self) -> Duration {
        Duration::from_secs(self.options.timeout)
    }

    /// Whether another point may begin.
    fn has_time(&self) -> bool {
        self.begin.elapsed().as_secs() < self.options.budget
    }

    /// A point is done: tells it, and writes the results.
    fn done(&mut self, what: &str, times: &[f64]) -> Result<(), Failed> {
        self.progress.0 += 1;
        let (done, all) = self.progress;
        let spent = self.begin.elapsed().as_secs();
        let text = if times.is_empty() { "left out".into() } else { table::seconds(results::median(times)) };
        eprintln!("[{done}/{all}, {spent} s] {what}: {text}");
        self.save()
    }

    fn failed(&mut self, what: &str, ranks: usize, why: Failed) {
        eprintln!("{what}, {ranks} ranks: {why}; left out from here on");
        self.results.fail(what, ranks, why);
    }

    fn save(&self) -> Result<(), Failed> {
        self.options.out.as_ref().map_or(Ok(()), |path| self.results.write(path))
    }

    fn sleepers(&mut self) -> Result<(), Failed> {
        let ranks = self.options.sleepers;
        if ranks == 0 {
            return Ok(());
        }
        eprintln!("starting {ranks} sleeping ranks");
        let limit = self.limit().max(Duration::from_secs(180));
        let found = self
            .scratch
            .sleeper(&self.mpiexec)
            .and_then(|program| sleepers::measure(&self.mpiexec, &program, ranks, limit));
        match found {
            Ok(found) => self.results.sleepers.push(found),
            Err(why) => self.failed("sleepers", ranks as usize, why),
        }
        self.save()
    }
}
