//! The message engine: eager and rendezvous protocols over a [`Fabric`].
//!
//! Inputs are events polled from the fabric, commands are `post_*`, outputs are completions taken with [`Engine::take`].
//!
//! | message | protocol | packets |
//! |---|---|---|
//! | up to `eager_max` | eager | `Eager` |
//! | the same, synchronous | eager | `EagerSync`, back: `SyncAck` |
//! | up to `announce_max`, not synchronous | announced | `Announce`, `Piece`… |
//! | larger, contiguous, single copy proven | receiver pulls | `RequestToSend`, back: `Finished` |
//! | the same, where that is faster | streamed | `RequestToSend`, back: `ClearToSend`, then `Data`…, back: `Finished` |
//! | larger | streamed | `RequestToSend`, back: `ClearToSend`, then `Data`… |
//! | one of these, given up before it was matched | | `RequestToSend`, `Withdraw`, back: `Finished` |
//!
//! Packets to one peer leave in the order of the calls: what finds no room waits in the peer's backlog, and while there
//! is one everything queues behind it. `Data` carries its own address and may overtake.
//!
//! Tokens in packets are numbers that a peer chose: they are looked up, and the operation found must expect this packet
//! from this peer, or the packet is dropped and counted.

mod arriving;
mod incoming;
mod outgoing;
pub mod pending;

use crate::fabric::{Event, Fabric};
use crate::matching::{Envelope, Found, Matching, Pattern, Place};
use crate::slab::Slab;
use arriving::{Announced, Stream};
use base::{Class, Error, Peer, Result};
use outgoing::{Backlog, Send};
use std::collections::HashSet;

/// Where a message goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// The receiving process.
    pub peer: Peer,
    /// Context, this process's rank in it, and tag.
    pub envelope: Envelope,
}

/// The send modes that the protocol tells apart (MPI-5.0, 3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Complete when the buffer may be reused.
    Standard,
    /// Complete when the receive has been matched.
    Synchronous,
}

/// An operation that is not forgotten yet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OpId(u32);

const SEND_BIT: u32 = 1 << 31;

impl OpId {
    /// Whether this is a send.
    #[inline]
    pub fn is_send(self) -> bool {
        self.0 & SEND_BIT != 0
    }
}

/// A message that a matched probe has taken out of the queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MessageId(u32);

/// The outcome of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Who sent the message; for a send, what was asked for.
    pub envelope: Envelope,
    /// Bytes received.
    pub length: u64,
    /// Why it failed, if it did.
    pub error: Option<Error>,
    /// Whether it was cancelled.
    pub cancelled: bool,
}

/// A receive, from the call until its completion is taken.
struct Receive<S> {
    sink: S,
    pattern: Pattern,
    /// The process that `pattern.source` names.
    expected: Option<Peer>,
    state: ReceiveState,
}

#[derive(Clone, Copy)]
enum ReceiveState {
    /// Waits for its message.
    Posted(Place),
    /// Has its message; the lane to `peer` is still being opened.
    Matched {
        peer: Peer,
    },
    /// Its message arrives in pieces.
    Streaming(Stream),
    Complete(Completion),
}

/// A message that nobody waits for yet.
struct Unexpected<K> {
    peer: Peer,
    found: Found,
    /// Token of the sender, for protocols that answer.
    token: u32,
    content: Content<K>,
}

enum Content<K> {
    /// The data of an eager message.
    Bytes(K),
    /// As `Bytes`, and the sender waits for the match.
    SyncBytes(K),
    /// The beginning of an announced message; the rest is on its way.
    Arriving(K),
    /// The data are still with the sender, at this address if it isn't 0.
    Offered(u64),
    /// The sender has taken it back.
    Withdrawn,
}

/// A matched rendezvous message.
#[derive(Clone, Copy)]
struct Fetch {
    /// The receive.
    id: u32,
    peer: Peer,
    found: Found,
    /// The sender's operation.
    token: u32,
    /// Where the sender has the data, 0 if it has to stream them.
    address: u64,
}

/// All operations of one process.
pub struct Engine<F: Fabric> {
    fabric: F,
    matching: Matching,
    receives: Slab<Receive<F::Sink>>,
    unexpected: Slab<Unexpected<F::Kept>>,
    sends: Slab<Send<F::Source>>,
    backlog: Backlog,
    /// Sends that stream, in the order in which they began; to each peer only the first one sends.
    streams: Vec<(Peer, u32)>,
    /// Matched rendezvous messages whose sender's lane is still being opened.
    fetches: Vec<Fetch>,
    /// Announced messages that have not arrived in full.
    announced: Vec<Announced>,
    /// Receives that were streamed but could be pulled.
    impatient: Vec<u32>,
    /// When the first poll found nothing since something of theirs came; 0 if none has.
    silent_ns: u64,
    /// Of the last grant.
    generation: u32,
    /// Some granted message was pulled after all, so that `Data` of it may still come.
    has_taken_over: bool,
    lost: HashSet<Peer>,
}

/// The error of operations with a process that is gone.
pub const PEER_LOST: Error = Error::new(Class::ERR_PROC_ABORTED, "the peer process is gone");

/// The error of a message that its sender has given up.
pub const WITHDRAWN: Error =
    Error::new(Class::ERR_PROC_ABORTED, "the sender gave the message up after a process was lost");

impl<F: Fabric> Engine<F> {
    /// An engine without operations.
    pub fn new(fabric: F) -> Engine<F> {
        Engine {
            fabric,
            matching: Matching::default(),
            receives: Slab::default(),
            unexpected: Slab::default(),
            sends: Slab::default(),
            backlog: Backlog::default(),
            streams: Vec::new(),
            fetches: Vec::new(),
            announced: Vec::new(),
            impatient: Vec::new(),
            silent_ns: 0,
            generation: 0,
            has_taken_over: false,
            lost: HashSet::new(),
        }
    }

    /// The lanes.
    pub fn fabric(&mut self) -> &mut F {
        &mut self.fabric
    }

    /// Starts a receive. `expected` is the process that `pattern.source` names, `None` for any source.
    #[inline]
    pub fn post_recv(&mut self, pattern: Pattern, expected: Option<Peer>, sink: F::Sink) -> OpId {
        if let Some(message) = self.matching.take(&pattern) {
            return self.receive_unexpected(message, pattern, expected, sink);
        }
        if !self.lost.is_empty() && expected.is_none_or(|peer| self.lost.contains(&peer)) {
            let envelope = envelope_of(&pattern);
            let state = ReceiveState::Complete(failed(envelope, PEER_LOST));
            return OpId(self.receives.insert(Receive { sink, pattern, expected, state }));
        }
        let state = ReceiveState::Posted(self.matching.post(pattern, self.receives.next()));
        OpId(self.receives.insert(Receive { sink, pattern, expected, state }))
    }

    /// Looks for a message without receiving it. Makes no progress.
    pub fn probe(&self, pattern: &Pattern) -> Option<Found> {
        let id = self.matching.peek(pattern)?;
        self.unexpected.get(id).map(|m| m.found)
    }

    /// As [`Engine::probe`]; an error if no message can come because the expected peer is gone.
    pub fn probe_or_lost(&self, pattern: &Pattern, expected: Option<Peer>) -> Option<Result<Found>> {
        if let Some(found) = self.probe(pattern) {
            return Some(Ok(found));
        }
        let lost = !self.lost.is_empty() && expected.is_none_or(|peer| self.lost.contains(&peer));
        lost.then_some(Err(PEER_LOST))
    }

    /// Takes a message out of the queue, for [`Engine::post_recv_message`]. Makes no progress.
    pub fn extract(&mut self, pattern: &Pattern) -> Option<(MessageId, Found)> {
        let id = self.matching.take(pattern)?;
        self.unexpected.get(id).map(|m| (MessageId(id), m.found))
    }

    /// Starts the receive of an extracted message.
    pub fn post_recv_message(&mut self, message: MessageId, sink: F::Sink) -> Result<OpId> {
        let Some(m) = self.unexpected.get(message.0) else {
            return Err(Error::new(Class::ERR_REQUEST, "no such message"));
        };
        let e = m.found.envelope;
        let pattern = Pattern { context: e.context, source: Some(e.source), tag: Some(e.tag) };
        let peer = m.peer;
        Ok(self.receive_unexpected(message.0, pattern, Some(peer), sink))
    }

    /// Cancels a receive that is not matched. False if it can't be cancelled any more, and for sends.
    pub fn cancel(&mut self, op: OpId) -> bool {
        let Some(receive) = self.receives.get_mut(op.0) else { return false };
        let ReceiveState::Posted(place) = receive.state else { return false };
        self.matching.withdraw(place, op.0);
        let completion = Completion { cancelled: true, ..failed(envelope_of(&receive.pattern), PEER_LOST) };
        receive.state = ReceiveState::Complete(Completion { error: None, ..completion });
        true
    }

    /// Whether [`Engine::take`] would answer.
    #[inline]
    pub fn is_complete(&self, op: OpId) -> bool {
        if op.is_send() {
            return self.send_outcome(op.0 & !SEND_BIT).is_some();
        }
        matches!(self.receives.get(op.0), Some(Receive { state: ReceiveState::Complete(_), .. }))
    }

    /// The outcome of a complete operation.
    pub fn outcome(&self, op: OpId) -> Option<Completion> {
        if op.is_send() {
            return self.send_outcome(op.0 & !SEND_BIT);
        }
        match self.receives.get(op.0)?.state {
            ReceiveState::Complete(completion) => Some(completion),
            _ => None,
        }
    }

    /// The outcome of a complete operation, which is forgotten with it.
    #[inline]
    pub fn take(&mut self, op: OpId) -> Option<Completion> {
        if op.is_send() {
            return self.take_send(op.0 & !SEND_BIT);
        }
        let ReceiveState::Complete(completion) = self.receives.get(op.0)?.state else { return None };
        self.receives.discard(op.0);
        Some(completion)
    }

    /// Handles what comes next and moves what waits for room. True if anything happened.
    #[inline]
    pub fn progress(&mut self) -> bool {
        let mut moved = self.receive_posted();
        if !moved {
            moved = self.handle_event();
        }
        if self.has_backlog() {
            moved |= self.flush();
            moved |= self.fetch_deferred();
        }
        moved
    }

    /// Handles one event, if there is any.
    fn handle_event(&mut self) -> bool {
        match self.fabric.poll() {
            Some(event) => {
                self.on_event(event);
                true
            }
            None if !self.impatient.is_empty() => self.take_over(),
            None => false,
        }
    }

    #[inline(always)]
    fn on_event(&mut self, event: Event<F::Packet>) {
        match event {
            Event::Packet(packet) => self.on_packet(packet),
            Event::Landed { peer, header, len } => self.on_landed(peer, &header, len as u64),
            Event::Lost(peer) => self.on_lost(peer),
        }
    }

    /// Whether anything waits for a lane: for room in it, or for it to open.
    #[inline]
    pub fn has_backlog(&self) -> bool {
        self.backlog.len() | self.streams.len() | self.fetches.len() != 0
    }

    /// How many peers are gone.
    #[inline]
    pub fn losses(&self) -> usize {
        self.lost.len()
    }

    /// Whether any peer that is gone fulfils the condition.
    pub fn any_lost(&self, mut condition: impl FnMut(Peer) -> bool) -> bool {
        self.lost.iter().any(|peer| condition(*peer))
    }

    /// Ends every operation with a peer that is gone.
    fn on_lost(&mut self, peer: Peer) {
        if !self.lost.insert(peer) {
            return;
        }
        for (id, receive) in self.receives.iter_mut() {
            let hit = match receive.state {
                // A wildcard receive may have waited for this peer: nobody can tell, so it must not hang.
                ReceiveState::Posted(place) if receive.expected.is_none_or(|p| p == peer) => {
                    self.matching.withdraw(place, id);
                    true
                }
                ReceiveState::Matched { peer: from } | ReceiveState::Streaming(Stream { peer: from, .. }) => {
                    from == peer
                }
                _ => false,
            };
            if hit {
                receive.state = ReceiveState::Complete(failed(envelope_of(&receive.pattern), PEER_LOST));
            }
        }
        self.fetches.retain(|fetch| fetch.peer != peer);
        self.announced.retain(|announced| announced.peer != peer);
        self.fail_sends_to(peer);
    }
}

/// The envelope that a failed receive reports.
fn envelope_of(pattern: &Pattern) -> Envelope {
    Envelope {
        context: pattern.context,
        source: pattern.source.unwrap_or(u32::MAX),
        tag: pattern.tag.unwrap_or(ANY_TAG),
    }
}

const ANY_TAG: i32 = -2;

fn failed(envelope: Envelope, error: Error) -> Completion {
    Completion { envelope, length: 0, error: Some(error), cancelled: false }
}
