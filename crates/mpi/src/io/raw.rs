//! The file of the system, and what its errors mean (MPI-5.0, 14.7).

use base::{Class, Error, Result, log};
use std::io;
use std::os::fd::AsFd;
use sys::file::{LockKind, Trouble, trouble};

/// The error of MPI for an error of the system; the cause is logged.
pub fn error_of(step: &'static str, error: &io::Error) -> Error {
    log!(Info, "{step}: {error}");
    match trouble(error) {
        Trouble::Missing => Error::new(Class::ERR_NO_SUCH_FILE, "there is no such file"),
        Trouble::Exists => Error::new(Class::ERR_FILE_EXISTS, "the file exists"),
        Trouble::Denied => Error::new(Class::ERR_ACCESS, "the system denies access to the file"),
        Trouble::ReadOnly => Error::new(Class::ERR_READ_ONLY, "the file system is read-only"),
        Trouble::Full => Error::new(Class::ERR_NO_SPACE, "the file system is full"),
        Trouble::Quota => Error::new(Class::ERR_QUOTA, "the quota of the file system is used up"),
        Trouble::BadName => Error::new(Class::ERR_BAD_FILE, "the name is not that of a file"),
        Trouble::Busy => Error::new(Class::ERR_FILE_IN_USE, "the file is in use"),
        Trouble::Unsupported => {
            Error::new(Class::ERR_UNSUPPORTED_OPERATION, "the file system lacks this operation (locks?)")
        }
        Trouble::Memory => Error::new(Class::ERR_NO_MEM, "no memory is left for this access to a file"),
        Trouble::Other => Error::new(Class::ERR_IO, step),
    }
}

/// Reads up to `len` bytes at `offset`; fewer only at the end of the file.
///
/// # Safety
/// `len` bytes are writable at `to`, and nobody else's.
pub unsafe fn read_at(file: &std::fs::File, to: *mut u8, len: usize, offset: u64) -> Result<usize> {
    // SAFETY: handed on from the caller.
    unsafe { sys::file::read_at(file.as_fd(), to, len, offset) }.map_err(|error| error_of("reading a file", &error))
}

/// Writes `len` bytes at `offset`.
///
/// # Safety
/// `len` bytes are readable at `from`.
pub unsafe fn write_at(file: &std::fs::File, from: *const u8, len: usize, offset: u64) -> Result {
    // SAFETY: handed on from the caller.
    unsafe { sys::file::write_at(file.as_fd(), from, len, offset) }.map_err(|error| error_of("writing a file", &error))
}

/// A locked range of a file, until it is dropped.
pub struct Locked<'a> {
    file: &'a std::fs::File,
    from: u64,
    to: u64,
}

/// Locks the bytes `from .. to`, if there are any. While it waits, it keeps the critical section: the holder of the other lock needs nothing from
/// this process, and two threads of one open file must not hold locks at the same time.
pub fn lock(file: &std::fs::File, kind: LockKind, from: u64, to: u64) -> Result<Option<Locked<'_>>> {
    if from >= to {
        return Ok(None);
    }
    sys::file::lock(file.as_fd(), kind, from, to).map_err(|error| error_of("locking a file", &error))?;
    Ok(Some(Locked { file, from, to }))
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if let Err(error) = sys::file::unlock(self.file.as_fd(), self.from, self.to) {
            log!(Warn, "a lock of a file could not be released: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of Linux for what no test can bring about on every machine.
    #[test]
    fn errors_of_the_system_have_their_classes() {
        const NUMBERS: [(i32, Class); 10] = [
            (122, Class::ERR_QUOTA),
            (28, Class::ERR_NO_SPACE),
            (30, Class::ERR_READ_ONLY),
            (13, Class::ERR_ACCESS),
            (26, Class::ERR_FILE_IN_USE),
            (37, Class::ERR_UNSUPPORTED_OPERATION),
            (95, Class::ERR_UNSUPPORTED_OPERATION),
            (20, Class::ERR_BAD_FILE),
            (12, Class::ERR_NO_MEM),
            (5, Class::ERR_IO),
        ];
        for (number, class) in NUMBERS {
            assert_eq!(error_of("test", &io::Error::from_raw_os_error(number)).class, class, "error {number}");
        }
    }
}
