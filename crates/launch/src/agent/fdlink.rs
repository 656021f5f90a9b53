//! A unix socket that carries frames with descriptors: to a rank, or to another agent under the same kernel.

use crate::pollset::PollSet;
use protocol::control::frame::{self, Attached, Splitter};
use protocol::control::sealed::{self, Seals};
use protocol::control::{Wire, decode};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Queued bytes above which an end that doesn't read is given up, in bytes.
const QUEUE_LIMIT: usize = 64 << 20;
/// Batches of descriptors that may wait for their messages.
const BATCHES_MAX: usize = 16;

/// A message and the descriptors that go with its first byte.
struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
    fds: Vec<Rc<OwnedFd>>,
}

/// One end of such a socket. Nothing here waits.
pub(super) struct FdLink {
    socket: OwnedFd,
    splitter: Splitter,
    /// None towards ranks, whose sockets no other user's process can get at.
    seals: Option<Seals>,
    fds: Attached<OwnedFd>,
    queue: VecDeque<Outgoing>,
    queued_bytes: usize,
    /// Too many descriptors of this user were in flight; try again then.
    stalled: Option<Instant>,
    /// The other end is gone. What it has said before is still read.
    is_alone: bool,
}

/// The connection is of no use any more.
pub(super) struct Broken;

impl FdLink {
    pub fn new(socket: OwnedFd) -> FdLink {
        FdLink {
            socket,
            splitter: Splitter::default(),
            seals: None,
            fds: Attached::default(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            stalled: None,
            is_alone: false,
        }
    }

    /// The same link, sealed from its first message on. The descriptors themselves can't be.
    pub fn sealed(self, seals: Seals) -> FdLink {
        FdLink { seals: Some(seals), ..self }
    }

    /// Queues a message and writes what can be written. That the other end is gone is no error here: the reader finds that out, after
    /// its last words.
    pub fn send<T: Wire>(&mut self, message: &T, fds: Vec<Rc<OwnedFd>>) -> Result<(), Broken> {
        if self.is_alone {
            return Ok(());
        }
        let mut bytes = frame::frame(message);
        if let Some(seals) = &mut self.seals {
            let frame = std::mem::take(&mut bytes);
            seals.seal(&frame, &mut bytes);
        }
        self.queued_bytes += bytes.len();
        self.queue.push_back(Outgoing { bytes, sent: 0, fds });
        self.flush()?;
        if self.queued_bytes > QUEUE_LIMIT { Err(Broken) } else { Ok(()) }
    }

    /// Writes what can be written.
    pub fn flush(&mut self) -> Result<(), Broken> {
        self.stalled = None;
        while let Some(first) = self.queue.front_mut() {
            let fds: Vec<BorrowedFd<'_>> =
                if first.sent == 0 { first.fds.iter().map(|f| f.as_fd()).collect() } else { Vec::new() };
            match sys::fdpass::send(self.socket.as_fd(), &first.bytes[first.sent..], &fds, false) {
                Ok(n) => {
                    first.sent += n;
                    if first.sent == first.bytes.len() {
                        self.queued_bytes -= first.bytes.len();
                        self.queue.pop_front();
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if sys::fdpass::too_many_in_flight(&e) => {
                    self.stalled = Some(Instant::now() + Duration::from_millis(1));
                    return Ok(());
                }
                Err(e) if matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                    (self.is_alone, self.queued_bytes) = (true, 0);
                    self.queue.clear();
                }
                Err(_) => return Err(Broken),
            }
        }
        Ok(())
    }

    /// Registers with the loop.
    pub fn register(&self, set: &mut PollSet) {
        set.add(&self.socket, true, !self.queue.is_empty() && self.stalled.is_none());
        if let Some(when) = self.stalled {
            set.until(when);
        }
    }

    /// Whether there is something to read or to write.
    pub fn is_ready(&self, set: &PollSet) -> bool {
        let due = self.stalled.is_some_and(|when| when <= Instant::now());
        due || set.readable(&self.socket) || set.writable(&self.socket)
    }

    /// The next message and its descriptors, of which `count` says how many the message announces; none if they got lost.
    /// `Err(None)` is the end of the stream.
    #[allow(clippy::type_complexity)]
    pub fn next_message<T: Wire>(
        &mut self,
        count: impl Fn(&T) -> u8,
    ) -> Result<Option<(T, Vec<OwnedFd>)>, Option<&'static str>> {
        let mut bytes = [0; 16 << 10];
        loop {
            if let Some(body) = self.splitter.next_frame(frame::RANK_LIMIT + sealed::TAG).map_err(|e| Some(e.origin))? {
                let message: T = match &mut self.seals {
                    None => decode(body),
                    Some(seals) => {
                        let mut body = body.to_vec();
                        seals.open(&mut body).and_then(|()| decode(&body))
                    }
                }
                .map_err(|e| Some(e.origin))?;
                let fds = match count(&message) {
                    0 => Vec::new(),
                    n => self.fds.take(self.splitter.frame_start(), usize::from(n)).unwrap_or_default(),
                };
                return Ok(Some((message, fds)));
            }
            let mut fds = Vec::new();
            let received = sys::fdpass::recv(self.socket.as_fd(), &mut bytes, &mut fds, false);
            if let Ok(n) = &received {
                let start = self.splitter.position();
                self.fds.push(start..start + *n as u64, fds);
            }
            if self.fds.len() > BATCHES_MAX {
                return Err(Some("descriptors without a message"));
            }
            match received {
                Ok(0) => return Err(None),
                Ok(n) => self.splitter.feed(&bytes[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(_) => return Err(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::control::handshake::{Handshake, Key, Step, challenge};
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    /// The seals of a parent and a child that have met.
    fn seals() -> (Seals, Seals) {
        let (mut parent, mut child) = (Handshake::of_parent([1; 16]), Handshake::of_child(3, [2; 16]));
        child.take(&challenge([1; 16]));
        let Ok(Step::Answer(answer)) = child.step(|_| Key([7; 16])) else { panic!("an answer follows") };
        parent.take(&answer);
        let Ok(Step::Met(of_parent)) = parent.step(|_| Key([7; 16])) else { panic!("the answer is right") };
        child.take(&of_parent.last);
        let Ok(Step::Met(of_child)) = child.step(|_| Key([7; 16])) else { panic!("the proof is right") };
        (of_parent.seals, of_child.seals)
    }

    fn socket() -> (UnixStream, UnixStream) {
        let (a, b) = UnixStream::pair().unwrap();
        b.set_nonblocking(true).unwrap();
        (a, b)
    }

    #[test]
    fn descriptors_come_with_their_sealed_message() {
        let ((a, b), (parent, child)) = (socket(), seals());
        let (mut a, mut b) = (FdLink::new(a.into()).sealed(parent), FdLink::new(b.into()).sealed(child));
        let null: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
        let null = Rc::new(null);
        for (message, fds) in [(1u32, 1), (2, 0), (3, 2)] {
            assert!(a.send(&message, vec![null.clone(); fds]).is_ok());
        }
        let count = |message: &u32| [0, 1, 0, 2][*message as usize];
        for (message, fds) in [(1u32, 1), (2, 0), (3, 2)] {
            let (seen, came) = b.next_message(count).unwrap().unwrap();
            assert_eq!((seen, came.len()), (message, fds));
        }
        assert!(b.next_message(count).unwrap().is_none());
    }

    #[test]
    fn last_words_are_heard_after_a_message_that_nobody_takes() {
        let (a, b) = socket();
        let (mut a, mut b) = (FdLink::new(a.into()), FdLink::new(b.into()));
        assert!(a.send(&7u32, Vec::new()).is_ok());
        drop(a);
        assert!(b.send(&1u32, Vec::new()).is_ok() && b.send(&2u32, Vec::new()).is_ok() && b.flush().is_ok());
        assert_eq!(b.next_message(|_: &u32| 0).unwrap().map(|(message, _)| message), Some(7));
        assert!(b.next_message(|_: &u32| 0).unwrap_err().is_none(), "the end");
    }

    #[test]
    fn a_message_that_is_not_genuine_ends_the_link() {
        let ((mut a, b), (mut parent, child)) = (socket(), seals());
        let mut b = FdLink::new(b.into()).sealed(child);
        let mut sealed = Vec::new();
        parent.seal(&frame::frame(&5u32), &mut sealed);
        sealed[frame::HEADER] ^= 1;
        a.write_all(&sealed).unwrap();
        assert!(
            b.next_message(|_: &u32| 0).unwrap_err().is_some_and(|why| why.contains("changed, left out or repeated"))
        );
        // Neither does one in clear, from a process that has taken the place of the other end.
        let ((mut a, b), (_, child)) = (socket(), seals());
        let mut b = FdLink::new(b.into()).sealed(child);
        a.write_all(&frame::frame(&[5u8; 40])).unwrap();
        assert!(b.next_message(|_: &[u8; 40]| 0).is_err());
    }
}
