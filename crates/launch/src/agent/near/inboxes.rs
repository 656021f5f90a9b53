//! Ranks' inboxes as files in a directory that other agents see: their names, and their removal.
//!
//! A rank makes its file and removes it when it ends. If it is killed, its agent removes the file; if that is killed too, the process above
//! the agent does (`leftovers`). If a whole sandbox is killed, the agents of the others remove it: they know all names.

use crate::leftovers::{Leftovers, is_our_file};
use protocol::control::near::INBOX_PREFIX;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The files that this agent knows of.
#[derive(Default)]
pub struct Inboxes {
    directory: PathBuf,
    job_id: u64,
    own: Vec<u32>,
    node_peers: Vec<u32>,
}

impl Inboxes {
    /// In `directory`, nowhere if that is empty, of the ranks `own` of this agent and of all `node_peers` that may see them.
    pub fn new(directory: &[u8], job_id: u64, own: &[u32], node_peers: &[u32]) -> Inboxes {
        Inboxes {
            directory: Path::new(OsStr::from_bytes(directory)).into(),
            job_id,
            own: own.into(),
            node_peers: node_peers.into(),
        }
    }

    /// Whether there is a directory.
    pub fn are_files(&self) -> bool {
        !self.directory.as_os_str().is_empty()
    }

    /// Where the inbox of a rank of this agent is; empty if it isn't a file.
    pub fn path_of(&self, world: u32) -> Vec<u8> {
        if self.are_files() { self.path(world).as_os_str().as_bytes().to_vec() } else { Vec::new() }
    }

    fn path(&self, world: u32) -> PathBuf {
        self.directory.join(format!("{INBOX_PREFIX}{:016x}-{world}", self.job_id))
    }

    /// Writes down what the own ranks will make.
    pub fn note(&self, leftovers: &mut Leftovers) {
        for world in self.own.iter().filter(|_| self.are_files()) {
            leftovers.note(&self.path(*world));
        }
    }

    /// Removes what is left, also of ranks whose agent may have been killed.
    pub fn sweep(&self) {
        for path in self.node_peers.iter().filter(|_| self.are_files()).map(|world| self.path(*world)) {
            if is_our_file(&path) {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}
