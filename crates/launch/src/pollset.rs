//! The descriptors that the event loop waits for. Each round rebuilds the set from the state of the parts, so it is never out of date.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::{Duration, Instant};
use sys::process::{BROKEN, PollFd, READABLE, WRITABLE};

/// Descriptors and the next deadline.
#[derive(Default)]
pub struct PollSet {
    fds: Vec<PollFd>,
    /// Events that came, by descriptor number.
    ready: Vec<i16>,
    deadline: Option<Instant>,
}

impl PollSet {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.fds.clear();
        self.deadline = None;
    }

    /// Waits for `fd` to become readable and/or writable; its end is always noticed.
    pub fn add(&mut self, fd: impl AsFd, read: bool, write: bool) {
        let events = if read { READABLE } else { 0 } | if write { WRITABLE } else { 0 };
        self.fds.push(PollFd { fd: fd.as_fd().as_raw_fd(), events, revents: 0 });
    }

    /// Wakes at `when` at the latest.
    pub fn until(&mut self, when: Instant) {
        self.deadline = Some(self.deadline.map_or(when, |d| d.min(when)));
    }

    /// Waits.
    pub fn wait(&mut self) -> io::Result<()> {
        let timeout_ms = match self.deadline {
            None => -1,
            Some(when) => {
                let left = when.saturating_duration_since(Instant::now()) + Duration::from_micros(999);
                i32::try_from(left.as_millis()).unwrap_or(i32::MAX)
            }
        };
        sys::process::poll(&mut self.fds, timeout_ms)?;
        self.ready.fill(0);
        for polled in &self.fds {
            let number = polled.fd as usize;
            if number >= self.ready.len() {
                self.ready.resize(number + 1, 0);
            }
            self.ready[number] |= polled.revents;
        }
        Ok(())
    }

    fn events(&self, fd: RawFd) -> i16 {
        self.ready.get(fd as usize).copied().unwrap_or(0)
    }

    /// Reading from `fd` will not wait.
    pub fn readable(&self, fd: impl AsFd) -> bool {
        self.events(fd.as_fd().as_raw_fd()) & (READABLE | BROKEN) != 0
    }

    /// Writing to `fd` will not wait.
    pub fn writable(&self, fd: impl AsFd) -> bool {
        self.events(fd.as_fd().as_raw_fd()) & (WRITABLE | BROKEN) != 0
    }

    /// The other side of `fd` is gone.
    pub fn broken(&self, fd: impl AsFd) -> bool {
        self.events(fd.as_fd().as_raw_fd()) & BROKEN != 0
    }
}
