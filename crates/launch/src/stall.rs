//! Notices a stalled message: it has begun, the connection stands, and the rest doesn't come.
//!
//! Only time in which this process looked counts: a process that was itself stopped for minutes first reads what has come meanwhile.

use std::time::{Duration, Instant};

/// Longest time between two looks, and the most that counts between them.
const LOOK: Duration = Duration::from_millis(500);

/// What is known of the message that is on its way.
pub struct Stall {
    limit: Duration,
    /// Where the stream was at the last look.
    position: u64,
    looked: Option<Instant>,
    silent: Duration,
}

impl Stall {
    /// Nothing may pause for longer than `limit`.
    pub fn new(limit: Duration) -> Stall {
        Stall { limit, position: 0, looked: None, silent: Duration::ZERO }
    }

    /// All that has come up to `position` in the stream has been taken, but for a part of a message if it is `unfinished`. False if
    /// that has not gone on for too long.
    pub fn look(&mut self, unfinished: bool, position: u64, now: Instant) -> bool {
        if !unfinished || position != self.position {
            self.silent = Duration::ZERO;
        } else if let Some(before) = self.looked {
            self.silent += now.saturating_duration_since(before).min(LOOK);
        }
        self.position = position;
        self.looked = unfinished.then_some(now);
        self.silent < self.limit
    }

    /// When to look again, if at all.
    pub fn next_look(&self) -> Option<Instant> {
        self.looked.map(|at| at + LOOK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(3);

    #[test]
    fn only_a_message_that_pauses_is_given_up() {
        let (mut stall, mut now) = (Stall::new(LIMIT), Instant::now());
        assert!(stall.look(false, 100, now) && stall.next_look().is_none());
        for position in 101..130 {
            now += LOOK;
            assert!(stall.look(true, position, now), "it goes on");
        }
        for _ in 0..5 {
            now += LOOK;
            assert!(stall.look(true, 129, now) && stall.next_look() == Some(now + LOOK));
        }
        assert!(!stall.look(true, 129, now + LOOK));
        assert!(stall.look(false, 140, now + LOOK) && stall.next_look().is_none());
        assert!(stall.look(false, 140, now + 100 * LIMIT), "between messages there may be silence");
    }

    #[test]
    fn the_time_while_this_process_was_stopped_does_not_count() {
        let (mut stall, now) = (Stall::new(LIMIT), Instant::now());
        assert!(stall.look(true, 7, now));
        assert!(stall.look(true, 7, now + 100 * LIMIT));
        assert!(stall.look(true, 8, now + 200 * LIMIT));
    }
}
