//! The job directory of a host: seen by the agents in all containers of the job there, and by nobody else.
//!
//! `<tmp>/ferrule-<random>` belongs to the user alone (0700). What the containers see is the directory `job` in it, which anybody may
//! write who gets so far: users inside are not users outside. Each keeper holds a shared lock; the one that can make its lock
//! exclusive is the last, and removes the directory. A keeper that is killed loses its lock, and so does no harm; what is left when all of them
//! are killed is removed by the next job.

use super::Engine;
use std::fs::{DirBuilder, File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A keeper's share of the directory.
pub struct JobDir {
    outer: PathBuf,
    lock: File,
}

/// Longest directory for temporary files: a socket's path has 108 bytes in all.
const TMP_MAX: usize = 48;

/// Where `name` is on this host.
fn place(name: &str) -> PathBuf {
    let tmp = std::env::temp_dir();
    let short = tmp.as_os_str().len() <= TMP_MAX && tmp.is_dir();
    Path::new(if short { tmp.as_path() } else { Path::new("/tmp") }).join(name)
}

/// Age from which a directory that nobody holds is one whose keepers were killed together with mpiexec.
const STALE: Duration = Duration::from_secs(60);

/// Removes what killed jobs of this user have left beside `outer`.
fn remove_stale(outer: &Path, age: Duration) {
    let Some(entries) = outer.parent().and_then(|p| std::fs::read_dir(p).ok()) else { return };
    for path in entries.flatten().map(|e| e.path()) {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let ours = name
            .strip_prefix("ferrule-")
            .is_some_and(|hex| hex.len() == 16 && hex.bytes().all(|b| b.is_ascii_hexdigit()));
        let Ok(meta) = std::fs::symlink_metadata(&path) else { continue };
        let old = meta.modified().ok().and_then(|at| at.elapsed().ok()).is_some_and(|since| since >= age);
        let may_go =
            ours && old && meta.is_dir() && meta.uid() == sys::process::effective_uid() && path.join("job").is_dir();
        if may_go && path != outer && File::open(&path).is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

impl JobDir {
    /// Makes the directory, or joins those who have. `ch-run` shows the host's /tmp to its containers, so there it is.
    pub fn join(engine: Engine, name: &str) -> Result<JobDir, String> {
        JobDir::join_at(if engine == Engine::Charliecloud { Path::new("/tmp").join(name) } else { place(name) })
    }

    /// The same at a path of the caller's, in a directory that the containers share already.
    pub fn join_at(outer: PathBuf) -> Result<JobDir, String> {
        let wrong = |e: std::io::Error| format!("job directory {}: {e}", outer.display());
        remove_stale(&outer, STALE);
        // The last one may remove what another is about to join, so look again after taking the lock.
        for _ in 0..100 {
            match DirBuilder::new().mode(0o700).create(&outer) {
                Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(wrong(e)),
                _ => {}
            }
            let meta = std::fs::symlink_metadata(&outer).map_err(wrong)?;
            if !meta.is_dir() || meta.uid() != sys::process::effective_uid() {
                return Err(format!("job directory {} belongs to somebody else", outer.display()));
            }
            let Ok(lock) = File::open(&outer) else { continue };
            lock.lock_shared().map_err(wrong)?;
            let same = |a: &std::fs::Metadata, b: &std::fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
            let (Ok(held), Ok(there)) = (lock.metadata(), std::fs::symlink_metadata(&outer)) else { continue };
            if !same(&held, &there) {
                continue;
            }
            let inner = outer.join("job");
            match std::fs::create_dir(&inner) {
                Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(wrong(e)),
                _ => std::fs::set_permissions(&inner, Permissions::from_mode(0o1777)).map_err(wrong)?,
            }
            return Ok(JobDir { outer, lock });
        }
        Err(format!("job directory {} vanishes again and again", outer.display()))
    }

    /// What the containers see.
    pub fn inner(&self) -> PathBuf {
        self.outer.join("job")
    }

    /// Gives the share back; the last one removes the directory.
    pub fn leave(self) {
        if self.lock.try_lock().is_ok() {
            let _ = std::fs::remove_dir_all(&self.outer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_killed_jobs_left_is_removed_and_nothing_else() {
        let parent = std::env::temp_dir().join(format!("ferrule-test-stale-{}", std::process::id()));
        std::fs::create_dir_all(&parent).unwrap();
        let made = |name: &str| std::fs::create_dir_all(parent.join(name).join("job")).unwrap();
        ["ferrule-0123456789abcdef", "ferrule-mine", "other", "ferrule-aaaaaaaaaaaaaaaa"].into_iter().for_each(made);
        let held = JobDir::join_at(parent.join("ferrule-aaaaaaaaaaaaaaaa")).unwrap();
        remove_stale(&parent.join("x"), Duration::ZERO);
        let mut left: Vec<_> = std::fs::read_dir(&parent).unwrap().flatten().map(|e| e.file_name()).collect();
        left.sort();
        assert_eq!(left, ["ferrule-aaaaaaaaaaaaaaaa", "ferrule-mine", "other"]);
        held.leave();
        std::fs::remove_dir_all(&parent).unwrap();
    }

    #[test]
    fn the_last_one_removes_it() {
        let name = format!("ferrule-test-jobdir-{}", std::process::id());
        let (a, b) = (JobDir::join(Engine::Docker, &name).unwrap(), JobDir::join(Engine::Docker, &name).unwrap());
        let outer = place(&name);
        assert_eq!(std::fs::metadata(&outer).unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::write(b.inner().join("socket"), "x").unwrap();
        a.leave();
        assert!(outer.exists());
        b.leave();
        assert!(!outer.exists());
        std::fs::write(&outer, "not ours").unwrap();
        assert!(JobDir::join(Engine::Docker, &name).is_err());
        std::fs::remove_file(&outer).unwrap();
    }
}
