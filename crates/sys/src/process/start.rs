//! Starting a program, or a copy of this process.
//!
//! Invariant of [`spawn`]: between the clone and the exec the child shares the parent's memory while the parent stands still, so it runs
//! only system calls on data that was prepared before.

use super::{Pid, check, exit_now};
use std::ffi::{CStr, CString};
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

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

impl<'a> Spawn<'a> {
    /// A program that gets these descriptors, and else what this process has.
    pub fn new(
        path: &'a CStr,
        argv: &'a [CString],
        env: &'a [CString],
        fds: &'a [(BorrowedFd<'a>, RawFd)],
    ) -> Spawn<'a> {
        let (directory, file_limit) = (None, None);
        Spawn { path, argv, env, directory, fds, death_signal: 0, own_group: false, file_limit, ignore: &[] }
    }
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

/// Starts a thread that takes no signals: they are the program's.
pub fn spawn_thread(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<std::thread::JoinHandle<()>> {
    // It inherits the mask.
    let old = block_all_signals();
    let thread = std::thread::Builder::new().name(name.into()).spawn(body);
    restore_signals(&old);
    thread
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
        let spec = Spawn { directory: Some(&directory), own_group: true, ..Spawn::new(&path, &argv, &env, &fds) };
        let pid = spawn(&spec).unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "world\n/\nx\n");
        assert_eq!(wait_for(pid), 3);
    }

    #[test]
    fn a_missing_program_names_the_step() {
        let path = CString::new("/nonexistent/program").unwrap();
        let spec = |directory| Spawn { directory, ..Spawn::new(&path, &[], &[], &[]) };
        let (step, error) = spawn(&spec(None)).unwrap_err();
        assert_eq!((step, error.raw_os_error()), (SpawnStep::Exec, Some(libc::ENOENT)));
        let (step, _) = spawn(&spec(Some(c"/nonexistent"))).unwrap_err();
        assert_eq!(step, SpawnStep::Directory);
    }
}
