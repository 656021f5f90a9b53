//! Processes that are not this one's children, and what a process does that wants to be nobody's child.

use crate::process::{Ended, Pid, PollFd, READABLE};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Stands for one process, whatever becomes of its pid. Readable when the process has ended.
pub struct Watched(OwnedFd);

impl Watched {
    /// The process that has `pid` now.
    pub fn open(pid: Pid) -> io::Result<Watched> {
        // SAFETY: plain system call that returns a new descriptor, close-on-exec.
        unsafe {
            let fd = check(libc::syscall(libc::SYS_pidfd_open, pid, 0))?;
            Ok(Watched(OwnedFd::from_raw_fd(fd as RawFd)))
        }
    }

    /// Whether it has ended by now.
    pub fn has_ended(&self) -> bool {
        let mut fds = [PollFd { fd: self.0.as_raw_fd(), events: READABLE, revents: 0 }];
        crate::process::poll(&mut fds, 0).is_ok_and(|ready| ready > 0)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        let info = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: plain system call; no siginfo is given.
        check(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.0.as_raw_fd(), signal, info, 0) }).map(drop)
    }
}

impl AsFd for Watched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits for the end of the child `pid`; [`Ended::Unseen`] if the program has its children reaped by itself.
pub fn wait_for(pid: Pid) -> Ended {
    let mut status = 0;
    loop {
        // SAFETY: plain system call with a valid out pointer.
        let got = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        if got == pid {
            break;
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return Ended::Unseen;
        }
    }
    if libc::WIFEXITED(status) {
        Ended::Exit(libc::WEXITSTATUS(status))
    } else {
        Ended::Signal(libc::WTERMSIG(status), libc::WCOREDUMP(status))
    }
}

/// Puts /dev/null in the place of standard input and output, so that whoever is at their other ends sees an end.
pub fn let_go_of_stdio() -> io::Result<()> {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    for fd in [0, 1] {
        // SAFETY: the numbers of standard input and output, which Rust's handles use by number only.
        check(libc::c_long::from(unsafe { libc::dup2(null.as_raw_fd(), fd) }))?;
    }
    Ok(())
}

/// The file that the code of this function was loaded from: the program, or the library that it is part of.
pub fn own_file() -> Option<std::path::PathBuf> {
    let here = own_file as fn() -> Option<std::path::PathBuf> as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (low, high) = range.split_once('-')?;
        let address = |hex| usize::from_str_radix(hex, 16).ok();
        let path = rest.find('/').map(|at| rest[at..].trim_end_matches(" (deleted)"))?;
        (address(low)? <= here && here < address(high)?).then(|| path.into())
    })
}

/// The library that this process's parent has loaded under a name with that beginning, if this process may know and can open it.
pub fn library_of_parent(beginning: &str) -> Option<std::path::PathBuf> {
    let parent = std::os::unix::process::parent_id();
    let maps = std::fs::read_to_string(format!("/proc/{parent}/maps")).ok()?;
    let mut paths = maps.lines().filter_map(|line| line.find('/').map(|at| std::path::PathBuf::from(&line[at..])));
    let named = |path: &std::path::PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(beginning))
    };
    paths.find(named).filter(|path| std::fs::File::open(path).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_process_can_be_seen() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let watched = Watched::open(child.id() as Pid).unwrap();
        let ready = |timeout_ms| {
            let mut fds = [PollFd { fd: watched.0.as_raw_fd(), events: READABLE, revents: 0 }];
            crate::process::poll(&mut fds, timeout_ms).unwrap()
        };
        assert!(ready(0) == 0 && !watched.has_ended());
        watched.signal(crate::process::signals::KILL).unwrap();
        assert!(ready(30_000) == 1 && watched.has_ended());
        assert_eq!(wait_for(child.id() as Pid), Ended::Signal(9, false));
        let _ = child.wait();
        assert_eq!(wait_for(child.id() as Pid), Ended::Unseen);
    }

    #[test]
    fn this_code_is_in_the_test_program() {
        assert_eq!(own_file(), std::env::current_exe().ok());
    }
}
