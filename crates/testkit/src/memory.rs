//! Registered memory of the simulated processes: accesses that are done at once, or later, in any order, under their token.

use crate::rng::Rng;
use crate::transport::Bytes;
use base::Peer;
use protocol::memory::{Atomic, Key, Registry, Verbs};
use protocol::transport::{Access, Region, Sink, Source, Token};
use std::collections::HashMap;

/// What is done to memory.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Put(Bytes),
    Get(Bytes),
    Atomic(Atomic),
}

/// An access that is under way.
#[derive(Debug)]
struct Pending {
    from: Peer,
    to: Peer,
    token: Token,
    target: (Key, u64),
    what: What,
}

/// The memory of all processes.
#[derive(Debug)]
pub(crate) struct Memory {
    registered: HashMap<Peer, Registry<Bytes>>,
    pub(crate) verbs: Verbs,
    pending: Vec<Pending>,
    nonces: u64,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory { registered: HashMap::new(), verbs: Verbs::NONE, pending: Vec::new(), nonces: 0 }
    }
}

impl Memory {
    pub(crate) fn register(&mut self, at: Peer, region: Bytes) -> Key {
        self.nonces += 1;
        let (nonce, len) = (Rng::new(self.nonces).bits() | 1, Region::len(&region) as u64);
        let number = self.registered.entry(at).or_default().insert(nonce, region);
        Key { number, nonce, len, record: 0 }
    }

    pub(crate) fn deregister(&mut self, at: Peer, key: &Key) -> bool {
        self.registered.entry(at).or_default().remove(key.number, key.nonce).is_some()
    }

    pub(crate) fn registered(&self, at: Peer, number: u32, nonce: u64) -> Option<Bytes> {
        self.registered.get(&at)?.find(number, nonce).cloned()
    }

    /// Carries an access out; `None` if its key is refused.
    fn carry_out(&self, to: Peer, (key, at): (&Key, u64), what: &What) -> Option<u64> {
        let region = self.registered(to, key.number, key.nonce)?;
        let whole = Region::len(&region) as u64;
        let inside = |len: usize| protocol::memory::is_inside(whole, at, len as u64);
        match what {
            What::Put(source) if inside(Source::len(source)) => region.write(at as usize, &source.bytes()),
            What::Get(sink) if inside(Sink::len(sink)) => sink.write(0, &region.part(at as usize, Sink::len(sink))),
            What::Atomic(atomic) if atomic.fits(whole, at) => return Some(region.atomic(at as usize, atomic)),
            _ => return None,
        }
        Some(0)
    }

    /// Does an access now, or under a token later.
    pub(crate) fn access(
        &mut self,
        (from, to): (Peer, Peer),
        (key, at): (&Key, u64),
        what: What,
        later: Option<Token>,
    ) -> Access {
        let can = match what {
            What::Put(_) => self.verbs.put,
            What::Get(_) => self.verbs.get,
            What::Atomic(_) => self.verbs.atomic,
        };
        match later {
            _ if !can => Access::Unable,
            Some(token) => {
                self.pending.push(Pending { from, to, token, target: (*key, at), what });
                Access::Posted(token)
            }
            None => self.carry_out(to, (key, at), &what).map_or(Access::Refused, Access::Done),
        }
    }

    /// Whether accesses of a pair are under way.
    pub(crate) fn is_busy(&self, from: Peer, to: Peer) -> bool {
        self.pending.iter().any(|pending| (pending.from, pending.to) == (from, to))
    }

    /// Carries a random one of the accesses of `from` out that are under way.
    pub(crate) fn next(&mut self, from: Peer, rng: &mut Rng) -> Option<(Token, Option<u64>)> {
        let own: Vec<usize> = (0..self.pending.len()).filter(|i| self.pending[*i].from == from).collect();
        let place = *own.get(rng.below(own.len()))?;
        let Pending { to, token, target: (key, at), what, .. } = self.pending.swap_remove(place);
        Some((token, self.carry_out(to, (&key, at), &what)))
    }

    /// A process is dead: nothing reaches it, and it does nothing.
    pub(crate) fn forget(&mut self, peer: Peer) {
        self.pending.retain(|pending| pending.from != peer && pending.to != peer);
    }
}

impl Region for Bytes {
    type Source = Bytes;
    type Sink = Bytes;

    fn len(&self) -> usize {
        Source::len(self)
    }
    fn source(&self, at: usize, len: usize) -> Bytes {
        Bytes::new(self.part(at, len))
    }
    fn sink(&self) -> Bytes {
        self.clone()
    }
    fn atomic(&self, at: usize, atomic: &Atomic) -> u64 {
        let width = atomic.width as usize;
        let mut word = [0; 8];
        word[..width].copy_from_slice(&self.part(at, width));
        let before = u64::from_le_bytes(word);
        self.write(at, &atomic.apply(before).to_le_bytes()[..width]);
        before
    }
}
