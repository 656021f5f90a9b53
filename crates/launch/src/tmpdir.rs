//! Directories of jobs for temporary files: where they are, their owner, and the removal of stale ones.
//!
//! They are called `ferrule-` and 16 hexadecimal digits and belong to the user alone (0700). Each process that needs one holds a shared lock on it.
//! If all holders are killed, the next job removes what is left.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest directory for temporary files: a socket's path has 108 bytes in all.
const TMP_MAX: usize = 48;
/// Age from which a directory that nobody holds is one whose holders were killed together with mpiexec.
pub const STALE: Duration = Duration::from_secs(60);
/// What directories of jobs have in them: so that nothing else is ever removed.
pub const CONTENTS: [&str; 2] = ["job", "files"];

/// Where `name` is on this host.
pub fn place(name: &str) -> PathBuf {
    let tmp = std::env::temp_dir();
    let short = tmp.as_os_str().len() <= TMP_MAX && tmp.is_dir();
    Path::new(if short { tmp.as_path() } else { Path::new("/tmp") }).join(name)
}

/// Whether `path` is called as a job's directory is, and is a directory of this user with the right contents.
pub fn is_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let named =
        name.strip_prefix("ferrule-").is_some_and(|hex| hex.len() == 16 && hex.bytes().all(|b| b.is_ascii_hexdigit()));
    let right = |meta: std::fs::Metadata| meta.is_dir() && meta.uid() == sys::process::effective_uid();
    named && std::fs::symlink_metadata(path).is_ok_and(right) && CONTENTS.iter().any(|inner| path.join(inner).is_dir())
}

/// Removes what killed jobs of this user have left beside `outer`.
pub fn remove_stale(outer: &Path, age: Duration) {
    let Some(entries) = outer.parent().and_then(|p| std::fs::read_dir(p).ok()) else { return };
    for path in entries.flatten().map(|e| e.path()).filter(|path| path != outer && is_ours(path)) {
        let modified = std::fs::symlink_metadata(&path).and_then(|meta| meta.modified());
        let old = modified.ok().and_then(|at| at.elapsed().ok()).is_some_and(|since| since >= age);
        if old && File::open(&path).is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

/// A directory with a random name, held by this process.
pub struct PrivateDir {
    path: PathBuf,
    _lock: File,
}

/// A new name for a directory of one job.
pub fn random_name() -> String {
    format!("ferrule-{:016x}", u64::from_le_bytes(sys::process::random()))
}

impl PrivateDir {
    /// Picks a name below `parent`, or where temporary files are; [`PrivateDir::create`] makes it.
    pub fn name(parent: &str) -> PathBuf {
        let name = random_name();
        if parent.is_empty() { place(&name) } else { Path::new(parent).join(name) }
    }

    /// Makes the directory, with `inner` in it.
    pub fn create(path: PathBuf, inner: &str) -> std::io::Result<PrivateDir> {
        remove_stale(&path, STALE);
        DirBuilder::new().mode(0o700).create(&path)?;
        std::fs::create_dir(path.join(inner))?;
        let lock = File::open(&path)?;
        lock.lock_shared()?;
        Ok(PrivateDir { path, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::jobdir::JobDir;

    #[test]
    fn what_killed_jobs_left_is_removed_and_nothing_else() {
        let parent = std::env::temp_dir().join(format!("ferrule-test-stale-{}", std::process::id()));
        std::fs::create_dir_all(&parent).unwrap();
        let made = |name: &str| std::fs::create_dir_all(parent.join(name).join("job")).unwrap();
        ["ferrule-0123456789abcdef", "ferrule-mine", "other", "ferrule-aaaaaaaaaaaaaaaa"].into_iter().for_each(made);
        let held = JobDir::join_at(parent.join("ferrule-aaaaaaaaaaaaaaaa")).unwrap();
        let own = PrivateDir::create(parent.join("ferrule-bbbbbbbbbbbbbbbb"), "files").unwrap();
        remove_stale(&parent.join("x"), Duration::ZERO);
        let left = || {
            let mut left: Vec<_> = std::fs::read_dir(&parent).unwrap().flatten().map(|e| e.file_name()).collect();
            left.sort();
            left
        };
        assert_eq!(left(), ["ferrule-aaaaaaaaaaaaaaaa", "ferrule-bbbbbbbbbbbbbbbb", "ferrule-mine", "other"]);
        held.leave();
        drop(own);
        assert_eq!(left(), ["ferrule-mine", "other"]);
        std::fs::remove_dir_all(&parent).unwrap();
    }
}
