//! Standard input of the ranks that get it. The head process sends one piece and waits until all have taken it.

use super::Agent;
use crate::pollset::PollSet;
use protocol::control::tree::{Message, ROOT};
use std::fs::File;
use std::io::{ErrorKind, Write};

struct Reader {
    rank: u32,
    /// None once the input is at its end or the rank has closed it.
    pipe: Option<File>,
    taken: usize,
}

/// The piece that is being fed.
#[derive(Default)]
pub struct Feed {
    readers: Vec<Reader>,
    piece: Vec<u8>,
    pending: bool,
}

impl Feed {
    /// A rank whose standard input is the other end of `pipe`, which doesn't block.
    pub fn add(&mut self, rank: u32, pipe: File) {
        self.readers.push(Reader { rank, pipe: Some(pipe), taken: 0 });
    }

    /// A rank that will read no more.
    pub fn rank_ended(&mut self, rank: u32) {
        self.readers.iter_mut().filter(|r| r.rank == rank).for_each(|r| r.pipe = None);
    }

    /// Registers with the loop.
    pub fn register(&self, set: &mut PollSet) {
        if self.pending {
            for reader in &self.readers {
                if let Some(pipe) = reader.pipe.as_ref().filter(|_| reader.taken < self.piece.len()) {
                    set.add(pipe, false, true);
                }
            }
        }
    }

    /// Writes what can be written; whether everybody has taken the whole piece.
    fn push(&mut self) -> bool {
        for reader in &mut self.readers {
            while let Some(pipe) = reader.pipe.as_mut().filter(|_| reader.taken < self.piece.len()) {
                match pipe.write(&self.piece[reader.taken..]) {
                    Ok(n) => reader.taken += n,
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(_) => reader.pipe = None,
                }
            }
        }
        self.readers.iter().all(|r| r.pipe.is_none() || r.taken == self.piece.len())
    }
}

impl Agent {
    /// A piece from the head process; an empty one is the end.
    pub(super) fn feed_stdin(&mut self, bytes: Vec<u8>) {
        if bytes.is_empty() {
            self.stdin.readers.clear();
        }
        self.stdin.readers.iter_mut().for_each(|r| r.taken = 0);
        self.stdin.piece = bytes;
        self.stdin.pending = true;
        self.advance_stdin();
    }

    pub(super) fn pump_stdin(&mut self, _set: &PollSet) {
        if self.stdin.pending {
            self.advance_stdin();
        }
    }

    fn advance_stdin(&mut self) {
        if self.stdin.push() {
            self.stdin.pending = false;
            self.stdin.piece.clear();
            self.send_up(ROOT, Message::StdinAck { node: self.node });
        }
    }
}
