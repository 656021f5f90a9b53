//! What the loss of a process means: the one place that decides.
//!
//! | operation | whom it needs | after a loss among them |
//! |---|---|---|
//! | send; receive that has its message | the process at the other end | the engine ends it: the data are lost |
//! | receive or probe from a rank | that process | ends ([`ends`], which the engine asks) |
//! | receive from any source | all of the communicator | is interrupted, as the message may never come, until the program has acknowledged the loss ([`ends`]) |
//! | probe from any source | the same | ends until then ([`ends`]) |
//! | collective; making a communicator | all members, on both sides | see below ([`Participants`], [`Fate`]) |
//!
//! An operation of several processes waits for nothing any more once one of them is known to be lost: what should come may hang on messages
//! that the lost one, or somebody who has left before, never sends. What it has offered to others is taken back, as they may have left
//! too. A collective sends nothing any more, as its data may be wrong; the making of a communicator still tells its own part to whoever waits for it. Its
//! outcome is the loss, whatever else went wrong: that may only follow.
//!
//! A loss of a process that an operation doesn't need changes nothing.
//!
//! A communicator that is revoked ends what waits in it as a loss does, with another error; no operation begins on it ([`ensure_valid`]).

use crate::cs::Section;
use crate::engine;
use crate::group::Group;
use crate::progress::{self, Awaited};
use crate::transfer::{self, Transfer};
use base::ids::{PLANE_MASK, Plane};
use base::{Class, Error, Peer, Result};
pub use protocol::engine::REVOKED;
use protocol::engine::{Awaits, PEER_LOST};
use std::cell::Cell;
use std::rc::Rc;

/// The error of an operation that needs a process which is lost.
pub const LOST: Error = PEER_LOST;

/// What `MPI_Wait` and its kin say of a receive from any source that may wait for a lost process, and goes on.
pub const PENDING: Error = Error::new(
    Class::ERR_PROC_FAILED_PENDING,
    "a process of the communicator is gone, whose message this receive may wait for: acknowledge that, or cancel the receive",
);

/// The error with which a loss ends a receive or probe that has no message yet, or [`PENDING`], which interrupts a receive; `None` if it goes on.
/// `may_contain` says whether the communicator of a context contains the lost process, and the program has not acknowledged that.
pub fn ends(awaits: Awaits, lost: Peer, may_contain: impl FnOnce(u64) -> bool) -> Option<Error> {
    match awaits {
        Awaits::From(peer) => (peer == lost).then_some(LOST),
        Awaits::FromAny(context) if !may_contain(context) => None,
        Awaits::FromAny(context) if context & PLANE_MASK == Plane::PointToPoint as u64 => Some(PENDING),
        Awaits::FromAny(_) => Some(LOST),
    }
}

/// Whether the communicator of this context ([`base::ContextId::plane`]) is revoked.
#[inline]
pub fn is_revoked(cs: &Section, context: u64) -> bool {
    engine::with(cs, |engine| engine.is_revoked(context))
}

/// An error if that communicator is revoked: no operation begins on it.
#[inline]
pub fn ensure_valid(cs: &Section, context: u64) -> Result {
    if is_revoked(cs, context) { Err(REVOKED) } else { Ok(()) }
}

/// Whether an error means that an operation of several processes waits for nothing any more.
fn is_final(error: Error) -> bool {
    error.class == Class::ERR_PROC_ABORTED || error.class == Class::ERR_REVOKED
}

/// The processes that an operation needs.
pub struct Participants {
    groups: Vec<Rc<Group>>,
    /// Losses that have been looked into.
    losses: Cell<usize>,
    /// Whether one of them was a participant.
    lost: Cell<bool>,
}

impl Participants {
    /// Those of all these groups.
    pub fn of<'a>(groups: impl IntoIterator<Item = Option<&'a Rc<Group>>>) -> Participants {
        let groups = groups.into_iter().flatten().map(Rc::clone).collect();
        Participants { groups, losses: Cell::new(0), lost: Cell::new(false) }
    }

    /// Those and the ones of `group`.
    pub fn with(&self, group: &Rc<Group>) -> Participants {
        Participants::of(self.groups.iter().chain([group]).map(Some))
    }

    /// Whether one of them is known to be lost.
    pub fn have_lost_one(&self, cs: &Section) -> bool {
        let losses = count(cs);
        if self.losses.replace(losses) != losses && any(cs, |peer| self.groups.iter().any(|group| group.contains(peer)))
        {
            self.lost.set(true);
        }
        self.lost.get()
    }

    /// Waits for a transfer, but gives it up if it can be when one of them is lost, or `given_up` says that nobody waits for it.
    pub fn end(&self, cs: &mut Section, transfer: Transfer, given_up: bool) -> Result {
        let mut broken = given_up;
        let mut outcome = None;
        progress::wait_for(cs, transfer.op().map_or(Awaited::Tested, Awaited::One), |cs| {
            outcome = transfer::test(cs, transfer);
            broken |= self.have_lost_one(cs);
            outcome.is_some() || broken
        });
        match outcome {
            Some(outcome) => outcome.map(drop),
            None if transfer::give_up(cs, transfer) => Err(LOST),
            None => transfer::wait(cs, transfer).map(drop),
        }
    }
}

/// How many processes are known to be lost, and communicators revoked.
#[inline]
pub fn count(cs: &Section) -> usize {
    engine::with(cs, |engine| engine.losses())
}

/// Whether a process that is needed is lost.
pub fn any(cs: &Section, is_needed: impl FnMut(Peer) -> bool) -> bool {
    engine::with(cs, |engine| engine.any_lost(is_needed))
}

/// How an operation of several processes stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fate {
    error: Option<Error>,
    /// Losses that have been looked into.
    losses: usize,
}

impl Fate {
    /// An operation that begins, with the error that it has already. What was lost before matters to it, too.
    #[inline]
    pub fn new(error: Option<Error>) -> Fate {
        Fate { error, losses: 0 }
    }

    /// A part of it has ended.
    #[inline]
    pub fn note(&mut self, result: Result) {
        if let Err(error) = result {
            let old = self.error.get_or_insert(error);
            if is_final(error) {
                *old = error;
            }
        }
    }

    /// Whether something went wrong.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Whether it waits for nothing any more.
    pub fn is_lost(&self) -> bool {
        self.error.is_some_and(is_final)
    }

    /// Losses that have been looked into.
    #[inline]
    pub fn losses(&self) -> usize {
        self.losses
    }

    /// Whether processes were lost since the last call.
    pub fn has_news(&mut self, losses: usize) -> bool {
        std::mem::replace(&mut self.losses, losses) != losses
    }

    /// The outcome of an operation that has ended.
    #[inline]
    pub fn outcome(&self) -> Result {
        self.error.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_the_outcome_whatever_else_went_wrong() {
        let truncated = Error::new(Class::ERR_TRUNCATE, "too long");
        let other = Error::new(Class::ERR_OTHER, "later");
        let mut fate = Fate::default();
        assert_eq!(fate.outcome(), Ok(()));
        fate.note(Err(truncated));
        fate.note(Err(other));
        fate.note(Ok(()));
        assert_eq!((fate.outcome(), fate.has_failed(), fate.is_lost()), (Err(truncated), true, false));
        fate.note(Err(LOST));
        fate.note(Err(other));
        assert_eq!((fate.outcome(), fate.is_lost()), (Err(LOST), true));
        let mut fate = Fate::new(Some(truncated));
        fate.note(Err(REVOKED));
        assert_eq!((fate.outcome(), fate.is_lost()), (Err(REVOKED), true));
    }

    #[test]
    fn a_loss_ends_only_what_needs_the_process() {
        let lost = Peer(3);
        let contains = |context| context == 16;
        assert_eq!(ends(Awaits::From(Peer(3)), lost, contains), Some(LOST));
        assert_eq!(ends(Awaits::From(Peer(2)), lost, contains), None);
        assert_eq!(ends(Awaits::FromAny(16), lost, contains), Some(PENDING));
        assert_eq!(ends(Awaits::FromAny(17), lost, |_| true), Some(LOST), "a message of the library");
        assert_eq!(ends(Awaits::FromAny(24), lost, contains), None);
    }

    #[test]
    fn losses_are_news_once() {
        let mut fate = Fate::new(None);
        assert!(!fate.has_news(0));
        assert!(fate.has_news(2) && !fate.has_news(2) && fate.has_news(3));
    }
}
