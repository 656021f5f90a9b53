//! How a process waits: it spins, then yields, then sleeps.
//!
//! ```text
//!        spin_ns           yield_ns
//! spin ───────────► yield ──────────► sleep ──► (woken, or SLEEP_MS over) ──► spin
//!                    │  ▲
//!                    ▼  │ now and then, while others share the processor
//!                 short sleep
//! ```
//! Spinning is for ranks that have a processor each. If there are more ranks than processors it only keeps the awaited rank from running: the
//! first yield comes after a few polls. They then yield for as many turns as others of the same processor need
//! (docs/design/0009-crowds.md), and less after waits that were longer. Even with enough processors the spin is short, and halves whenever it
//! was in vain: others use the machine too, and a rank whose peer was put on the same processor must let it run. A yield costs little when
//! nobody else wants to run. Whether somebody does is watched by [`SharedCpu`].

use super::oversubscription::SharedCpu;

base::config! {
    /// How long a waiting process polls without a pause when ranks have a processor each.
    SPIN_US: u64 = 50, 0..=1000000000, "µs";
    /// By how much the spin can shrink when it is in vain; 1: never. It stays longer than any answer takes that is on its way.
    SPIN_SHRINK: u64 = 32, 1..=1000000, "";
    /// How long it then polls but yields the processor in between.
    YIELD_US: u64 = 2000, 0..=1000000000, "µs";
    /// As YIELD_US when there are more ranks than processors, for each rank of a processor.
    YIELD_OVERSUBSCRIBED_US: u64 = 50, 0..=1000000000, "µs";
    /// By how much the yields can shrink when oversubscribed; 1: never.
    YIELD_SHRINK: u64 = 8, 1..=1000000, "";
    /// Whether there are more ranks than processors on this node: `auto`, `yes` or `no`. With `auto` it may also be noticed later.
    OVERSUBSCRIBED: text = "auto";
}

/// What to do after a poll that found nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Idle {
    /// Pause for some cycles.
    Spin,
    /// Let others run.
    Yield,
    /// As `Yield`, and find another processor: sleep as shortly as can be.
    ShortSleep,
    /// Arm, poll once more, sleep.
    Sleep,
}

/// Polls between two looks at the clock.
const CLOCK_EVERY: u64 = 16;
/// Polls before the first yield when oversubscribed.
const OVERSUBSCRIBED_POLLS: u64 = 2;
/// So many may share a processor when nobody has said how many do.
const SHARERS: usize = 4;

/// The waiting of one process.
#[derive(Debug)]
pub struct Waiting {
    /// What the job says; what else is found out doesn't change it.
    job_oversubscribed: bool,
    /// Whether it yields almost at once: the processor is shared with others that wait.
    oversubscribed: bool,
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

impl Waiting {
    /// A waiter for one of so many `ranks_per_cpu`.
    pub fn new(ranks_per_cpu: usize) -> Waiting {
        let mut waiter = Waiting {
            job_oversubscribed: ranks_per_cpu > 1,
            oversubscribed: false,
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
        self.oversubscribed = ranks_per_cpu > 1;
        let spin_us = if self.oversubscribed { 0 } else { SPIN_US.value() };
        let yield_us = match self.oversubscribed {
            true => YIELD_OVERSUBSCRIBED_US.value().saturating_mul(ranks_per_cpu as u64).min(YIELD_US.value()),
            false => YIELD_US.value(),
        };
        (self.spin_max_ns, self.yield_max_ns) = (spin_us * 1000, yield_us * 1000);
        (self.spin_ns, self.yield_ns) = (self.spin_max_ns, self.yield_max_ns);
    }

    /// Whether there are more ranks than processors, as the job says.
    pub fn job_oversubscribed(&self) -> bool {
        self.job_oversubscribed
    }

    /// Whether it yields almost at once.
    #[inline]
    pub fn oversubscribed(&self) -> bool {
        self.oversubscribed
    }

    /// How long the present wait has lasted, as far as it was noticed: for somebody who asks.
    pub fn waited_ns(&self, now_ns: u64) -> u64 {
        if self.since_ns == 0 { 0 } else { now_ns.saturating_sub(self.since_ns) }
    }

    /// What to do after the `idle_polls`-th poll in a row (from 1) that found nothing. `clock_ns` and `switches` ([`SharedCpu::yields`]) are
    /// only asked now and then.
    #[inline]
    pub fn idle(&mut self, idle_polls: u64, clock_ns: impl FnOnce() -> u64, switches: impl FnOnce() -> u64) -> Idle {
        if idle_polls <= 1 {
            self.start();
        }
        let look = if self.now == Idle::Spin && !self.oversubscribed {
            idle_polls.is_multiple_of(CLOCK_EVERY)
        } else {
            idle_polls >= OVERSUBSCRIBED_POLLS
        };
        if look {
            let now_ns = clock_ns();
            if self.now == Idle::Yield {
                self.shared_cpu.yielded(now_ns.saturating_sub(self.looked_ns));
            }
            self.look(now_ns);
            if self.now == Idle::Yield && !self.job_oversubscribed {
                return self.yield_or_sleep(now_ns, switches);
            }
        }
        self.now
    }

    /// Learns who runs beside this process while it yields.
    fn yield_or_sleep(&mut self, now_ns: u64, switches: impl FnOnce() -> u64) -> Idle {
        let sleeps = self.shared_cpu.yields(now_ns, switches);
        if self.oversubscribed != self.shared_cpu.is_oversubscribed() && OVERSUBSCRIBED.value() != "no" {
            self.share_with(if self.shared_cpu.is_oversubscribed() { SHARERS } else { 1 });
        }
        if sleeps { Idle::ShortSleep } else { Idle::Yield }
    }

    /// A new wait begins. The last one tells how long to spin.
    #[inline]
    fn start(&mut self) {
        self.spin_ns = if self.now == Idle::Spin {
            self.spin_max_ns.min(2 * self.spin_ns)
        } else {
            (self.spin_ns / 2).max(self.spin_max_ns / SPIN_SHRINK.value())
        };
        self.now = Idle::Spin;
        self.since_ns = 0;
    }

    /// A sleep is over. When oversubscribed, that was right if the wait was longer than the longest yields, else it should have yielded.
    pub fn woke(&mut self, now_ns: u64) {
        if self.oversubscribed {
            let was_long = now_ns.saturating_sub(self.since_ns) > self.yield_max_ns;
            let next_ns = if was_long { self.yield_ns / 2 } else { 2 * self.yield_ns };
            self.yield_ns = next_ns.clamp(self.yield_max_ns / YIELD_SHRINK.value(), self.yield_max_ns);
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
        assert_eq!(w.idle(1, || 0, || 0), Idle::Spin, "a new wait begins");
        assert_eq!(w.since_ns, 0);
    }

    #[test]
    fn vain_spins_become_short_and_others_long_again() {
        let mut w = waiter();
        for _ in 0..10 {
            w.idle(1, || 0, || 0);
            w.look(1);
            w.look(1000);
        }
        assert_eq!(w.spin_ns, 3);
        for _ in 0..6 {
            w.now = Idle::Spin;
            w.idle(1, || 0, || 0);
        }
        assert_eq!(w.spin_ns, 100);
    }

    fn waiter() -> Waiting {
        let (spin_max_ns, yield_max_ns) = (100, 200);
        let (spin_ns, yield_ns) = (spin_max_ns, yield_max_ns);
        Waiting {
            job_oversubscribed: false,
            oversubscribed: false,
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
        let mut w = Waiting { oversubscribed: true, spin_max_ns: 0, spin_ns: 0, yield_max_ns: 800, ..waiter() };
        let wait = |w: &mut Waiting, ns: u64| {
            w.idle(1, || 0, || 0);
            w.look(1000);
            w.woke(1000 + ns);
            w.yield_ns
        };
        assert_eq!([5000; 5].map(|ns| wait(&mut w, ns)), [100; 5], "an eighth at least");
        assert_eq!([700; 4].map(|ns| wait(&mut w, ns)), [200, 400, 800, 800]);
        assert_eq!(wait(&mut w, 900), 400);
    }

    #[test]
    fn oversubscribed_ranks_yield_after_a_few_polls() {
        let mut w = Waiting::new(4);
        assert!((1..OVERSUBSCRIBED_POLLS).all(|n| w.idle(n, || 1000, || 0) == Idle::Spin));
        assert_ne!(w.idle(OVERSUBSCRIBED_POLLS, || 1000, || 0), Idle::Spin);
    }
}
