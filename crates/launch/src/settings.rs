//! The launcher's settings, and every table of settings that the product has.

use base::config::Meta;

pub use channel::bootstrap::AGENT_PATH;
pub use channel::tcp::{LISTEN, PORT_RANGE};

base::config! {
    /// Width of the tree of node agents.
    TREE_WIDTH: u64 = 16, 1..=1024, "agents";
    /// How long a node agent may take to call back.
    CONNECT_TIMEOUT: u64 = 60, 1..=3600, "seconds";
    /// How long a message between node agents may pause before the connection counts as broken.
    MESSAGE_TIMEOUT: u64 = 30, 1..=86400, "seconds";
    /// How long the host of a node agent may be silent before the connection counts as broken; 0 leaves it to the kernel.
    NODE_TIMEOUT: u64 = 20, 0..=86400, "seconds";
    /// How long ranks may take to obey SIGTERM before they get SIGKILL.
    KILL_GRACE: u64 = 1000, 0..=600000, "milliseconds";
    /// How agents on other hosts are started: ssh, fork (all hosts are this one), or a command template with {host} and {command}.
    LAUNCHER: text = "ssh";
    /// A command that starts node agents, like --launcher-exec; it goes before FERRULE_LAUNCHER.
    LAUNCHER_EXEC: text = "";
    /// A directory that the containers of one host share, for the first contact of their node agents. May be another path in each.
    JOB_DIR: text = "";
    /// How long a node agent waits for the answer of another one that may be on the same host.
    LOCALITY_TIMEOUT: u64 = 1000, 1..=60000, "milliseconds";
    /// Memory that VMs of one host share: `auto` for the ivshmem devices of a VM, `off`, or paths with `:` between them (on the host: the
    /// device's backing file). May differ between nodes.
    IVSHMEM: text = "auto";
    /// After how long somebody else gets the room in such memory whose owner has died with its VM, or was stopped.
    IVSHMEM_LEASE: u64 = 30, 5..=86400, "seconds";
    /// How ranks start and learn each other's endpoints, as --startup: original, dr, bc, mpd-bc, tree, hypercube or lazy.
    STARTUP: text = "lazy";
    /// When connections are made, as --connect: all in MPI_Init, or on demand.
    CONNECT: text = "demand";
    /// The interconnect manager that --comm-pattern asks for routes: unix:PATH, https://HOST:PORT or http://HOST:PORT, as --fabric.
    FABRIC_API: text = "unix:/run/ferrule-fabric.sock";
    /// A file with the token for a manager that is reached over TCP.
    FABRIC_TOKEN_FILE: text = "";
    /// A file with the certificates (PEM) that may have signed the manager's; empty for those of the system.
    FABRIC_TLS_CA: text = "";
    /// Whether the token may go to a manager on this host over http://127.0.0.1; to other hosts it never goes without TLS.
    FABRIC_PLAIN_TOKEN: bool = false;
    /// How long a job waits for its routes; then it runs on default routes.
    FABRIC_TIMEOUT: u64 = 2000, 1..=60000, "milliseconds";
    /// The communication pattern that routes are asked for, as --comm-pattern (Slurm's option of that name sets it).
    COMM_PATTERN: text = "";
    /// Where nodes put files that are sent to them (--preload): a directory from which programs may be run; empty for $TMPDIR or /tmp.
    PRELOAD_PARENT: text = "";
    /// File into which mpiexec writes who sends how much to whom, as --profile; empty for none.
    PROFILE: text = "";
    /// Count for each communicator and collective, too, as --profile-detail.
    PROFILE_DETAIL: bool = false;
    /// Count for each time slice of so many seconds, too, as --profile-slice; 0 for none.
    PROFILE_SLICE: f64 = 0.0, 0.0..=86400.0, "seconds";
    /// What ranks are bound to unless --bind-to says: none, hwthread, core, numa, socket.
    BIND_TO: text = "none";
}

/// What mpiexec itself puts into a rank's environment.
const OTHERS: &[&str] = &["CONTROL_FD", "NODE_FD", "RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "PRELOAD_DIR"];

/// All tables, by the name of their module.
pub fn tables() -> Vec<(&'static str, &'static [Meta])> {
    let mut all: Vec<(&'static str, &'static [Meta])> = vec![("launch", TABLE)];
    all.push(("topology", sys::topology::TABLE));
    all.extend(channel::settings());
    all.push(("error handlers", mpi::errhandler::TABLE));
    all.push(("migration", mpi::migration::TABLE));
    all.push(("collectives", mpi::coll::select::settings::TABLE));
    all
}

/// Obeys `FERRULE_LOG`, unless the environment can't be trusted.
pub fn set_log_level() {
    if sys::process::is_privileged() {
        base::config::ignore_environment();
    }
    base::log::set_level_named(channel::bootstrap::LOG.value());
}

/// A warning about `name` (without `FERRULE_`) if no table has it.
pub fn check_name(name: &str) -> Option<String> {
    let known: Vec<&str> = tables().iter().flat_map(|t| t.1).map(|m| m.name).chain(OTHERS.iter().copied()).collect();
    if known.contains(&name) {
        return None;
    }
    if let Some((_, now)) = base::config::RENAMED.iter().find(|(old, _)| *old == name) {
        return Some(format!("FERRULE_{name} is called FERRULE_{now} now, and has no effect"));
    }
    let hint = base::config::nearest(name, known.into_iter()).map(|n| format!("; did you mean FERRULE_{n}?"));
    Some(format!("there is no setting FERRULE_{name}{}", hint.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_told() {
        assert_eq!(check_name("PORT_RANGE"), None);
        assert!(check_name("PORT_RANGES").unwrap().contains("FERRULE_PORT_RANGE?"));
        for (old, now) in base::config::RENAMED {
            assert!(check_name(old).unwrap().contains(&format!("called FERRULE_{now} now")));
            assert_eq!(check_name(now), None);
        }
    }
}
