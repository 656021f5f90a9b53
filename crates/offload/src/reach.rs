//! How a worker reaches the memory of a rank: `process_vm_readv` and `process_vm_writev`, or the descriptor of its `/proc/self/mem` that the rank has given to its workers.
//!
//! Each is tried on a random word that the rank has named. Only [`crate::state`] calls it, which checks addresses against what operations announce.

use shm::offload::Reach;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use sys::cma;

/// The way to the memory of one rank.
#[derive(Debug)]
pub enum Way {
    /// By pid.
    Pid(i32),
    /// By descriptor.
    Memory(File),
}

impl Way {
    /// The first way that works; the reasons against each if none does.
    pub fn find(reach: &Reach, memory: OwnedFd) -> Result<Way, String> {
        let by_pid = if reach.by_pid && reach.pid > 0 {
            Way::Pid(reach.pid).prove(reach.probe)
        } else {
            Err("the rank doesn't allow it (FERRULE_OFFLOAD_MEMORY)".into())
        };
        let by_pid = match by_pid {
            Ok(way) => return Ok(way),
            Err(why) => why,
        };
        Way::Memory(memory.into()).prove(reach.probe).map_err(|why| format!("cma: {by_pid}; mem: {why}"))
    }

    /// Itself, if it reads and writes the word.
    fn prove(self, (address, value): (u64, u64)) -> Result<Way, String> {
        let mut seen = [0; 8];
        self.read(address, &mut seen).map_err(|e| e.to_string())?;
        if u64::from_ne_bytes(seen) != value {
            return Err("another value was read: it is another process".into());
        }
        self.write(address, &seen).map_err(|e| format!("it can only be read: {e}"))?;
        Ok(self)
    }

    /// Reads all of `into`.
    pub fn read(&self, address: u64, into: &mut [u8]) -> io::Result<()> {
        match self {
            Way::Pid(pid) => cma::read_exact_by_pid(*pid, address, into),
            Way::Memory(memory) => memory.read_exact_at(into, address),
        }
    }

    /// Writes all of `from`.
    pub fn write(&self, address: u64, from: &[u8]) -> io::Result<()> {
        match self {
            Way::Pid(pid) => cma::write_all_by_pid(*pid, address, from),
            Way::Memory(memory) => memory.write_all_at(from, address),
        }
    }

    /// Reads several pieces, which fill `into`.
    pub fn read_pieces(&self, pieces: &[(u64, usize)], into: &mut [u8]) -> io::Result<()> {
        if let Way::Pid(pid) = self {
            return cma::read_pieces_by_pid(*pid, pieces, into);
        }
        let mut at = 0;
        pieces.iter().try_for_each(|(address, len)| {
            at += len;
            self.read(*address, &mut into[at - len..at])
        })
    }

    /// Writes several pieces, which are `from`.
    pub fn write_pieces(&self, pieces: &[(u64, usize)], from: &[u8]) -> io::Result<()> {
        if let Way::Pid(pid) = self {
            return cma::write_pieces_by_pid(*pid, pieces, from);
        }
        let mut at = 0;
        pieces.iter().try_for_each(|(address, len)| {
            at += len;
            self.write(*address, &from[at - len..at])
        })
    }

    /// `cma` or `mem`.
    pub fn name(&self) -> &'static str {
        match self {
            Way::Pid(_) => "cma",
            Way::Memory(_) => "mem",
        }
    }
}

/// Whether the error means that the process is gone.
pub fn is_gone(error: &io::Error) -> bool {
    const ESRCH: i32 = 3;
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::WriteZero)
        || error.raw_os_error() == Some(ESRCH)
}
