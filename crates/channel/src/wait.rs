//! How a process waits: spin, then yield, then sleep (decision 0021).
//!
//! ```text
//!          SPIN_US          YIELD_US
//! spin ────────────► yield ───────────► sleep on {bell, sockets} ──► (woken, or SLEEP_MS over) ──► poll
//! ```
//! Spinning is for ranks that have a processor each; when there are more ranks than processors it only keeps the
//! awaited rank from running, and the first yield comes after a few polls. How long they yield is for as many turns as others of
//! the same processor need (docs/design/0009-crowds.md), and less after waits that were longer. Even with enough processors the spin is short, and
//! halves whenever it was in vain: others use the machine too, and a rank whose peer was put on the same processor must let it
//! run. A yield costs little when nobody else wants to run. Who sees that somebody always does naps, and wakes up elsewhere, or
//! waits as when crowded ([`SharedCpu`]). Who has waited for 10 ms sleeps.

use crate::bootstrap::JobInfo;
use crate::shared_cpu::SharedCpu;
use std::os::fd::BorrowedFd;
use std::time::Duration;
use sys::affinity::{self, CpuSet};

base::config! {
    /// How long a waiting process polls without a pause when ranks have a processor each.
    SPIN_US: u64 = 50, 0..=1000000000, "µs";
    /// How long it then polls but yields the processor in between.
    YIELD_US: u64 = 2000, 0..=1000000000, "µs";
    /// As YIELD_US when there are more ranks than processors, for each rank of a processor.
    YIELD_CROWDED_US: u64 = 50, 0..=1000000000, "µs";
    /// Longest sleep before a process looks around by itself.
    SLEEP_MS: u64 = 100, 1..=10000, "ms";
    /// Whether there are more ranks than processors on this node: `auto`, `yes` or `no`. With `auto` it may also be noticed later.
    CROWDED: text = "auto";
}

/// What to do after a poll that found nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Idle {
    /// Pause for some cycles.
    Spin,
    /// Let others run.
    Yield,
    /// As `Yield`, and find another processor: [`crate::shared_cpu::nap`].
    Nap,
    /// Arm, poll once more, sleep.
    Sleep,
}

/// Polls between two looks at the clock.
const CLOCK_EVERY: u64 = 16;
/// By how much the spin can shrink. It stays longer than any answer takes that is on its way.
const SPIN_SHRINK: u64 = 32;
/// By how much the yields can shrink when crowded.
const YIELD_SHRINK: u64 = 8;
/// Polls before the first yield when crowded.
const CROWDED_POLLS: u64 = 2;
/// So many may share a processor when nobody has said how many do.
const CROWD: usize = 4;

/// The waiting of one process.
#[derive(Debug)]
pub struct Waiter {
    /// What the job says; what else is found out doesn't change it.
    crowded: bool,
    /// Whether it yields almost at once: the processor is shared with others that wait.
    yields_early: bool,
    spin_max_ns: u64,
    /// Length of the next spin.
    spin_ns: u64,
    yield_max_ns: u64,
    /// How long it then yields.
    yield_ns: u64,
    /// When the present wait began, as far as we noticed.
    since_ns: u64,
    /// When it last looked at the clock.
    looked_ns: u64,
    now: Idle,
    shared_cpu: SharedCpu,
}

/// How many ranks share a processor, 1 if each has its own: of the `node_ranks` ranks of this node, which may use certain processors
/// together. `bound` says that the launcher gave this rank a part of them, so that its own mask doesn't tell. `kernel` counts the
/// ranks of all nodes under this kernel and their processors, 0 if unknown: containers may share some.
pub fn ranks_per_cpu(node_ranks: usize, bound: bool, kernel: (usize, usize)) -> usize {
    let least = match CROWDED.value() {
        "yes" => 2,
        "no" => return 1,
        "auto" => 1,
        other => {
            base::log!(Warn, "FERRULE_CROWDED={other} is not auto, yes or no; using auto");
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

impl Waiter {
    /// A waiter for one of so many [`ranks_per_cpu`].
    pub fn new(ranks_per_cpu: usize) -> Waiter {
        let mut waiter = Waiter {
            crowded: ranks_per_cpu > 1,
            yields_early: false,
            spin_max_ns: 0,
            spin_ns: 0,
            yield_max_ns: 0,
            yield_ns: 0,
            since_ns: 0,
            looked_ns: 0,
            now: Idle::Spin,
            shared_cpu: SharedCpu::new(),
        };
        waiter.share_with(ranks_per_cpu);
        waiter
    }

    /// From now on so many ranks share this one's processor.
    fn share_with(&mut self, ranks_per_cpu: usize) {
        self.yields_early = ranks_per_cpu > 1;
        let spin_us = if self.yields_early { 0 } else { SPIN_US.value() };
        let yield_us = match self.yields_early {
            true => YIELD_CROWDED_US.value().saturating_mul(ranks_per_cpu as u64).min(YIELD_US.value()),
            false => YIELD_US.value(),
        };
        (self.spin_max_ns, self.yield_max_ns) = (spin_us * 1000, yield_us * 1000);
        (self.spin_ns, self.yield_ns) = (self.spin_max_ns, self.yield_max_ns);
    }

    /// Whether there are more ranks than processors, as the job says.
    pub fn crowded(&self) -> bool {
        self.crowded
    }

    /// Whether it yields almost at once.
    #[inline]
    pub fn yields_early(&self) -> bool {
        self.yields_early
    }

    /// How long the present wait has lasted, as far as it was noticed: for somebody who asks.
    pub fn waited(&self) -> Duration {
        match self.since_ns {
            0 => Duration::ZERO,
            since_ns => Duration::from_nanos(sys::clock::now_ns().saturating_sub(since_ns)),
        }
    }

    /// What to do after the `idle_polls`-th poll in a row (from 1) that found nothing.
    #[inline]
    pub fn idle(&mut self, idle_polls: u64) -> Idle {
        if idle_polls <= 1 {
            self.start();
        }
        let look = if self.now == Idle::Spin && !self.yields_early {
            idle_polls.is_multiple_of(CLOCK_EVERY)
        } else {
            idle_polls >= CROWDED_POLLS
        };
        if look {
            let now_ns = sys::clock::now_ns();
            if self.now == Idle::Yield {
                self.shared_cpu.yielded(now_ns.saturating_sub(self.looked_ns));
            }
            self.look(now_ns);
            if self.now == Idle::Yield && !self.crowded {
                return self.yield_or_nap(now_ns);
            }
        }
        self.now
    }

    /// Learns who runs beside this process while it yields.
    fn yield_or_nap(&mut self, now_ns: u64) -> Idle {
        let naps = self.shared_cpu.yields(now_ns);
        if self.yields_early != self.shared_cpu.is_crowd() && CROWDED.value() != "no" {
            self.share_with(if self.shared_cpu.is_crowd() { CROWD } else { 1 });
        }
        if naps { Idle::Nap } else { Idle::Yield }
    }

    /// A new wait begins. The last one tells how long to spin.
    #[inline]
    fn start(&mut self) {
        self.spin_ns = if self.now == Idle::Spin {
            self.spin_max_ns.min(2 * self.spin_ns)
        } else {
            (self.spin_ns / 2).max(self.spin_max_ns / SPIN_SHRINK)
        };
        self.now = Idle::Spin;
        self.since_ns = 0;
    }

    /// A sleep is over. When crowded, that was right if the wait was longer than the longest yields, else it should have yielded.
    pub fn woke(&mut self, now_ns: u64) {
        if self.yields_early {
            let was_long = now_ns.saturating_sub(self.since_ns) > self.yield_max_ns;
            let next_ns = if was_long { self.yield_ns / 2 } else { 2 * self.yield_ns };
            self.yield_ns = next_ns.clamp(self.yield_max_ns / YIELD_SHRINK, self.yield_max_ns);
        }
    }

    fn look(&mut self, now_ns: u64) {
        self.looked_ns = now_ns;
        if self.since_ns == 0 {
            self.since_ns = now_ns;
        }
        let waited = now_ns.saturating_sub(self.since_ns);
        self.now = if waited < self.spin_ns {
            Idle::Spin
        } else if waited < self.spin_ns + self.yield_ns {
            Idle::Yield
        } else {
            Idle::Sleep
        };
    }
}

/// Sleeps until `set` (an epoll set of everything that can wake us) is readable, at most [`SLEEP_MS`] and `limit`.
pub fn sleep(set: Option<BorrowedFd<'_>>, limit: Option<Duration>) {
    base::counters::SLEEPS.add(1);
    let backstop = Duration::from_millis(SLEEP_MS.value());
    let longest = limit.map_or(backstop, |l| l.min(backstop));
    match set {
        Some(set) => drop(sys::wake::sleep_until_readable(set, longest)),
        None => std::thread::sleep(longest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_follow_each_other() {
        let mut w = waiter();
        let mut at = |ns| {
            w.look(ns);
            w.now
        };
        assert_eq!(at(1000), Idle::Spin);
        assert_eq!(at(1099), Idle::Spin);
        assert_eq!(at(1100), Idle::Yield);
        assert_eq!(at(1299), Idle::Yield);
        assert_eq!(at(1300), Idle::Sleep);
        assert_eq!(w.idle(1), Idle::Spin, "a new wait begins");
        assert_eq!(w.since_ns, 0);
    }

    #[test]
    fn vain_spins_become_short_and_others_long_again() {
        let mut w = waiter();
        for _ in 0..10 {
            w.idle(1);
            w.look(1);
            w.look(1000);
        }
        assert_eq!(w.spin_ns, 3);
        for _ in 0..6 {
            w.now = Idle::Spin;
            w.idle(1);
        }
        assert_eq!(w.spin_ns, 100);
    }

    fn waiter() -> Waiter {
        let (spin_max_ns, yield_max_ns) = (100, 200);
        let (spin_ns, yield_ns) = (spin_max_ns, yield_max_ns);
        Waiter {
            crowded: false,
            yields_early: false,
            spin_max_ns,
            spin_ns,
            yield_max_ns,
            yield_ns,
            since_ns: 0,
            looked_ns: 0,
            now: Idle::Spin,
            shared_cpu: SharedCpu::new(),
        }
    }

    #[test]
    fn yields_follow_the_length_of_waits() {
        let mut w = Waiter { yields_early: true, spin_max_ns: 0, spin_ns: 0, yield_max_ns: 800, ..waiter() };
        let wait = |w: &mut Waiter, ns: u64| {
            w.idle(1);
            w.look(1000);
            w.woke(1000 + ns);
            w.yield_ns
        };
        assert_eq!([5000; 5].map(|ns| wait(&mut w, ns)), [100; 5], "an eighth at least");
        assert_eq!([700; 4].map(|ns| wait(&mut w, ns)), [200, 400, 800, 800]);
        assert_eq!(wait(&mut w, 900), 400);
    }

    #[test]
    fn crowded_ranks_yield_after_a_few_polls() {
        let mut w = Waiter::new(4);
        assert!((1..CROWDED_POLLS).all(|n| w.idle(n) == Idle::Spin));
        assert_ne!(w.idle(CROWDED_POLLS), Idle::Spin);
    }

    #[test]
    fn more_ranks_than_processors_is_crowded() {
        assert!(ranks_per_cpu(100_000, false, (1, 1)) > 1);
        assert!(ranks_per_cpu(100_000, true, (1, 0)) > 1);
        assert_eq!(ranks_per_cpu(1, false, (3, 2)), 2);
        assert_eq!(ranks_per_cpu(1, false, (2, 2)), 1);
    }
}
