//! What happens to links when a rail fails and when it comes back (decision 0034).
//!
//! A connection whose other end answers nothing for `FERRULE_RAIL_TIMEOUT_MS` is given up as soon as another rail is known to answer; its link goes on over
//! that (decision 0015). A link away from its own rail is taken back when that answers again. Whether a rail answers is asked by a connection to
//! the peer's listener, which is closed when it is made: the peer's kernel answers, even while its process computes.

use super::rails::{RAIL_TIMEOUT_MS, Rail};
use super::slot::{Slot, State};
use super::{Net, TCP_RECONNECT};
use base::log;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use sys::sock;

/// Between two looks at the connections that have rails.
pub(super) const LOOK: Duration = Duration::from_millis(250);
/// Until a rail that has failed is asked again, at first; doubles up to [`RETRY_MAX`].
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(16);
/// How long a question may go unanswered.
const ANSWER: Duration = Duration::from_secs(1);

/// What a link knows about its rails; a link without rails knows nothing.
#[derive(Default)]
pub(super) struct Health {
    /// The rail of the connection, if it is one.
    pub on: Option<usize>,
    /// The one that was left last, until it answers again.
    pub failed: Option<usize>,
    /// Whether this side has dialled the connection; then it takes the link back.
    pub dialled: bool,
    question: Option<Question>,
    /// When the next question may be asked, and the wait before the one after it.
    ask_at: Option<Instant>,
    retry: Duration,
    /// When the link came to its own rail.
    at_home_since: Option<Instant>,
}

/// A connection that only shows whether a rail answers.
struct Question {
    stream: TcpStream,
    rail: usize,
    deadline: Instant,
}

/// What a look at a link brings.
enum Finding {
    Nothing,
    /// The link is to go over another connection, and why.
    Leave(String),
}

impl Net {
    /// Looks at the links that have rails.
    pub(super) fn watch_rails(&mut self, now: Instant) {
        let mut is_needed = false;
        for index in 0..self.slots.len() as u32 {
            let slot = &mut self.slots[index as usize];
            if slot.rails.is_empty() || !matches!(slot.state, State::Open(_)) || slot.dead_since.is_some() {
                continue;
            }
            is_needed = true;
            if let Finding::Leave(why) = slot.look(now) {
                self.on_broken(index, why);
            }
        }
        self.look_at = is_needed.then_some(now + LOOK);
    }

    /// A link has a connection: over which rail?
    pub(super) fn on_rail(&mut self, index: u32, dialled: bool) {
        let slot = &mut self.slots[index as usize];
        if slot.rails.is_empty() || !TCP_RECONNECT.value() {
            return;
        }
        let State::Open(conn) = &slot.state else { return };
        let ends = |socket: &TcpStream| io::Result::Ok((socket.local_addr()?, socket.peer_addr()?));
        let Ok((local, remote)) = ends(conn.socket()) else { return };
        let (local, remote) = (local.ip().to_canonical(), remote.ip().to_canonical());
        let on = slot.rails.iter().position(|rail| rail.local == local && rail.remote.ip() == remote);
        let now = Instant::now();
        slot.health.come_to(on, on == Some(slot.home), dialled, now);
        let (name, rail) = (self.id.name(slot.id.peer), on.map(|on| slot.rails[on].to_string()));
        log!(Debug, "link {} with {name} uses {}", slot.id.number, rail.as_deref().unwrap_or("no rail"));
        self.look_at.get_or_insert(now + LOOK);
    }
}

impl Health {
    fn come_to(&mut self, on: Option<usize>, is_home: bool, dialled: bool, now: Instant) {
        (self.on, self.dialled, self.question) = (on, dialled, None);
        if is_home {
            (self.failed, self.at_home_since, self.ask_at) = (None, Some(now), None);
            return;
        }
        // A rail that failed right after the link had come back to it is asked less often.
        let stayed = self.at_home_since.take().map(|since| now - since);
        let is_new = self.retry.is_zero() || stayed.is_some_and(|stayed| stayed > RETRY_MAX);
        self.retry = if is_new { RETRY } else { (self.retry * 2).min(RETRY_MAX) };
        self.ask_at = Some(now + self.retry);
    }

    /// Asks a rail whether it answers.
    fn ask(&mut self, rails: &[Rail], rail: usize, now: Instant) {
        let there = &rails[rail];
        match sock::connect_by(there.remote, Some((there.local, &there.interface)), |_| ()) {
            Ok(stream) => self.question = Some(Question { stream, rail, deadline: now + ANSWER }),
            Err(_) => self.unanswered(now),
        }
    }

    fn unanswered(&mut self, now: Instant) {
        self.question = None;
        self.retry = (self.retry * 2).clamp(RETRY, RETRY_MAX);
        self.ask_at = Some(now + self.retry);
    }

    /// The rail that has answered.
    fn answer(&mut self, now: Instant) -> Option<usize> {
        let Question { stream, rail, deadline } = self.question.as_ref()?;
        let rail = *rail;
        match sock::wait_one(stream.as_fd(), false, true, 0) {
            Ok(true) if matches!(stream.take_error(), Ok(None)) => {
                self.question = None;
                Some(rail)
            }
            Ok(false) if now < *deadline => None,
            _ => {
                self.unanswered(now);
                None
            }
        }
    }
}

impl Slot {
    fn look(&mut self, now: Instant) -> Finding {
        let State::Open(conn) = &self.state else { return Finding::Nothing };
        let timeout_ms = RAIL_TIMEOUT_MS.value() as u32;
        let silence = sock::silence(conn.fd());
        let is_silent = silence.is_ok_and(|found| found.is_waiting && found.heard_ms >= timeout_ms);
        let (on, home) = (self.health.on, self.home);
        if let Some(answered) = self.health.answer(now) {
            return match on {
                Some(on) if is_silent && answered != on => {
                    self.health.failed = Some(on);
                    Finding::Leave(format!("{} doesn't answer, {} does", self.rails[on], self.rails[answered]))
                }
                _ if !is_silent && answered == home && on != Some(home) => {
                    self.health.failed = None;
                    Finding::Leave(format!("{} answers again", self.rails[home]))
                }
                _ => Finding::Nothing,
            };
        }
        if self.health.question.is_some() {
            return Finding::Nothing;
        }
        if is_silent && let Some(on) = on {
            // Each of the others in turn.
            let last = self.health.failed.filter(|failed| *failed != on).unwrap_or(on);
            let next = (last + 1) % self.rails.len();
            let next = if next == on { (next + 1) % self.rails.len() } else { next };
            self.health.failed = Some(next);
            self.health.ask(&self.rails, next, now);
        } else if !is_silent && on != Some(home) && self.health.dialled && self.health.ask_at.is_none_or(|at| now >= at)
        {
            self.health.ask(&self.rails, home, now);
        }
        Finding::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rail_that_fails_again_is_asked_less_often() {
        let (mut health, t0) = (Health::default(), Instant::now());
        let at = |s| t0 + Duration::from_secs(s);
        let wait = |health: &Health, now| health.ask_at.map(|at| at - now);
        health.come_to(Some(0), true, true, t0);
        assert_eq!(health.ask_at, None);
        health.come_to(Some(1), false, true, at(1));
        assert_eq!(wait(&health, at(1)), Some(RETRY));
        for (second, seconds) in [(2, 2), (4, 4), (8, 8), (16, 16), (32, 16)] {
            health.unanswered(at(second));
            assert_eq!(wait(&health, at(second)), Some(Duration::from_secs(seconds)));
        }
        health.come_to(Some(0), true, true, at(50));
        health.come_to(Some(1), false, true, at(52));
        assert_eq!(wait(&health, at(52)), Some(RETRY_MAX), "it did not hold");
        health.come_to(Some(0), true, true, at(60));
        health.come_to(Some(1), false, true, at(90));
        assert_eq!(wait(&health, at(90)), Some(RETRY), "it has held");
    }
}
