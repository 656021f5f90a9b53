//! The process that a launcher starts on another host. It forks the agent, and ends what the agent leaves if it is killed.
//!
//! If the reaper is killed instead, the agent gets SIGTERM and ends everything itself.

use crate::environment::node_socket;
use crate::invite::Invite;
use crate::leftovers::{Leftovers, Sweeper};
use crate::{agent, dial, orphans};
use base::log;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use sys::process::{Ended, SignalFd, kill, signals};

/// `mpiexec --agent`: reads the invitation from standard input and returns the exit code.
pub fn run() -> i32 {
    base::log::set_prefix(format!("agent@{}", sys::process::host_name()));
    let Some(invite) = read_line().as_deref().and_then(Invite::from_line) else {
        log!(
            Error,
            "no invitation on standard input: mpiexec --agent is started by mpiexec, whose launcher must pass standard input on \
             (docker exec -i, kubectl exec -i)"
        );
        return 1;
    };
    guard(&invite)
}

/// `mpiexec --adopt-agent N`: the same for ranks that another launcher has started. It is nobody's child and ends after its ranks.
pub fn run_adopted(node: u32) -> i32 {
    agent::adopt::note_starter();
    let body = || {
        let _ = sys::process::new_session();
        let invite = read_line().as_deref().and_then(Invite::from_line);
        let _ = sys::watch::let_go_of_stdio();
        match invite {
            Some(invite) => guard(&Invite { node, ..invite }),
            None => {
                log!(Error, "no invitation on standard input: mpiexec --adopt-agent is started by a rank");
                1
            }
        }
    };
    match sys::process::fork_run(&[], body) {
        Ok(_) => 0,
        Err(e) => {
            log!(Error, "cannot start the node agent: {e}");
            1
        }
    }
}

fn guard(invite: &Invite) -> i32 {
    let _ = sys::process::become_subreaper();
    let me = std::process::id();
    let signals = SignalFd::new(&[signals::CHLD, signals::TERM, signals::HUP, signals::INT]);
    let Ok((mut sweeper, writer)) = Sweeper::new() else {
        log!(Error, "cannot create a pipe");
        return 1;
    };
    let switch = node_socket();
    let keep: Vec<BorrowedFd<'_>> = std::iter::once(writer.as_fd()).chain(switch.as_ref().map(AsFd::as_fd)).collect();
    let agent = sys::process::fork_run(&keep, || {
        let inherited = switch.as_ref().and_then(|fd| fd.try_clone().ok());
        agent_main(invite, me as i32, Leftovers::over(writer.as_fd()), inherited)
    });
    drop(writer);
    drop(switch);
    let (Ok(signals), Ok(agent)) = (signals, agent) else {
        log!(Error, "cannot start the node agent");
        return 1;
    };
    let mut set = crate::pollset::PollSet::default();
    loop {
        set.clear();
        set.add(&signals, true, false);
        let _ = set.wait();
        while let Some(info) = signals.next_signal() {
            if info.signal != signals::CHLD && info.signal != signals::INT {
                let _ = kill(agent, signals::TERM);
            }
        }
        while let Ok(Some((pid, how))) = sys::process::reap() {
            if pid == agent {
                sweeper.sweep();
                orphans::ask_children_to_end(Duration::from_secs(1));
                orphans::end_all_children(Duration::from_secs(2));
                return match how {
                    Ended::Exit(code) => code,
                    Ended::Signal(signal, _) => 128 + signal,
                    Ended::Unseen => 1,
                };
            }
        }
    }
}

/// One line, and not a byte more: what follows may be the link's.
pub(crate) fn read_line() -> Option<String> {
    let mut input = std::fs::File::from(std::io::stdin().as_fd().try_clone_to_owned().ok()?);
    let mut line = Vec::new();
    while line.len() < 64 << 10 {
        let mut byte = [0];
        if input.read(&mut byte).ok()? == 0 {
            return None;
        }
        if byte[0] == b'\n' {
            return String::from_utf8(line).ok();
        }
        line.push(byte[0]);
    }
    None
}

fn agent_main(invite: &Invite, reaper: i32, leftovers: Leftovers, switch: Option<OwnedFd>) -> i32 {
    let _ = sys::process::new_session();
    let _ = sys::process::set_death_signal(signals::TERM, reaper);
    match dial::call_parent(invite) {
        Ok(link) => agent::run(invite.node, invite.key, link, (leftovers, switch)),
        Err(why) => {
            log!(Error, "{why}");
            1
        }
    }
}
