//! What the kernel says about this host: channels, limits, processors, launchers, engines of containers.

use super::{Finding, State, in_path, peers};
use crate::container::calls::ask;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a launcher or an engine may take to say that it works.
const LIMIT: Duration = Duration::from_secs(10);
/// Open files below which a job of many ranks has trouble.
const FILES: u64 = 4096;
/// Locked memory below which RDMA devices can't register much.
const LOCKED: u64 = 64 << 20;

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_string())
}

/// What two processes can do with each other, memory, UCX, ivshmem.
pub fn channels() -> Vec<Finding> {
    let mut all = match peers::try_both() {
        Ok(tried) => vec![memfd(&tried), single_copy(&tried)],
        Err(why) => vec![Finding::new("channels", "shared memory", State::Error, why, "")],
    };
    all.push(shared_pages());
    all.push(ucx());
    all.push(ivshmem());
    all
}

fn memfd(tried: &peers::Tried) -> Finding {
    match &tried.memfd {
        Ok(()) => Finding::ok("channels", "shared memory", "two processes map one memfd"),
        Err(why) => {
            let mend = "allow memfd_create and passing descriptors (SCM_RIGHTS) in the seccomp profile; or export FERRULE_JOB_DIR=a directory";
            Finding::new("channels", "shared memory", State::Slower, why, mend)
        }
    }
}

fn single_copy(tried: &peers::Tried) -> Finding {
    let name = "single copy (CMA)";
    let yama = read("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_else(|| "absent".into());
    let filter =
        read("/proc/self/status").is_some_and(|s| s.lines().any(|l| l.starts_with("Seccomp:") && !l.ends_with('0')));
    let around = format!("Yama's ptrace_scope is {yama}, a seccomp filter is {}", if filter { "on" } else { "off" });
    match (&tried.by_pid, &tried.by_mem) {
        (Ok(()), _) => Finding::ok("channels", name, format!("process_vm_readv between two processes works; {around}")),
        (Err(why), Ok(())) => {
            let found = format!("process_vm_readv: {why}; /proc/self/mem works and is used; {around}");
            Finding::ok("channels", name, found)
        }
        (Err(by_pid), Err(by_mem)) => {
            let mend = match yama.as_str() {
                "2" | "3" => "sysctl kernel.yama.ptrace_scope=1",
                _ if filter => "allow process_vm_readv in the seccomp profile (docker run --cap-add SYS_PTRACE)",
                _ => "run both ranks as one user in one pid namespace",
            };
            let found = format!("process_vm_readv: {by_pid}; /proc/self/mem: {by_mem}; {around}");
            Finding::new("channels", name, State::Slower, found, mend)
        }
    }
}

/// Room for the pages of memfds, tried with 16 MiB; /dev/shm is told because other libraries need it.
fn shared_pages() -> Finding {
    use std::os::fd::AsFd;
    const BYTES: u64 = 16 << 20;
    let shm = sys::file::space(std::path::Path::new("/dev/shm"));
    let shm = shm.map_or_else(
        |e| format!("/dev/shm: {e}"),
        |(all, free)| format!("/dev/shm has {} MiB, {} free", all >> 20, free >> 20),
    );
    let tried = sys::mem::growing_memfd(c"ferrule-doctor").and_then(|fd| sys::mem::allocate(fd.as_fd(), 0..BYTES));
    match tried {
        Ok(()) => Finding::ok(
            "channels",
            "memory for it",
            format!("a memfd got {} MiB of pages; {shm}, which Ferrule doesn't need", BYTES >> 20),
        ),
        Err(e) => {
            let found = format!("a memfd got no {} MiB of pages: {e}; {shm}", BYTES >> 20);
            Finding::new(
                "channels",
                "memory for it",
                State::Slower,
                found,
                "raise the container's limit of memory (memory.max)",
            )
        }
    }
}

fn ucx() -> Finding {
    let devices = channel::ucx::devices::has_devices();
    let around = if devices { "there are RDMA devices" } else { "there are no RDMA devices, so TCP is as good" };
    match channel::ucx::devices::library_version() {
        Ok(version) if devices && channel::ucx::UCX.value() == "off" => Finding::new(
            "channels",
            "UCX",
            State::Slower,
            format!("libucp {version}; {around}, and FERRULE_UCX is off"),
            "export FERRULE_UCX=auto",
        ),
        Ok(version) => Finding::ok("channels", "UCX", format!("libucp {version}; {around}")),
        Err(why) => {
            let (state, mend) = if devices {
                (State::Slower, "apt-get install libucx0 && export FERRULE_UCX=auto")
            } else {
                (State::Missing, "")
            };
            Finding::new("channels", "UCX", state, format!("{why}; {around}"), mend)
        }
    }
}

fn ivshmem() -> Finding {
    let name = "ivshmem (memory of several VMs)";
    let found = crate::agent::near::regions::devices();
    let Some(first) = found.first() else {
        return Finding::new("channels", name, State::Missing, "this host has no such device", "");
    };
    match std::fs::File::options().read(true).write(true).open(first) {
        Ok(_) => Finding::ok("channels", name, first.display().to_string()),
        Err(e) => {
            let mend = format!("chmod 660 {0} && chgrp YOUR-GROUP {0}", first.display());
            Finding::new("channels", name, State::Slower, format!("{}: {e}", first.display()), mend)
        }
    }
}

/// Soft and hard limit of a line of /proc/self/limits; `u64::MAX` is unlimited.
fn limit(text: &str, name: &str) -> Option<(u64, u64)> {
    let mut fields = text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace();
    let mut number = || match fields.next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    };
    Some((number()?, number()?))
}

fn count(n: u64) -> String {
    if n == u64::MAX { "unlimited".into() } else { n.to_string() }
}

/// Open files, locked memory, processes.
pub fn limits() -> Vec<Finding> {
    let text = read("/proc/self/limits").unwrap_or_default();
    let mut all = Vec::new();
    // mpiexec raises the soft limit by itself, so the hard one counts.
    if let Some((soft, hard)) = limit(&text, "Max open files") {
        let found = format!("{}, which mpiexec raises to {}", count(soft), count(hard));
        all.push(if hard < FILES {
            let mend = "put '* hard nofile 65536' into /etc/security/limits.conf (a service: LimitNOFILE=65536), and log in again";
            Finding::new("limits", "open files", State::Slower, format!("{found}: too few for hundreds of ranks or several lanes"), mend)
        } else {
            Finding::ok("limits", "open files", found)
        });
    }
    if let Some((soft, _)) = limit(&text, "Max locked memory") {
        let found = if soft == u64::MAX { "unlimited".into() } else { format!("{} KiB", soft >> 10) };
        all.push(if soft < LOCKED && channel::ucx::devices::has_devices() {
            let mend = "put '* hard memlock unlimited' and '* soft memlock unlimited' into /etc/security/limits.conf";
            Finding::new("limits", "locked memory", State::Slower, format!("{found}: RDMA devices need more"), mend)
        } else {
            Finding::ok("limits", "locked memory", format!("{found} (only RDMA devices need it)"))
        });
    }
    let user = limit(&text, "Max processes").map_or(u64::MAX, |(soft, _)| soft);
    let most = user.min(pids_max().unwrap_or(u64::MAX));
    all.push(if most < 256 {
        let mend = "raise ulimit -u, or the container's limit (docker run --pids-limit, pids.max)";
        Finding::new("limits", "processes", State::Slower, count(most), mend)
    } else {
        Finding::ok("limits", "processes", count(most))
    });
    all
}

/// The strictest `pids.max` on the way to the root (cgroup v2).
fn pids_max() -> Option<u64> {
    let own = read("/proc/self/cgroup")?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let root = std::path::Path::new("/sys/fs/cgroup");
    let own = root.join(path.trim_start_matches('/'));
    own.ancestors()
        .take_while(|dir| dir.starts_with(root))
        .filter_map(|dir| std::fs::read_to_string(dir.join("pids.max")).ok()?.trim().parse().ok())
        .min()
}

/// How many there are, caches they share, what the control group grants.
pub fn processors() -> Vec<Finding> {
    let (allowed, machine) = match (sys::affinity::allowed(), sys::topology::Topology::current()) {
        (Ok(allowed), Ok(machine)) => (allowed, machine),
        (Err(e), _) => return vec![Finding::new("processors", "processors", State::Error, e.to_string(), "")],
        (_, Err(why)) => {
            return vec![Finding::new("processors", "processors", State::Error, why, "unset FERRULE_TOPOLOGY")];
        }
    };
    let cache = |cpu: usize| read(&format!("/sys/devices/system/cpu/cpu{cpu}/cache/index3/shared_cpu_list"));
    let groups: BTreeSet<String> = allowed.iter().filter_map(cache).collect();
    let caches = match groups.len() {
        0 => "which of them share a third-level cache isn't known".to_string(),
        1 => "all share one third-level cache".to_string(),
        n => format!("{n} third-level caches: ranks of one are near, others far"),
    };
    let found = format!("{} to use ({}); {caches}", allowed.count(), machine.summary());
    let mut all = vec![Finding::ok("processors", "processors", found)];
    all.push(match sys::affinity::quota() {
        Some(quota) if quota < allowed.count() as f64 => {
            let found = format!("the control group grants the time of {quota:.1} of {} processors", allowed.count());
            let mend = "raise cpu.max (docker run --cpus, resources.limits.cpu), or start no more ranks than that";
            Finding::new("processors", "quota", State::Slower, found, mend)
        }
        _ => Finding::ok("processors", "quota", "none below the number of processors"),
    });
    all
}

/// ssh, Slurm, the batch system whose job this is, engines of containers.
pub fn launchers() -> Vec<Finding> {
    let mut all =
        vec![command("launchers", "ssh", &["-V"], "apt-get install openssh-client (only for jobs on several hosts)")];
    all.push(command("launchers", "srun", &["--version"], ""));
    let surroundings = crate::alloc::Surroundings {
        variable: &|name| std::env::var(name).ok().filter(|value| !value.trim().is_empty()),
        file: &|path| std::fs::read_to_string(path).map_err(|e| format!("cannot read {path}: {e}")),
    };
    all.push(match crate::alloc::find(&surroundings) {
        Ok(Some(found)) => {
            Finding::ok("launchers", "allocation", format!("{} gives {} hosts", found.system, found.hosts.len()))
        }
        Ok(None) => Finding::new(
            "launchers",
            "allocation",
            State::Missing,
            "not inside of a job of Slurm, LSF, PBS or an MPIJob",
            "",
        ),
        Err(why) => Finding::new("launchers", "allocation", State::Error, why, "name the hosts: mpiexec --host"),
    });
    for (engine, ask) in [("docker", "version"), ("podman", "version"), ("ch-run", "--version")] {
        all.push(command("containers", engine, &[ask], ""));
    }
    all
}

/// Runs a command that is in PATH, so that one that is broken shows.
fn command(area: &'static str, name: &str, words: &[&str], mend: &str) -> Finding {
    let Some(path) = in_path(name) else {
        return Finding::new(area, name, State::Missing, "not in PATH", mend);
    };
    let shown = path.display().to_string();
    let all: Vec<String> = std::iter::once(shown.clone()).chain(words.iter().map(|w| (*w).to_string())).collect();
    match ask(&all, LIMIT) {
        Ok(_) => Finding::ok(area, name, shown),
        Err(why) => {
            let line = why.trim().replace('\n', " ");
            Finding::new(area, name, State::Missing, line, format!("run '{}' to see why", all.join(" ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_from_their_lines() {
        let text = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 524288               files\nMax locked memory         unlimited            unlimited            bytes\n";
        assert_eq!(limit(text, "Max open files"), Some((1024, 524_288)));
        assert_eq!(limit(text, "Max locked memory"), Some((u64::MAX, u64::MAX)));
        assert_eq!(limit(text, "Max processes"), None);
    }
}
