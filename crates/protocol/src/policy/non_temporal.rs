//! Whether a sender's bytes go into an inbox through its caches, or by non-temporal stores.
//!
//! ```text
//!             two measured copies in a row are slower than NON_TEMPORAL_NS_PER_KIB
//! cached ───────────────────────────────────────────────────────────────────────────► non-temporal
//!    ▲ └─ measures one copy in four                                                        │
//!    └── after 256 copies; after twice as many, at most 16,384, if caches are still slow ──┘
//! ```
//! Memory of an inbox that is used again is in the caches of the receiver, modified or shared. If the two processors share no cache, each
//! line that the sender writes waits for them. Non-temporal stores don't wait. If they share one, the caches are the faster way
//! (docs/design/0003-cells.md). The host of a virtual machine moves its processors about, so this is measured again and again.

base::config! {
    /// How payloads are written into a peer's inbox: `cached`, `non_temporal`, or `auto`, whichever is faster.
    NON_TEMPORAL: text = "auto";
    /// Copies slower than this change to non-temporal stores: time for 1024 bytes. (Near: 40 to 80, far: 420, on AMD EPYC.)
    NON_TEMPORAL_NS_PER_KIB: u64 = 192, 1..=100000, "ns";
    /// Non-temporal copies until a cached one is measured again, at first.
    NON_TEMPORAL_COPIES: u64 = 256, 1..=1000000, "copies";
    /// The same at most.
    NON_TEMPORAL_COPIES_MAX: u64 = 16384, 1..=1000000, "copies";
}

/// Smallest copy whose time tells something, in bytes.
const MEASURE_MIN_BYTES: usize = 4096;
/// Cached copies between two measurements.
const MEASURE_EVERY: u64 = 4;

/// How one copy is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Through the caches.
    Cached,
    /// The same; [`NonTemporal::note`] wants to know how long it takes.
    Timed,
    /// Past them.
    NonTemporal,
}

/// Decides for one sender and one inbox.
#[derive(Debug)]
pub struct NonTemporal {
    mode: Mode,
    slow_ns_per_kib: u64,
    copies: (u64, u64),
    /// Non-temporal copies that are left.
    left: u64,
    /// As many it will be the next time.
    next: u64,
    /// Cached copies until one is measured.
    unmeasured: u64,
    /// The last measured one was slow: so must be the next, as one alone may have been interrupted.
    was_slow: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Auto,
    Cached,
    NonTemporal,
}

impl Default for NonTemporal {
    fn default() -> NonTemporal {
        let mode = match NON_TEMPORAL.value() {
            "cached" => Mode::Cached,
            "non_temporal" => Mode::NonTemporal,
            "auto" => Mode::Auto,
            other => {
                base::log!(Warn, "FERRULE_NON_TEMPORAL={other} is not auto, cached or non_temporal; using auto");
                Mode::Auto
            }
        };
        let copies = (NON_TEMPORAL_COPIES.value(), NON_TEMPORAL_COPIES_MAX.value());
        let slow_ns_per_kib = NON_TEMPORAL_NS_PER_KIB.value();
        NonTemporal { mode, slow_ns_per_kib, copies, left: 0, next: copies.0, unmeasured: 0, was_slow: false }
    }
}

impl NonTemporal {
    /// How the next copy, of `len` bytes, is made.
    #[inline]
    pub fn way(&mut self, len: usize) -> Way {
        if len < MEASURE_MIN_BYTES || self.mode == Mode::Cached {
            return Way::Cached;
        }
        if self.mode == Mode::NonTemporal {
            return Way::NonTemporal;
        }
        if self.left > 0 {
            self.left -= 1;
            return Way::NonTemporal;
        }
        if self.unmeasured > 0 {
            self.unmeasured -= 1;
            return Way::Cached;
        }
        Way::Timed
    }

    /// The copy of `len` bytes for which the answer was [`Way::Timed`] took so long.
    pub fn note(&mut self, len: usize, ns: u64) {
        let is_slow = ns * 1024 > self.slow_ns_per_kib * len as u64;
        match (is_slow, std::mem::replace(&mut self.was_slow, is_slow)) {
            (true, true) => {
                self.left = self.next;
                self.next = (self.next * 2).min(self.copies.1);
            }
            (true, false) => {}
            (false, _) => (self.next, self.unmeasured) = (self.copies.0, MEASURE_EVERY - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `copies` copies of 8 KiB, each of `ns` nanoseconds through the caches; how many were non-temporal.
    fn non_temporal(policy: &mut NonTemporal, copies: u32, ns: u64) -> u32 {
        let copy = |policy: &mut NonTemporal| match policy.way(8192) {
            Way::NonTemporal => 1,
            Way::Cached => 0,
            Way::Timed => {
                policy.note(8192, ns);
                0
            }
        };
        (0..copies).map(|_| copy(policy)).sum()
    }

    #[test]
    fn slow_copies_become_non_temporal_until_they_are_fast_again() {
        let mut policy = NonTemporal::default();
        assert_eq!(non_temporal(&mut policy, 10_000, 500), 0, "near");
        let n = non_temporal(&mut policy, 100_000, 3300);
        assert!((99_900..100_000).contains(&n), "{n}: one in 16,384 tells whether it is still so");
        assert!(non_temporal(&mut policy, 100_000, 500) <= 16384, "near again");
        assert_eq!(non_temporal(&mut policy, 10_000, 500), 0);
        assert_eq!(policy.way(64), Way::Cached, "too small to tell");
    }

    #[test]
    fn a_setting_decides_for_good() {
        let mut cached = NonTemporal { mode: Mode::Cached, ..NonTemporal::default() };
        assert_eq!(non_temporal(&mut cached, 1000, 3300), 0);
        let mut always = NonTemporal { mode: Mode::NonTemporal, ..NonTemporal::default() };
        assert_eq!(non_temporal(&mut always, 1000, 500), 1000);
    }
}
