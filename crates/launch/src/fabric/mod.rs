//! Routes for a job: asked of the interconnect manager (`ferrule-fabric serve`) before ranks start, given back when the job ends.
//!
//! A process of its own, the lease holder, speaks to the manager, so that a slow manager never holds up mpiexec's loop. It holds one end of a pipe whose other
//! end only mpiexec has: when mpiexec ends, in whatever way, the lease holder removes the routes. If both are killed, or the host goes down, the job's lease
//! at the manager runs out. After any failure the job runs on default routes, and one line says why.

mod http;
mod tls;

use crate::cli::Options;
use crate::pollset::PollSet;
use crate::settings;
use http::Manager;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long the manager keeps routes without hearing from the lease holder.
const LEASE: Duration = Duration::from_secs(30);
/// Attempts to remove routes when the job is over, and the pause between them.
const REMOVALS: u32 = 3;
const REMOVAL_PAUSE: Duration = Duration::from_millis(200);
/// Longest name of a pattern.
const PATTERN_MAX: usize = 255;

/// The routes of a running job. Dropped, they are removed at once, without waiting for it.
pub struct Routes {
    lifeline: PipeWriter,
    answer: PipeReader,
}

/// What is asked for.
struct Wish {
    manager: Manager,
    job: String,
    body: Vec<u8>,
}

/// Has routes installed between `hosts`, one per rank, if the user wants them; waits for that at most as long as the setting says.
pub fn ask(options: &Options, job_id: u64, hosts: &[&str]) -> Option<Routes> {
    let pattern = pattern_of(options)?;
    let asked = wish(options, job_id, hosts, &pattern).and_then(|wish| start_lease_holder(&wish));
    let routes = match asked {
        Ok(routes) => routes,
        Err(why) => {
            complain(&why);
            return None;
        }
    };
    match routes.read_answer() {
        Ok(told) if options.verbose => eprintln!("mpiexec: {told}"),
        Ok(_) => {}
        Err(why) => complain(&why),
    }
    // Kept even without an answer: it may have been done nevertheless.
    Some(routes)
}

fn complain(why: &str) {
    eprintln!("mpiexec: warning: the job runs on default routes: {why}");
}

/// The name of the communication pattern: as said, or as the first program is called when only the manager was said.
fn pattern_of(options: &Options) -> Option<String> {
    let set = settings::COMM_PATTERN.value();
    let named = options.comm_pattern.clone().or_else(|| (!set.is_empty()).then(|| set.into()));
    named.or_else(|| {
        options.fabric.as_ref()?;
        let program = std::path::Path::new(options.apps.first()?.argv.first()?);
        Some(program.file_name()?.to_string_lossy().into_owned())
    })
}

fn wish(options: &Options, job_id: u64, hosts: &[&str], pattern: &str) -> Result<Wish, String> {
    if !is_pattern(pattern) {
        return Err(format!("'{pattern}' can't be a pattern: 1 to {PATTERN_MAX} letters, digits and _.+:@-/"));
    }
    let said = options.fabric.as_deref().unwrap_or(settings::FABRIC_API.value());
    let manager = Manager::configured(said)?;
    // In an allocation its number comes first: Slurm's epilog ends all that begins with it.
    let allocation =
        std::env::var("SLURM_JOB_ID").ok().filter(|id| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()));
    let own = format!("mpiexec-{:016x}", job_id);
    let job = allocation.map_or_else(|| own.clone(), |id| format!("{id}.{own}"));
    let body = serde_json::json!({"job": job, "pattern": pattern, "hosts": hosts, "lease_s": LEASE.as_secs_f64()});
    Ok(Wish { manager, job, body: body.to_string().into_bytes() })
}

fn is_pattern(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"_.+:@-/".contains(&b);
    !name.is_empty() && name.len() <= PATTERN_MAX && name.bytes().all(fits)
}

fn start_lease_holder(wish: &Wish) -> Result<Routes, String> {
    let wrong = |e: std::io::Error| format!("cannot start a process that speaks to the manager: {e}");
    let (their_life, lifeline) = std::io::pipe().map_err(wrong)?;
    let (answer, their_answer) = std::io::pipe().map_err(wrong)?;
    let body = || {
        let _ = sys::process::new_session();
        sys::process::set_name(c"ferrule-routes");
        let _ = sys::watch::let_go_of_stdio();
        keep(wish, &their_life, &their_answer);
        0
    };
    sys::process::fork_run(&[their_life.as_fd(), their_answer.as_fd()], body).map_err(wrong)?;
    Ok(Routes { lifeline, answer })
}

impl Routes {
    /// What the lease holder says about the start: `+` and what there is, or `-` and why there is nothing.
    fn read_answer(&self) -> Result<String, String> {
        let timeout_ms = settings::FABRIC_TIMEOUT.value();
        let late = || Err(format!("no answer of the manager within {timeout_ms} ms"));
        if !readable(&self.answer, Duration::from_millis(timeout_ms + 100)) {
            return late();
        }
        let mut line = [0; 1024];
        let length = (&self.answer).read(&mut line).unwrap_or(0);
        let text = String::from_utf8_lossy(&line[..length]).into_owned();
        match text.split_at_checked(1) {
            Some(("+", told)) => Ok(told.into()),
            Some((_, why)) => Err(why.into()),
            None => late(),
        }
    }

    /// Removes the routes and waits until that has been done, or until it takes too long.
    pub fn release(self) {
        let Routes { lifeline, answer } = self;
        drop(lifeline);
        let patience = Duration::from_millis(settings::FABRIC_TIMEOUT.value()) + REMOVALS * REMOVAL_PAUSE;
        let deadline = Instant::now() + patience;
        // Ends when the lease holder does.
        while readable(&answer, deadline.saturating_duration_since(Instant::now())) {
            if !matches!((&answer).read(&mut [0; 1024]), Ok(length) if length > 0) {
                return;
            }
        }
        eprintln!("mpiexec: warning: the manager has not yet removed the job's routes");
    }
}

fn readable(pipe: &PipeReader, patience: Duration) -> bool {
    let mut set = PollSet::default();
    set.add(pipe, true, false);
    set.until(Instant::now() + patience);
    set.wait().is_ok() && set.readable(pipe)
}

/// What the lease holder does.
fn keep(wish: &Wish, life: &PipeReader, mut answer: &PipeWriter) {
    let began = Instant::now();
    let started = wish.manager.request("POST", "/v1/jobs", &wish.body);
    let done = started.is_ok();
    let line = match started {
        Ok(told) => {
            format!("+routes for {} pairs of hosts in {:.1} ms", told["pairs"], began.elapsed().as_secs_f64() * 1e3)
        }
        Err(problem) => format!("-{}", problem.text),
    };
    let _ = answer
        .write_all(line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(900).collect::<String>().as_bytes());
    let path = format!("/v1/jobs/{}", wish.job);
    while !readable(life, LEASE / 3) {
        if done {
            let _ = wish.manager.request("POST", &format!("{path}/lease"), b"");
        }
    }
    for attempt in 0..REMOVALS {
        if attempt > 0 {
            std::thread::sleep(REMOVAL_PAUSE);
        }
        match wish.manager.request("DELETE", &path, b"") {
            Ok(_) => return,
            // An answer: there is no such job.
            Err(problem) if problem.status != 0 => return,
            Err(_) if !done => return,
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_names_without_meaning_in_json() {
        assert!(is_pattern("cg.C/128+x:y@z"));
        for wrong in ["", "a b", "a\"", "ä", &"x".repeat(256)] {
            assert!(!is_pattern(wrong), "{wrong}");
        }
    }

    #[test]
    fn the_first_program_gives_its_name() {
        let mut options = Options::default();
        options.apps.push(crate::cli::AppOptions { argv: vec!["./bin/cg".into(), "1".into()], ..Default::default() });
        assert_eq!(pattern_of(&options), None);
        options.fabric = Some("unix:/x".into());
        assert_eq!(pattern_of(&options).as_deref(), Some("cg"));
        options.comm_pattern = Some("mine".into());
        assert_eq!(pattern_of(&options).as_deref(), Some("mine"));
    }
}
