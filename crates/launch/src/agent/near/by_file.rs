//! Two agents talk through a file of a shared directory, when no socket connects them: in sandboxes like gVisor's.
//!
//! The conversation is that of [`super::meet`]: challenge, answer, proof. Each side writes into its own mapping, and the other side reads it in
//! its own. So success also proves that the mapping is shared memory: over a network file system the
//! answer doesn't appear in time.

use super::meet;
use protocol::control::handshake::{self, ANSWER, CHALLENGE, Key, PROOF};
use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;
use sys::shared_file::{self, LETTERS_BYTES, Letters};

/// Time between two looks into files.
pub const LOOK_EVERY: Duration = Duration::from_micros(300);

const HOST: usize = 0;
const VISITOR: usize = 1;

/// The agent that made the file and waits there. The file is gone when this value is.
pub struct Host {
    path: PathBuf,
    letters: Letters,
    nonce: [u8; 16],
    answered: bool,
}

impl Host {
    /// Makes the file and lays the challenge into it.
    pub fn new(path: &Path) -> Result<Host> {
        let file = shared_file::create(path, LETTERS_BYTES)?;
        let host =
            Host { path: path.into(), letters: Letters::in_file(&file)?, nonce: meet::random(), answered: false };
        host.letters.post(HOST, 1, &handshake::challenge(host.nonce));
        Ok(host)
    }

    /// Whether anything may still come.
    pub fn waits(&self) -> bool {
        !self.answered
    }

    /// Proves the key to a visitor that has proved it.
    pub fn look(&mut self, key: Key, me: u32) -> Result<()> {
        let Some(letter) = self.letters.read(VISITOR, 1).filter(|_| !self.answered) else { return Ok(()) };
        self.answered = true;
        let answer = letter.first_chunk::<ANSWER>().ok_or(ErrorKind::InvalidData)?;
        let pair = meet::key_of(key, me, handshake::claimed_node(answer));
        let (_, proof) = handshake::check_answer(pair, self.nonce, answer).map_err(meet::wrong)?;
        self.letters.post(HOST, 2, &proof);
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
    said: Option<([u8; CHALLENGE], [u8; ANSWER])>,
}

impl Visitor {
    /// In the file that the agent of `node` has made.
    pub fn new(node: u32, path: &Path) -> Result<Visitor> {
        let file = shared_file::open(path)?;
        Ok(Visitor { letters: Letters::in_file(&file)?, node, said: None })
    }

    /// True when the other side has proved to be that node's agent.
    pub fn look(&mut self, key: Key, me: u32) -> Result<bool> {
        let pair = meet::key_of(key, me, self.node);
        let Some((challenge, answer)) = &self.said else {
            let Some(letter) = self.letters.read(HOST, 1) else { return Ok(false) };
            let challenge = *letter.first_chunk::<CHALLENGE>().ok_or(ErrorKind::InvalidData)?;
            let answer = handshake::answer(pair, &challenge, me, meet::random()).map_err(meet::wrong)?;
            self.letters.post(VISITOR, 1, &answer);
            self.said = Some((challenge, answer));
            return Ok(false);
        };
        let Some(letter) = self.letters.read(HOST, 2) else { return Ok(false) };
        let proof = letter.first_chunk::<PROOF>().ok_or(ErrorKind::InvalidData)?;
        handshake::check_proof(pair, challenge, answer, proof).map_err(meet::wrong)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(name: &str, theirs: Key) -> (Result<()>, Result<bool>) {
        let path = std::env::temp_dir().join(format!(".ferrule-by-file-{name}-{}", std::process::id()));
        let mut host = Host::new(&path).unwrap();
        assert!(crate::leftovers::is_our_file(&path));
        let mut visitor = Visitor::new(7, &path).unwrap();
        assert!(!visitor.look(theirs, 3).unwrap());
        let heard = host.look(Key([1; 16]), 7);
        let said = visitor.look(theirs, 3);
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
