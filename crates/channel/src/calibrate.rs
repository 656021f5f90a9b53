//! The sizes at which the protocol for a message changes.
//!
//! Up to `eager_max` a message goes through the ring or a cell at once, up to `fragments_max` in pieces; from `pull_min` on it may
//! be read from the sender's memory, if that is faster than streaming through cells: [`Preference`] measures that on the job's own
//! messages, per peer and size class (`docs/design/0003-cells.md`). Without cells (`examples/thresholds.rs`, EPYC, two ranks, µs
//! one way; warm: the same buffers again, cold: rotating through 64 MiB):
//!
//! | bytes | ring warm | CMA warm | mem warm | ring cold | CMA cold | mem cold |
//! |---|---|---|---|---|---|---|
//! | 8 Ki | 1.3 | 2.3 | 2.6 | 2.4 | 3.7 | 4.3 |
//! | 16 Ki | 2.6 | 2.8 | 4.2 | 4.3 | 5.0 | 7.5 |
//! | 64 Ki | 8.8 | 5.8 | 14 | 11 | 14 | 27 |
//! | 1 Mi | 127 | 68 | 207 | 132 | 158 | 378 |
//!
//! Reading `/proc/self/mem` copies page by page, at a speed that differs much between machines and kernels: it is timed once per
//! process, on this process's own memory, and used only if it can beat the ring.

use protocol::transport::Caps;
use shm::layout::CELL_BYTES;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;

base::config! {
    /// Largest message that a shared-memory lane sends eagerly; at most a cell, or without cells a quarter of the ring.
    SHM_EAGER_MAX: u64 = 16384, 0..=1073741824, "bytes";
    /// Largest payload that goes into a record of the ring while there are cells for larger ones.
    RECORD_MAX: u64 = 2048, 0..=1073741824, "bytes";
    /// Largest message that a shared-memory lane sends without asking whether a receive is posted.
    ANNOUNCE_MAX: u64 = 131072, 0..=16777216, "bytes";
    /// Smallest message that is read from the sender's memory instead of copied through the ring.
    PULL_MIN: u64 = 12288, 0..=1073741824, "bytes";
    /// How fast /proc/self/mem must be for messages to be read through it.
    MEM_MIN_RATE: f64 = 10.0, 0.0..=1000000.0, "GB/s";
}

/// Bytes that are read for a measurement: a message for which both ways are about equal, small enough for any cache.
const SAMPLE_BYTES: usize = 64 << 10;
/// Readings; the best one counts. About 100 µs in all.
const READINGS: usize = 5;

/// GB/s at which this process reads its own memory through the descriptor `memory`; measured at the first call.
pub fn mem_rate(memory: BorrowedFd<'_>) -> f64 {
    static RATE: OnceLock<f64> = OnceLock::new();
    *RATE.get_or_init(|| {
        let from = vec![1u8; SAMPLE_BYTES];
        let mut into = vec![0u8; SAMPLE_BYTES];
        let address = from.as_ptr().expose_provenance() as u64;
        let best_ns = (0..READINGS).filter_map(|_| {
            let start = sys::clock::now_ns();
            // SAFETY: `into` is writable for SAMPLE_BYTES.
            let n = unsafe { sys::cma::read_by_fd(memory, address, into.as_mut_ptr(), SAMPLE_BYTES) };
            (n.ok()? == SAMPLE_BYTES).then(|| (sys::clock::now_ns() - start).max(1))
        });
        best_ns.min().map_or(0.0, |ns| SAMPLE_BYTES as f64 / ns as f64)
    })
}

/// Whether one peer's large messages are rather streamed through cells or pulled: whichever was faster lately. That differs by the
/// distance of the two processors, and in virtual machines it changes while a job runs.
#[derive(Debug)]
pub struct Preference {
    /// Both ways exist. (Streaming through the ring alone is never preferred: it uses the processor of both sides for longer.)
    has_choice: bool,
    classes: [Class; CLASSES],
}

/// Largest messages of all classes but the last one.
const CLASS_BYTES: [usize; 4] = [32 << 10, 128 << 10, 512 << 10, 2 << 20];
const CLASSES: usize = CLASS_BYTES.len() + 1;
/// Measurements of a way before it can be called the slower one: the first ones are spoilt by page faults (until all cells have been
/// used) and cold caches.
const TRIES: [u32; CLASSES] = [64, 16, 16, 16, 16];
/// Measurements after which older ones are forgotten, a window later.
const WINDOW: u32 = 32;
/// Messages of a class after which the slower way is tried again, at first; twice as many whenever it is still slower.
const RETRY_AFTER: u32 = 256;
/// At most.
const RETRY_AFTER_MAX: u32 = 8192;
/// How many in a row: one alone would find cold caches.
const RETRIES: u32 = 8;
/// What a pull costs beside the copying that is measured: the offer, the answer, and that the sender waits for it.
const PULL_EXTRA_NS: u64 = 1500;
/// How much faster than streaming a pull must be.
const PULL_GAIN: f64 = 1.1;

/// What is known of one way for one class of sizes.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// Best time of 1 KiB in the last window and in the present one.
    best_ns: [f64; 2],
    tries: u32,
}

#[derive(Clone, Copy, Debug)]
struct Class {
    streamed: Way,
    pulled: Way,
    /// Messages until the slower way is tried again.
    retry_in: u32,
    retry_after: u32,
    retries: u32,
    /// Its [`TRIES`].
    tries: u32,
}

impl Way {
    const UNKNOWN: Way = Way { best_ns: [f64::MAX; 2], tries: 0 };

    fn note(&mut self, ns_per_kib: f64) {
        if self.tries.is_multiple_of(WINDOW) {
            self.best_ns = [self.best_ns[1], f64::MAX];
        }
        self.tries = self.tries.checked_add(1).unwrap_or(WINDOW);
        self.best_ns[1] = self.best_ns[1].min(ns_per_kib);
    }

    /// The best of one to two windows: what delays a message says nothing about its way.
    fn best_ns(&self) -> f64 {
        self.best_ns[0].min(self.best_ns[1])
    }
}

impl Class {
    fn new(tries: u32) -> Class {
        let (streamed, pulled) = (Way::UNKNOWN, Way::UNKNOWN);
        Class { streamed, pulled, retry_in: RETRY_AFTER, retry_after: RETRY_AFTER, retries: 0, tries }
    }

    fn is_known(&self) -> bool {
        self.streamed.tries >= self.tries && self.pulled.tries >= self.tries
    }

    fn pull_is_faster(&self) -> bool {
        self.pulled.best_ns() * PULL_GAIN < self.streamed.best_ns()
    }

    fn pulls(&self) -> bool {
        if self.is_known() { self.pull_is_faster() != (self.retries > 0) } else { self.streamed.tries >= self.tries }
    }

    /// One more message is measured.
    fn count(&mut self, was_faster: bool) {
        if !self.is_known() {
            return;
        }
        if self.pull_is_faster() != was_faster {
            (self.retry_after, self.retries) = (RETRY_AFTER, 0);
            self.retry_in = self.retry_after;
        } else if self.retries > 0 {
            self.retries -= 1;
        } else if self.retry_in > 0 {
            self.retry_in -= 1;
        } else {
            self.retries = RETRIES;
            self.retry_after = (2 * self.retry_after).min(RETRY_AFTER_MAX);
            self.retry_in = self.retry_after;
        }
    }
}

impl Preference {
    /// Nothing is known yet. Without cells, or without single copy, there is no choice.
    pub fn new(has_cells: bool, can_pull: bool) -> Preference {
        Preference { has_choice: has_cells && can_pull, classes: TRIES.map(Class::new) }
    }

    /// Whether the next message of `len` bytes should be pulled, if there is a choice.
    pub fn pulls(&self, len: usize) -> bool {
        self.has_choice && self.classes[class_of(len)].pulls()
    }

    /// [`Preference::pulls`] of all classes as bits by [`class_of`], for the sender.
    pub fn pulled_classes(&self) -> u32 {
        let bit = |(at, class): (usize, &Class)| u32::from(self.has_choice && class.pulls()) << at;
        self.classes.iter().enumerate().map(bit).sum()
    }

    /// There is no single copy any more.
    pub fn cannot_pull(&mut self) {
        self.has_choice = false;
    }

    /// A message of `len` bytes took `ns`, streamed.
    pub fn note_streamed(&mut self, len: usize, ns: u64) {
        self.note(len, ns, |class| &mut class.streamed);
    }

    /// The data of a message of `len` bytes took `ns` to be pulled.
    pub fn note_pulled(&mut self, len: usize, ns: u64) {
        self.note(len, ns + PULL_EXTRA_NS, |class| &mut class.pulled);
    }

    fn note(&mut self, len: usize, ns: u64, way: impl Fn(&mut Class) -> &mut Way) {
        let class = &mut self.classes[class_of(len)];
        let was_faster = class.pull_is_faster();
        way(class).note(ns as f64 * 1024.0 / len.max(1) as f64);
        class.count(was_faster);
    }
}

/// Sizes that are told apart: what fits the private caches, the shared one, neither.
pub fn class_of(len: usize) -> usize {
    CLASS_BYTES.iter().position(|most| len <= *most).unwrap_or(CLASS_BYTES.len())
}

/// The limits of a shared-memory lane whose records carry up to `record_max` bytes, to an inbox with `cells`.
pub fn shm_limits(record_max: usize, cells: usize, can_pull: bool) -> Caps {
    let (packet_max, eager_max) = match cells {
        0 => (record_max, record_max),
        _ => (CELL_BYTES + size_of::<u64>(), CELL_BYTES),
    };
    Caps {
        packet_max,
        eager_max: (SHM_EAGER_MAX.value() as usize).min(eager_max),
        fragments_max: if cells > 0 { ANNOUNCE_MAX.value() as usize } else { 0 },
        pull_min: if can_pull { PULL_MIN.value() as usize } else { usize::MAX },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn eager_messages_fit_a_packet() {
        let limits = shm_limits(4000, 0, true);
        assert_eq!((limits.packet_max, limits.eager_max), (4000, 4000));
        assert!(limits.pull_min < usize::MAX);
        assert_eq!(shm_limits(4000, 0, false).pull_min, usize::MAX);
    }

    /// How many of `messages` are streamed when the two ways take so long.
    fn streamed(preference: &mut Preference, messages: usize, stream_ns: u64, pull_ns: u64) -> usize {
        let pull = |p: &mut Preference| {
            let pulls = p.pulls(1 << 20);
            if pulls {
                p.note_pulled(1 << 20, pull_ns)
            } else {
                p.note_streamed(1 << 20, stream_ns)
            }
            pulls
        };
        (0..messages).filter(|_| !pull(preference)).count()
    }

    #[test]
    fn the_faster_way_is_preferred_and_the_other_retried() {
        for (stream_ns, pull_ns) in [(10_000, 20_000), (20_000, 5_000)] {
            let mut preference = Preference::new(true, true);
            let n = streamed(&mut preference, 4000, stream_ns, pull_ns);
            assert_eq!(n > 2000, stream_ns < pull_ns, "{n} of 4000 were streamed");
            assert!((16..200).contains(&n.min(4000 - n)), "{n} of 4000 were streamed");
        }
        assert!(!Preference::new(false, true).pulls(1 << 20), "nothing to choose");
    }

    #[test]
    fn a_preference_follows_the_machine() {
        let mut preference = Preference::new(true, true);
        streamed(&mut preference, 3000, 10_000, 20_000);
        let after = streamed(&mut preference, 2000, 100_000, 20_000);
        assert!(after < 300, "{after} were streamed after that had become slow");
        let back = streamed(&mut preference, 20_000, 10_000, 20_000);
        assert!(back > 15_000, "only {back} were streamed after that had become fast again");
        assert_eq!(preference.pulled_classes() & 1 << class_of(1000), 0, "other sizes are another matter");
    }

    #[test]
    fn own_memory_has_a_rate() {
        assert!(mem_rate(sys::cma::own_memory().unwrap().as_fd()) > 0.0);
    }
}
