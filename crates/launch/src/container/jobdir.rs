//! The job directory of a host: seen by the agents in all containers of the job there, and by nobody else.
//!
//! `<tmp>/ferrule-<random>` belongs to the user alone (0700). The containers see the directory `job` in it. Every user may write there, because
//! user ids inside differ from those outside. Each supervisor holds a shared lock; the one that can make its lock
//! exclusive is the last, and removes the directory. A container supervisor that is killed loses its lock, and so does no harm. If all of them
//! are killed, the next job removes what is left.

use super::Engine;
use crate::tmpdir::{STALE, place, remove_stale};
use std::fs::{DirBuilder, File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A container supervisor's share of the directory.
pub struct JobDir {
    outer: PathBuf,
    lock: File,
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
