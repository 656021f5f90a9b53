//! Notices that a waiting process shares its processor though there are enough of them (DESIGN.md, section 5, "Waiting").
//!
//! Two ranks that the kernel has put on one processor hand it to each other with every yield. Each has always just run, so the
//! kernel's balancer takes both for too warm to be moved and leaves them there: every message then costs two switches, beside an idle
//! processor. But where a thread that has slept wakes up, the kernel looks for an idle processor first. So who sees that
//! most of its yields let somebody else run takes a nap. When that doesn't help, others need the machine, and the next nap is farther away.

use std::time::Duration;

/// Yields between two looks at the count of switches.
const WINDOW: u32 = 64;
/// So much of a window must have let somebody else run.
const SHARED: u64 = WINDOW as u64 / 4 * 3;
/// Time between two naps, at first and at most.
const REST_NS: (u64, u64) = (500_000, 256_000_000);
/// A nap that helped for so many rests is as good as the first.
const HELPED: u64 = 4;
/// The kernel makes at least 50 µs of it.
const NAP: Duration = Duration::from_micros(1);

/// What one process knows about who runs beside it.
#[derive(Debug)]
pub struct SharedCpu {
    yields: u32,
    /// Switches at the end of the last window.
    switches: u64,
    /// When the last nap was, and how long none follows it.
    napped_ns: u64,
    rest_ns: u64,
}

impl SharedCpu {
    pub(crate) const fn new() -> SharedCpu {
        SharedCpu { yields: 0, switches: u64::MAX, napped_ns: 0, rest_ns: 0 }
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
        (self.yields, self.switches) = (0, switches);
        let since_ns = now_ns.saturating_sub(self.napped_ns);
        if others_ran < SHARED || since_ns < self.rest_ns {
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
}
