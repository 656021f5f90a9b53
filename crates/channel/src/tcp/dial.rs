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

/// The dialling of one peer.
#[derive(Debug)]
pub struct Dial {
    addresses: Vec<(SocketAddr, &'static str, String)>,
    next: usize,
    live: usize,
    next_at: Instant,
    backoff: Duration,
    deadline: Instant,
}

impl Dial {
    /// Begins at `now` to dial `addresses`, until `deadline`.
    pub fn new(addresses: Vec<SocketAddr>, now: Instant, deadline: Instant) -> Dial {
        let addresses = addresses.into_iter().map(|a| (a, "no answer", String::new())).collect();
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
        let address = self.addresses[self.next].0;
        self.next += 1;
        self.live += 1;
        self.next_at = now + STAGGER;
        Step::Attempt(address)
    }

    /// An attempt has failed.
    pub fn failed(&mut self, address: SocketAddr, why: String, now: Instant) {
        self.live = self.live.saturating_sub(1);
        if self.next < self.addresses.len() {
            self.next_at = now;
        }
        if let Some(entry) = self.addresses.iter_mut().find(|(a, ..)| *a == address) {
            (entry.1, entry.2) = ("", why);
        }
    }

    /// The addresses that were tried in vain before `winner` answered, with what came of each; empty if there was none.
    pub fn describe_skipped(&self, winner: SocketAddr) -> String {
        let tried = |(i, (a, _, why)): &(usize, &(SocketAddr, &str, String))| {
            *a != winner && (*i < self.next || !why.is_empty())
        };
        let all = self.addresses.iter().enumerate().filter(tried);
        all.map(|(_, (a, none, why))| format!("{a}: {none}{why}")).collect::<Vec<_>>().join(", ")
    }

    /// Each address with what came of it.
    pub fn describe(&self) -> String {
        if self.addresses.is_empty() {
            return "its endpoint address has no TCP address".into();
        }
        let all: Vec<String> = self.addresses.iter().map(|(a, none, why)| format!("{a}: {none}{why}")).collect();
        all.join(", ")
    }
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
        dial.failed(b, "refused".into(), at(170));
        assert_eq!(dial.step(at(170)), Step::Wait, "the first is still trying");
        dial.failed(a, "unreachable".into(), at(180));
        assert_eq!(dial.step(at(180)), Step::Wait);
        assert_eq!(dial.step(at(200)), Step::Attempt(a));
        dial.failed(a, "unreachable".into(), at(201));
        assert_eq!(dial.step(at(201)), Step::Attempt(b), "at once after a failure");
        assert_eq!(dial.step(at(1000)), Step::GiveUp);
        assert_eq!(dial.describe(), "10.0.0.1:1: unreachable, 10.0.0.2:1: refused");
        assert_eq!(Dial::new(vec![], t0, at(9)).step(t0), Step::GiveUp);
    }
}
