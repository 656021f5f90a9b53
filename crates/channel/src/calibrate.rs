//! The sizes at which the protocol for a message changes.
//!
//! Up to `eager_max` a message goes through the ring or a cell at once, up to `announce_max` in pieces; from `pull_min` on it may
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
//! Reading `/proc/self/mem` copies page by page, at a speed that differs much between machines and kernels: it is timed once per process, on this process's own memory, and used only if it can beat
//! the ring.

use protocol::fabric::Limits;
use shm::layout::CELL_BYTES;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;

base::config! {
    /// Largest message that a shared-memory lane sends eagerly; at most a quarter of the ring.
    SHM_EAGER_MAX: u64 = 16384, 0..=1073741824, "bytes";
    /// Largest payload that goes into a record of the ring while there are cells for larger ones.
    RECORD_MAX: u64 = 8192, 0..=1073741824, "bytes";
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

/// Whether one peer's large messages are rather streamed through cells or pulled: whichever was faster so far.
#[derive(Debug)]
pub struct Preference {
    /// Streaming through the ring alone is never preferred: it uses the processor of both sides for longer.
    has_cells: bool,
    classes: [Rates; CLASSES],
}

/// Sizes that are told apart: what fits the private caches, the shared one, neither.
const CLASSES: usize = 3;
/// Messages of a class after which the slower way is tried again, for several in a row: one alone would find cold caches.
const RETRY_EVERY: u32 = 512;
/// How many in a row.
const RETRIES: u32 = 8;
/// Measurements of a way before it can be called the slower one: the first ones are spoilt by page faults and cold caches.
const TRIES: u32 = 16;

#[derive(Clone, Copy, Debug)]
struct Rates {
    /// Best time of 1 KiB, streamed and pulled.
    best_ns: [f64; 2],
    tries: [u32; 2],
    messages: u32,
}

impl Preference {
    /// Nothing is known yet.
    pub fn new(has_cells: bool) -> Preference {
        Preference { has_cells, classes: [Rates { best_ns: [f64::MAX; 2], tries: [0; 2], messages: 0 }; CLASSES] }
    }

    /// Whether the next message, of `len` bytes, should be streamed.
    pub fn stream(&mut self, len: usize) -> bool {
        if !self.has_cells {
            return false;
        }
        let rates = self.class(len);
        rates.messages += 1;
        match rates.tries {
            [streamed, _] if streamed < TRIES => true,
            [_, pulled] if pulled < TRIES => false,
            _ => (rates.best_ns[0] <= rates.best_ns[1]) != (rates.messages % RETRY_EVERY < RETRIES),
        }
    }

    /// A message was streamed.
    pub fn note_streamed(&mut self, len: usize, ns: u64) {
        self.note(0, len, ns);
    }

    /// A message was pulled.
    pub fn note_pulled(&mut self, len: usize, ns: u64) {
        self.note(1, len, ns);
    }

    fn note(&mut self, way: usize, len: usize, ns: u64) {
        let rates = self.class(len);
        rates.tries[way] += 1;
        rates.best_ns[way] = rates.best_ns[way].min(ns as f64 * 1024.0 / len.max(1) as f64);
    }

    fn class(&mut self, len: usize) -> &mut Rates {
        &mut self.classes[usize::from(len > 256 << 10) + usize::from(len > 2 << 20)]
    }
}

/// The limits of a shared-memory lane whose records carry up to `record_max` bytes, to an inbox with `cells`.
pub fn shm_limits(record_max: usize, cells: usize, can_pull: bool) -> Limits {
    let (packet_max, eager_max) = match cells {
        0 => (record_max, record_max),
        _ => (CELL_BYTES + size_of::<u64>(), CELL_BYTES),
    };
    Limits {
        packet_max,
        eager_max: (SHM_EAGER_MAX.value() as usize).min(eager_max),
        announce_max: if cells > 0 { ANNOUNCE_MAX.value() as usize } else { 0 },
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

    #[test]
    fn the_faster_way_is_preferred_and_the_other_retried() {
        let mut preference = Preference::new(true);
        for (stream_ns, pull_ns) in [(100, 200), (100, 50)] {
            let mut streamed = 0;
            for _ in 0..1600 {
                if preference.stream(1 << 20) {
                    streamed += 1;
                    preference.note_streamed(1 << 20, stream_ns);
                } else {
                    preference.note_pulled(1 << 20, pull_ns);
                }
            }
            assert_eq!(streamed > 1500, stream_ns < pull_ns, "{streamed} of 1600 were streamed");
            assert!((1..1600).contains(&streamed));
        }
        assert!(!Preference::new(false).stream(1 << 20));
    }

    #[test]
    fn own_memory_has_a_rate() {
        assert!(mem_rate(sys::cma::own_memory().unwrap().as_fd()) > 0.0);
    }
}
