//! How two agents under one kernel meet: one listens, the other calls, and both prove the job key.
//!
//! Each pair has its own key, derived from the job's, so that a proof is worth nothing in another conversation. No other user's process
//! can stand between the two: an abstract name is taken as long as its owner listens, and a socket in a directory is open to
//! this user only. A directory that the user has made for the job (`FERRULE_JOB_DIR`) may connect users, if it doesn't let them
//! replace each other's files.

use protocol::control::handshake::Key;
use std::io::{ErrorKind, Result};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// An open socket at which others call.
pub struct CallSocket {
    /// It.
    pub listener: UnixListener,
    path: Option<PathBuf>,
}

impl CallSocket {
    /// At an abstract name.
    pub fn abstract_socket(name: &[u8]) -> Result<CallSocket> {
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
        listener.set_nonblocking(true)?;
        Ok(CallSocket { listener, path: None })
    }

    /// In a directory; `ours` says that the user has made it for the job. It is gone when this value is.
    pub fn at_path(path: &Path, ours: bool) -> Result<CallSocket> {
        let parent = path.parent().ok_or(ErrorKind::InvalidInput)?;
        let mode = std::fs::metadata(parent)?.mode();
        let safe_for_all = mode & 0o022 == 0 || mode & 0o1000 != 0;
        let short = Short::of(path)?;
        let listener = sys::sock::listen_at_path(&short.path, if ours && safe_for_all { 0o666 } else { 0o600 })?;
        let call_socket = CallSocket { listener, path: Some(path.into()) };
        call_socket.listener.set_nonblocking(true)?;
        Ok(call_socket)
    }
}

impl Drop for CallSocket {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A path that fits the 107 bytes of a socket's address, as long as this value lives.
struct Short {
    path: PathBuf,
    _directory: Option<std::fs::File>,
}

impl Short {
    fn of(path: &Path) -> Result<Short> {
        if path.as_os_str().len() < 108 {
            return Ok(Short { path: path.into(), _directory: None });
        }
        use std::os::fd::AsRawFd;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(ErrorKind::InvalidInput.into());
        };
        let directory = std::fs::File::open(parent)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name);
        Ok(Short { path, _directory: Some(directory) })
    }
}

/// Calls the socket of an abstract name.
pub fn call_name(name: &[u8]) -> Result<UnixStream> {
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Calls the socket at a path.
pub fn call_path(path: &[u8]) -> Result<UnixStream> {
    UnixStream::connect(&Short::of(Path::new(std::ffi::OsStr::from_bytes(path)))?.path)
}

/// The key of two nodes.
pub(super) fn key_of(key: Key, a: u32, b: u32) -> Key {
    let (low, high) = (a.min(b).to_le_bytes(), a.max(b).to_le_bytes());
    key.derive(&[b"near", low.as_slice(), high.as_slice()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_sockets_leave_nothing_behind_and_are_private() {
        let directory =
            std::env::temp_dir().join(format!("ferrule-call-sockets-{}-{}", std::process::id(), "x".repeat(120)));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join(".ferrule-test");
        let call_socket = CallSocket::at_path(&path, false).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(call_path(path.as_os_str().as_bytes()).is_ok());
        drop(call_socket);
        assert!(!path.exists());
        std::fs::remove_dir(&directory).unwrap();
    }
}
