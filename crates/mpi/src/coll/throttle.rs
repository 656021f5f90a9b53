//! Bounds the number of transfers that are under way at a time.

use super::builder::Builder;
use super::schedule::Ticket;

/// Largest window.
const MAX: usize = 64;

/// Waits for the transfer that was started `window` transfers ago before it lets the next one start.
pub struct Throttle {
    tickets: [Ticket; MAX],
    window: usize,
    next: usize,
}

impl Throttle {
    /// At most `window` transfers.
    pub fn new(window: usize) -> Throttle {
        Throttle { tickets: [Ticket::NONE; MAX], window: window.clamp(1, MAX), next: 0 }
    }

    /// Notes a transfer that is about to be followed by others.
    #[inline]
    pub fn started(&mut self, b: &mut Builder, ticket: Ticket) {
        if ticket == Ticket::NONE {
            return;
        }
        let slot = &mut self.tickets[self.next % self.window];
        let old = std::mem::replace(slot, ticket);
        self.next += 1;
        b.wait_for(old);
    }
}
