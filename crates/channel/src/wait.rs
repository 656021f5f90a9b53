//! How a process waits, carried out: its clock, its processors, its sleep. What it does next is decided by `protocol::policy::waiting`.

use crate::bootstrap::JobInfo;
use protocol::policy::waiting::{Idle, OVERSUBSCRIBED, Waiting};
use std::os::fd::BorrowedFd;
use std::time::Duration;
use sys::affinity::{self, CpuSet};

base::config! {
    /// Longest sleep before a process looks around by itself.
    SLEEP_MS: u64 = 100, 1..=10000, "ms";
}

/// The kernel makes at least 50 µs of it.
const SHORT_SLEEP: Duration = Duration::from_micros(1);

/// The waiting of one process, with its clock.
#[derive(Debug)]
pub struct Waiter(Waiting);

impl Waiter {
    /// A waiter for one of so many [`ranks_per_cpu`].
    pub fn new(ranks_per_cpu: usize) -> Waiter {
        Waiter(Waiting::new(ranks_per_cpu))
    }

    /// Whether there are more ranks than processors, as the job says.
    pub fn job_oversubscribed(&self) -> bool {
        self.0.job_oversubscribed()
    }

    /// Whether it yields almost at once: the job says so, or it has noticed that it shares its processor.
    #[inline]
    pub fn oversubscribed(&self) -> bool {
        self.0.oversubscribed()
    }

    /// How long the present wait has lasted, as far as it was noticed: for somebody who asks.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.0.waited_ns(sys::clock::now_ns()))
    }

    /// What to do after the `idle_polls`-th poll in a row (from 1) that found nothing.
    #[inline]
    pub fn idle(&mut self, idle_polls: u64) -> Idle {
        self.0.idle(idle_polls, sys::clock::now_ns, sys::process::forced_switches)
    }

    /// A sleep is over.
    pub fn woke(&mut self) {
        self.0.woke(sys::clock::now_ns());
    }
}

/// How many ranks share a processor, 1 if each has its own: of the `node_ranks` ranks of this node, which may use certain processors
/// together. `bound` says that the launcher gave this rank a part of them, so that its own mask doesn't tell. `kernel` counts the
/// ranks of all nodes under this kernel and their processors, 0 if unknown: containers may share some.
pub fn ranks_per_cpu(node_ranks: usize, bound: bool, kernel: (usize, usize)) -> usize {
    let least = match OVERSUBSCRIBED.value() {
        "yes" => 2,
        "no" => return 1,
        "auto" => 1,
        other => {
            base::log!(Warn, "FERRULE_OVERSUBSCRIBED={other} is not auto, yes or no; using auto");
            1
        }
    };
    let online = || std::fs::read_to_string("/sys/devices/system/cpu/online").ok();
    let whole = if bound { online().and_then(|t| CpuSet::from_list(&t)) } else { None };
    let cpus = whole.or_else(|| affinity::allowed().ok()).map_or(1, |set| set.count());
    let cpus = affinity::quota().map_or(cpus as f64, |quota| quota.min(cpus as f64));
    // A quota of 1.9 processors still lets two ranks spin most of the time; one of 1.4 does not.
    let on_node = if node_ranks as f64 > cpus + 0.25 { (node_ranks as f64 / cpus).ceil() as usize } else { 1 };
    let under_kernel = if kernel.1 > 0 { kernel.0.div_ceil(kernel.1) } else { 1 };
    least.max(on_node).max(under_kernel)
}

/// How many ranks of this node, or of all nodes under its kernel, share a processor.
pub fn ranks_per_cpu_of(job: &JobInfo) -> usize {
    let node = job.node_of.get(job.rank.0 as usize);
    let own = job.node_of.iter().filter(|n| Some(*n) == node).count();
    ranks_per_cpu(own.max(1), !job.bound_cpus.is_empty(), (job.local_ranks.len(), job.node_cpus as usize))
}

/// Sleeps until `set` (an epoll set of everything that can wake us) is readable, at most [`SLEEP_MS`] and `limit`.
pub fn sleep(set: BorrowedFd<'_>, limit: Option<Duration>) {
    sleep_on(set, None, limit);
}

/// As [`sleep`], of one of several threads: also until its own `bell` rings.
pub fn sleep_on(set: BorrowedFd<'_>, bell: Option<BorrowedFd<'_>>, limit: Option<Duration>) {
    base::counters::SLEEPS.add(1);
    let backstop = Duration::from_millis(SLEEP_MS.value());
    let longest = limit.map_or(backstop, |l| l.min(backstop));
    sys::wake::sleep_until_either_readable(set, bell, longest);
}

/// Sleeps as shortly as can be.
pub fn short_sleep() {
    std::thread::sleep(SHORT_SLEEP);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_ranks_than_processors_is_oversubscription() {
        assert!(ranks_per_cpu(100_000, false, (1, 1)) > 1);
        assert!(ranks_per_cpu(100_000, true, (1, 0)) > 1);
        assert_eq!(ranks_per_cpu(1, false, (3, 2)), 2);
        assert_eq!(ranks_per_cpu(1, false, (2, 2)), 1);
    }
}
