//! Processes: start, watch, signal, reap; and the few calls that an event loop around them needs.

pub mod signals;
mod start;

pub use signals::{SignalFd, SignalInfo, signal_name};
pub use start::{Spawn, SpawnStep, fork_run, spawn, spawn_thread};

use std::ffi::CStr;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// A process id in this process's pid namespace.
pub type Pid = i32;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Ends this process at once: no destructors, no `atexit`.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Has `hook` called when the process exits in order.
pub fn at_exit(hook: extern "C" fn()) {
    // SAFETY: the function stays loaded: it is code of this program or of a library that is never unloaded.
    unsafe { libc::atexit(hook) };
}

/// How a child ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// By itself, with this code.
    Exit(i32),
    /// By this signal; true if it left a core file.
    Signal(i32, bool),
    /// It was not a child of this process, so nobody knows here.
    Unseen,
}

/// Takes one ended child away, if there is one. `Err` with `ECHILD` if there are no children at all.
pub fn reap() -> io::Result<Option<(Pid, Ended)>> {
    let mut status = 0;
    // SAFETY: plain system call with a valid out pointer.
    let pid = check(unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) })?;
    if pid == 0 {
        return Ok(None);
    }
    Ok(Some((
        pid,
        if libc::WIFEXITED(status) {
            Ended::Exit(libc::WEXITSTATUS(status))
        } else {
            Ended::Signal(libc::WTERMSIG(status), libc::WCOREDUMP(status))
        },
    )))
}

/// Sends `signal` to a process.
pub fn kill(pid: Pid, signal: i32) -> io::Result<()> {
    assert!(pid > 0, "0 and negative pids mean groups");
    // SAFETY: plain system call.
    check(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// Sends `signal` to a process group.
pub fn kill_group(group: Pid, signal: i32) -> io::Result<()> {
    assert!(group > 1, "0, 1 and negative groups mean others");
    // SAFETY: plain system call.
    check(unsafe { libc::kill(-group, signal) }).map(drop)
}

/// Stops this process, as a shell's Ctrl-Z does, until SIGCONT.
pub fn stop_self() {
    // SAFETY: plain system call.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Orphaned descendants become children of this process.
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: plain system call.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }).map(drop)
}

/// This process gets `signal` when its parent dies; if the parent is no longer `parent`, it gets it now.
pub fn set_death_signal(signal: i32, parent: Pid) -> io::Result<()> {
    // SAFETY: plain system calls.
    unsafe {
        check(libc::prctl(libc::PR_SET_PDEATHSIG, signal, 0, 0, 0))?;
        if libc::getppid() != parent {
            libc::raise(signal);
        }
    }
    Ok(())
}

/// Shown by `ps` and `top`; 15 bytes.
pub fn set_name(name: &CStr) {
    // SAFETY: the kernel copies at most 16 bytes of a terminated string.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) };
}

/// Starts a session of its own, without terminal.
pub fn new_session() -> io::Result<()> {
    // SAFETY: plain system call.
    check(unsafe { libc::setsid() }).map(drop)
}

/// How often the calling thread has given its processor to somebody else while it could run on, yields included.
pub fn forced_switches() -> u64 {
    // SAFETY: the structure is plain data, for which zeroes are valid, and the kernel fills it in.
    let usage = unsafe {
        let mut usage = zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    u64::try_from(usage.ru_nivcsw).unwrap_or(0)
}

/// Whether this process has rights that whoever started it lacks: a set-user-id program, or one with capabilities. Then its environment
/// may come from an attacker.
pub fn is_privileged() -> bool {
    // SAFETY: it reads a value that the kernel has left in this process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// The effective user.
pub fn effective_uid() -> u32 {
    // SAFETY: plain system call.
    unsafe { libc::geteuid() }
}

/// The soft limit of open files of this process.
pub fn file_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid pointer.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    Ok(limit.rlim_cur)
}

/// Raises the soft limit of open files to the hard one; returns (old soft limit, limit now in force).
pub fn raise_file_limit() -> io::Result<(u64, u64)> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: valid pointers.
    unsafe {
        check(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit))?;
        let old = limit.rlim_cur;
        limit.rlim_cur = limit.rlim_max;
        if check(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit)).is_err() {
            return Ok((old, old));
        }
        Ok((old, limit.rlim_cur))
    }
}

/// Sets the soft limit of open files of this process.
pub fn set_file_limit(soft: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: valid pointers.
    unsafe {
        check(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit))?;
        limit.rlim_cur = soft.min(limit.rlim_max);
        check(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit)).map(drop)
    }
}

/// The name of this host, or `localhost` if it has none.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "localhost".into() } else { name.trim().into() }
}

/// Bytes from the kernel's random generator.
pub fn random<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    fill_randomly(&mut out);
    out
}

/// Fills `out` from the kernel's random generator.
pub fn fill_randomly(out: &mut [u8]) {
    let mut at = 0;
    while at < out.len() {
        let rest = &mut out[at..];
        // SAFETY: `rest` is writable for its length.
        let n = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        at += usize::try_from(n).unwrap_or(0);
    }
}

/// What to wait for, and what has come.
pub type PollFd = libc::pollfd;
/// There is something to read, or the end.
pub const READABLE: i16 = libc::POLLIN;
/// There is room to write.
pub const WRITABLE: i16 = libc::POLLOUT;
/// The other side is gone or the descriptor is broken (always reported).
pub const BROKEN: i16 = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;

/// Waits until one of `fds` is ready or `timeout_ms` have passed (-1: no limit); returns how many are ready.
pub fn poll(fds: &mut [PollFd], timeout_ms: i32) -> io::Result<usize> {
    // SAFETY: `fds` is writable for its length.
    match check(unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout_ms) }) {
        Ok(n) => Ok(n as usize),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(0),
        Err(e) => Err(e),
    }
}

/// Sets or clears `O_NONBLOCK`.
pub fn set_nonblocking(fd: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    // SAFETY: plain system calls on a borrowed descriptor.
    unsafe {
        let flags = check(libc::fcntl(fd.as_raw_fd(), libc::F_GETFL))?;
        let flags = if on { flags | libc::O_NONBLOCK } else { flags & !libc::O_NONBLOCK };
        check(libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags)).map(drop)
    }
}

/// A duplicate of socket number `fd`, which this process inherited; children no longer inherit it, nor the original.
pub fn inherited_socket(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: a number that is not open gives EBADF; the original is only marked; the duplicate is new.
    unsafe {
        let mut stat: libc::stat = zeroed();
        check(libc::fstat(fd, &raw mut stat))?;
        if stat.st_mode & libc::S_IFMT != libc::S_IFSOCK {
            return Err(io::Error::from_raw_os_error(libc::ENOTSOCK));
        }
        let copy = OwnedFd::from_raw_fd(check(libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3))?);
        check(libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC))?;
        Ok(copy)
    }
}

/// Whether `fd` is a regular file, on which a write never waits for a reader.
pub fn is_regular_file(fd: BorrowedFd<'_>) -> bool {
    file_type(fd) == Some(libc::S_IFREG)
}

fn file_type(fd: BorrowedFd<'_>) -> Option<libc::mode_t> {
    // SAFETY: valid out pointer.
    unsafe {
        let mut stat: libc::stat = zeroed();
        (libc::fstat(fd.as_raw_fd(), &raw mut stat) == 0).then_some(stat.st_mode & libc::S_IFMT)
    }
}

/// Waits until nothing is unread in the pipes that standard output and standard error are, but at most 0.2 s: a launcher that closes
/// them as soon as a job fails has got the last words then.
pub fn drain_outputs() {
    for _ in 0..200 {
        if unread(io::stdout().as_fd()) + unread(io::stderr().as_fd()) == 0 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Bytes that a pipe's reader has not taken yet; 0 for what is no pipe.
fn unread(fd: BorrowedFd<'_>) -> i32 {
    if file_type(fd) != Some(libc::S_IFIFO) {
        return 0;
    }
    let mut bytes = 0;
    // SAFETY: valid out pointer.
    unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    bytes
}

/// Has the kernel probe a silent TCP peer, and give up after about `seconds`, also if it has bytes that the peer doesn't acknowledge.
pub fn keep_alive(socket: impl std::os::fd::AsFd, seconds: i32) -> io::Result<()> {
    let quarter = (seconds / 4).max(1);
    let options = [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, quarter),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, quarter),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, seconds.saturating_mul(1000)),
    ];
    for (level, name, value) in options {
        let fd = socket.as_fd().as_raw_fd();
        // SAFETY: the option value is an int that outlives the call.
        check(unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), size_of::<i32>() as u32) })?;
    }
    Ok(())
}

/// Takes part in the terminal's job control: whether this process may read from terminal `fd` now. True if `fd` is no terminal.
pub fn may_read_terminal(fd: BorrowedFd<'_>) -> bool {
    // SAFETY: plain system calls.
    unsafe { libc::isatty(fd.as_raw_fd()) == 0 || libc::tcgetpgrp(fd.as_raw_fd()) == libc::getpgrp() }
}
