//! What the loss of a process does to the operations of this one.
//!
//! | operation | after the loss |
//! |---|---|
//! | its message, or its memory, is with the lost process: a send, a matched receive, an access | ends here: it can't go on |
//! | it waits for a message that may never come: a receive without a message, a probe | ends if the policy says so ([`LossPolicy`]) |
//!
//! An error of class `ERR_PROC_FAILED_PENDING` from the policy doesn't end a receive: it is interrupted. Whoever asks for its outcome is told [`PEER_LOST`],
//! and either gives it up by taking that, or leaves it as it is, so that a message may still come.
//!
//! A communicator that is revoked ends what waits for a message in its contexts. Sends that nobody has matched are recalled as cancelled ones are, so
//! that a receiver that doesn't know yet sees nothing of them. What is matched goes on, since both ends live.
//!
//! Nothing of this is on the way of a message: a receive looks whether any process is lost at all, and only then asks.

use super::recall::Recall;
use super::sending::SendState;
use super::{Engine, OpId, ReceiveState, envelope_of, failed};
use crate::matching::Pattern;
use crate::transport::Transport;
use base::{Class, ContextId, Error, Peer};

/// The error of operations with a process that is gone.
pub const PEER_LOST: Error = Error::new(Class::ERR_PROC_ABORTED, "the peer process is gone");

/// The error of operations on a communicator that is revoked.
pub const REVOKED: Error = Error::new(Class::ERR_REVOKED, "the communicator is revoked");

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

/// Told of a communicator that is revoked; the context that is revoked with it, if there is one.
pub type RevocationHook = fn(ContextId) -> Option<ContextId>;

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
    /// How many peers are gone and communicators revoked: after a change, whoever waits for several processes looks again.
    #[inline]
    pub fn losses(&self) -> usize {
        self.losses
    }

    /// Whether the communicator of this context ([`ContextId::plane`]) is revoked.
    #[inline]
    pub fn is_revoked(&self, context: u64) -> bool {
        !self.revoked.is_empty() && self.revoked.contains(&ContextId::of_plane(context))
    }

    /// Whether any peer that is gone fulfils the condition.
    pub fn any_lost(&self, mut condition: impl FnMut(Peer) -> bool) -> bool {
        self.lost.iter().any(|peer| condition(*peer))
    }

    /// The error of a receive or probe that ends before a message has come, because of an earlier loss.
    #[inline]
    pub(super) fn in_vain(&self, pattern: &Pattern, expected: Option<Peer>) -> Option<Error> {
        if self.losses == 0 { None } else { self.in_vain_after_losses(pattern, expected) }
    }

    #[cold]
    fn in_vain_after_losses(&self, pattern: &Pattern, expected: Option<Peer>) -> Option<Error> {
        if self.is_revoked(pattern.context) {
            return Some(REVOKED);
        }
        let awaits = Awaits::of(pattern, expected);
        self.lost.iter().find_map(|lost| (self.loss_policy)(awaits, *lost))
    }

    /// Ends what a loss ends.
    pub(super) fn on_lost(&mut self, peer: Peer) {
        if !self.lost.insert(peer) {
            return;
        }
        self.losses += 1;
        for (id, receive) in self.receives.iter_mut() {
            let error = match receive.state {
                ReceiveState::Posted => {
                    let error = (self.loss_policy)(Awaits::of(&receive.pattern, receive.expected), peer);
                    if error.is_some_and(|error| error.class == Class::ERR_PROC_FAILED_PENDING) {
                        receive.state = ReceiveState::Interrupted;
                        continue;
                    }
                    if error.is_some() {
                        self.matching.withdraw(&receive.pattern, id);
                    }
                    error
                }
                ReceiveState::Matched { peer: from } => (from == peer).then_some(PEER_LOST),
                ReceiveState::Streaming(ref stream) => (stream.peer == peer).then_some(PEER_LOST),
                ReceiveState::Received | ReceiveState::Ended(_) | ReceiveState::Interrupted => None,
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

    /// The communicator of this context is revoked.
    pub fn revoke(&mut self, context: ContextId) {
        if !self.revoked.insert(context) {
            return;
        }
        self.losses += 1;
        for (id, receive) in self.receives.iter_mut() {
            if let ReceiveState::Posted | ReceiveState::Interrupted = receive.state
                && ContextId::of_plane(receive.pattern.context) == context
            {
                self.matching.withdraw(&receive.pattern, id);
                receive.state = ReceiveState::Ended(Box::new(failed(envelope_of(&receive.pattern), REVOKED)));
            }
        }
        let concerned = self.sends.iter_mut().filter(|(_, send)| {
            let waits = matches!(send.state, SendState::Queued | SendState::Offered { .. } | SendState::Acknowledged);
            waits && send.recall == Recall::No && ContextId::of_plane(send.to.envelope.context) == context
        });
        let ids: Vec<u32> = concerned.map(|(id, _)| id).collect();
        ids.into_iter().for_each(|id| self.cancel_send(id));
        if let Some(other) = (self.revocation_hook)(context) {
            self.revoke(other);
        }
    }

    /// Whether a receive waits for a message that may never come, and goes on.
    #[inline]
    pub fn is_interrupted(&self, op: OpId) -> bool {
        !op.is_send()
            && self.receives.get(op.0).is_some_and(|receive| matches!(receive.state, ReceiveState::Interrupted))
    }

    /// Asks the policy once more what it says of interrupted receives.
    pub fn reconsider_interrupted(&mut self) {
        for (_, receive) in self.receives.iter_mut() {
            if let ReceiveState::Interrupted = receive.state {
                let awaits = Awaits::of(&receive.pattern, receive.expected);
                if !self.lost.iter().any(|lost| (self.loss_policy)(awaits, *lost).is_some()) {
                    receive.state = ReceiveState::Posted;
                }
            }
        }
    }
}
