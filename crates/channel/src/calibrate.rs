//! The sizes at which the protocol for a message changes.
//!
//! Up to `eager_max` a message goes through the ring or a cell at once, up to `fragments_max` in pieces; from `pull_min` on it may
//! be read from the sender's memory, if that is faster than streaming through cells: `protocol::policy::streaming` measures that on the
//! job's own messages, per peer and size class (`docs/design/0003-cells.md`). Without cells (`examples/thresholds.rs`, EPYC, two ranks, µs
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

/// The limits of a shared-memory lane whose records carry up to `record_max` bytes, to an inbox with `cells`.
pub fn shm_limits(record_max: usize, cells: usize, can_pull: bool) -> Caps {
    let (packet_max, eager_max) = match cells {
        0 => (record_max, record_max),
        _ => (CELL_BYTES + size_of::<u64>(), CELL_BYTES),
    };
    Caps {
        packet_max,
        piece_min: CELL_BYTES,
        eager_max: (SHM_EAGER_MAX.value() as usize).min(eager_max),
        fragments_max: if cells > 0 { ANNOUNCE_MAX.value() as usize } else { 0 },
        push_max: 0,
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
    fn own_memory_has_a_rate() {
        assert!(mem_rate(sys::cma::own_memory().unwrap().as_fd()) > 0.0);
    }
}
