//! An agent's files and sockets in directories: sockets for agents under the same kernel, and files that were sent to it. The agent writes their paths into a
//! pipe, and the process above it removes them if the agent is killed.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// The agent's side: paths that will exist.
pub struct Leftovers(Option<File>);

impl Leftovers {
    /// Over a descriptor that was inherited at the fork.
    pub fn over(fd: BorrowedFd<'_>) -> Leftovers {
        Leftovers(fd.try_clone_to_owned().ok().map(File::from))
    }

    /// Notes a path, before anything is created there.
    pub fn note(&mut self, path: &Path) {
        let bytes = [path.as_os_str().as_bytes(), b"\0"].concat();
        if let Some(file) = &mut self.0 {
            let _ = file.write_all(&bytes);
        }
    }
}

/// The other side.
pub struct Sweeper(PipeReader);

impl Sweeper {
    /// A pair; the writer goes to the agent.
    pub fn new() -> std::io::Result<(Sweeper, PipeWriter)> {
        let (reader, writer) = std::io::pipe()?;
        sys::process::set_nonblocking(reader.as_fd(), true)?;
        sys::process::set_nonblocking(writer.as_fd(), true)?;
        Ok((Sweeper(reader), writer))
    }

    /// Removes every socket, file in a shared directory and directory of a job that was noted and is still there.
    pub fn sweep(&mut self) {
        let mut noted = Vec::new();
        let _ = self.0.read_to_end(&mut noted);
        for path in noted.split(|b| *b == 0).filter(|p| !p.is_empty()) {
            let path = PathBuf::from(std::ffi::OsString::from_vec(path.to_vec()));
            if std::fs::symlink_metadata(&path).is_ok_and(|m| m.file_type().is_socket()) || is_our_file(&path) {
                let _ = std::fs::remove_file(&path);
            } else if crate::tmpdir::is_ours(&path) {
                let _ = std::fs::remove_dir_all(&path);
            }
        }
    }
}

/// Whether `path` is a file that an agent or a rank has made in a shared directory.
pub fn is_our_file(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let named = path.file_name().and_then(|name| name.to_str());
    let right = |meta: std::fs::Metadata| meta.is_file() && meta.uid() == sys::process::effective_uid();
    named.is_some_and(|name| name.starts_with(protocol::control::near::INBOX_PREFIX))
        && std::fs::symlink_metadata(path).is_ok_and(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_that_were_noted_are_swept_and_nothing_else() {
        let directory = std::env::temp_dir().join(format!("ferrule-leftovers-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (socket, file) = (directory.join("s"), directory.join("f"));
        let (mut sweeper, writer) = Sweeper::new().unwrap();
        let mut leftovers = Leftovers::over(writer.as_fd());
        for path in [&socket, &file, &directory.join("missing")] {
            leftovers.note(path);
        }
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        std::fs::write(&file, "x").unwrap();
        let job = directory.join("ferrule-0123456789abcdef");
        leftovers.note(&job);
        leftovers.note(&directory);
        std::fs::create_dir_all(job.join("files")).unwrap();
        sweeper.sweep();
        assert!(!socket.exists() && file.exists() && !job.exists());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
