//! Records that are left in their ring because nobody can use them yet.
//!
//! Ranks that take turns on a processor are often one operation ahead of each other. What such a rank sends would be copied twice
//! more if the owner took it before it has posted the receive; left where it is, it goes straight into the receive's buffer.
//!
//! Invariant: the owner may need what is behind a held record, so holding ends by itself after a few polls that found nothing, and
//! before the owner sleeps. From then until the ring is empty nothing of it is held.

use super::{Inbox, Record, Ring};

/// Index of no ring.
const NO_RING: usize = usize::MAX;

/// What is done with a ring's next record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Hold {
    /// It is taken.
    #[default]
    Open,
    /// It is passed over.
    Held,
    /// It was held for long enough.
    Spent,
}

impl Inbox {
    /// Leaves a record that was polled in its ring, and passes over that until [`Inbox::resume`] or until so many polls have found nothing
    /// (`protocol::policy::holding`). False: it must be released.
    pub fn hold(&mut self, record: &Record, polls: u32) -> bool {
        let index = record.ring as usize;
        let Some(ring) = self.rings.get_mut(index) else { return false };
        if self.armed > 0 || polls == 0 || ring.hold == Hold::Spent {
            return false;
        }
        ring.hold = Hold::Held;
        if self.patience == 0 {
            self.patience = polls;
        }
        if self.hot == index {
            (self.hot, self.streak) = (NO_RING, 0);
        }
        true
    }

    /// The record of this sender that is held, if any, is wanted now.
    pub fn resume(&mut self, sender: usize) {
        let is_it = |ring: &Ring| ring.sender == sender && ring.hold == Hold::Held;
        if self.patience > 0
            && let Some(index) = self.rings.iter().position(is_it)
        {
            self.rings[index].hold = Hold::Open;
            if self.hot == NO_RING {
                self.hot = index;
            }
        }
    }

    /// A poll found nothing, or the same ring again and again.
    #[inline]
    pub(super) fn lose_patience(&mut self) {
        if self.patience > 0 {
            self.patience -= 1;
            if self.patience == 0 {
                self.hold_no_longer();
            }
        }
    }

    /// Held records are taken from now on.
    #[cold]
    pub(super) fn hold_no_longer(&mut self) {
        self.patience = 0;
        for ring in self.rings.iter_mut().filter(|ring| ring.hold == Hold::Held) {
            ring.hold = Hold::Spent;
        }
        if self.hot == NO_RING {
            self.hot = 0;
        }
    }
}
