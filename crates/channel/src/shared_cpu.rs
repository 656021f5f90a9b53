//! Notices that a waiting process shares its processor though there should be enough of them (decision 0021).
//!
//! Two ranks that the kernel has put on one processor hand it to each other with every yield. Each has always just run, so the
//! kernel's balancer takes both for too warm to be moved and leaves them there: every message then costs two switches, beside an idle
//! processor. But where a thread that has slept wakes up, the kernel looks for an idle processor first. So who sees that
//! most of its yields let somebody else run takes a nap. When that doesn't help, others need the machine, and the next nap is farther away.
//!
//! If those others soon give the processor back, they wait too, most likely for us: threads of this process, or ranks of nodes that are not
//! known to share it, such as virtual machines. Then it is a *crowd*, and whoever is in one doesn't spin (decision 0009). A busy program
//! isn't: who yields to it has lost the processor for a slice.

use std::time::Duration;

/// Yields between two looks at the count of switches.
const WINDOW: u32 = 64;
/// So much of a window must have let somebody else run.
const SHARED: u64 = WINDOW as u64 / 4 * 3;
/// Others that wait give the processor back within so long, on average.
const TURN_NS: u64 = 500_000;
/// A crowd is believed in for so long after it was last seen: the kernel moves ranks about, and who is alone for a moment must go on
/// sleeping early, so that the others find an idle processor.
const CROWD_NS: u64 = 50_000_000;
/// Time between two naps, at first and at most.
const REST_NS: (u64, u64) = (500_000, 256_000_000);
/// A nap that helped for so many rests is as good as the first.
const HELPED: u64 = 4;
/// The kernel makes at least 50 µs of it.
const NAP: Duration = Duration::from_micros(1);

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
    /// When the last nap was, and how long none follows it.
    napped_ns: u64,
    rest_ns: u64,
    /// Whether the last window was shared.
    shared: bool,
    /// When one was last shared.
    shared_ns: u64,
    crowd: bool,
}

impl SharedCpu {
    pub(crate) const fn new() -> SharedCpu {
        SharedCpu {
            yields: 0,
            timed: 0,
            timed_ns: 0,
            switches: u64::MAX,
            napped_ns: 0,
            rest_ns: 0,
            shared: false,
            shared_ns: 0,
            crowd: false,
        }
    }

    /// Whether the processor is shared with others that wait.
    #[inline]
    pub(crate) fn is_crowd(&self) -> bool {
        self.crowd
    }

    /// The last yield took so long.
    #[inline]
    pub(crate) fn yielded(&mut self, took_ns: u64) {
        self.timed += 1;
        self.timed_ns += took_ns;
    }

    /// The process is about to yield. True if it should [`nap`] instead.
    #[inline]
    pub(crate) fn yields(&mut self, now_ns: u64) -> bool {
        self.yields += 1;
        self.yields >= WINDOW && self.window_ends(now_ns, sys::process::forced_switches())
    }

    #[cold]
    fn window_ends(&mut self, now_ns: u64, switches: u64) -> bool {
        let others_ran = switches.saturating_sub(self.switches);
        let short_turns = self.timed > 0 && self.timed_ns / u64::from(self.timed) < TURN_NS;
        (self.yields, self.timed, self.timed_ns, self.switches) = (0, 0, 0, switches);
        let shared_before = std::mem::replace(&mut self.shared, others_ran >= SHARED);
        if self.shared {
            self.shared_ns = now_ns;
        }
        self.crowd = match self.crowd {
            // The first window in a row is for the nap.
            false => self.shared && shared_before && short_turns,
            true => now_ns.saturating_sub(self.shared_ns) < CROWD_NS,
        };
        let since_ns = now_ns.saturating_sub(self.napped_ns);
        if !self.shared || since_ns < self.rest_ns {
            return false;
        }
        // A nap that helped for long was worth it.
        let next_ns = if since_ns > HELPED * self.rest_ns { 0 } else { 2 * self.rest_ns };
        self.rest_ns = next_ns.clamp(REST_NS.0, REST_NS.1);
        self.napped_ns = now_ns;
        base::counters::NAPS.add(1);
        true
    }
}

/// Sleeps as shortly as can be.
pub fn nap() {
    std::thread::sleep(NAP);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_shares_naps_ever_more_rarely() {
        let mut shared = SharedCpu::new();
        let mut switches = 0;
        let mut naps = |from_us: u64, to_us: u64, step: u64| {
            let windows = (from_us..to_us).step_by(100).filter(|now_us| {
                switches += step;
                shared.window_ends(now_us * 1000, switches)
            });
            windows.collect::<Vec<u64>>()
        };
        assert!(naps(900_000, 1_000_000, 10).is_empty(), "nobody else runs here");
        assert_eq!(naps(1_000_000, 1_010_000, 64), [1_000_000, 1_000_500, 1_001_500, 1_003_500, 1_007_500]);
        assert!(naps(1_010_000, 2_000_000, 64).len() < 12, "the machine is busy");
        assert!(naps(2_000_000, 4_000_000, 10).is_empty());
        assert_eq!(naps(4_000_000, 4_001_000, 64), [4_000_000, 4_000_500], "it had helped");
    }

    #[test]
    fn short_turns_of_others_make_a_crowd_and_long_ones_do_not() {
        let mut shared = SharedCpu::new();
        let (mut now_ns, mut switches) = (0, 0);
        let mut window = |turn_ns: u64, others_ran: u64| {
            (now_ns, switches) = (now_ns + 10_000_000, switches + others_ran);
            shared.yielded(turn_ns);
            shared.window_ends(now_ns, switches);
            shared.is_crowd()
        };
        assert_eq!([1, 2, 3].map(|_| window(3_000_000, 64)), [false; 3], "a busy program");
        assert!(!window(1000, 5));
        assert_eq!([1, 2].map(|_| window(20_000, 60)), [false, true]);
        assert_eq!([1, 2, 3, 4, 5].map(|_| window(1000, 5)), [true, true, true, true, false], "they have gone");
    }
}
