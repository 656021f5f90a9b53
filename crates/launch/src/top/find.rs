//! Finding the jobs of a user: by the names of abstract sockets.

use protocol::control::inquiry::{Answer, LIMIT, Question};
use protocol::control::{decode, frame};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

/// A running mpiexec.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Job {
    /// Pid of mpiexec, as it sees itself.
    pub pid: u32,
    /// Name of its socket.
    pub name: String,
}

fn prefix(uid: u32) -> String {
    format!("ferrule/{uid}/")
}

/// Listens for questions about this process's job. `random` keeps the names of two pid namespaces apart.
pub fn listen(random: u64) -> io::Result<UnixListener> {
    let name = format!("{}{}/{random:016x}", prefix(sys::process::effective_uid()), std::process::id());
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Whether this user, or the superuser, is at the other end.
pub fn is_trusted(stream: &UnixStream) -> bool {
    let own = sys::process::effective_uid();
    sys::credentials::peer_of(stream.as_fd()).is_ok_and(|(uid, _)| uid == own || uid == 0)
}

/// The jobs of this user, or of everybody for the superuser, by pid.
pub fn jobs() -> Vec<Job> {
    let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let mut jobs: Vec<Job> = table.lines().filter_map(|line| parse(line, sys::process::effective_uid())).collect();
    jobs.sort();
    jobs.dedup();
    jobs
}

/// `000…: 00000002 00000000 00010000 0001 01 12345 @ferrule/1000/77/0011223344556677`
fn parse(line: &str, uid: u32) -> Option<Job> {
    let name = line.split_whitespace().nth(7)?.strip_prefix('@')?;
    let mut parts = name.strip_prefix("ferrule/")?.split('/');
    let (owner, pid) = (parts.next()?.parse::<u32>().ok()?, parts.next()?.parse().ok()?);
    (owner == uid || uid == 0).then(|| Job { pid, name: name.into() })
}

/// Connects to a job, if it is really this user's (or this is the superuser).
pub fn connect(job: &Job) -> io::Result<UnixStream> {
    let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(&job.name)?)?;
    let (uid, _) = sys::credentials::peer_of(stream.as_fd())?;
    let own = sys::process::effective_uid();
    if uid != own && own != 0 {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user listens under this name"));
    }
    Ok(stream)
}

/// Asks a job, and waits so long for its answer.
pub fn ask(job: &Job, question: &Question, limit: Duration) -> io::Result<Answer> {
    ask_and_stay(job, question, limit).map(|(answer, _)| answer)
}

/// The same, with the connection.
pub fn ask_and_stay(job: &Job, question: &Question, limit: Duration) -> io::Result<(Answer, UnixStream)> {
    let mut stream: UnixStream = connect(job)?;
    stream.set_read_timeout(Some(limit))?;
    stream.write_all(&frame::frame(question))?;
    let malformed = |e: base::Error| io::Error::new(io::ErrorKind::InvalidData, e.origin);
    let mut header = [0; frame::HEADER];
    stream.read_exact(&mut header)?;
    let mut body = vec![0; frame::body_length(header, LIMIT).map_err(malformed)?];
    stream.read_exact(&mut body)?;
    decode(&body).map(|answer| (answer, stream)).map_err(malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_jobs() {
        let line = |name: &str| format!("0000000000000000: 00000002 00000000 00010000 0001 01 12345 {name}");
        let found = parse(&line("@ferrule/1000/77/00ff"), 1000).unwrap();
        assert_eq!((found.pid, found.name.as_str()), (77, "ferrule/1000/77/00ff"));
        assert!(parse(&line("@ferrule/1000/77/00ff"), 1001).is_none());
        assert!(parse(&line("@ferrule/1000/77/00ff"), 0).is_some());
        for other in ["", "/run/x", "@/tmp/x", "@ferrule", "@ferrule/x/7", "@ferrule/1000/", "@ferrule/1000/y"] {
            assert!(parse(&line(other), 1000).is_none(), "{other}");
        }
    }

    #[test]
    fn a_listener_is_found_and_gone_with_its_owner() {
        let listener = listen(0x1234_5678_9abc_def0).unwrap();
        let mine = |job: &Job| job.pid == std::process::id() && job.name.ends_with("123456789abcdef0");
        let job = jobs().into_iter().find(mine).unwrap();
        let client = connect(&job).unwrap();
        let (server, _) = listener.accept().unwrap();
        assert!(is_trusted(&server) && is_trusted(&client));
        drop(listener);
        drop((client, server));
        assert!(!jobs().iter().any(mine));
    }
}
