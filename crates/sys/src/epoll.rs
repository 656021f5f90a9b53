//! Readiness of many descriptors at once. Level-triggered but for [`Epoll::add_edge`]; each descriptor carries a caller-chosen 64-bit token.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// What a descriptor is watched for or ready for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Interest {
    /// Bytes, a connection or the end of the stream can be read.
    pub read: bool,
    /// Bytes can be written.
    pub write: bool,
}

impl Interest {
    /// Only reading.
    pub const READ: Interest = Interest { read: true, write: false };
    /// Only writing.
    pub const WRITE: Interest = Interest { read: false, write: true };
    /// Both directions.
    pub const BOTH: Interest = Interest { read: true, write: true };

    fn bits(self) -> u32 {
        let mut bits = 0;
        if self.read {
            bits |= libc::EPOLLIN | libc::EPOLLRDHUP;
        }
        if self.write {
            bits |= libc::EPOLLOUT;
        }
        bits as u32
    }
}

/// One ready descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ready {
    /// The token given to [`Epoll::add`].
    pub token: u64,
    /// What can be done; errors and hang-ups show as both.
    pub interest: Interest,
}

/// Most descriptors reported by one [`Epoll::wait`].
pub const BATCH_MAX: usize = 64;

/// A set of watched descriptors.
#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
}

impl Epoll {
    /// An empty set.
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: no memory is passed.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
        Ok(Epoll { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    fn control(&self, op: i32, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest.bits(), u64: token };
        // SAFETY: `event` outlives the call; both descriptors are open for the borrow.
        match unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), op, fd.as_raw_fd(), &mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Watches `fd`. Closing the last duplicate of `fd` ends that.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
    }

    /// Watches `fd`: each time that something comes is told once, to every set that watches it.
    pub fn add_edge(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: token };
        // SAFETY: `event` outlives the call; both descriptors are open for the borrow.
        match unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Changes what a watched `fd` is watched for.
    pub fn modify(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
    }

    /// Stops watching `fd`.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, Interest::default())
    }

    /// Waits until something is ready or `timeout_ms` has passed (`0`: don't wait, `-1`: for ever) and appends to `out`.
    /// An interruption by a signal counts as nothing ready.
    pub fn wait(&self, timeout_ms: i32, out: &mut Vec<Ready>) -> io::Result<usize> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; BATCH_MAX];
        // SAFETY: `events` has room for BATCH_MAX entries and outlives the call.
        let n = unsafe { libc::epoll_wait(self.fd.as_raw_fd(), events.as_mut_ptr(), BATCH_MAX as i32, timeout_ms) };
        if n < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(0) } else { Err(error) };
        }
        let failed = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
        for event in &events[..n as usize] {
            let bits = event.events;
            out.push(Ready {
                token: event.u64,
                interest: Interest {
                    read: bits & (failed | (libc::EPOLLIN | libc::EPOLLRDHUP) as u32) != 0,
                    write: bits & (failed | libc::EPOLLOUT as u32) != 0,
                },
            });
        }
        Ok(n as usize)
    }

    /// The set's own descriptor: readable when something in it is ready.
    pub fn fd(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn tells_which_descriptor_is_readable() {
        let (mut a, b) = UnixStream::pair().unwrap();
        let set = Epoll::new().unwrap();
        set.add(b.as_fd(), 7, Interest::READ).unwrap();
        let mut out = Vec::new();
        assert_eq!(set.wait(0, &mut out).unwrap(), 0);
        a.write_all(b"x").unwrap();
        assert_eq!(set.wait(-1, &mut out).unwrap(), 1);
        assert_eq!(out, [Ready { token: 7, interest: Interest::READ }]);
        set.modify(b.as_fd(), 8, Interest::BOTH).unwrap();
        out.clear();
        set.wait(0, &mut out).unwrap();
        assert_eq!(out, [Ready { token: 8, interest: Interest::BOTH }]);
        set.remove(b.as_fd()).unwrap();
        assert_eq!(set.wait(0, &mut out).unwrap(), 0);
    }
}
