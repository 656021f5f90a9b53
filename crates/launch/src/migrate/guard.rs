//! The process above the controller: neither of them can be killed without the other noticing.
//!
//! If the controller is killed, this process ends the programs that the controller had started for a step, and says what is left to do. If this process is killed,
//! the controller gets SIGTERM and undoes the migration.

use super::report;
use crate::{orphans, pollset::PollSet};
use std::time::{Duration, Instant};
use sys::process::{Ended, Pid, SignalFd, kill, kill_group, signals};

/// What the programs of a step get between SIGTERM and SIGKILL.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks at them.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs the controller; its exit code.
pub fn run(controller: impl FnOnce() -> i32) -> Result<i32, String> {
    let failed = |e: std::io::Error| format!("cannot start the controller: {e}");
    sys::process::become_subreaper().map_err(failed)?;
    // Blocked before the fork: a signal that comes now reaches the controller.
    let signals = SignalFd::new(&[signals::CHLD, signals::INT, signals::TERM, signals::HUP]).map_err(failed)?;
    let me = std::process::id() as Pid;
    let child = sys::process::fork_run(&[], || {
        let _ = sys::process::set_death_signal(signals::TERM, me);
        controller()
    });
    let child = child.map_err(failed)?;
    let mut set = PollSet::default();
    loop {
        set.clear();
        set.add(&signals, true, false);
        set.wait().map_err(failed)?;
        while let Some(info) = signals.next_signal() {
            if info.signal != signals::CHLD {
                let _ = kill(child, info.signal);
            }
        }
        while let Ok(Some((pid, how))) = sys::process::reap() {
            match how {
                Ended::Exit(code) if pid == child => return Ok(code),
                _ if pid == child => return Ok(on_killed(how)),
                _ => {}
            }
        }
    }
}

fn on_killed(how: Ended) -> i32 {
    end_steps();
    let how = match how {
        Ended::Signal(signal, _) => format!("by signal {signal}"),
        _ => "by somebody else".into(),
    };
    report::complain(&format!(
        "ferrule migrate: the controller was ended {how}; look where the machines run and which devices they have; mpiexec resumes the job \
         after --hold, and `ferrule resume` does so at once (`ferrule drain --status`)"
    ));
    1
}

/// Ends what the controller had started. It is in this session, unlike a daemon that a program has left, such as a hypervisor.
fn end_steps() {
    let Some((own_group, session)) = group_and_session("self") else { return };
    let groups = || -> Vec<Pid> {
        let all = orphans::children().into_iter().filter_map(|pid| group_and_session(&pid.to_string()));
        all.filter(|(group, of)| *of == session && *group != own_group && *group > 1).map(|(group, _)| group).collect()
    };
    let since = Instant::now();
    for group in groups() {
        let _ = kill_group(group, signals::TERM);
    }
    loop {
        while let Ok(Some(_)) = sys::process::reap() {}
        let left = groups();
        if left.is_empty() {
            return;
        }
        if since.elapsed() >= PATIENCE {
            left.into_iter().for_each(|group| drop(kill_group(group, signals::KILL)));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Of a process.
fn group_and_session(pid: &str) -> Option<(Pid, Pid)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; what follows the last one is: state, parent, group, session.
    let mut words = text.rsplit_once(')')?.1.split_whitespace().skip(2).map(str::parse);
    Some((words.next()?.ok()?, words.next()?.ok()?))
}
