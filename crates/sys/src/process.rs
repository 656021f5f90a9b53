//! Processes: start, watch, signal, reap; and the few calls that an event loop around them needs.
//!
//! Invariant of [`spawn`]: between the clone and the exec the child shares the parent's memory while the parent stands still, so it runs
//! only system calls on data that was prepared before.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// A process id in this process's pid namespace.
pub type Pid = i32;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A program to start.
pub struct Spawn<'a> {
    /// Path of the program; no search.
    pub path: &'a CStr,
    /// Its arguments, the first being its name.
    pub argv: &'a [CString],
    /// Its whole environment, `NAME=value`.
    pub env: &'a [CString],
    /// Its working directory.
    pub directory: Option<&'a CStr>,
    /// Descriptors it gets: (ours, its number). Numbers must be ascending.
    pub fds: &'a [(BorrowedFd<'a>, RawFd)],
    /// Signal that it gets when the calling thread dies; 0 for none.
    pub death_signal: i32,
    /// Puts it into a process group of its own.
    pub own_group: bool,
    /// Its soft limit of open files; `None` to inherit.
    pub file_limit: Option<u64>,
    /// Signals that it ignores from the start (all others have their default action).
    pub ignore: &'a [i32],
}

/// Which step of [`spawn`] failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpawnStep {
    /// Creating the process.
    Clone,
    /// The working directory.
    Directory,
    /// Giving it its descriptors.
    Descriptors,
    /// The program itself.
    Exec,
}

struct Prepared<'a> {
    path: &'a CStr,
    argv: Vec<*const libc::c_char>,
    env: Vec<*const libc::c_char>,
    directory: *const libc::c_char,
    /// (source, duplicate above every target, target).
    fds: Vec<(RawFd, RawFd, RawFd)>,
    lowest_free: RawFd,
    death_signal: i32,
    own_group: bool,
    file_limit: Option<u64>,
    ignore: &'a [i32],
    parent: Pid,
    failure: Option<(SpawnStep, i32)>,
}

/// Starts a program without a shell and without copying this process's memory.
pub fn spawn(what: &Spawn<'_>) -> Result<Pid, (SpawnStep, io::Error)> {
    const STACK_BYTES: usize = 64 << 10;
    let pointers = |list: &[CString]| {
        list.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect::<Vec<*const libc::c_char>>()
    };
    let mut prepared = Prepared {
        path: what.path,
        argv: pointers(what.argv),
        env: pointers(what.env),
        directory: what.directory.map_or(std::ptr::null(), CStr::as_ptr),
        fds: what.fds.iter().map(|(fd, target)| (fd.as_raw_fd(), -1, *target)).collect(),
        lowest_free: what.fds.iter().map(|(_, target)| target + 1).max().unwrap_or(3).max(3),
        death_signal: what.death_signal,
        own_group: what.own_group,
        file_limit: what.file_limit,
        ignore: what.ignore,
        parent: std::process::id() as Pid,
        failure: None,
    };
    let mut stack = vec![0u128; STACK_BYTES / 16];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let old = block_all_signals();
    // SAFETY: the stack outlives the child's use of it because CLONE_VFORK stops this thread until the child has left
    // this memory (exec or exit); `child_main` touches nothing but `prepared` and system calls; signals are blocked, so no
    // handler runs in the child on shared memory.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(stack.len()).cast();
        libc::clone(child_main, top, flags, (&raw mut prepared).cast())
    };
    let error = io::Error::last_os_error();
    restore_signals(&old);
    if pid < 0 {
        return Err((SpawnStep::Clone, error));
    }
    match prepared.failure {
        None => Ok(pid),
        Some((step, errno)) => {
            // The child has exited; take its status away.
            let mut status = 0;
            // SAFETY: plain system call with a valid out pointer.
            unsafe { libc::waitpid(pid, &raw mut status, 0) };
            Err((step, io::Error::from_raw_os_error(errno)))
        }
    }
}

extern "C" fn child_main(arg: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `arg` is the `Prepared` of `spawn`, whose thread stands still.
    let p = unsafe { &mut *arg.cast::<Prepared<'_>>() };
    let step = child_setup(p);
    p.failure = Some((step, errno()));
    // SAFETY: leaves at once, without running destructors of memory that is the parent's.
    unsafe { libc::_exit(127) }
}

fn errno() -> i32 {
    // SAFETY: __errno_location is always valid for this thread.
    unsafe { *libc::__errno_location() }
}

/// Returns only when a step has failed, with errno set.
fn child_setup(p: &mut Prepared<'_>) -> SpawnStep {
    // SAFETY: system calls on data prepared by `spawn`; all pointers are valid and null-terminated where needed.
    unsafe {
        for signal in 1..=64 {
            libc::signal(signal, if p.ignore.contains(&signal) { libc::SIG_IGN } else { libc::SIG_DFL });
        }
        if p.own_group {
            libc::setpgid(0, 0);
        }
        if p.death_signal != 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, p.death_signal);
            if libc::getppid() != p.parent {
                libc::_exit(127);
            }
        }
        // First lift every source above all targets, so that no dup2 hits a source that is still needed.
        for (source, copy, _) in &mut p.fds {
            *copy = libc::fcntl(*source, libc::F_DUPFD_CLOEXEC, p.lowest_free);
            if *copy < 0 {
                return SpawnStep::Descriptors;
            }
        }
        for (_, copy, target) in &p.fds {
            if libc::dup2(*copy, *target) < 0 {
                return SpawnStep::Descriptors;
            }
        }
        let mut files = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        if let Some(soft) = p.file_limit
            && libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut files) == 0
        {
            files.rlim_cur = soft;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const files);
        }
        if !p.directory.is_null() && libc::chdir(p.directory) < 0 {
            return SpawnStep::Directory;
        }
        let mut none: libc::sigset_t = zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        libc::execve(p.path.as_ptr(), p.argv.as_ptr(), p.env.as_ptr());
    }
    SpawnStep::Exec
}

fn block_all_signals() -> libc::sigset_t {
    // SAFETY: sigset_t values are initialised by sigfillset and by the kernel.
    unsafe {
        let (mut all, mut old): (libc::sigset_t, libc::sigset_t) = (zeroed(), zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old);
        old
    }
}

fn restore_signals(old: &libc::sigset_t) {
    // SAFETY: `old` was filled by `block_all_signals`.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, old, std::ptr::null_mut()) };
}

/// Runs `body` in a forked copy of this process, which then exits with the value that it returns.
///
/// Only for a process with one thread (checked): the copy may then do everything that the original may. Of the
/// descriptors from 3 on, the copy has only `keep`; the others' owners must not be touched by `body`.
pub fn fork_run(keep: &[BorrowedFd<'_>], body: impl FnOnce() -> i32) -> io::Result<Pid> {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads != 1 {
        return Err(io::Error::other("fork in a process with several threads"));
    }
    let mut keep: Vec<u32> = keep.iter().map(|fd| fd.as_raw_fd() as u32).collect();
    keep.sort_unstable();
    // SAFETY: the process has one thread, so the child's memory is consistent.
    let pid = check(unsafe { libc::fork() })?;
    if pid == 0 {
        let mut first = 3;
        for fd in keep.into_iter().chain([u32::MAX]) {
            if fd > first {
                close_range(first, fd.saturating_sub(1));
            }
            first = fd.saturating_add(1).max(3);
        }
        exit_now(body());
    }
    Ok(pid)
}

fn close_range(first: u32, last: u32) {
    // SAFETY: plain system call; the caller is the fresh child, which uses none of these descriptors.
    if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } < 0 {
        for fd in first..=last.min(65536) {
            // SAFETY: as above.
            unsafe { libc::close(fd as RawFd) };
        }
    }
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

/// The effective user.
pub fn effective_uid() -> u32 {
    // SAFETY: plain system call.
    unsafe { libc::geteuid() }
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

/// Fills `out` from the kernel's random generator.
pub fn random(out: &mut [u8]) {
    let mut at = 0;
    while at < out.len() {
        let rest = &mut out[at..];
        // SAFETY: `rest` is writable for its length.
        let n = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        at += usize::try_from(n).unwrap_or(0);
    }
}

/// Delivers blocked signals through a descriptor.
pub struct SignalFd(OwnedFd);

/// One signal.
#[derive(Clone, Copy, Debug)]
pub struct SignalInfo {
    /// Its number.
    pub signal: i32,
    /// Who sent it; 0 for the kernel (a terminal's Ctrl-C).
    pub sender: Pid,
}

impl SignalFd {
    /// Blocks `signals` for this thread and makes them readable here.
    pub fn new(signals: &[i32]) -> io::Result<SignalFd> {
        // SAFETY: the set is initialised by sigemptyset; signalfd returns a new descriptor.
        unsafe {
            let mut set: libc::sigset_t = zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in signals {
                libc::sigaddset(&raw mut set, *signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            let fd = check(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?;
            Ok(SignalFd(OwnedFd::from_raw_fd(fd)))
        }
    }

    /// The next pending signal.
    pub fn next_signal(&self) -> Option<SignalInfo> {
        // SAFETY: the kernel fills exactly one signalfd_siginfo, for which zero bytes are valid.
        unsafe {
            let mut info: libc::signalfd_siginfo = zeroed();
            let size = size_of::<libc::signalfd_siginfo>();
            let n = libc::read(self.0.as_raw_fd(), (&raw mut info).cast(), size);
            let sender = info.ssi_pid as Pid;
            (n == size as isize).then_some(SignalInfo { signal: info.ssi_signo as i32, sender })
        }
    }
}

impl std::os::fd::AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        AsFd::as_fd(&self.0)
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
    // SAFETY: valid out pointer.
    unsafe {
        let mut stat: libc::stat = zeroed();
        libc::fstat(fd.as_raw_fd(), &raw mut stat) == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFREG
    }
}

/// Has the kernel probe a silent TCP peer, and give up after about `seconds`.
pub fn keep_alive(socket: impl std::os::fd::AsFd, seconds: i32) -> io::Result<()> {
    let third = (seconds / 3).max(1);
    let options = [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, third),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, third),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3),
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

/// Signal name such as `SIGSEGV`.
pub fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        _ => return format!("signal {signal}"),
    };
    name.to_string()
}

/// Numbers of the signals that a launcher handles.
pub mod signals {
    pub use libc::{
        SIGCHLD as CHLD, SIGCONT as CONT, SIGHUP as HUP, SIGINT as INT, SIGKILL as KILL, SIGPIPE as PIPE,
        SIGQUIT as QUIT, SIGTERM as TERM, SIGTSTP as TSTP, SIGTTIN as TTIN, SIGTTOU as TTOU, SIGUSR1 as USR1,
        SIGUSR2 as USR2, SIGWINCH as WINCH,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;

    fn strings(list: &[&str]) -> Vec<CString> {
        list.iter().map(|s| CString::new(*s).unwrap()).collect()
    }

    fn wait_for(pid: Pid) -> i32 {
        let mut status = 0;
        // SAFETY: valid out pointer.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        libc::WEXITSTATUS(status)
    }

    #[test]
    fn a_spawned_program_has_its_descriptors_environment_and_directory() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let path = CString::new("/bin/sh").unwrap();
        let argv = strings(&["sh", "-c", "echo $HELLO; pwd; echo x >&7; exit 3"]);
        let env = strings(&["HELLO=world"]);
        let directory = CString::new("/").unwrap();
        let fds = [(writer.as_fd(), 1), (writer.as_fd(), 7)];
        let pid = spawn(&Spawn {
            path: &path,
            argv: &argv,
            env: &env,
            directory: Some(&directory),
            fds: &fds,
            death_signal: 0,
            own_group: true,
            file_limit: None,
            ignore: &[],
        })
        .unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "world\n/\nx\n");
        assert_eq!(wait_for(pid), 3);
    }

    #[test]
    fn a_missing_program_names_the_step() {
        let path = CString::new("/nonexistent/program").unwrap();
        let spec = |directory| Spawn {
            path: &path,
            argv: &[],
            env: &[],
            directory,
            fds: &[],
            death_signal: 0,
            own_group: false,
            file_limit: None,
            ignore: &[],
        };
        let (step, error) = spawn(&spec(None)).unwrap_err();
        assert_eq!((step, error.raw_os_error()), (SpawnStep::Exec, Some(libc::ENOENT)));
        let (step, _) = spawn(&spec(Some(c"/nonexistent"))).unwrap_err();
        assert_eq!(step, SpawnStep::Directory);
    }
}
