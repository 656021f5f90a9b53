//! The monotonic clock. It never goes back and isn't compared between machines.

/// Nanoseconds since an arbitrary point in the past of this kernel.
#[inline]
pub fn now_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is writable; CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut t) };
    t.tv_sec.cast_unsigned() * 1_000_000_000 + t.tv_nsec.cast_unsigned()
}

/// Resolution of [`now_ns`] in nanoseconds.
pub fn resolution_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 1 };
    // SAFETY: as above.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC, &raw mut t) };
    t.tv_sec.cast_unsigned() * 1_000_000_000 + t.tv_nsec.cast_unsigned()
}

/// Processor time that the calling process has used, in nanoseconds.
pub fn cpu_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as above.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut t) };
    t.tv_sec.cast_unsigned() * 1_000_000_000 + t.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn time_goes_on() {
        let a = super::now_ns();
        assert!(super::now_ns() >= a);
        assert!(super::resolution_ns() >= 1);
        assert!(super::cpu_ns() > 0);
    }
}
