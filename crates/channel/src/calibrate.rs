//! The sizes at which the protocol for a message changes.

use protocol::fabric::Limits;

base::config! {
    /// Largest message that a shared-memory lane sends eagerly; at most a quarter of the ring.
    SHM_EAGER_MAX: u64 = 16384, 0..=1073741824, "bytes";
    /// Smallest message that is read from the sender's memory instead of copied through the ring.
    PULL_MIN: u64 = 16384, 0..=1073741824, "bytes";
}

/// The limits of a shared-memory lane whose packets carry up to `packet_max` bytes.
pub fn shm_limits(packet_max: usize, single_copy: Option<&str>) -> Limits {
    Limits {
        packet_max,
        eager_max: (SHM_EAGER_MAX.value() as usize).min(packet_max),
        pull_min: if single_copy.is_some() { PULL_MIN.value() as usize } else { usize::MAX },
    }
}
