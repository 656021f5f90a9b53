//! The process that starts an agent on another host: its command line, its start.

use crate::environment::{self, NODE_FD, find_program, shell_quote};
use protocol::control::tree::Launcher;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use sys::process::{Pid, Spawn, signals};

/// The launcher's words for `host`, to run mpiexec there with option `mode`.
pub fn expand(launcher: &Launcher, host: &str, mode: &str) -> Vec<String> {
    let command = [launcher.agent_path.as_str(), mode];
    let pod = host.split('.').next().unwrap_or(host);
    let joined = command.map(shell_quote).join(" ");
    let mut words = Vec::new();
    for word in &launcher.template {
        if word == "{command}" {
            words.extend(command.map(String::from));
        } else {
            words.push(word.replace("{host}", host).replace("{pod}", pod).replace("{command}", &joined));
        }
    }
    words
}

/// Starts it; its standard input, and its standard output, which doesn't wait.
pub fn start_launcher(words: &[String], switch: Option<&OwnedFd>) -> std::io::Result<(Pid, File, File)> {
    let argv: Vec<CString> = words.iter().map(|w| CString::new(w.as_str())).collect::<Result<_, _>>()?;
    let path = find_program(argv[0].as_bytes(), std::env::var_os("PATH").as_deref(), None)?;
    let mut env = crate::environment::inherited();
    // Of the job, not of a step that only starts agents: Slurm's plugin would ask for routes for that.
    env.retain(|(name, _)| name.as_slice() != b"FERRULE_COMM_PATTERN");
    if switch.is_some() {
        environment::set(&mut env, b"FERRULE_NODE_FD", NODE_FD.to_string().as_bytes());
    }
    let env: Vec<CString> = env.into_iter().filter_map(|(n, v)| environment::join(&n, &v)).collect();
    let (their_stdin, stdin) = std::io::pipe()?;
    let (stdout, their_stdout) = std::io::pipe()?;
    let stderr = std::io::stderr();
    let mut fds = vec![(their_stdin.as_fd(), 0), (their_stdout.as_fd(), 1), (stderr.as_fd(), 2)];
    fds.extend(switch.map(|fd| (fd.as_fd(), NODE_FD)));
    let spec = Spawn { ignore: &[signals::INT, signals::TSTP], ..Spawn::new(&path, &argv, &env, &fds) };
    let pid = sys::process::spawn(&spec).map_err(|(_, e)| e)?;
    sys::process::set_nonblocking(stdout.as_fd(), true)?;
    Ok((pid, File::from(OwnedFd::from(stdin)), File::from(OwnedFd::from(stdout))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_expand_to_words_or_to_quoted_text() {
        let launcher = |template: &str| Launcher {
            template: template.split(' ').map(String::from).collect(),
            agent_path: "/a b/mpiexec".into(),
            width: 2,
            timeout_s: 1,
            ports: String::new(),
            listen: String::new(),
        };
        assert_eq!(
            expand(&launcher("ip netns exec {host} {command}"), "h1", "--agent"),
            ["ip", "netns", "exec", "h1", "/a b/mpiexec", "--agent"]
        );
        assert_eq!(expand(&launcher("sh -c exec:{command}"), "h1", "--agent")[2], "exec:'/a b/mpiexec' --agent");
        assert_eq!(expand(&launcher("kubectl exec -i {pod} {command}"), "p-0.svc.ns", "--agent")[3], "p-0");
    }
}
