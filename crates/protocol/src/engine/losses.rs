//! What the loss of a process does to the operations of this one.
//!
//! | operation | after the loss |
//! |---|---|
//! | its message, or its memory, is with the lost process: a send, a matched receive, an access | ends here: it can't go on |
//! | it waits for a message that may never come: a receive without a message, a probe | ends if the policy says so ([`LossPolicy`]) |
//!
//! Nothing of this is on the way of a message: a receive looks whether any process is lost at all, and only then asks.

use super::{Engine, ReceiveState, envelope_of, failed};
use crate::matching::Pattern;
use crate::transport::Transport;
use base::{Class, Error, Peer};

/// The error of operations with a process that is gone.
pub const PEER_LOST: Error = Error::new(Class::ERR_PROC_ABORTED, "the peer process is gone");

/// Whose message an operation waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Awaits {
    /// One of this process.
    From(Peer),
    /// One of any process, in this context ([`base::ContextId::plane`]).
    FromAny(u64),
}

/// The error with which the loss of a process ends an operation that waits so; `None` if it goes on.
pub type LossPolicy = fn(Awaits, lost: Peer) -> Option<Error>;

/// The policy of an engine that knows of no communicators.
pub(super) fn end_all(awaits: Awaits, lost: Peer) -> Option<Error> {
    let may_come = matches!(awaits, Awaits::From(peer) if peer != lost);
    (!may_come).then_some(PEER_LOST)
}

impl Awaits {
    fn of(pattern: &Pattern, expected: Option<Peer>) -> Awaits {
        expected.map_or(Awaits::FromAny(pattern.context), Awaits::From)
    }
}

impl<T: Transport> Engine<T> {
    /// How many peers are gone.
    #[inline]
    pub fn losses(&self) -> usize {
        self.lost.len()
    }

    /// Whether any peer that is gone fulfils the condition.
    pub fn any_lost(&self, mut condition: impl FnMut(Peer) -> bool) -> bool {
        self.lost.iter().any(|peer| condition(*peer))
    }

    /// The error of a receive or probe that ends before a message has come, because of an earlier loss.
    #[inline]
    pub(super) fn in_vain(&self, pattern: &Pattern, expected: Option<Peer>) -> Option<Error> {
        if self.lost.is_empty() { None } else { self.in_vain_after_losses(pattern, expected) }
    }

    #[cold]
    fn in_vain_after_losses(&self, pattern: &Pattern, expected: Option<Peer>) -> Option<Error> {
        let awaits = Awaits::of(pattern, expected);
        self.lost.iter().find_map(|lost| (self.loss_policy)(awaits, *lost))
    }

    /// Ends what a loss ends.
    pub(super) fn on_lost(&mut self, peer: Peer) {
        if !self.lost.insert(peer) {
            return;
        }
        for (id, receive) in self.receives.iter_mut() {
            let error = match receive.state {
                ReceiveState::Posted => {
                    let error = (self.loss_policy)(Awaits::of(&receive.pattern, receive.expected), peer);
                    if error.is_some() {
                        self.matching.withdraw(&receive.pattern, id);
                    }
                    error
                }
                ReceiveState::Matched { peer: from } => (from == peer).then_some(PEER_LOST),
                ReceiveState::Streaming(ref stream) => (stream.peer == peer).then_some(PEER_LOST),
                ReceiveState::Received | ReceiveState::Ended(_) => None,
            };
            if let Some(error) = error {
                receive.state = ReceiveState::Ended(Box::new(failed(envelope_of(&receive.pattern), error)));
            }
        }
        self.flows.remove_all_of(peer);
        self.fragmented.retain(|(from, _), _| *from != peer);
        self.fail_sends_to(peer);
        self.fail_accesses_to(peer);
    }
}
