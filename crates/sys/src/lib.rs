//! The only caller of libc. Safe wrappers where the kernel can keep the promise, `unsafe fn` with a contract where it can't.

pub mod affinity;
pub mod clock;
pub mod cma;
pub mod credentials;
pub mod epoll;
pub mod fdpass;
pub mod file;
pub mod library;
pub mod mem;
pub mod pmix;
pub mod process;
pub mod shared_file;
pub mod sock;
pub mod terminal;
pub mod topology;
pub mod wake;
pub mod watch;
