//! Messages that their sender takes back before they are matched.
//!
//! | | packets | the message at the receiver |
//! |---|---|---|
//! | withdrawn, because a process is lost | `WITHDRAW`, back: `FINISHED` | fails whoever receives it |
//! | cancelled (MPI-5.0, 3.8.4), or its communicator is revoked | `CANCEL`, back: `CANCELLED` | is gone as if it had never been sent |
//!
//! A message that still waits for room is taken back at once. If the receiver has matched the message, it doesn't answer: the answer to the
//! match is on its way, and the send ends with that. So a cancelled send ends when the receiver makes progress, whether it receives the message or
//! not. The exception is a message that a matched probe has taken: it can't be cancelled, and ends when it is received.

use super::eager::envelope;
use super::receiving::reject;
use super::sending::{SendState, header as header_to};
use super::{Address, Content, Engine, OpId, SEND_BIT, WITHDRAWN};
use crate::endpoint::Way;
use crate::kind::Kind;
use crate::lanes::Class;
use crate::transport::{Packet, Transport};
use crate::wire::Header;
use base::ContextId;

/// Whether a send is taken back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Recall {
    No,
    Withdrawn,
    /// The receiver has not answered yet.
    Cancelling,
    Cancelled,
}

impl<T: Transport> Engine<T> {
    /// Gives up a send that has failed in some other way: nobody may be left who would match it. It ends when the receiver has
    /// agreed, if it hasn't matched the message before. A message that has been sent at once, or is being sent, stays what it is.
    pub fn withdraw(&mut self, op: OpId) {
        let id = op.0 & !SEND_BIT;
        let Some(send) = self.sends.get_mut(id).filter(|send| op.is_send() && send.recall == Recall::No) else {
            return;
        };
        let peer = send.to.peer;
        if !self.revoked.is_empty() && self.revoked.contains(&ContextId::of_plane(send.to.envelope.context)) {
            return self.cancel_send(id);
        }
        match send.state {
            SendState::Queued => {
                send.recall = Recall::Withdrawn;
                send.state = SendState::Complete(Some(WITHDRAWN));
                self.flows.remove_message(peer, id);
            }
            SendState::Offered { .. } => {
                send.recall = Recall::Withdrawn;
                let (to, class) = (send.to, send.class);
                self.recall(to, class, Kind::WITHDRAW, id);
            }
            _ => {}
        }
    }

    /// Cancels a send that the receiver has not matched; its completion tells whether that was so. A message that has been sent at
    /// once, or is being sent, stays what it is.
    pub(super) fn cancel_send(&mut self, id: u32) {
        let Some(send) = self.sends.get_mut(id).filter(|send| send.recall == Recall::No) else { return };
        let to = send.to;
        match send.state {
            SendState::Queued => {
                send.recall = Recall::Cancelled;
                send.state = SendState::Complete(None);
                self.flows.remove_message(to.peer, id);
            }
            SendState::Offered { .. } | SendState::Acknowledged => {
                send.recall = Recall::Cancelling;
                let class = send.class;
                self.recall(to, class, Kind::CANCEL, id);
            }
            _ => {}
        }
    }

    /// Tells the receiver, behind the message itself.
    fn recall(&mut self, to: Address, class: Option<Class>, kind: Kind, id: u32) {
        let group = self.route(to.peer, to.envelope.context, class).envelope;
        self.send_own(Way { peer: to.peer, group }, header_to(kind, &to, id), &[]);
    }

    /// `WITHDRAW`: the sender takes a message back. If it has been matched, the answer to that is on its way.
    pub(super) fn on_withdraw(&mut self, packet: T::Packet, header: &Header) {
        let (peer, token) = (packet.peer(), header.token);
        self.endpoints.transport().release(packet);
        let Some(&id) = self.offered.get(&(peer, token)) else { return };
        let message = self.unexpected.get_mut(id);
        // Over another group of lanes, a later message with the same token may have come before.
        let Some(message) = message.filter(|message| message.found.envelope == envelope(header)) else { return };
        message.content = Content::Withdrawn;
        self.offered.remove(&(peer, token));
        self.send_control(peer, Kind::FINISHED, token, &[]);
    }

    /// `CANCEL`: forgets a message that nobody has matched.
    pub(super) fn on_cancel(&mut self, packet: T::Packet, header: &Header) {
        let (peer, token) = (packet.peer(), header.token);
        self.endpoints.transport().release(packet);
        let unexpected = &self.unexpected;
        let is_meant = |id| {
            unexpected.get(id).is_some_and(|m| {
                let waits = matches!(m.content, Content::Offered(_) | Content::SyncBytes(_));
                waits && m.peer == peer && m.token == token
            })
        };
        let Some(id) = self.matching.take_such(&envelope(header), is_meant) else { return };
        self.unexpected.remove(id);
        self.offered.remove(&(peer, token));
        self.shrink_unexpected();
        self.send_control(peer, Kind::CANCELLED, token, &[]);
    }

    /// `CANCELLED`: the receiver has forgotten the message.
    pub(super) fn on_cancelled(&mut self, packet: T::Packet, header: &Header) {
        let peer = packet.peer();
        self.endpoints.transport().release(packet);
        match self.sends.get_mut(header.token).filter(|send| send.to.peer == peer) {
            Some(send)
                if send.recall == Recall::Cancelling
                    && matches!(send.state, SendState::Offered { .. } | SendState::Acknowledged) =>
            {
                send.recall = Recall::Cancelled;
                send.state = SendState::Complete(None);
            }
            _ => reject(peer, header),
        }
    }
}
