//! Files that several processes read and write at positions: plain access, locks of ranges, room on the disk.
//!
//! Locks belong to the open file (`F_OFD_*`), so two files that one process has opened exclude each other, too. The kernel frees them when the
//! last descriptor of the open file is closed, also when the process is killed.

use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, BorrowedFd};

/// The most bytes of one system call: Linux transfers at most 2 GiB less one page.
const CALL_BYTES_MAX: usize = 0x7fff_f000;

/// Who else may hold a lock of the same range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockKind {
    /// Others that read.
    Shared,
    /// Nobody.
    Exclusive,
}

/// Bytes of the file system that holds `path`: all, and those that this user may still use.
pub fn space(path: &std::path::Path) -> Result<(u64, u64)> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: an all-zero statvfs is valid.
    let mut all: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path is terminated, the place writable.
    if unsafe { libc::statvfs(path.as_ptr(), &raw mut all) } < 0 {
        return Err(Error::last_os_error());
    }
    Ok((all.f_blocks * all.f_frsize, all.f_bavail * all.f_frsize))
}

/// The result of a call that returns a number of bytes, or -1.
fn transferred(bytes: isize) -> Result<usize> {
    usize::try_from(bytes).map_err(|_| Error::last_os_error())
}

fn position(offset: u64) -> Result<libc::off_t> {
    libc::off_t::try_from(offset).map_err(|_| Error::from_raw_os_error(libc::EFBIG))
}

/// Reads up to `len` bytes at `offset`; fewer only at the end of the file.
///
/// # Safety
/// `len` bytes are writable at `to`, and nobody else's.
pub unsafe fn read_at(fd: BorrowedFd<'_>, to: *mut u8, len: usize, offset: u64) -> Result<usize> {
    let mut done = 0;
    while done < len {
        let step = (len - done).min(CALL_BYTES_MAX);
        // SAFETY: the rest of the caller's bytes.
        let bytes = unsafe { libc::pread(fd.as_raw_fd(), to.add(done).cast(), step, position(offset + done as u64)?) };
        match transferred(bytes) {
            Ok(0) => break,
            Ok(bytes) => done += bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Writes `len` bytes at `offset`. After an error some of them may be written.
///
/// # Safety
/// `len` bytes are readable at `from`.
pub unsafe fn write_at(fd: BorrowedFd<'_>, from: *const u8, len: usize, offset: u64) -> Result<()> {
    let mut done = 0;
    while done < len {
        let step = (len - done).min(CALL_BYTES_MAX);
        // SAFETY: the rest of the caller's bytes.
        let bytes =
            unsafe { libc::pwrite(fd.as_raw_fd(), from.add(done).cast(), step, position(offset + done as u64)?) };
        match transferred(bytes) {
            Ok(0) => return Err(Error::from_raw_os_error(libc::ENOSPC)),
            Ok(bytes) => done += bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn set_lock(fd: BorrowedFd<'_>, kind: libc::c_int, from: u64, to: u64) -> Result<()> {
    let lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: position(from)?,
        l_len: position(to - from)?,
        l_pid: 0,
    };
    loop {
        // SAFETY: the descriptor is open, and the call only reads the structure.
        match unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_OFD_SETLKW, &raw const lock) } {
            0 => return Ok(()),
            _ => match Error::last_os_error() {
                error if error.kind() == ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}

/// Locks the bytes `from .. to`, `from < to`; waits for others. `ENOLCK`, `EOPNOTSUPP` or `EINVAL` where the file system has no locks.
pub fn lock(fd: BorrowedFd<'_>, kind: LockKind, from: u64, to: u64) -> Result<()> {
    let kind = match kind {
        LockKind::Shared => libc::F_RDLCK,
        LockKind::Exclusive => libc::F_WRLCK,
    };
    set_lock(fd, kind, from, to)
}

/// Unlocks what [`lock`] has locked.
pub fn unlock(fd: BorrowedFd<'_>, from: u64, to: u64) -> Result<()> {
    set_lock(fd, libc::F_UNLCK, from, to)
}

/// Gives the first `bytes` bytes of a file room on its disk; a shorter file gets this size.
pub fn allocate(fd: BorrowedFd<'_>, bytes: u64) -> Result<()> {
    let bytes = position(bytes)?;
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: the descriptor is open.
    match unsafe { libc::posix_fallocate(fd.as_raw_fd(), 0, bytes) } {
        0 => Ok(()),
        code => Err(Error::from_raw_os_error(code)),
    }
}

/// What the number of an error of the system means for a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// There is no such file.
    Missing,
    /// The file exists.
    Exists,
    /// Permission denied.
    Denied,
    /// The file system is read-only.
    ReadOnly,
    /// The disk is full.
    Full,
    /// The user's quota is used up.
    Quota,
    /// The name is no name of a file.
    BadName,
    /// Somebody runs the file, or uses it otherwise.
    Busy,
    /// The file system can't do that.
    Unsupported,
    /// No memory is left.
    Memory,
    /// Anything else.
    Other,
}

/// Sorts an error of the system.
pub fn trouble(error: &Error) -> Trouble {
    match error.raw_os_error().unwrap_or(0) {
        libc::ENOENT => Trouble::Missing,
        libc::EEXIST => Trouble::Exists,
        libc::EACCES | libc::EPERM => Trouble::Denied,
        libc::EROFS => Trouble::ReadOnly,
        libc::ENOSPC => Trouble::Full,
        libc::EDQUOT => Trouble::Quota,
        libc::ENAMETOOLONG | libc::ENOTDIR | libc::EISDIR | libc::ELOOP => Trouble::BadName,
        libc::ETXTBSY | libc::EBUSY => Trouble::Busy,
        libc::ENOLCK | libc::EOPNOTSUPP | libc::ENOSYS | libc::ESPIPE => Trouble::Unsupported,
        libc::ENOMEM => Trouble::Memory,
        _ => Trouble::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn memory() -> std::fs::File {
        std::fs::File::from(crate::mem::sealed_memfd(c"test", 64).expect("a memfd"))
    }

    #[test]
    fn bytes_come_back_and_reads_end_with_the_file() {
        let (file, from, mut to) = (memory(), [1u8, 2, 3, 4], [0u8; 8]);
        // SAFETY: arrays of these lengths.
        unsafe {
            write_at(file.as_fd(), from.as_ptr(), 4, 60).expect("written");
            assert_eq!(read_at(file.as_fd(), to.as_mut_ptr(), 8, 58).expect("read"), 6);
        }
        assert_eq!(to, [0, 0, 1, 2, 3, 4, 0, 0]);
    }

    #[test]
    fn two_open_files_exclude_each_other() {
        let one = memory();
        let path = format!("/proc/self/fd/{}", one.as_raw_fd());
        let other = std::fs::OpenOptions::new().read(true).write(true).open(path).expect("opened again");
        lock(one.as_fd(), LockKind::Exclusive, 0, 8).expect("locked");
        lock(other.as_fd(), LockKind::Exclusive, 8, 16).expect("another range");
        let waiter = std::thread::spawn(move || {
            lock(other.as_fd(), LockKind::Shared, 0, 8).expect("locked at last");
            std::time::Instant::now()
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
        let freed = std::time::Instant::now();
        unlock(one.as_fd(), 0, 8).expect("unlocked");
        assert!(waiter.join().expect("no panic") >= freed);
    }
}
