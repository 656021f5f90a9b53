//! How `ferrule migrate --status` and `--abort` reach the controller: a socket whose name has the job's in it. So a job has one controller at most.

use crate::top::find::{self, Job};
use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the controller waits for a request, which comes at once.
const REQUEST_PATIENCE: Duration = Duration::from_millis(100);
/// Longest answer, in bytes.
const ANSWER_MAX: u64 = 64 << 10;

/// What is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// How far it is.
    Status,
    /// Undo it.
    Abort,
}

/// What the controller says.
#[derive(Debug)]
pub struct Answer {
    /// Whether it can be done.
    pub is_done: bool,
    /// For the user.
    pub text: String,
}

impl Answer {
    /// As one JSON object.
    pub fn to_json(&self) -> String {
        json!({ "done": self.is_done, "text": self.text }).to_string()
    }
}

fn address(job: &Job) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("ferrule-migrate/{}", job.name))
}

/// Becomes the job's controller.
pub fn listen(job: &Job) -> Result<UnixListener, String> {
    let listener = address(job).and_then(|address| UnixListener::bind_addr(&address)).map_err(|e| match e.kind() {
        io::ErrorKind::AddrInUse => "another migration of this job is under way".into(),
        _ => format!("cannot listen: {e}"),
    })?;
    listener.set_nonblocking(true).map_err(|e| e.to_string())?;
    Ok(listener)
}

/// A request that waits, with the way to answer it. Only from this user, or the superuser.
pub fn next_request(listener: &UnixListener) -> Option<(Request, UnixStream)> {
    let (mut stream, _) = listener.accept().ok()?;
    if !find::is_trusted(&stream) {
        return None;
    }
    stream
        .set_read_timeout(Some(REQUEST_PATIENCE))
        .and_then(|()| stream.set_write_timeout(Some(REQUEST_PATIENCE)))
        .ok()?;
    let mut byte = [0];
    stream.read_exact(&mut byte).ok()?;
    match byte[0] {
        b's' => Some((Request::Status, stream)),
        b'a' => Some((Request::Abort, stream)),
        _ => None,
    }
}

/// Answers it; whoever asked may be gone.
pub fn answer(mut stream: UnixStream, answer: &Answer) {
    let _ = stream.write_all(answer.to_json().as_bytes());
}

/// Asks the controller of a job.
pub fn ask(job: &Job, request: Request) -> Result<Answer, String> {
    let failed = |e: io::Error| format!("no answer of the migration: {e}");
    let stream = address(job).and_then(|address| UnixStream::connect_addr(&address));
    let mut stream = stream.map_err(|_| format!("no migration of the job of mpiexec {} is under way", job.pid))?;
    let (uid, _) = sys::credentials::peer_of(stream.as_fd()).map_err(failed)?;
    let own = sys::process::effective_uid();
    if own != 0 && ![own, 0].contains(&uid) {
        return Err("another user listens under the migration's name".into());
    }
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    stream.write_all(if request == Request::Status { b"s" } else { b"a" }).map_err(failed)?;
    let mut bytes = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut bytes).map_err(failed)?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|e| format!("no answer of the migration: {e}"))?;
    let text = value["text"].as_str().unwrap_or_default().to_string();
    Ok(Answer { is_done: value["done"].as_bool().unwrap_or_default(), text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_one_controller_which_answers() {
        let job = Job { pid: 1, name: format!("ferrule/0/1/{}", std::process::id()) };
        assert!(ask(&job, Request::Status).unwrap_err().contains("no migration"));
        let listener = listen(&job).unwrap();
        assert!(listen(&job).unwrap_err().contains("another migration"));
        let asking = std::thread::spawn({
            let job = job.clone();
            move || ask(&job, Request::Abort)
        });
        let (request, stream) = loop {
            if let Some(found) = next_request(&listener) {
                break found;
            }
        };
        assert_eq!(request, Request::Abort);
        answer(stream, &Answer { is_done: true, text: "so be it".into() });
        let answer = asking.join().unwrap().unwrap();
        assert!(answer.is_done && answer.text == "so be it");
    }
}
