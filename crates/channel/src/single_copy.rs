//! Single copy: the receiver reads a large message straight from the sender's memory.
//!
//! Two ways, probed per pair on a random word at a private address of the peer (decision 0020): `process_vm_readv` (CMA), if
//! the pid that the peer names is the peer's here; `pread` on the descriptor of its `/proc/self/mem`. Any error and any
//! other value mean no. An error at run time demotes the pair for good.

use crate::buffer::{RecvBuf, SendBuf};
use base::counters::SINGLE_COPY_DEMOTED;
use base::log;
use protocol::processes::Name;
use protocol::transport::Access;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use sys::cma::{self, Piece};

base::config! {
    /// How large messages are read from the sender's memory: `auto`, `cma`, `mem` (its /proc/self/mem) or `off`.
    SINGLE_COPY: text = "auto";
    /// Lets ranks of the job read this process's memory: passes them its descriptor, and lifts Yama's restriction to
    /// descendants (needed for CMA there). Without it the descriptor never leaves the process.
    SINGLE_COPY_ALLOW: bool = true;
}

/// Bytes that are read at a time into a bounce buffer when the destination isn't contiguous.
const BOUNCE_BYTES: usize = 128 << 10;

/// A random word in private memory, for peers to probe.
#[derive(Debug)]
pub struct ProbeWord(Box<AtomicU64>);

impl ProbeWord {
    /// A word with a random value.
    pub fn random() -> ProbeWord {
        ProbeWord(Box::new(AtomicU64::new(u64::from_le_bytes(sys::process::random()))))
    }

    /// Where it lies, in this process.
    pub fn address(&self) -> u64 {
        (&raw const *self.0).addr() as u64
    }

    /// Its value.
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// How a peer's memory is reached.
#[derive(Debug)]
enum Method {
    Cma { pid: i32 },
    Memory { fd: OwnedFd },
}

impl Method {
    fn name(&self) -> &'static str {
        match self {
            Method::Cma { .. } => "cma",
            Method::Memory { .. } => "mem",
        }
    }

    /// One attempt to read.
    ///
    /// # Safety
    /// `into` is writable for `len` bytes.
    unsafe fn read(&self, address: u64, into: *mut u8, len: usize) -> io::Result<usize> {
        // SAFETY: promised by the caller.
        unsafe {
            match self {
                Method::Cma { pid } => cma::read_by_pid(*pid, address, &[Piece { at: into, len }]),
                Method::Memory { fd } => cma::read_by_fd(fd.as_fd(), address, into, len),
            }
        }
    }

    /// Reads all of it.
    ///
    /// # Safety
    /// As for [`Method::read`].
    unsafe fn read_all(&self, address: u64, into: *mut u8, len: usize) -> io::Result<()> {
        let mut done = 0;
        while done < len {
            // SAFETY: `done < len`, and the caller promises `len` bytes.
            match unsafe { self.read(address.wrapping_add(done as u64), into.add(done), len - done) } {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the peer is gone")),
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Whether it reads `value` at `address`; the reason if it doesn't.
    fn prove(&self, address: u64, value: u64) -> Result<(), String> {
        let mut seen = 0u64;
        // SAFETY: `seen` is eight writable bytes.
        match unsafe { self.read_all(address, (&raw mut seen).cast(), size_of::<u64>()) } {
            Ok(()) if seen == value => Ok(()),
            Ok(()) => Err("another value was read: the pid names another process here".into()),
            Err(e) => Err(match (self, e.raw_os_error()) {
                // Another process has the number here, or none.
                (Method::Cma { pid }, Some(3 | 14)) => {
                    format!("pid {pid} is not the peer here (other pid namespace): {e}")
                }
                _ => e.to_string(),
            }),
        }
    }
}

/// What is known about a peer's memory before the probe.
#[derive(Debug)]
pub struct Probe {
    /// Address of the peer's [`ProbeWord`].
    pub address: u64,
    /// Its value.
    pub value: u64,
    /// The peer's pid, if somebody vouches for it.
    pub pid: Option<i32>,
    /// Descriptor of the peer's memory.
    pub memory: Option<OwnedFd>,
}

/// Single copy from one peer, or the reasons why there is none.
#[derive(Debug)]
pub struct SingleCopy {
    peer: Name,
    method: Option<Method>,
    rejected: Vec<(&'static str, String)>,
    /// A write has failed: the peer's memory is only read.
    reads_only: bool,
    bounce: Vec<u8>,
}

impl SingleCopy {
    /// No single copy from this peer.
    pub fn none(peer: Name, why: &str) -> SingleCopy {
        SingleCopy {
            peer,
            method: None,
            rejected: vec![("single copy", why.into())],
            reads_only: true,
            bounce: Vec::new(),
        }
    }

    /// Tries what the setting [`SINGLE_COPY`] allows, best first.
    pub fn probe(peer: Name, probe: Probe) -> SingleCopy {
        SingleCopy::probe_with(peer, probe, SINGLE_COPY.value())
    }

    fn probe_with(peer: Name, probe: Probe, setting: &str) -> SingleCopy {
        let mut out = SingleCopy { peer, method: None, rejected: Vec::new(), reads_only: false, bounce: Vec::new() };
        let allowed = |name| matches!(setting, "auto") || setting == name;
        if !matches!(setting, "auto" | "cma" | "mem" | "off") {
            log!(Warn, "FERRULE_SINGLE_COPY={setting} is not auto, cma, mem or off; single copy is off");
        }
        let candidates = [
            ("cma", probe.pid.filter(|p| *p > 0).map(|pid| Method::Cma { pid }), "no pid is known"),
            ("mem", probe.memory.map(|fd| Method::Memory { fd }), "the peer passed no descriptor of its memory"),
        ];
        for (name, method, lacking) in candidates {
            let verdict = match method {
                _ if !allowed(name) => Err(format!("FERRULE_SINGLE_COPY={setting}")),
                None => Err(lacking.into()),
                Some(m) => m.prove(probe.address, probe.value).map(|()| m),
            };
            match verdict {
                Ok(m) if out.method.is_none() => out.method = Some(m),
                Ok(_) => {}
                Err(why) => out.rejected.push((name, why)),
            }
        }
        out
    }

    /// How messages for humans name the peer.
    pub fn name_of_peer(&self) -> Name {
        self.peer.clone()
    }

    /// The way in use: `cma` or `mem`.
    pub fn name(&self) -> Option<&'static str> {
        self.method.as_ref().map(Method::name)
    }

    /// Ways that were rejected, with reasons.
    pub fn rejected(&self) -> &[(&'static str, String)] {
        &self.rejected
    }

    /// Does without the way that was found, because of `why`.
    pub fn reject(&mut self, why: String) {
        if let Some(method) = self.method.take() {
            self.rejected.push((method.name(), why));
        }
    }

    /// Copies `len` bytes at `address` in the peer's memory to the start of `sink`. False if it isn't possible (any more).
    pub fn pull(&mut self, address: u64, sink: &RecvBuf, len: usize) -> bool {
        let Some(method) = &self.method else { return false };
        if len > sink.len() {
            return false;
        }
        let result = match sink.as_contiguous(0) {
            // SAFETY: the sink is writable for its length, which was checked.
            Some(into) => unsafe { method.read_all(address, into, len) },
            None => pull_in_pieces(method, &mut self.bounce, address, sink, len),
        };
        if let Err(e) = result {
            self.demote(&e);
            return false;
        }
        true
    }

    /// Whether the peer's memory can be written, too: the descriptor of it is for reading.
    pub fn can_write(&self) -> bool {
        !self.reads_only && matches!(self.method, Some(Method::Cma { .. }))
    }

    /// Reads `len` bytes at an address that a key names: an address that is not the peer's is a bad key.
    ///
    /// # Safety
    /// `into` is writable for `len` bytes.
    pub unsafe fn read(&mut self, address: u64, into: *mut u8, len: usize) -> Result<(), Access> {
        let Some(method) = &self.method else { return Err(Access::Unable) };
        // SAFETY: promised by the caller.
        unsafe { method.read_all(address, into, len) }.map_err(|error| match error.raw_os_error() {
            Some(EFAULT | EIO) => Access::Refused,
            _ => {
                self.demote(&error);
                Access::Unable
            }
        })
    }

    /// Copies all of `source` to `address` in the peer's memory.
    pub fn write(&mut self, address: u64, source: &SendBuf) -> Access {
        let Some(Method::Cma { pid }) = self.method else { return Access::Unable };
        match write_all(pid, address, source, &mut self.bounce) {
            Ok(()) => Access::Done(0),
            Err(error) => {
                log!(Info, "the memory of {} can't be written: {error}; puts go by packets from now on", self.peer);
                self.reads_only = true;
                Access::Unable
            }
        }
    }

    #[cold]
    fn demote(&mut self, error: &io::Error) {
        let Some(method) = self.method.take() else { return };
        SINGLE_COPY_DEMOTED.add(1);
        self.rejected.push((method.name(), format!("failed at run time: {error}")));
        log!(Warn, "single copy ({}) from {} failed: {error}; using the ring from now on", method.name(), self.peer);
    }
}

/// Nothing is mapped at the address; what `/proc/PID/mem` says of that.
const EFAULT: i32 = 14;
const EIO: i32 = 5;

/// Writes a source to another process, through a buffer that fits the cache if it isn't contiguous.
fn write_all(pid: i32, address: u64, source: &SendBuf, bounce: &mut Vec<u8>) -> io::Result<()> {
    let mut done = 0;
    while done < source.len() {
        let left = source.len() - done;
        let (from, len) = match source.as_contiguous(done) {
            Some(from) => (from, left),
            None => {
                bounce.resize(BOUNCE_BYTES, 0);
                let len = left.min(BOUNCE_BYTES);
                // SAFETY: the bounce buffer has BOUNCE_BYTES bytes, and `len` is at most that.
                unsafe { source.copy_out(done, bounce.as_mut_ptr(), len) };
                (bounce.as_ptr(), len)
            }
        };
        // SAFETY: `len` bytes of the source (its contract) or of the bounce buffer.
        match unsafe { cma::write_by_pid(pid, address.wrapping_add(done as u64), from, len) } {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the peer is gone")),
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// [`SingleCopy::pull`] for a sink that isn't contiguous: through a buffer that fits the cache.
fn pull_in_pieces(method: &Method, bounce: &mut Vec<u8>, address: u64, sink: &RecvBuf, len: usize) -> io::Result<()> {
    bounce.resize(BOUNCE_BYTES, 0);
    let mut done = 0;
    while done < len {
        let piece = (len - done).min(BOUNCE_BYTES);
        // SAFETY: the bounce buffer has BOUNCE_BYTES bytes, and `piece` is at most that.
        unsafe {
            method.read_all(address.wrapping_add(done as u64), bounce.as_mut_ptr(), piece)?;
            sink.copy_in(done, bounce.as_ptr(), piece);
        }
        done += piece;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::WorldRank;

    fn own(word: &ProbeWord, value: u64) -> Probe {
        Probe { address: word.address(), value, pid: Some(cma::own_pid()), memory: Some(cma::own_memory().unwrap()) }
    }

    #[test]
    fn another_value_means_no() {
        let word = ProbeWord::random();
        let single = SingleCopy::probe_with(Name::Own(WorldRank(1)), own(&word, word.value() ^ 1), "auto");
        assert_eq!(single.name(), None);
        assert_eq!(single.rejected().len(), 2);
    }

    #[test]
    fn memory_descriptor_pulls_and_demotes() {
        let word = ProbeWord::random();
        let mut single = SingleCopy::probe_with(Name::Own(WorldRank(1)), own(&word, word.value()), "mem");
        assert_eq!(single.name(), Some("mem"));
        let from: Vec<u8> = (0..300_000u32).map(|i| i as u8).collect();
        let mut to = vec![0u8; from.len()];
        // SAFETY: `to` outlives the buffer.
        let sink = unsafe { RecvBuf::contiguous(to.as_mut_ptr(), to.len()) };
        assert!(single.pull(from.as_ptr().addr() as u64, &sink, from.len()));
        assert_eq!(from, to);
        assert!(!single.pull(8, &sink, 16), "nothing is mapped at page 0");
        assert_eq!(single.name(), None);
        assert!(!single.pull(from.as_ptr().addr() as u64, &sink, 16), "demoted for good");
    }

    #[test]
    fn setting_off_is_a_reason() {
        let word = ProbeWord::random();
        let single = SingleCopy::probe_with(Name::Own(WorldRank(1)), own(&word, word.value()), "off");
        assert_eq!(single.name(), None);
        assert!(single.rejected().iter().all(|(_, why)| why.contains("off")));
    }
}
