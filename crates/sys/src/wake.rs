//! Waking and sleeping: the eventfd that serves as doorbell, `membarrier`, `poll`, `sched_yield`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// A doorbell: an eventfd that a peer rings and its owner waits for. Neither call blocks.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// A silent bell.
    pub fn new() -> io::Result<Bell> {
        // SAFETY: eventfd has no precondition; it returns a new descriptor or -1.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just made and nobody else owns it.
        Ok(Bell(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The bell of a peer, from the descriptor that it passed on.
    pub fn from_fd(fd: OwnedFd) -> Bell {
        Bell(fd)
    }

    /// Rings. A bell that rings already stays so.
    pub fn ring(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight readable bytes and an open descriptor. EAGAIN means that it rings already; a descriptor that
        // isn't an eventfd at all only makes the peer sleep until its time-out.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Makes it silent again.
    pub fn silence(&self) {
        let mut count = [0u8; 8];
        // SAFETY: eight writable bytes and an open descriptor; EAGAIN means that it didn't ring.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sleeps until `fd` (a bell, a socket, an epoll set) is readable, or for `timeout`. True if it is readable.
pub fn sleep_until_readable(fd: BorrowedFd<'_>, timeout: Duration) -> bool {
    sleep_until_either_readable(fd, None, timeout)
}

/// As [`sleep_until_readable`], until `fd` or `other` is readable.
pub fn sleep_until_either_readable(fd: BorrowedFd<'_>, other: Option<BorrowedFd<'_>>, timeout: Duration) -> bool {
    // The kernel skips an entry with a negative descriptor.
    let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut entries = [entry(fd.as_raw_fd()), entry(other.map_or(-1, |other| other.as_raw_fd()))];
    let limit = libc::timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    // SAFETY: two entries, a valid time-out, no signal mask. An interrupted call counts as time-out: callers poll again.
    unsafe { libc::ppoll(entries.as_mut_ptr(), 2, &raw const limit, std::ptr::null()) > 0 }
}

/// Gives the rest of the time slice to another runnable thread.
#[inline]
pub fn yield_cpu() {
    // SAFETY: sched_yield has no precondition.
    unsafe { libc::sched_yield() };
}

fn membarrier(command: i32) -> i32 {
    // SAFETY: membarrier takes two integers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) as i32 }
}

/// Lets other processes' [`barrier_everywhere`] reach the threads of this one. False if the kernel can't.
pub fn register_barrier() -> bool {
    membarrier(libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0
}

/// A full memory barrier on every running thread of every process that called [`register_barrier`], at its current
/// point. False if the kernel can't.
pub fn barrier_everywhere() -> bool {
    membarrier(libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_wakes_and_is_silenced() {
        let bell = Bell::new().unwrap();
        assert!(!sleep_until_readable(bell.as_fd(), Duration::from_millis(1)));
        bell.ring();
        bell.ring();
        assert!(sleep_until_readable(bell.as_fd(), Duration::from_secs(5)));
        bell.silence();
        assert!(!sleep_until_readable(bell.as_fd(), Duration::ZERO));
        bell.silence();
    }

    #[test]
    fn either_of_two_bells_wakes() {
        let (first, second) = (Bell::new().unwrap(), Bell::new().unwrap());
        let wakes = |timeout| sleep_until_either_readable(first.as_fd(), Some(second.as_fd()), timeout);
        assert!(!wakes(Duration::from_millis(1)));
        second.ring();
        assert!(wakes(Duration::from_secs(5)));
        second.silence();
        first.ring();
        assert!(wakes(Duration::from_secs(5)));
    }

    #[test]
    fn barrier_and_registration_agree() {
        assert_eq!(register_barrier(), barrier_everywhere());
    }
}
