//! The plan by which a peer is dialled: which of its addresses next, and when to give up. No I/O, no clock of its own.
//!
//! Every TCP address in the peer's endpoint address is tried, one more each [`STAGGER`] or as soon as one has failed, without giving up the
//! earlier ones; whoever answers with the right proof is the peer. After the last address the round starts again.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Between two attempts.
pub const STAGGER: Duration = Duration::from_millis(50);
/// Before the addresses are tried once more, at first; doubles up to [`BACKOFF_MAX`].
const BACKOFF: Duration = Duration::from_millis(20);
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// What to do now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Dial this address.
    Attempt(SocketAddr),
    /// Nothing yet.
    Wait,
    /// The time is over.
    GiveUp,
}

/// What came of an address.
#[derive(Debug)]
struct Tried {
    address: SocketAddr,
    why: String,
    /// Since when nobody listens there.
    refused_since: Option<Instant>,
}

/// The dialling of one peer.
#[derive(Debug)]
pub struct Dial {
    addresses: Vec<Tried>,
    next: usize,
    live: usize,
    next_at: Instant,
    backoff: Duration,
    deadline: Instant,
}

impl Dial {
    /// Begins at `now` to dial `addresses`, until `deadline`.
    pub fn new(addresses: Vec<SocketAddr>, now: Instant, deadline: Instant) -> Dial {
        let tried = |address| Tried { address, why: String::new(), refused_since: None };
        let addresses = addresses.into_iter().map(tried).collect();
        Dial { addresses, next: 0, live: 0, next_at: now, backoff: BACKOFF, deadline }
    }

    /// The next step.
    pub fn step(&mut self, now: Instant) -> Step {
        if now >= self.deadline || self.addresses.is_empty() {
            return Step::GiveUp;
        }
        if self.next == self.addresses.len() {
            if self.live > 0 {
                return Step::Wait;
            }
            self.next = 0;
            self.next_at = now + self.backoff;
            self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
        }
        if now < self.next_at {
            return Step::Wait;
        }
        let address = self.addresses[self.next].address;
        self.next += 1;
        self.live += 1;
        self.next_at = now + STAGGER;
        Step::Attempt(address)
    }

    /// An attempt has failed; `refused`: nobody listens there.
    pub fn failed(&mut self, address: SocketAddr, why: String, refused: bool, now: Instant) {
        self.live = self.live.saturating_sub(1);
        if self.next < self.addresses.len() {
            self.next_at = now;
        }
        if let Some(tried) = self.addresses.iter_mut().find(|t| t.address == address) {
            tried.why = why;
            tried.refused_since = if refused { tried.refused_since.or(Some(now)) } else { None };
        }
    }

    /// Since when nobody has listened at `known`, or, if that is not one of the peer's addresses, at all of them.
    pub fn refused_since(&self, known: Option<SocketAddr>) -> Option<Instant> {
        match self.addresses.iter().find(|t| Some(t.address) == known) {
            Some(tried) => tried.refused_since,
            None => self.addresses.iter().map(|t| t.refused_since).min_by(later)?,
        }
    }

    /// The addresses that were tried in vain before `winner` answered, with what came of each; empty if there was none.
    pub fn describe_skipped(&self, winner: SocketAddr) -> String {
        let tried = |(i, t): &(usize, &Tried)| t.address != winner && (*i < self.next || !t.why.is_empty());
        let all = self.addresses.iter().enumerate().filter(tried);
        all.map(|(_, t)| t.to_string()).collect::<Vec<_>>().join(", ")
    }

    /// Each address with what came of it.
    pub fn describe(&self) -> String {
        if self.addresses.is_empty() {
            return "its endpoint address has no TCP address".into();
        }
        self.addresses.iter().map(Tried::to_string).collect::<Vec<_>>().join(", ")
    }
}

impl std::fmt::Display for Tried {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.address, if self.why.is_empty() { "no answer" } else { &self.why })
    }
}

/// Orders "never" first, and then the latest.
fn later(a: &Option<Instant>, b: &Option<Instant>) -> std::cmp::Ordering {
    a.is_some().cmp(&b.is_some()).then(b.cmp(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_is_tried_then_tried_again_then_given_up() {
        let a: SocketAddr = ([10, 0, 0, 1], 1).into();
        let b: SocketAddr = ([10, 0, 0, 2], 1).into();
        let t0 = Instant::now();
        let at = |ms| t0 + Duration::from_millis(ms);
        let mut dial = Dial::new(vec![a, b], t0, at(1000));
        assert_eq!(dial.step(t0), Step::Attempt(a));
        assert_eq!(dial.step(at(1)), Step::Wait);
        assert_eq!(dial.step(at(50)), Step::Attempt(b));
        assert_eq!(dial.describe_skipped(b), "10.0.0.1:1: no answer");
        assert_eq!(dial.describe_skipped(a), "10.0.0.2:1: no answer");
        assert_eq!(dial.step(at(160)), Step::Wait);
        dial.failed(b, "refused".into(), true, at(170));
        assert_eq!(dial.refused_since(None), None, "the first has no answer yet");
        assert_eq!(dial.refused_since(Some(b)), Some(at(170)));
        assert_eq!(dial.step(at(170)), Step::Wait, "the first is still trying");
        dial.failed(a, "refused".into(), true, at(180));
        assert_eq!(dial.refused_since(None), Some(at(180)));
        assert_eq!(dial.step(at(180)), Step::Wait);
        assert_eq!(dial.step(at(200)), Step::Attempt(a));
        dial.failed(a, "unreachable".into(), false, at(201));
        assert_eq!(dial.refused_since(None), None);
        assert_eq!(dial.step(at(201)), Step::Attempt(b), "at once after a failure");
        assert_eq!(dial.step(at(1000)), Step::GiveUp);
        assert_eq!(dial.describe(), "10.0.0.1:1: unreachable, 10.0.0.2:1: refused");
        assert_eq!(Dial::new(vec![], t0, at(9)).step(t0), Step::GiveUp);
    }
}
