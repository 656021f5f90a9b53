//! Signals: their numbers and names, and a descriptor that delivers them.

use super::{Pid, check};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub use libc::{
    SIGCHLD as CHLD, SIGCONT as CONT, SIGHUP as HUP, SIGINT as INT, SIGKILL as KILL, SIGPIPE as PIPE, SIGQUIT as QUIT,
    SIGTERM as TERM, SIGTSTP as TSTP, SIGTTIN as TTIN, SIGTTOU as TTOU, SIGUSR1 as USR1, SIGUSR2 as USR2,
    SIGWINCH as WINCH,
};

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
