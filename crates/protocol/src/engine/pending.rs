//! What is not complete, in words: for the diagnosis of a hang (`mpiexec --timeout`, SIGQUIT, `ferrule top`).

use super::{Content, Engine, OpId, ReceiveState, SEND_BIT};
use crate::matching::Found;
use crate::transport::{Sink, Source, Transport};
use base::Peer;
use std::fmt;

/// How far an operation has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// A receive without a message.
    NoMessage,
    /// A send that finds no room in its lane, or whose lane is being opened.
    NoRoom,
    /// A send without a receive.
    NoReceive,
    /// The lane to the sender is being opened.
    Opening,
    /// A send of which everything has left; the receiver copies.
    Copying,
    /// So many bytes of so many have been moved.
    Partial(u64, u64),
}

/// An operation that is not complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pending {
    /// Its name.
    pub op: OpId,
    /// The process at the other end; `None` for a receive from anybody.
    pub peer: Option<Peer>,
    /// [`base::ContextId::plane`] of the communicator.
    pub context: u64,
    /// Tag, `None` for any.
    pub tag: Option<i32>,
    /// Bytes to send, or room for so many.
    pub bytes: u64,
    /// How far it has come.
    pub stage: Stage,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stage::NoMessage => f.write_str("no message yet"),
            Stage::NoRoom => f.write_str("no room in the lane yet"),
            Stage::NoReceive => f.write_str("no matching receive yet"),
            Stage::Opening => f.write_str("its lane is being opened"),
            Stage::Copying => f.write_str("the receiver copies the data"),
            Stage::Partial(done, all) => write!(f, "{done} of {all} bytes have been moved"),
        }
    }
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.op.is_send() { "send to" } else { "receive from" };
        let peer = self.peer.map_or("any".into(), |p| p.0.to_string());
        let tag = self.tag.map_or("any".into(), |t| t.to_string());
        write!(f, "{what} {peer} tag {tag} context {:#x}, {} bytes: {}", self.context, self.bytes, self.stage)
    }
}

impl<T: Transport> Engine<T> {
    /// The operations that are not complete, receives first.
    pub fn pending(&self) -> Vec<Pending> {
        let receives = self.receives.iter().filter_map(|(id, r)| {
            let (peer, stage) = match r.state {
                ReceiveState::Posted | ReceiveState::Interrupted => (r.expected, Stage::NoMessage),
                ReceiveState::Matched { peer } => (Some(peer), Stage::Opening),
                ReceiveState::Streaming(ref s) => (Some(s.peer), Stage::Partial(s.arrived, s.until)),
                ReceiveState::Received | ReceiveState::Ended(_) => return None,
            };
            let bytes = r.sink.len() as u64;
            Some(Pending { op: OpId(id), peer, context: r.pattern.context, tag: r.pattern.tag, bytes, stage })
        });
        let sends = self.sends.iter().filter_map(|(id, send)| {
            let stage = send.stage()?;
            let bytes = send.source.len() as u64;
            let envelope = send.to.envelope;
            Some(Pending {
                op: OpId(id | SEND_BIT),
                peer: Some(send.to.peer),
                context: envelope.context,
                tag: Some(envelope.tag),
                bytes,
                stage,
            })
        });
        receives.chain(sends).collect()
    }

    /// Messages that have come and that nobody has received yet.
    pub fn unexpected_count(&self) -> usize {
        self.unexpected.iter().count()
    }

    /// Messages of a context ([`base::ContextId::plane`]) that have come and that nobody has received yet, by sender and tag.
    pub fn unreceived(&self, context: u64) -> Vec<Found> {
        let waiting = self.unexpected.iter().filter(|(_, m)| !matches!(m.content, Content::Withdrawn));
        let mut found: Vec<_> = waiting.map(|(_, m)| m.found).filter(|f| f.envelope.context == context).collect();
        found.sort_by_key(|f| (f.envelope.source, f.envelope.tag));
        found
    }

    /// The operations that are not complete and the messages that wait for a receive, one line each.
    pub fn describe_pending(&self) -> Vec<String> {
        let waiting = self.unexpected.iter().map(|(_, m)| {
            let e = &m.found.envelope;
            format!(
                "unreceived message from {} tag {} context {:#x}: {} bytes",
                m.peer.0, e.tag, e.context, m.found.length
            )
        });
        self.pending().iter().map(Pending::to_string).chain(self.describe_accesses()).chain(waiting).collect()
    }
}
