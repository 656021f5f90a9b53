//! Notices that a waiting process shares its processor with others, though there should be enough processors.
//!
//! ```text
//!          two windows of yields in a row let others run, for short turns
//! alone ────────────────────────────────────────────────────────────────────► oversubscribed ──┐ such a window:
//!   ▲                                                                            │  ▲           │ stays for
//!   └──────────── no such window for OVERSUBSCRIBED_MEMORY_US ───────────────────┘  └───────────┘ as long again
//! ```
//! Two ranks that the kernel has put on one processor hand it to each other with every yield. Each has always just run, so the
//! kernel's balancer takes both for too warm to be moved and leaves them there: every message then costs two switches, beside an idle
//! processor. But where a thread that has slept wakes up, the kernel looks for an idle processor first. So a process sleeps for a moment
//! when most of its yields let another process run. If that doesn't help, others need the machine, and the next short sleep is farther away.
//!
//! If those others soon give the processor back, they wait too, most likely for us: threads of this process, or ranks of nodes that are not
//! known to share it, such as virtual machines. Then the processor is *oversubscribed*, and the process doesn't spin (decision 0009). A busy
//! program takes a whole slice after each yield, so beside one a process still spins.

base::config! {
    /// Whether a process that yields looks for others on its processor: sleeps for a moment to find an idle one, and stops spinning if it finds none.
    SHARED_CPU: bool = true;
    /// Others that wait give the processor back within so long, on average.
    SHARED_CPU_TURN_US: u64 = 500, 0..=1000000, "µs";
    /// A process waits as if oversubscribed for so long after it last saw that. The kernel moves ranks about: a rank that is alone for a moment
    /// must go on sleeping early, so that the others find an idle processor.
    OVERSUBSCRIBED_MEMORY_US: u64 = 50000, 0..=10000000, "µs";
    /// Least time between two short sleeps.
    SHORT_SLEEP_REST_US: u64 = 500, 1..=10000000, "µs";
    /// Most time between two short sleeps.
    SHORT_SLEEP_REST_MAX_US: u64 = 256000, 1..=10000000, "µs";
}

/// Yields between two looks at the count of switches.
const WINDOW: u32 = 64;
/// So much of a window must have let somebody else run.
const SHARED: u64 = WINDOW as u64 / 4 * 3;
/// A short sleep that helped for so many rests is as good as the first.
const HELPED: u64 = 4;

/// What one process knows about who runs beside it.
#[derive(Debug)]
pub struct SharedCpu {
    /// Yields of this window.
    yields: u32,
    /// Those of them whose length is known, and what they took.
    timed: u32,
    timed_ns: u64,
    /// Switches at the end of the last window.
    switches: u64,
    /// When the last short sleep was, and how long none follows it.
    slept_ns: u64,
    rest_ns: u64,
    /// Whether the last window was shared.
    shared: bool,
    /// When one was last shared.
    shared_ns: u64,
    oversubscribed: bool,
}

impl SharedCpu {
    /// Nothing is known yet.
    #[allow(clippy::new_without_default)]
    pub fn new() -> SharedCpu {
        SharedCpu {
            yields: 0,
            timed: 0,
            timed_ns: 0,
            switches: u64::MAX,
            slept_ns: 0,
            rest_ns: 0,
            shared: false,
            shared_ns: 0,
            oversubscribed: false,
        }
    }

    /// Whether the processor is shared with others that wait.
    #[inline]
    pub fn is_oversubscribed(&self) -> bool {
        self.oversubscribed
    }

    /// The last yield took so long.
    #[inline]
    pub fn yielded(&mut self, took_ns: u64) {
        self.timed += 1;
        self.timed_ns += took_ns;
    }

    /// The process is about to yield. True if it should sleep for a moment instead. `switches`: how often another process has run instead of
    /// this one so far; only asked now and then.
    #[inline]
    pub fn yields(&mut self, now_ns: u64, switches: impl FnOnce() -> u64) -> bool {
        self.yields += 1;
        if self.yields < WINDOW {
            return false;
        }
        if !SHARED_CPU.value() {
            (self.yields, self.timed, self.timed_ns) = (0, 0, 0);
            return false;
        }
        self.window_ends(now_ns, switches())
    }

    #[cold]
    fn window_ends(&mut self, now_ns: u64, switches: u64) -> bool {
        let others_ran = switches.saturating_sub(self.switches);
        let short_turns = self.timed > 0 && self.timed_ns / u64::from(self.timed) < SHARED_CPU_TURN_US.value() * 1000;
        (self.yields, self.timed, self.timed_ns, self.switches) = (0, 0, 0, switches);
        let shared_before = std::mem::replace(&mut self.shared, others_ran >= SHARED);
        if self.shared {
            self.shared_ns = now_ns;
        }
        self.oversubscribed = match self.oversubscribed {
            // The first window in a row is for the short sleep.
            false => self.shared && shared_before && short_turns,
            true => now_ns.saturating_sub(self.shared_ns) < OVERSUBSCRIBED_MEMORY_US.value() * 1000,
        };
        let since_ns = now_ns.saturating_sub(self.slept_ns);
        if !self.shared || since_ns < self.rest_ns {
            return false;
        }
        // A short sleep that helped for long was worth it.
        let next_ns = if since_ns > HELPED * self.rest_ns { 0 } else { 2 * self.rest_ns };
        let most_ns = SHORT_SLEEP_REST_MAX_US.value() * 1000;
        self.rest_ns = next_ns.max(SHORT_SLEEP_REST_US.value() * 1000).min(most_ns);
        self.slept_ns = now_ns;
        base::counters::SHORT_SLEEPS.add(1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_sleeps_become_rarer_beside_others() {
        let mut shared = SharedCpu::new();
        let mut switches = 0;
        let mut short_sleeps = |from_us: u64, to_us: u64, step: u64| {
            let windows = (from_us..to_us).step_by(100).filter(|now_us| {
                switches += step;
                shared.window_ends(now_us * 1000, switches)
            });
            windows.collect::<Vec<u64>>()
        };
        assert!(short_sleeps(900_000, 1_000_000, 10).is_empty(), "nobody else runs here");
        assert_eq!(short_sleeps(1_000_000, 1_010_000, 64), [1_000_000, 1_000_500, 1_001_500, 1_003_500, 1_007_500]);
        assert!(short_sleeps(1_010_000, 2_000_000, 64).len() < 12, "the machine is busy");
        assert!(short_sleeps(2_000_000, 4_000_000, 10).is_empty());
        assert_eq!(short_sleeps(4_000_000, 4_001_000, 64), [4_000_000, 4_000_500], "it had helped");
    }

    #[test]
    fn short_turns_of_others_are_oversubscription_and_long_ones_are_not() {
        let mut shared = SharedCpu::new();
        let (mut now_ns, mut switches) = (0, 0);
        let mut window = |turn_ns: u64, others_ran: u64| {
            (now_ns, switches) = (now_ns + 10_000_000, switches + others_ran);
            shared.yielded(turn_ns);
            shared.window_ends(now_ns, switches);
            shared.is_oversubscribed()
        };
        assert_eq!([1, 2, 3].map(|_| window(3_000_000, 64)), [false; 3], "a busy program");
        assert!(!window(1000, 5));
        assert_eq!([1, 2].map(|_| window(20_000, 60)), [false, true]);
        assert_eq!([1, 2, 3, 4, 5].map(|_| window(1000, 5)), [true, true, true, true, false], "they have gone");
    }
}
