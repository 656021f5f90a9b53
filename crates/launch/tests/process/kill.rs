//! Whatever is killed, nothing outlives the job: `finish` checks that for every test.

use crate::harness::{is_named, kill, start};
use std::time::Duration;

/// Ranks with children that have left their process group.
const SCRIPT: &str = "setsid sh -c 'sleep 1000; true' & sleep 1000; true";
/// Processes of a rank: shell, sleep, setsid's shell, its sleep.
const PER_RANK: usize = 4;

fn agent(pids: &[i32]) -> Option<i32> {
    pids.iter().copied().find(|pid| is_named(*pid, "ferrule-agent"))
}

#[test]
fn a_killed_mpiexec_takes_everything_along() {
    let job = start(&["-n", "3", "sh", "-c", SCRIPT]);
    job.wait_for(|pids| pids.len() > 3 * PER_RANK);
    kill(job.pid(), 9);
    assert_eq!(job.finish(b"").code, 137);
}

#[test]
fn a_killed_agent_is_named() {
    let job = start(&["-n", "3", "sh", "-c", SCRIPT]);
    let pids = job.wait_for(|pids| pids.len() > 3 * PER_RANK && agent(pids).is_some());
    kill(agent(&pids).unwrap(), 9);
    let done = job.finish(b"");
    assert_eq!(done.code, 1);
    assert!(done.stderr.contains("the node agent on") && done.stderr.contains("SIGKILL"), "{}", done.stderr);
}

#[test]
fn a_killed_rank_ends_the_job() {
    let job = start(&["-n", "3", "sh", "-c", SCRIPT]);
    let pids = job.wait_for(|pids| pids.len() > 3 * PER_RANK);
    kill(*pids.iter().find(|pid| is_named(**pid, "sh")).unwrap(), 9);
    let done = job.finish(b"");
    assert!(done.code == 137 || done.code == 1, "{}", done.stderr);
}

#[test]
fn any_process_at_any_moment() {
    let mut state = 12345u64;
    for round in 0..30 {
        let tree: &[&str] = &["--launcher-exec", "env {command}", "--tree-width", "1", "-hosts", "a,b", "-n", "4"];
        let plain: &[&str] = &["-n", "4"];
        let mut args = if round % 2 == 0 { plain.to_vec() } else { tree.to_vec() };
        args.extend(["sh", "-c", SCRIPT]);
        let job = start(&args);
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_micros(state >> 47));
        let mut pids = job.processes();
        pids.push(job.pid());
        let victim = pids[(state >> 20) as usize % pids.len()];
        kill(victim, 9);
        // The victim may have been a grandchild, which nobody misses.
        std::thread::sleep(Duration::from_millis(20));
        kill(job.pid(), 15);
        assert_ne!(job.finish(b"").code, 0, "round {round}");
    }
}

#[test]
fn background_processes_end_with_their_ranks() {
    let done = start(&["-n", "2", "sh", "-c", "setsid sleep 1000 & echo done"]).finish(b"");
    assert_eq!((done.code, done.out()), (0, "done\ndone\n"));
}

#[test]
fn signals_reach_the_ranks() {
    let script = "trap 'echo usr1; exit 0' USR1; echo ready >&2; while :; do sleep 0.01; done";
    let job = start(&["-n", "2", "sh", "-c", script]);
    job.wait_for(|pids| pids.iter().filter(|p| is_named(**p, "sleep")).count() == 2);
    kill(job.pid(), 10);
    let done = job.finish(b"");
    assert_eq!((done.code, done.out()), (0, "usr1\nusr1\n"), "{}", done.stderr);
    for (signal, code) in [(2, 130), (15, 143), (1, 129)] {
        let job = start(&["-n", "2", "sleep", "1000"]);
        job.wait_for(|pids| pids.iter().filter(|p| is_named(**p, "sleep")).count() == 2);
        kill(job.pid(), signal);
        assert_eq!(job.finish(b"").code, code);
    }
}

#[test]
fn a_second_interrupt_kills() {
    let job = start(&["-n", "2", "sh", "-c", "trap '' INT TERM; while :; do sleep 0.01; done"]);
    job.wait_for(|pids| pids.iter().filter(|p| is_named(**p, "sleep")).count() == 2);
    // Two that come before mpiexec looks are one to it.
    for _ in 0..100 {
        kill(job.pid(), 2);
        std::thread::sleep(Duration::from_millis(100));
        if job.processes().is_empty() {
            break;
        }
    }
    assert_eq!(job.finish(b"").code, 130);
}

#[test]
fn a_stopped_job_goes_on() {
    let job = start(&["-n", "2", "--stdin", "all", "sh", "-c", "cat; echo end"]);
    let pids = job.wait_for(|pids| pids.iter().filter(|p| is_named(**p, "cat")).count() == 2);
    let cat = *pids.iter().find(|p| is_named(**p, "cat")).unwrap();
    let state = |pid: i32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        text.rsplit_once(") ").and_then(|t| t.1.chars().next())
    };
    kill(job.pid(), 20);
    job.wait_for(|_| state(job.pid()) == Some('T') && state(cat) == Some('T'));
    kill(job.pid(), 18);
    assert_eq!(job.finish(b"").out(), "end\nend\n");
}
