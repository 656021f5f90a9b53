//! The head process of a job whose ranks another launcher has started: rank 0 starts it and tells it where they are.
//!
//! It is no child of the rank and has a session of its own, so that the program never reaps an unknown child. It ends when all agents have
//! reported that their ranks are gone.

use super::Head;
use super::setup::Plan as JobPlan;
use crate::cli::Options;
use crate::{environment, settings};
use protocol::control::adopt::{PLAN_MAX, Plan};
use protocol::control::tree::{App, JobSpec, Launcher, Placed, ROOT};
use protocol::control::{VERSION, decode};
use std::fs::File;
use std::io::{Error, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;

/// `mpiexec --adopt-front`: reads a plan from standard input, writes an invitation for the other agents.
pub fn run() -> i32 {
    crate::agent::adopt::note_starter();
    match sys::process::fork_run(&[], main) {
        Ok(_) => 0,
        Err(e) => {
            eprintln!("ferrule: cannot start a process for the job: {e}");
            1
        }
    }
}

fn main() -> i32 {
    let _ = sys::process::new_session();
    sys::process::set_name(c"ferrule-front");
    let head = read_plan().map_err(|e| format!("cannot read the job's plan: {e}")).and_then(open);
    super::run_head(head, "ferrule")
}

fn read_plan() -> std::io::Result<Plan> {
    let mut input = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > PLAN_MAX {
        return Err(Error::other("it is too long"));
    }
    let mut bytes = Vec::new();
    input.take(length as u64).read_to_end(&mut bytes)?;
    decode(&bytes).map_err(|e| Error::other(e.origin))
}

fn open(plan: Plan) -> Result<Head, String> {
    if plan.version != VERSION {
        let why = format!("protocol {VERSION} instead of {}", plan.version);
        return Err(format!("mpiexec and the library are not from one build ({why})"));
    }
    let nodes = plan.hosts.len() as u32;
    if plan.node_of.first() != Some(&0) || plan.node_of.iter().any(|node| *node >= nodes) {
        return Err("the plan of the job is wrong".into());
    }
    let others: Vec<(u32, String)> = (1..nodes).zip(plan.hosts[1..].iter().cloned()).collect();
    let job = JobPlan {
        job: job_of(plan),
        local_nodes: 1,
        containers: Vec::new(),
        homes: Vec::new(),
        preload: Default::default(),
    };
    let launcher = job.job.launcher.clone();
    let mut head = Head::of(Options::default(), job)?;
    let invite = if others.is_empty() { None } else { Some(head.children.expect(&others, &launcher)?) };
    let line = invite.map_or_else(|| "\n".to_string(), |invite| invite.to_line());
    let mut output = std::io::stdout();
    output.write_all(line.as_bytes()).and_then(|()| output.flush()).map_err(|e| format!("rank 0 is gone: {e}"))?;
    sys::watch::let_go_of_stdio().map_err(|e| e.to_string())?;
    head.start_agents()?;
    Ok(head)
}

fn job_of(plan: Plan) -> JobSpec {
    let mut counts = vec![0u32; plan.hosts.len()];
    let ranks: Vec<Placed> = (plan.node_of.iter())
        .map(|node| {
            counts[*node as usize] += 1;
            Placed { node: *node, app: 0, local: counts[*node as usize] - 1 }
        })
        .collect();
    // Agents look for agents under the same kernel as these say.
    let own = std::env::vars_os().map(|(n, v)| (n.into_vec(), v.into_vec()));
    let set = own.filter(|(name, _)| name.starts_with(b"FERRULE_")).collect();
    let app = App {
        argv: vec![plan.launcher.clone().into_bytes()],
        set,
        keep: None,
        working_directory: plan.working_directory,
        directory_required: false,
        preloaded: None,
    };
    let nodes = plan.hosts.len() as u32;
    JobSpec {
        version: VERSION,
        job_id: u64::from_le_bytes(sys::process::random()),
        rank_key: sys::process::random(),
        meeting_key: plan.meeting_key,
        hosts: plan.hosts,
        universe_size: plan.universe_size.max(ranks.len() as u32),
        ranks,
        launcher: Launcher {
            width: nodes,
            timeout_s: settings::CONNECT_TIMEOUT.value() as u32,
            ports: settings::PORT_RANGE.value().into(),
            listen: settings::LISTEN.value().into(),
            ..Launcher::default()
        },
        bind_count: 1,
        collectives: environment::of_collectives(&app),
        apps: vec![app],
        stdin_rank: ROOT,
        grace_ms: settings::KILL_GRACE.value() as u32,
        discover: nodes > 1,
        profile: super::profile::orders(&Options::default()),
        adopted_from: plan.launcher,
        ..JobSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranks_key_is_none_that_the_launcher_has_carried() {
        let plan = || Plan {
            version: VERSION,
            launcher: "a launcher".into(),
            meeting_key: [7; 16],
            hosts: vec!["a".into(), "b".into()],
            node_of: vec![0, 1],
            universe_size: 2,
            working_directory: Vec::new(),
        };
        let (one, other) = (job_of(plan()), job_of(plan()));
        assert_eq!(one.meeting_key, [7; 16]);
        assert!(one.rank_key != [7; 16] && one.rank_key != [0; 16] && one.rank_key != other.rank_key);
    }
}
