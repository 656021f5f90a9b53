//! How two agents under one kernel meet: one listens, the other calls, and both prove the job key.
//!
//! Each pair has its own key, derived from the job's, so that a proof is worth nothing in another conversation. No other user's process
//! can stand between the two: an abstract name is taken as long as its owner listens, and a socket in a directory is open to
//! this user only. A directory that the user has made for the job (`FERRULE_JOB_DIR`) may connect users, if it doesn't let them
//! replace each other's files.

use protocol::control::handshake::{self, ANSWER, CHALLENGE, Key, PROOF};
use protocol::control::sealed::Seals;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Instant;

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

/// Reads up to `len` bytes in all into `got`, none beyond them; true when they are complete.
fn read_up_to(mut stream: &UnixStream, got: &mut Vec<u8>, len: usize) -> Result<bool> {
    while got.len() < len {
        let mut bytes = [0; ANSWER];
        let want = (len - got.len()).min(ANSWER);
        match stream.read(&mut bytes[..want]) {
            Ok(0) => return Err(Error::other("it hung up")),
            Ok(n) => got.extend_from_slice(&bytes[..n]),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}

pub(super) fn random() -> [u8; 16] {
    let mut nonce = [0; 16];
    sys::process::random(&mut nonce);
    nonce
}

pub(super) fn wrong(e: base::Error) -> Error {
    Error::new(ErrorKind::PermissionDenied, e.origin)
}

/// A connection that has proved nothing yet.
pub struct Guest {
    /// The connection.
    pub stream: UnixStream,
    /// Since when.
    pub since: Instant,
    nonce: [u8; 16],
    got: Vec<u8>,
}

impl Guest {
    /// Challenges a caller.
    pub fn new(stream: UnixStream) -> Result<Guest> {
        stream.set_nonblocking(true)?;
        let guest = Guest { stream, since: Instant::now(), nonce: random(), got: Vec::new() };
        (&guest.stream).write_all(&handshake::challenge(guest.nonce))?;
        Ok(guest)
    }

    /// The caller's node and the link's seals, when it has proved to be one of the job's agents.
    pub fn receive(&mut self, key: Key, me: u32) -> Result<Option<(u32, Seals)>> {
        if !read_up_to(&self.stream, &mut self.got, ANSWER)? {
            return Ok(None);
        }
        let answer = self.got.first_chunk::<ANSWER>().ok_or(ErrorKind::InvalidData)?;
        let pair = key_of(key, me, handshake::claimed_node(answer));
        let (node, proof) = handshake::check_answer(pair, self.nonce, answer).map_err(wrong)?;
        (&self.stream).write_all(&proof)?;
        Ok(Some((node, Seals::of_parent(pair, self.nonce, answer))))
    }
}

/// A call from here.
pub struct Caller {
    /// The connection.
    pub stream: UnixStream,
    node: u32,
    said: Option<([u8; CHALLENGE], [u8; ANSWER])>,
    got: Vec<u8>,
}

impl Caller {
    /// Waits for the challenge of `node`.
    pub fn new(node: u32, stream: UnixStream) -> Result<Caller> {
        stream.set_nonblocking(true)?;
        Ok(Caller { stream, node, said: None, got: Vec::new() })
    }

    /// The link's seals, when the other side has proved to be that node's agent.
    pub fn receive(&mut self, key: Key, me: u32) -> Result<Option<Seals>> {
        let pair = key_of(key, me, self.node);
        if self.said.is_none() {
            if !read_up_to(&self.stream, &mut self.got, CHALLENGE)? {
                return Ok(None);
            }
            let challenge = *self.got.first_chunk::<CHALLENGE>().ok_or(ErrorKind::InvalidData)?;
            let answer = handshake::answer(pair, &challenge, me, random()).map_err(wrong)?;
            (&self.stream).write_all(&answer)?;
            self.said = Some((challenge, answer));
            self.got.clear();
        }
        if !read_up_to(&self.stream, &mut self.got, PROOF)? {
            return Ok(None);
        }
        let (Some((challenge, answer)), Some(proof)) = (&self.said, self.got.first_chunk::<PROOF>()) else {
            return Ok(None);
        };
        handshake::check_proof(pair, challenge, answer, proof).map_err(wrong)?;
        Ok(Some(Seals::of_child(pair, challenge, answer)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Called = Result<Option<Seals>>;
    type Heard = Result<Option<(u32, Seals)>>;

    fn meet(theirs: Key, as_node: u32) -> (Called, Heard) {
        let (a, b) = UnixStream::pair().unwrap();
        let mut guest = Guest::new(a).unwrap();
        let mut caller = Caller::new(7, b).unwrap();
        assert!(caller.receive(theirs, as_node).unwrap().is_none());
        let heard = guest.receive(Key([1; 16]), 7);
        drop(guest);
        (caller.receive(theirs, as_node), heard)
    }

    #[test]
    fn only_agents_of_the_job_meet() {
        let (called, heard) = meet(Key([1; 16]), 3);
        let (mut caller, (node, mut guest)) = (called.unwrap().unwrap(), heard.unwrap().unwrap());
        assert_eq!(node, 3);
        let mut sealed = Vec::new();
        caller.seal(&protocol::control::frame::frame(&5u32), &mut sealed);
        let mut body = sealed.split_off(4);
        guest.open(&mut body).unwrap();
        assert_eq!(body, 5u32.to_le_bytes());
        let (called, heard) = meet(Key([2; 16]), 3);
        assert!(called.is_err() && heard.is_err());
    }

    #[test]
    fn unauthenticated_connections_get_nothing() {
        let (a, b) = UnixStream::pair().unwrap();
        let mut guest = Guest::new(a).unwrap();
        (&b).write_all(&[0x55; 200]).unwrap();
        assert!(guest.receive(Key([1; 16]), 0).is_err());
        let mut caller = Caller::new(1, b).unwrap();
        drop(guest);
        assert!(caller.receive(Key([1; 16]), 0).is_err());
    }

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
