//! Callers that have proved nothing yet: each is challenged, has a while for its proof, and gets nothing before.

use crate::pollset::PollSet;
use base::log;
use channel::handshake;
use protocol::control::handshake::{Handshake, Key, Met, challenge};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

struct Caller<S> {
    stream: S,
    handshake: Handshake,
    until: Instant,
}

/// All callers at one listener.
pub struct Callers<S> {
    list: Vec<Caller<S>>,
    limit: Duration,
}

/// A caller that is dropped.
pub struct Dropped {
    /// Why; [`ErrorKind::PermissionDenied`] if it doesn't know the key.
    pub why: Error,
    /// It has said nothing at all.
    pub is_silent: bool,
}

impl<S: AsFd> Callers<S>
where
    for<'a> &'a S: Read + Write,
{
    /// None yet; each has that long for its proof.
    pub fn new(limit: Duration) -> Callers<S> {
        Callers { list: Vec::new(), limit }
    }

    /// Challenges a caller; the oldest one is dropped if there are more than `most`.
    pub fn add(&mut self, stream: S, most: usize) -> Result<()> {
        sys::process::set_nonblocking(stream.as_fd(), true)?;
        let nonce = sys::process::random();
        (&stream).write_all(&challenge(nonce))?;
        self.list.push(Caller { stream, handshake: Handshake::of_parent(nonce), until: Instant::now() + self.limit });
        if self.list.len() > most {
            self.list.remove(0);
            log!(Warn, "too many connections without a proof of the job key: dropped the oldest");
        }
        Ok(())
    }

    /// Drops all.
    pub fn clear(&mut self) {
        self.list.clear();
    }

    /// Registers with the loop.
    pub fn register(&self, set: &mut PollSet) {
        for caller in &self.list {
            set.add(&caller.stream, true, false);
            set.until(caller.until);
        }
    }

    /// Those whose handshake has come to an end, good or bad. The key of a caller is that of the number which it claims to have.
    pub fn poll(&mut self, set: &PollSet, key_of: impl Fn(u32) -> Key) -> Vec<(S, std::result::Result<Met, Dropped>)> {
        let mut decided = Vec::new();
        for mut caller in std::mem::take(&mut self.list) {
            let progress = if set.readable(&caller.stream) {
                handshake::drive(&caller.stream, &caller.stream, &mut caller.handshake, &key_of)
            } else {
                Ok(None)
            };
            let why = match progress {
                Ok(Some(met)) => {
                    decided.push((caller.stream, Ok(met)));
                    continue;
                }
                Ok(None) if Instant::now() < caller.until => {
                    self.list.push(caller);
                    continue;
                }
                Ok(None) => Error::new(ErrorKind::TimedOut, "no proof of the job key in time"),
                Err(why) => why,
            };
            decided.push((caller.stream, Err(Dropped { why, is_silent: caller.handshake.is_silent() })));
        }
        decided
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    const KEY: Key = Key([1; 16]);

    /// What becomes of a caller that has said `words` (and has read the challenge).
    fn outcome(words: &[u8], limit: Duration) -> Vec<(UnixStream, std::result::Result<Met, Dropped>)> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut callers = Callers::new(limit);
        callers.add(ours, 1).unwrap();
        (&theirs).write_all(words).unwrap();
        let mut set = PollSet::default();
        callers.register(&mut set);
        set.wait().unwrap();
        callers.poll(&set, |_| KEY)
    }

    #[test]
    fn who_proves_the_key_is_met_and_gets_the_proof_from_whoever_takes_it() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let mut callers = Callers::new(Duration::from_secs(100));
        callers.add(ours, 1).unwrap();
        let mut child = Handshake::of_child(3, [2; 16]);
        assert!(handshake::drive(&theirs, &theirs, &mut child, |_| KEY).unwrap().is_none());
        let mut set = PollSet::default();
        callers.register(&mut set);
        set.wait().unwrap();
        let mut decided = callers.poll(&set, |_| KEY);
        let (stream, Ok(mut met)) = decided.remove(0) else { panic!("it knows the key") };
        assert_eq!(met.node, 3);
        (&stream).write_all(&met.last).unwrap();
        let mut theirs = handshake::drive(&theirs, &theirs, &mut child, |_| KEY).unwrap().expect("the proof is there");
        let mut sealed = Vec::new();
        theirs.seals.seal(&protocol::control::frame::frame(&5u32), &mut sealed);
        let mut body = sealed.split_off(4);
        met.seals.open(&mut body).unwrap();
        assert_eq!(body, 5u32.to_le_bytes());
    }

    #[test]
    fn others_are_dropped_with_a_reason() {
        let long = Duration::from_secs(100);
        for (words, limit, kind, is_silent) in [
            (&[0x55; 200][..], long, ErrorKind::PermissionDenied, false),
            (&b"GET /"[..], long, ErrorKind::PermissionDenied, false),
            (&b""[..], Duration::ZERO, ErrorKind::TimedOut, true),
            (&b"FERR"[..], Duration::ZERO, ErrorKind::TimedOut, false),
        ] {
            let Some((_, Err(dropped))) = outcome(words, limit).pop() else { panic!("{words:?}") };
            assert_eq!((dropped.why.kind(), dropped.is_silent), (kind, is_silent), "{words:?}");
        }
        assert!(outcome(b"FERR", long).is_empty(), "more may come");
    }

    #[test]
    fn the_oldest_makes_room() {
        let (pairs, mut callers) =
            ([(); 3].map(|()| UnixStream::pair().unwrap()), Callers::new(Duration::from_secs(9)));
        let theirs = pairs.map(|(ours, theirs)| {
            callers.add(ours, 2).unwrap();
            theirs
        });
        let mut challenges = Vec::new();
        for mut stream in theirs {
            stream.set_nonblocking(true).unwrap();
            let mut bytes = Vec::new();
            let end = stream.read_to_end(&mut bytes);
            challenges.push((bytes.len(), end.is_ok()));
        }
        assert_eq!(challenges, [(24, true), (24, false), (24, false)]);
    }
}
