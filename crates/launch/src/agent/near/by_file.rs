//! Two agents talk through a file of a shared directory, when no socket connects them: in sandboxes like gVisor's.
//!
//! The conversation is that of [`super::meet`]: challenge, answer, proof. Each side writes into its own mapping, and the other side reads it in
//! its own. So success also proves that the mapping is shared memory: over a network file system the
//! answer doesn't appear in time.

use super::meet;
use protocol::control::handshake::{Handshake, Key, Step, challenge};
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;
use sys::process::random;
use sys::shared_file::{self, LETTERS_BYTES, Letters};

/// Time between two looks into files.
pub const LOOK_EVERY: Duration = Duration::from_micros(300);

const HOST: usize = 0;
const VISITOR: usize = 1;

/// The agent that made the file and waits there. The file is gone when this value is.
pub struct Host {
    path: PathBuf,
    letters: Letters,
    /// With a visitor that has not spoken yet.
    handshake: Option<Handshake>,
}

impl Host {
    /// Makes the file and lays the challenge into it.
    pub fn new(path: &Path) -> Result<Host> {
        let file = shared_file::create(path, LETTERS_BYTES)?;
        let nonce = random();
        let handshake = Some(Handshake::of_parent(nonce));
        let host = Host { path: path.into(), letters: Letters::in_file(&file)?, handshake };
        host.letters.post(HOST, 1, &challenge(nonce));
        Ok(host)
    }

    /// Whether anything may still come.
    pub fn waits(&self) -> bool {
        self.handshake.is_some()
    }

    /// Proves the key to a visitor that has proved it.
    pub fn look(&mut self, key: Key, me: u32) -> Result<()> {
        let Some(letter) = self.letters.read(VISITOR, 1) else { return Ok(()) };
        let Some(mut handshake) = self.handshake.take() else { return Ok(()) };
        handshake.take(&letter);
        if let Step::Met(met) = handshake.step(|node| meet::key_of(key, me, node)).map_err(wrong)? {
            self.letters.post(HOST, 2, &met.last);
        }
        Ok(())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The agent that looks for another one in a file.
pub struct Visitor {
    letters: Letters,
    node: u32,
    handshake: Handshake,
    /// Number of the host's next letter.
    next: u32,
}

impl Visitor {
    /// This agent, `me`, in the file that the agent of `node` has made.
    pub fn new(me: u32, node: u32, path: &Path) -> Result<Visitor> {
        let letters = Letters::in_file(&shared_file::open(path)?)?;
        Ok(Visitor { letters, node, handshake: Handshake::of_child(me, random()), next: 1 })
    }

    /// True when the other side has proved to be that node's agent.
    pub fn look(&mut self, key: Key) -> Result<bool> {
        let Some(letter) = self.letters.read(HOST, self.next) else { return Ok(false) };
        self.next += 1;
        self.handshake.take(&letter);
        match self.handshake.step(|me| meet::key_of(key, me, self.node)).map_err(wrong)? {
            Step::Wait => Err(ErrorKind::InvalidData.into()),
            Step::Answer(answer) => {
                self.letters.post(VISITOR, 1, &answer);
                Ok(false)
            }
            Step::Met(_) => Ok(true),
        }
    }
}

fn wrong(e: base::Error) -> Error {
    Error::new(ErrorKind::PermissionDenied, e.origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(name: &str, theirs: Key) -> (Result<()>, Result<bool>) {
        let path = std::env::temp_dir().join(format!(".ferrule-by-file-{name}-{}", std::process::id()));
        let mut host = Host::new(&path).unwrap();
        assert!(crate::leftovers::is_our_file(&path));
        let mut visitor = Visitor::new(3, 7, &path).unwrap();
        assert!(!visitor.look(theirs).unwrap());
        let heard = host.look(Key([1; 16]), 7);
        let said = visitor.look(theirs);
        drop(host);
        assert!(!path.exists());
        (heard, said)
    }

    #[test]
    fn only_agents_of_the_job_meet() {
        let (heard, said) = visit("same", Key([1; 16]));
        assert!(heard.is_ok() && said.unwrap());
        let (heard, said) = visit("other", Key([2; 16]));
        assert_eq!(heard.unwrap_err().kind(), ErrorKind::PermissionDenied);
        assert!(!said.unwrap(), "no proof comes");
    }
}
