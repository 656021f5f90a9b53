//! Routes for a job: asked of the interconnect manager (`ferrule-fabric serve`) before ranks start, given back when the job ends.
//!
//! A process of its own, the lease holder, speaks to the manager, so that a slow manager never holds up mpiexec's loop. It holds one end of a pipe whose other
//! end only mpiexec has: when mpiexec ends, in whatever way, the lease holder removes the routes. If both are killed, or the host goes down, the job's lease
//! at the manager runs out. After any failure the job runs on default routes, and one line says why.
//!
//! If pairs of ranks have several lanes, the manager is told their plan, and gives their classes queues at the switches. Its answer says how packets of each
//! class are to be marked: `lane_dscp`, which becomes the ranks' `FERRULE_LANE_DSCP` unless the user has set that.

mod http;
mod tls;

use crate::cli::Options;
use crate::environment;
use crate::pollset::PollSet;
use crate::settings;
use http::Manager;
use protocol::control::tree::{App, JobSpec};
use protocol::lanes::LanePlan;
use protocol::lanes::marks::Marks;
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
/// Longest texts that the lease holder passes on of an answer.
const TEXT_MAX: usize = 400;

/// The routes of a running job. Dropped, they are removed at once, without waiting for it.
pub struct Routes {
    lifeline: PipeWriter,
    answer: PipeReader,
    /// How packets of lanes are to be marked; empty if the manager doesn't say.
    lane_dscp: String,
}

/// What the lease holder tells mpiexec, in lines: `+` and what there is, or `-` and why there is nothing; then, after `+`, the marks of lanes and what is
/// missing, each empty if there is nothing to tell.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    told: String,
    lane_dscp: String,
    trouble: String,
}

/// What is asked for.
struct Wish {
    manager: Manager,
    job: String,
    body: Vec<u8>,
}

/// Has routes installed between `hosts`, one per rank, if the user wants them; waits for that at most as long as the setting says.
pub fn ask(options: &Options, job: &JobSpec, hosts: &[&str]) -> Option<Routes> {
    let pattern = pattern_of(options)?;
    let asked = wish(options, job, hosts, &pattern).and_then(|wish| start_lease_holder(&wish));
    let mut routes = match asked {
        Ok(routes) => routes,
        Err(why) => {
            complain(&why);
            return None;
        }
    };
    match routes.read_answer() {
        Ok(answer) => {
            if options.verbose {
                eprintln!("mpiexec: {}", answer.told);
            }
            if !answer.trouble.is_empty() {
                eprintln!("mpiexec: warning: {}", answer.trouble);
            }
            routes.lane_dscp = answer.lane_dscp;
        }
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

fn wish(options: &Options, spec: &JobSpec, hosts: &[&str], pattern: &str) -> Result<Wish, String> {
    if !is_pattern(pattern) {
        return Err(format!("'{pattern}' can't be a pattern: 1 to {PATTERN_MAX} letters, digits and _.+:@-/"));
    }
    let said = options.fabric.as_deref().unwrap_or(settings::FABRIC_API.value());
    let manager = Manager::configured(said)?;
    // In an allocation its number comes first: Slurm's epilog ends all that begins with it.
    let allocation =
        std::env::var("SLURM_JOB_ID").ok().filter(|id| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()));
    let own = format!("mpiexec-{:016x}", spec.job_id);
    let job = allocation.map_or_else(|| own.clone(), |id| format!("{id}.{own}"));
    let mut body = serde_json::json!({"job": job, "pattern": pattern, "hosts": hosts, "lease_s": LEASE.as_secs_f64()});
    let plan = spec.apps.first().map_or(Ok(LanePlan::SINGLE), lanes_of)?;
    if !plan.classes().is_empty() {
        body["lanes"] = plan.to_string().into();
    }
    Ok(Wish { manager, job, body: body.to_string().into_bytes() })
}

/// The plan of the lanes of a program's ranks, by the settings that they start with.
fn lanes_of(app: &App) -> Result<LanePlan, String> {
    let text = |name| environment::setting_of(app, name).unwrap_or_default();
    let (lanes, policy) = (text("LANES"), text("LANE_POLICY"));
    LanePlan::parse(&String::from_utf8_lossy(&lanes), &String::from_utf8_lossy(&policy))
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
    Ok(Routes { lifeline, answer, lane_dscp: String::new() })
}

impl Answer {
    fn of(told: &serde_json::Value, elapsed: Duration) -> Answer {
        let text = |name: &str| printable(told[name].as_str().unwrap_or_default());
        let lane_dscp = text("lane_dscp");
        let wrong = Marks::parse(&lane_dscp, "").err().map(|why| format!("the manager says {why}"));
        let [routes, queues] = ["routes", "queues"].map(|name| Some(text(name)).filter(|why| !why.is_empty()));
        let missing = [
            routes.map(|why| format!("the job runs on default routes: {why}")),
            wrong
                .clone()
                .or(queues)
                .map(|why| format!("the job's lanes don't have queues of their own everywhere: {why}")),
        ];
        let pairs = format!("routes for {} pairs of hosts in {:.1} ms", told["pairs"], elapsed.as_secs_f64() * 1e3);
        Answer {
            told: pairs,
            trouble: printable(&missing.into_iter().flatten().collect::<Vec<_>>().join("; ")),
            lane_dscp: if wrong.is_none() { lane_dscp } else { String::new() },
        }
    }

    fn lines(&self) -> String {
        format!("+{}\n{}\n{}", self.told, self.lane_dscp, self.trouble)
    }

    /// What `lines` has written; the error is why there are no routes. `None` for anything else.
    fn read(lines: &str) -> Option<Result<Answer, String>> {
        match lines.split_at_checked(1)? {
            ("+", rest) => {
                let mut parts = rest.splitn(3, '\n').map(String::from);
                let mut next = || parts.next().unwrap_or_default();
                Some(Ok(Answer { told: next(), lane_dscp: next(), trouble: next() }))
            }
            (_, why) => Some(Err(why.into())),
        }
    }
}

/// A text of the manager's as one line that isn't too long.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(TEXT_MAX).collect()
}

impl Routes {
    /// Has the ranks mark the packets of their lanes as the manager's queues expect it, unless the user has said how.
    pub fn mark_lanes(&self, apps: &mut [App]) {
        if self.lane_dscp.is_empty() {
            return;
        }
        for app in apps {
            if environment::setting_of(app, "LANE_DSCP").is_none() {
                environment::set(&mut app.set, b"FERRULE_LANE_DSCP", self.lane_dscp.as_bytes());
            }
        }
    }

    /// What the lease holder says about the start.
    fn read_answer(&self) -> Result<Answer, String> {
        let timeout_ms = settings::FABRIC_TIMEOUT.value();
        let late = || Err::<Answer, _>(format!("no answer of the manager within {timeout_ms} ms"));
        if !readable(&self.answer, Duration::from_millis(timeout_ms + 100)) {
            return late();
        }
        // Whole, since it was written at once: at most PIPE_BUF bytes.
        let mut line = [0; 4096];
        let length = (&self.answer).read(&mut line).unwrap_or(0);
        Answer::read(&String::from_utf8_lossy(&line[..length])).unwrap_or_else(late)
    }

    /// Removes the routes and waits until that has been done, or until it takes too long.
    pub fn release(self) {
        let Routes { lifeline, answer, .. } = self;
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
        Ok(told) => Answer::of(&told, began.elapsed()).lines(),
        Err(problem) => format!("-{}", printable(&problem.text)),
    };
    let _ = answer.write_all(line.as_bytes());
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
    fn answers_are_passed_on() {
        const LACKING: &str = "the job's lanes don't have queues of their own everywhere: none at s1";
        let answer = |told| Answer::of(&told, Duration::from_millis(3));
        let plain = answer(serde_json::json!({"pairs": 4}));
        assert_eq!((plain.lane_dscp.as_str(), plain.trouble.as_str()), ("", ""));
        assert_eq!(Answer::read(&plain.lines()), Some(Ok(plain)));
        let marked = answer(serde_json::json!({"pairs": 4, "lane_dscp": "latency=46,bulk=8", "queues": "none\nat s1"}));
        assert_eq!((marked.lane_dscp.as_str(), marked.trouble.as_str()), ("latency=46,bulk=8", LACKING));
        assert_eq!(Answer::read(&marked.lines()), Some(Ok(marked)));
        let unknown = answer(serde_json::json!({"pairs": 0, "routes": "no pattern 'x'"}));
        assert_eq!(unknown.trouble, "the job runs on default routes: no pattern 'x'");
        let long = "x".repeat(9000);
        let odd = answer(serde_json::json!({"pairs": 4, "lane_dscp": "latency=99", "queues": long}));
        assert!(odd.lane_dscp.is_empty() && odd.trouble.contains("latency=99"), "{odd:?}");
        assert!(answer(serde_json::json!({"queues": long})).lines().len() < 2000);
        assert_eq!(Answer::read("-no pattern"), Some(Err("no pattern".into())));
        assert_eq!(Answer::read(""), None);
    }

    #[test]
    fn lanes_are_marked_as_the_manager_says() {
        let (answer, _) = std::io::pipe().unwrap();
        let (_, lifeline) = std::io::pipe().unwrap();
        let routes = Routes { lifeline, answer, lane_dscp: "latency=46".into() };
        let app = |set: &[(&str, &str)]| App {
            set: set.iter().map(|(n, v)| (n.as_bytes().to_vec(), v.as_bytes().to_vec())).collect(),
            argv: Vec::new(),
            keep: Some(Vec::new()),
            working_directory: Vec::new(),
            directory_required: false,
            preloaded: None,
        };
        let mut apps = [app(&[]), app(&[("FERRULE_LANE_DSCP", "off")])];
        routes.mark_lanes(&mut apps);
        let marks = apps.map(|app| environment::setting_of(&app, "LANE_DSCP").unwrap());
        assert_eq!(marks, [b"latency=46".to_vec(), b"off".to_vec()]);
        let plan = lanes_of(&app(&[("FERRULE_LANES", "3"), ("FERRULE_LANE_POLICY", "segregate:traffic")]));
        assert_eq!(plan.unwrap().to_string(), "3:segregate:traffic");
        assert!(lanes_of(&app(&[("FERRULE_LANES", "many")])).is_err());
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
