//! A connection between agents that carries frames, over any byte stream: socketpair, TCP, or a launcher's stdio. Frames are sealed unless
//! the connection is a socketpair that both ends have inherited.
//!
//! Nothing here waits: what can't be written now is queued, and the queue's growth is bounded by the senders' own windows
//! (output and standard input are acknowledged, everything else is small and finite).

use crate::pollset::PollSet;
use crate::settings::MESSAGE_TIMEOUT;
use crate::stall::Stall;
use base::{Result, ensure};
use protocol::control::frame::{self, Splitter};
use protocol::control::sealed::{self, Seals};
use protocol::control::tree::{Message, Packet};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};
use sys::sock;

/// How often it is looked whether more can be sent, before the end.
const LEAVE_LOOK_MS: i32 = 20;

/// One frame, shared by the links on which it is sent.
pub type Frame = Rc<[u8]>;

/// Makes a frame.
pub fn packet(to: u32, body: Message) -> Frame {
    frame::frame(&Packet { to, body }).into()
}

/// Makes a frame of a packet's encoding, for passing it on.
pub fn reframe(body: &[u8]) -> Frame {
    let mut out = Vec::with_capacity(body.len() + frame::HEADER);
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.extend_from_slice(body);
    out.into()
}

/// One end of a connection.
pub struct Link {
    input: File,
    output: File,
    splitter: Splitter,
    seals: Option<Seals>,
    stall: Stall,
    queue: VecDeque<Frame>,
    /// The sealed form of the queue's first frame, once its writing has begun.
    sealed: Vec<u8>,
    /// Bytes of the queue's first frame, as it goes out, that are already written.
    written: usize,
    /// The other side is gone.
    closed: bool,
    /// The other side has to begin, and may not keep this one waiting.
    first_is_due: bool,
}

impl Link {
    /// A link over one socket.
    pub fn over_socket(socket: OwnedFd) -> std::io::Result<Link> {
        let output = socket.try_clone()?;
        Link::over(socket, output)
    }

    /// A link over two one-way streams.
    pub fn over(input: OwnedFd, output: OwnedFd) -> std::io::Result<Link> {
        sys::process::set_nonblocking(input.as_fd(), true)?;
        sys::process::set_nonblocking(output.as_fd(), true)?;
        let (input, output) = (File::from(input), File::from(output));
        Ok(Link {
            input,
            output,
            splitter: Splitter::default(),
            seals: None,
            stall: Stall::new(Duration::from_secs(MESSAGE_TIMEOUT.value())),
            queue: VecDeque::new(),
            sealed: Vec::new(),
            written: 0,
            closed: false,
            first_is_due: false,
        })
    }

    /// The same link, sealed from its first frame on.
    pub fn sealed(self, seals: Seals) -> Link {
        Link { seals: Some(seals), ..self }
    }

    /// The same link; its first message may not take longer than a pause within one. Else a job whose description somebody holds back
    /// would wait for ever.
    pub fn first_is_due(self) -> Link {
        let mut link = Link { first_is_due: true, ..self };
        link.stall.look(true, 0, Instant::now());
        link
    }

    /// Adds bytes that somebody else has read from the input before.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.splitter.feed(bytes);
    }

    /// Queues a frame and writes what can be written.
    pub fn send(&mut self, frame: Frame) {
        if !self.closed {
            self.queue.push_back(frame);
            self.flush();
        }
    }

    /// Writes what can be written now.
    pub fn flush(&mut self) {
        while let Some(first) = self.queue.front() {
            let bytes = match &mut self.seals {
                None => &first[..],
                Some(seals) => {
                    if self.sealed.is_empty() {
                        seals.seal(first, &mut self.sealed);
                    }
                    &self.sealed
                }
            };
            match self.output.write(&bytes[self.written..]) {
                Ok(n) => {
                    self.written += n;
                    if self.written == bytes.len() {
                        self.next_in_queue();
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    // Reading will show the end, after what the other side still had to say.
                    self.queue.clear();
                    self.next_in_queue();
                }
            }
        }
    }

    fn next_in_queue(&mut self) {
        self.queue.pop_front();
        self.written = 0;
        self.sealed.clear();
        self.sealed.shrink_to(64 << 10);
    }

    /// Whether everything has been written.
    pub fn is_flushed(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether the other side is gone and all that it said has been taken.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Registers with the loop.
    pub fn register(&self, set: &mut PollSet) {
        if !self.closed {
            set.add(&self.input, true, false);
            if let Some(when) = self.stall.next_look() {
                set.until(when);
            }
            if !self.queue.is_empty() {
                set.add(&self.output, false, true);
            }
        }
    }

    /// Reads and writes what the loop found possible.
    pub fn handle(&mut self, set: &PollSet) {
        if self.closed {
            return;
        }
        if !self.queue.is_empty() && set.writable(&self.output) {
            self.flush();
        }
        if set.readable(&self.input) {
            self.fill();
        }
    }

    fn fill(&mut self) {
        let mut bytes = [0; 64 << 10];
        loop {
            match self.input.read(&mut bytes) {
                Ok(0) => self.closed = true,
                Ok(n) => {
                    self.splitter.feed(&bytes[..n]);
                    if n == bytes.len() {
                        continue;
                    }
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(_) => self.closed = true,
            }
            return;
        }
    }

    /// For whoever ends after its last words: sends them, and reads until the other side hangs up, for `patience` at most. A TCP connection
    /// that ends with something unread drops what it has sent.
    pub fn take_leave(&mut self, patience: Duration) {
        let until = Instant::now() + patience;
        let mut ignored = [0; 4096];
        while !self.closed && Instant::now() < until {
            self.flush();
            if self.is_flushed() {
                sock::end_of_sending(self.output.as_fd());
            }
            match self.input.read(&mut ignored) {
                Ok(n) => self.closed = n == 0,
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    let _ = sock::wait_one(self.input.as_fd(), true, false, LEAVE_LOOK_MS);
                }
                Err(_) => self.closed = true,
            }
        }
    }

    /// The encoding of the next packet that has arrived; an error if the stream makes no sense, isn't what was sent, or stops in the middle
    /// of a packet.
    pub fn next_packet(&mut self) -> Result<Option<Vec<u8>>> {
        if let Some(body) = self.splitter.next_frame(frame::TREE_LIMIT + sealed::TAG)? {
            let mut body = body.to_vec();
            if let Some(seals) = &mut self.seals {
                seals.open(&mut body)?;
            }
            return Ok(Some(body));
        }
        let nothing_yet = self.splitter.position() == 0;
        let unfinished = !self.splitter.is_empty() || (self.first_is_due && nothing_yet);
        let goes_on = self.stall.look(unfinished, self.splitter.position(), Instant::now());
        ensure!(goes_on || !nothing_yet, ERR_OTHER, "no message came after the handshake (FERRULE_MESSAGE_TIMEOUT)");
        ensure!(goes_on, ERR_OTHER, "it stopped in the middle of a message (FERRULE_MESSAGE_TIMEOUT)");
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn last_words_are_heard_though_something_is_unread() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        other.write_all(&[7; 10_000]).unwrap();
        let said = std::thread::spawn(move || {
            let mut link = Link::over_socket(socket.into()).unwrap();
            link.send(Rc::from([1; 100_000]));
            link.take_leave(Duration::from_secs(20));
        });
        // Meanwhile the other one would have ended.
        std::thread::sleep(Duration::from_millis(100));
        let mut heard = Vec::new();
        other.read_to_end(&mut heard).unwrap();
        assert!(heard == [1; 100_000]);
        drop(other);
        said.join().unwrap();
    }

    #[test]
    fn nobody_is_waited_for_longer_than_that() {
        let (socket, silent) = std::os::unix::net::UnixStream::pair().unwrap();
        let begin = Instant::now();
        Link::over_socket(socket.into()).unwrap().take_leave(Duration::from_millis(60));
        assert!(begin.elapsed() >= Duration::from_millis(60));
        drop(silent);
    }
}
