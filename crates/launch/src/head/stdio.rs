//! mpiexec's own standard input, output and error.
//!
//! Output never makes the loop wait. The descriptors are shared with whoever started mpiexec, so they must not be made
//! non-blocking; a pipe is opened a second time instead, and to anything else at most a pipe's atomic piece is written at a
//! time, when poll says that there is room.

use super::files::{OutputFiles, Source};
use crate::cli::Options;
use crate::pollset::PollSet;
use protocol::control::tree::{ALL, JobSpec, ROOT};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::time::{Duration, Instant};
use sys::process::{PollFd, WRITABLE};

/// Bytes of output after which an agent gets room for more.
const ACK_BYTES: usize = 128 << 10;
/// What a pipe takes without waiting once poll says that it is writable.
const PIECE: usize = 4096;

struct Chunk {
    bytes: Vec<u8>,
    written: usize,
    node: u32,
    /// Bytes of the agent's window that are free again when this is written.
    credit: usize,
}

/// Standard output or standard error.
pub struct Sink {
    file: File,
    /// Whole chunks can be written: the file is a regular one, or our own non-blocking end of a pipe.
    never_waits: bool,
    queue: VecDeque<Chunk>,
    /// The reader is gone.
    broken: bool,
    /// Whose unfinished line the last chunk ended with.
    open_line: Option<u32>,
}

impl Sink {
    /// Writes to a duplicate of `fd`.
    pub fn new(fd: BorrowedFd<'_>) -> Sink {
        let (file, broken) = match fd.try_clone_to_owned() {
            Ok(fd) => (File::from(fd), false),
            Err(_) => (File::open("/dev/null").expect("/dev/null opens"), true),
        };
        let own_pipe = open_pipe(&file);
        let never_waits = own_pipe.is_some() || sys::process::is_regular_file(fd);
        Sink { file: own_pipe.unwrap_or(file), never_waits, queue: VecDeque::new(), broken, open_line: None }
    }

    /// Queues `bytes` of `rank`, each line with `tag` before it.
    pub fn push(&mut self, rank: u32, node: u32, bytes: Vec<u8>, tag: Option<&str>) {
        let credit = bytes.len();
        let text = match tag {
            Some(tag) => self.tagged(rank, &bytes, tag),
            None => bytes,
        };
        self.queue.push_back(Chunk { bytes: text, written: 0, node, credit });
    }

    fn tagged(&mut self, rank: u32, bytes: &[u8], tag: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len() + 64);
        if self.open_line.is_some_and(|r| r != rank) {
            out.push(b'\n');
            self.open_line = None;
        }
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            if self.open_line.is_none() {
                out.extend_from_slice(tag.as_bytes());
            }
            out.extend_from_slice(line);
            self.open_line = (!line.ends_with(b"\n")).then_some(rank);
        }
        out
    }

    /// Everything has been written, or never will be.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The reader has hung up.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Registers with the loop.
    pub fn register(&self, set: &mut PollSet) {
        if !self.queue.is_empty() {
            set.add(&self.file, false, true);
        }
    }

    /// Writes while there is room; calls `credit` with node and bytes of each chunk that is finished.
    pub fn pump(&mut self, mut credit: impl FnMut(u32, usize)) {
        for _ in 0..256 {
            let Some(chunk) = self.queue.front_mut() else { return };
            if !self.broken && !has_room(&self.file) {
                return;
            }
            let end = if self.never_waits { chunk.bytes.len() } else { chunk.bytes.len().min(chunk.written + PIECE) };
            if self.broken {
                chunk.written = chunk.bytes.len();
            } else {
                match self.file.write(&chunk.bytes[chunk.written..end]) {
                    Ok(n) => chunk.written += n,
                    Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => return,
                    Err(_) => self.broken = true,
                }
            }
            if chunk.written == chunk.bytes.len() {
                credit(chunk.node, chunk.credit);
                self.queue.pop_front();
            }
        }
    }
}

/// The same pipe with a file description of our own.
fn open_pipe(file: &File) -> Option<File> {
    if !file.metadata().ok()?.file_type().is_fifo() {
        return None;
    }
    let again = File::options().write(true).open(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    sys::process::set_nonblocking(again.as_fd(), true).ok()?;
    Some(again)
}

fn has_room(file: &File) -> bool {
    let mut one = [PollFd { fd: file.as_raw_fd(), events: WRITABLE, revents: 0 }];
    sys::process::poll(&mut one, 0).is_ok_and(|n| n > 0)
}

/// Standard input: one piece at a time, the next when all nodes that get it have taken it.
pub struct Input {
    file: File,
    nodes: u32,
    unacknowledged: u32,
    at_end: bool,
}

impl Input {
    /// Reads a duplicate of standard input for `nodes` nodes.
    pub fn new(nodes: u32) -> Input {
        let fd = std::io::stdin();
        match fd.as_fd().try_clone_to_owned() {
            Ok(fd) => Input { file: File::from(fd), nodes, unacknowledged: 0, at_end: nodes == 0 },
            Err(_) => {
                let file = File::open("/dev/null").expect("/dev/null opens");
                Input { file, nodes, unacknowledged: 0, at_end: nodes == 0 }
            }
        }
    }

    fn wanted(&self) -> bool {
        !self.at_end && self.unacknowledged == 0
    }

    /// Registers with the loop. A terminal that belongs to another job is looked at again later.
    pub fn register(&self, set: &mut PollSet) {
        if self.wanted() {
            if sys::process::may_read_terminal(self.file.as_fd()) {
                set.add(&self.file, true, false);
            } else {
                set.until(Instant::now() + Duration::from_millis(500));
            }
        }
    }

    /// A node has taken the piece.
    pub fn acknowledged(&mut self) {
        self.unacknowledged = self.unacknowledged.saturating_sub(1);
    }

    /// Nobody reads any more.
    pub fn stop(&mut self) {
        self.at_end = true;
    }

    /// The next piece; empty at the end.
    pub fn pump(&mut self, set: &PollSet) -> Option<Vec<u8>> {
        if !self.wanted() || !set.readable(&self.file) || !sys::process::may_read_terminal(self.file.as_fd()) {
            return None;
        }
        let mut bytes = vec![0; 64 << 10];
        match self.file.read(&mut bytes) {
            Ok(n) => {
                bytes.truncate(n);
                self.at_end = n == 0;
            }
            Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => return None,
            Err(_) => {
                bytes.clear();
                self.at_end = true;
            }
        }
        self.unacknowledged = self.nodes;
        Some(bytes)
    }
}

/// All three, and the files that ranks' output goes into.
pub struct Stdio {
    /// What ranks read.
    pub input: Input,
    sinks: [Sink; 2],
    files: OutputFiles,
    /// By node: written output that has not been acknowledged, in bytes.
    credit: Vec<usize>,
    /// Nodes that get room for so many bytes more.
    acks: Vec<(u32, u32)>,
}

impl Stdio {
    /// Of a job that has not begun.
    pub fn begin(options: &Options, job: &JobSpec) -> Result<Stdio, String> {
        let nodes = job.hosts.len();
        let readers = match job.stdin_rank {
            ROOT => 0,
            ALL => nodes as u32,
            _ => 1,
        };
        Ok(Stdio {
            input: Input::new(readers),
            sinks: [Sink::new(std::io::stdout().as_fd()), Sink::new(std::io::stderr().as_fd())],
            files: OutputFiles::begin(options, job.ranks.len())?,
            credit: vec![0; nodes],
            acks: Vec::new(),
        })
    }

    /// Registers with the loop.
    pub fn register(&self, set: &mut PollSet) {
        self.sinks.iter().for_each(|sink| sink.register(set));
        self.input.register(set);
    }

    /// Whether all output has been written.
    pub fn is_written(&self) -> bool {
        self.sinks.iter().all(Sink::is_empty)
    }

    /// Whether nobody reads standard output any more.
    pub fn is_broken(&self) -> bool {
        self.sinks[0].is_broken()
    }

    /// Takes output of a rank.
    pub fn take(&mut self, options: &Options, source: &Source<'_>, bytes: Vec<u8>) {
        if self.files.take(options, source, &bytes) {
            self.add_credit(source.node, bytes.len());
        } else {
            let tag = options.tag.then(|| format!("[{}] ", source.rank));
            self.sinks[usize::from(source.is_second)].push(source.rank, source.node, bytes, tag.as_deref());
        }
    }

    fn add_credit(&mut self, node: u32, bytes: usize) {
        let Some(credit) = self.credit.get_mut(node as usize) else { return };
        *credit += bytes;
        if *credit >= ACK_BYTES {
            self.acks.push((node, std::mem::take(credit) as u32));
        }
    }

    /// Writes while there is room; the nodes that may send more, and how many bytes.
    pub fn pump(&mut self) -> Vec<(u32, u32)> {
        let mut written = Vec::new();
        self.sinks.iter_mut().for_each(|sink| sink.pump(|node, bytes| written.push((node, bytes))));
        written.into_iter().for_each(|(node, bytes)| self.add_credit(node, bytes));
        std::mem::take(&mut self.acks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom};

    #[test]
    fn tags_stand_at_the_beginning_of_each_line() {
        let mut file = std::env::temp_dir().join(format!("ferrule-sink-{}", std::process::id()));
        file.set_extension("txt");
        let mut reader = File::options().create(true).truncate(true).read(true).write(true).open(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let mut sink = Sink::new(reader.as_fd());
        sink.push(0, 0, b"a\nb".to_vec(), Some("[0] "));
        sink.push(1, 0, b"c\n".to_vec(), Some("[1] "));
        sink.push(0, 0, b"d\n".to_vec(), Some("[0] "));
        let mut credit = 0;
        sink.pump(|_, n| credit += n);
        assert!(sink.is_empty());
        assert_eq!(credit, 7);
        reader.seek(SeekFrom::Start(0)).unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "[0] a\n[0] b\n[1] c\n[0] d\n");
    }
}
