//! Output of ranks: by whole lines, in order per rank, no more in flight than the head process has room for.

use super::Agent;
use crate::pollset::PollSet;
use protocol::control::tree::{Message, ROOT};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::time::{Duration, Instant};

/// Bytes of a node's output that the head process has not written yet, at most (one read more).
const WINDOW: usize = 1 << 20;
/// Bytes of a line after which it is passed on unfinished.
const LINE_LIMIT: usize = 256 << 10;
/// Bytes that one read takes.
const READ_BYTES: usize = 64 << 10;

/// How long an unfinished line of the rank that reads the terminal must rest before it is shown: it may be a prompt.
const PROMPT_REST: Duration = Duration::from_millis(30);

/// What is in flight.
#[derive(Default)]
pub struct Window {
    in_flight: usize,
}

impl Window {
    /// Whether more may be sent.
    pub fn is_open(&self) -> bool {
        self.in_flight < WINDOW
    }

    /// The head process has written that much.
    pub fn acknowledged(&mut self, bytes: usize) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }
}

/// One of a rank's two streams.
pub struct Stream {
    pipe: Option<File>,
    /// The unfinished line.
    line: Vec<u8>,
    /// Bytes of it that are known to hold no line's end.
    searched: usize,
    last_read: Option<Instant>,
    /// Unfinished lines are shown after [`PROMPT_REST`].
    interactive: bool,
}

impl Stream {
    /// Reads from `pipe`, which doesn't block.
    pub fn new(pipe: File, interactive: bool) -> Stream {
        Stream { pipe: Some(pipe), line: Vec::new(), searched: 0, last_read: None, interactive }
    }

    /// A stream that isn't read here.
    pub fn ended() -> Stream {
        Stream { pipe: None, line: Vec::new(), searched: 0, last_read: None, interactive: false }
    }

    /// Nothing more will come.
    pub fn is_at_end(&self) -> bool {
        self.pipe.is_none()
    }

    /// Registers with the loop.
    pub fn register(&self, set: &mut PollSet, open: bool) {
        if let Some(pipe) = self.pipe.as_ref().filter(|_| open) {
            set.add(pipe, true, false);
        }
        if let Some(when) = self.prompt_due() {
            set.until(when);
        }
    }

    /// When the unfinished line is to be shown, if it is.
    fn prompt_due(&self) -> Option<Instant> {
        self.last_read.filter(|_| self.interactive && !self.line.is_empty()).map(|at| at + PROMPT_REST)
    }

    fn is_ready(&self, set: &PollSet) -> bool {
        self.pipe.as_ref().is_some_and(|p| set.readable(p))
    }

    /// Reads once; false if there was nothing.
    fn read(&mut self) -> bool {
        let Some(pipe) = &mut self.pipe else { return false };
        let start = self.line.len();
        self.line.resize(start + READ_BYTES, 0);
        let result = pipe.read(&mut self.line[start..]);
        self.line.truncate(start + *result.as_ref().unwrap_or(&0));
        match result {
            Ok(0) => self.pipe = None,
            Ok(_) => {
                self.last_read = self.interactive.then(Instant::now);
                return true;
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => return true,
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.pipe = None,
        }
        false
    }

    /// What can be passed on: whole lines, or everything if the line is too long, at its end, or wanted at once.
    fn take(&mut self, all: bool) -> Vec<u8> {
        if all || self.pipe.is_none() {
            self.searched = 0;
            return std::mem::take(&mut self.line);
        }
        let end = match self.line[self.searched..].iter().rposition(|b| *b == b'\n') {
            Some(at) => self.searched + at + 1,
            None if self.line.len() >= LINE_LIMIT => self.line.len(),
            None => {
                self.searched = self.line.len();
                return Vec::new();
            }
        };
        self.searched = self.line.len() - end;
        let rest = self.line.split_off(end);
        std::mem::replace(&mut self.line, rest)
    }
}

impl Agent {
    /// Reads what is there, as far as the window allows.
    pub(super) fn pump_output(&mut self, set: &PollSet) {
        for at in 0..self.ranks.len() {
            for stream in 0..2 {
                if self.output.is_open() && self.ranks[at].streams[stream].is_ready(set) {
                    self.ranks[at].streams[stream].read();
                    self.pass_on(at, stream, false);
                } else if self.ranks[at].streams[stream].prompt_due().is_some_and(|when| when <= Instant::now()) {
                    self.pass_on(at, stream, true);
                }
            }
        }
    }

    /// Reads everything that an ended rank has left in its pipes, as far as the window allows.
    pub(super) fn drain_rank(&mut self, at: usize) {
        for stream in 0..2 {
            while self.output.is_open() && self.ranks[at].streams[stream].read() {
                self.pass_on(at, stream, false);
            }
            self.pass_on(at, stream, false);
        }
    }

    /// Passes on even unfinished lines.
    pub(super) fn flush_output(&mut self, at: usize) {
        for stream in 0..2 {
            self.pass_on(at, stream, true);
        }
    }

    fn pass_on(&mut self, at: usize, stream: usize, all: bool) {
        let rank = &mut self.ranks[at];
        let bytes = rank.streams[stream].take(all);
        if bytes.is_empty() {
            return;
        }
        self.output.in_flight += bytes.len();
        let last = rank.streams[stream].is_at_end();
        let message = Message::Output { rank: rank.world, stream: stream as u8 + 1, last, bytes };
        self.send_up(ROOT, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::{AsFd, OwnedFd};

    #[test]
    fn lines_are_passed_on_whole() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        sys::process::set_nonblocking(reader.as_fd(), true).unwrap();
        let mut stream = Stream::new(File::from(OwnedFd::from(reader)), false);
        writer.write_all(b"one\ntw").unwrap();
        assert!(stream.read() && !stream.read());
        assert_eq!(stream.take(false), b"one\n");
        writer.write_all(b"o\n\0bin").unwrap();
        stream.read();
        assert_eq!(stream.take(false), b"two\n");
        drop(writer);
        assert!(!stream.read() && stream.is_at_end());
        assert_eq!(stream.take(false), b"\0bin");
    }
}
