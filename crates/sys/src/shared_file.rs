//! Memory shared through a file in a directory: the last resort between sandboxes that pass each other no descriptors (gVisor).
//!
//! Such a file has a name, so somebody must remove it; it belongs to one user and nobody else may open it; its room is allocated when
//! it is made, so that a full file system is an error then and not SIGBUS later.
//!
//! [`Letters`] is a page of such a file, through which two processes talk before either trusts the other: what one posts, the other
//! reads in its own mapping. An answer to something random proves that the memory is one and the same, now.

use crate::mem::Mapping;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW);
    options
}

/// A new file of `len` zeroes. A file that has the name already must be gone before.
pub fn create(path: &Path, len: usize) -> Result<File> {
    let file = private().create_new(true).open(path)?;
    let size = libc::off_t::try_from(len).map_err(|_| ErrorKind::InvalidInput)?;
    // SAFETY: the descriptor is open.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, size) } {
        0 => Ok(file),
        code => {
            let _ = std::fs::remove_file(path);
            Err(Error::from_raw_os_error(code))
        }
    }
}

/// Somebody's file: it must be this user's, and no other user may open it.
pub fn open(path: &Path) -> Result<File> {
    let file = private().open(path)?;
    let meta = file.metadata()?;
    if meta.is_file() && meta.uid() == crate::process::effective_uid() && meta.mode() & 0o077 == 0 {
        return Ok(file);
    }
    Err(Error::new(ErrorKind::PermissionDenied, "it is not a file of this user alone"))
}

/// Memory that a hypervisor or the user shares with others: an existing file, whoever owns it.
pub fn open_shared(path: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
}

/// Bytes of a file of [`Letters`].
pub const LETTERS_BYTES: usize = 4096;
/// Bytes of one side: a word that says which letter lies there and how long it is, then the letter.
const SIDE_BYTES: usize = LETTERS_BYTES / 2;
/// Longest letter.
const LETTER_MAX: usize = SIDE_BYTES - 8;

/// Two places for letters, one of each side.
#[derive(Debug)]
pub struct Letters {
    mapping: Mapping,
}

impl Letters {
    /// In a file of [`LETTERS_BYTES`].
    pub fn in_file(file: &File) -> Result<Letters> {
        let mapping = Mapping::of_file(file)?;
        if mapping.len() == LETTERS_BYTES { Ok(Letters { mapping }) } else { Err(ErrorKind::InvalidData.into()) }
    }

    fn word(&self, side: usize) -> &AtomicU64 {
        // SAFETY: both sides lie in the mapping, page aligned; everybody accesses this word atomically.
        unsafe { &*self.mapping.as_ptr().add(side % 2 * SIDE_BYTES).cast::<AtomicU64>() }
    }

    /// Lays letter number `number` (from 1) of `side` (0 or 1) over the one before.
    pub fn post(&self, side: usize, number: u32, letter: &[u8]) {
        let len = letter.len().min(LETTER_MAX);
        let at = self.mapping.as_ptr().wrapping_add(side % 2 * SIDE_BYTES + 8);
        // SAFETY: `len` bytes of the side lie at `at`; they are reached by raw pointers only.
        unsafe { letter.as_ptr().copy_to_nonoverlapping(at, len) };
        // SYNC(letter): makes the letter visible with its number.
        self.word(side).store(u64::from(number) << 32 | len as u64, Release);
    }

    /// A copy of letter `number` of `side`, when it is there.
    pub fn read(&self, side: usize, number: u32) -> Option<Vec<u8>> {
        // SYNC(letter): the letter is there if its number is.
        let word = self.word(side).load(Acquire);
        let len = (word as u32 as usize).min(LETTER_MAX);
        (word >> 32 == u64::from(number)).then(|| {
            let mut letter = vec![0; len];
            let at = self.mapping.as_ptr().wrapping_add(side % 2 * SIDE_BYTES + 8);
            // SAFETY: `len` bytes of the side lie at `at`; what they are is the caller's to check.
            unsafe { at.copy_to_nonoverlapping(letter.as_mut_ptr(), len) };
            letter
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn letters_pass_between_mappings_of_private_files() {
        let path = std::env::temp_dir().join(format!(".ferrule-letters-{}", std::process::id()));
        let file = create(&path, LETTERS_BYTES).unwrap();
        assert_eq!(create(&path, LETTERS_BYTES).unwrap_err().kind(), ErrorKind::AlreadyExists);
        let (a, b) = (Letters::in_file(&file).unwrap(), Letters::in_file(&open(&path).unwrap()).unwrap());
        assert_eq!(b.read(0, 1), None);
        a.post(0, 1, b"who are you");
        assert_eq!(b.read(0, 1).unwrap(), b"who are you");
        assert_eq!(b.read(1, 1), None);
        b.post(1, 1, &[7; LETTERS_BYTES]);
        assert_eq!(a.read(1, 1).unwrap().len(), LETTER_MAX);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(open(&path).unwrap_err().kind(), ErrorKind::PermissionDenied);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(open(&path).is_err());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn short_files_are_refused() {
        let path = std::env::temp_dir().join(format!(".ferrule-short-{}", std::process::id()));
        let file = create(&path, 100).unwrap();
        assert!(Letters::in_file(&file).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
