//! mpiexec's side: reads the files and sends them, no faster than the slowest node takes them.

use super::{WINDOW, plan::Plan};
use protocol::control::tree::{CHUNK_MAX, Message};
use std::fs::File;
use std::io::Read;

/// What has been sent.
pub struct Sender {
    plan: Plan,
    file: usize,
    open: Option<File>,
    offset: u64,
    sent: u64,
    total: u64,
    /// By node: bytes that it has.
    acked: Vec<u64>,
}

impl Sender {
    /// Nothing has been sent to any of `nodes`.
    pub fn new(plan: Plan, nodes: usize) -> Sender {
        let total = plan.bytes();
        Sender { plan, file: 0, open: None, offset: 0, sent: 0, total, acked: vec![0; nodes] }
    }

    /// A node has `bytes`.
    pub fn acknowledged(&mut self, node: u32, bytes: u64) {
        if let Some(known) = self.acked.get_mut(node as usize) {
            *known = bytes.min(self.total).max(*known);
        }
    }

    /// Whether everything has left.
    pub fn is_done(&self) -> bool {
        self.sent == self.total
    }

    /// The next piece, if the slowest of the nodes that count is not too far behind. An error is a sentence.
    pub fn next(&mut self, counts: impl Fn(usize) -> bool) -> Result<Option<Message>, String> {
        let slowest = (0..self.acked.len()).filter(|node| counts(*node)).map(|node| self.acked[node]).min();
        if self.is_done() || slowest.is_none_or(|acked| self.sent - acked >= WINDOW) {
            return Ok(None);
        }
        while self.plan.files[self.file].bytes == self.offset {
            (self.file, self.offset, self.open) = (self.file + 1, 0, None);
        }
        let source = &self.plan.sources[self.file];
        let wrong = |e: std::io::Error| format!("cannot read {}: {e}", source.display());
        let file = match &mut self.open {
            Some(file) => file,
            None => self.open.insert(File::open(source).map_err(wrong)?),
        };
        let left = self.plan.files[self.file].bytes - self.offset;
        let mut bytes = vec![0; left.min(CHUNK_MAX as u64) as usize];
        file.read_exact(&mut bytes).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => format!("{} became shorter while it was sent", source.display()),
            _ => wrong(e),
        })?;
        let message = Message::Chunk { file: self.file as u32, offset: self.offset, bytes };
        let n = left.min(CHUNK_MAX as u64);
        self.offset += n;
        self.sent += n;
        Ok(Some(message))
    }
}
