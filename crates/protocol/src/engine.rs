//! The message engine: eager and rendezvous protocols over [`Endpoints`].
//!
//! Inputs are arrivals polled from the endpoints, commands are `post_*`, outputs are completions taken with [`Engine::take`].
//!
//! | message | protocol | packets |
//! |---|---|---|
//! | up to `eager_max` | eager | `EAGER` |
//! | the same, synchronous | eager | `EAGER_SYNC`, back: `SYNC_ACK` |
//! | up to `fragments_max`, not synchronous | eager, in fragments | `EAGER_FIRST`, `EAGER_MIDDLE`…, `EAGER_LAST` |
//! | up to `push_max`, not synchronous | eager, pushed | `EAGER_FIRST`, `PUSHED`… |
//! | larger, contiguous, single copy proven | receiver pulls | `REQUEST_TO_SEND`, back: `FINISHED` |
//! | the same, where that is faster | streamed | `REQUEST_TO_SEND`, back: `CLEAR_TO_SEND`, then `DATA`…, back: `FINISHED` |
//! | larger | streamed | `REQUEST_TO_SEND`, back: `CLEAR_TO_SEND`, then `DATA`… |
//! | one of these, taken back before it was matched | | `REQUEST_TO_SEND`, then see [`recall`] |
//!
//! Packets to one peer leave in the order of the calls: what finds no room waits in the peer's queue (`flows`), and while there
//! is one everything queues behind it. `DATA` carries its own address and may overtake. Over several lanes the packets of a pair are numbered ([`crate::order`]),
//! in each group of lanes by themselves; which group a packet takes is in `classes`.
//!
//! Every kind of packet has a row in [`crate::kind`] and a handler in the table of its part here ([`Engine::handler`]).
//!
//! Tokens in packets are numbers that a peer chose: they are looked up, and the operation found must expect this packet
//! from this peer, or the packet is dropped and counted.

mod classes;
mod eager;
mod flows;
mod losses;
pub mod observer;
pub mod one_sided;
mod one_sided_target;
pub mod pending;
mod recall;
mod receiving;
mod sending;
mod streams;
mod suspend;

use crate::endpoint::{Arrival, Endpoints};
use crate::kind::{KINDS_MAX, Kind};
use crate::lanes;
use crate::matching::{Envelope, Found, Matching, Pattern};
pub use crate::protocols::Mode;
use crate::slab::Slab;
use crate::transport::{Packet, Token, Transport, UnexpectedPool};
use crate::wire::Header;
use base::{Class, ContextId, Error, Peer, Result};
use flows::Flows;
pub use losses::{Awaits, LossPolicy, PEER_LOST, REVOKED, RevocationHook};
use observer::Observer;
use one_sided::{Accessing, Turns};
use rustc_hash::{FxHashMap, FxHashSet};
use sending::Send;
use std::collections::HashSet;
use streams::{Fragmented, Stream};
use suspend::Suspension;

/// Where a message goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// The receiving process.
    pub peer: Peer,
    /// Context, this process's rank in it, and tag.
    pub envelope: Envelope,
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
    /// The message, once it has been `Received`.
    found: Found,
}

enum ReceiveState {
    /// Waits for its message.
    Posted,
    /// As `Posted`, but the message may never come: the program is to be told, and the receive goes on.
    Interrupted,
    /// Has its message; the lane to `peer` is still being opened.
    Matched { peer: Peer },
    /// Its message arrives in pieces.
    Streaming(Box<Stream>),
    /// All of its message has been delivered.
    Received,
    /// It has ended in another way.
    Ended(Box<Completion>),
}

/// A message that nobody waits for yet.
struct Unexpected<B> {
    peer: Peer,
    found: Found,
    /// Token of the sender, for protocols that answer.
    token: u32,
    content: Content<B>,
}

enum Content<B> {
    /// The data of an eager message.
    Bytes(B),
    /// As `Bytes`, and the sender waits for the match.
    SyncBytes(B),
    /// The beginning of a message in fragments; the rest is on its way.
    Arriving(B),
    /// The data are still with the sender.
    Offered(Offered),
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
    offered: Offered,
}

/// Where the sender of a rendezvous message has the data.
#[derive(Clone, Copy)]
struct Offered {
    /// 0 if it has to stream them.
    address: u64,
    /// The address is of no use any more. The sender still waits for `FINISHED`, as of every message that it has exposed.
    is_revoked: bool,
}

/// The unexpected buffer of one message.
type Buffer<T> = <<T as Transport>::Pool as UnexpectedPool>::Buffer;

/// What handles a packet of one kind.
type Handler<T> = fn(&mut Engine<T>, <T as Transport>::Packet, &Header);

/// All operations of one process.
pub struct Engine<T: Transport> {
    endpoints: Endpoints<T>,
    pool: T::Pool,
    matching: Matching,
    receives: Slab<Receive<T::Sink>>,
    unexpected: Slab<Unexpected<Buffer<T>>>,
    /// Those of them whose data are with the sender, by sender and its operation.
    offered: FxHashMap<(Peer, u32), u32>,
    sends: Slab<Send<T::Source>>,
    /// Sends whose source the transport uses, by token.
    posted: FxHashMap<Token, u32>,
    /// Accesses to registered memory of peers.
    accesses: Slab<Accessing<T>>,
    access_serial: u64,
    /// Those that the transport works on, and packets of some whose source it uses, by token.
    posted_accesses: FxHashMap<Token, u32>,
    /// Accesses by packets, by peer.
    turns: FxHashMap<Peer, Turns>,
    flows: Flows,
    /// Classes of contexts that have one ([`Engine::set_class`]).
    classes: FxHashMap<u64, lanes::Class>,
    /// Of the last message that was sent in fragments, the token.
    fragments_serial: u32,
    /// Messages in fragments that have not arrived in full, by sender and its token.
    fragmented: FxHashMap<(Peer, u32), Fragmented>,
    /// Receives that are streamed but could be pulled.
    pullable_streams: FxHashSet<u32>,
    /// When the first poll found nothing since something of theirs came; 0 if none has.
    silent_ns: u64,
    /// Of the last grant.
    generation: u32,
    /// Some granted message was pulled after all, so that `DATA` of it may still come.
    has_pulled_streams: bool,
    /// Endpoints that are being suspended.
    suspensions: FxHashMap<Peer, Suspension>,
    /// The transport is told when there are none.
    tells_settled: bool,
    /// Whoever wants to know what happens to messages.
    observer: Option<Box<Observer>>,
    lost: HashSet<Peer>,
    loss_policy: LossPolicy,
    /// Told of each communicator that is revoked.
    revocation_hook: RevocationHook,
    /// Communicators that are revoked.
    revoked: FxHashSet<ContextId>,
    /// How many processes are lost, and communicators revoked.
    losses: usize,
}

/// The error of a message that its sender has given up.
pub const WITHDRAWN: Error =
    Error::new(Class::ERR_PROC_ABORTED, "the sender gave the message up after a process was lost");

impl<T: Transport> Engine<T> {
    /// An engine without operations.
    pub fn new(endpoints: Endpoints<T>) -> Engine<T> {
        Engine {
            endpoints,
            pool: T::Pool::default(),
            matching: Matching::default(),
            receives: Slab::default(),
            unexpected: Slab::default(),
            offered: FxHashMap::default(),
            sends: Slab::default(),
            posted: FxHashMap::default(),
            accesses: Slab::default(),
            access_serial: 0,
            posted_accesses: FxHashMap::default(),
            turns: FxHashMap::default(),
            flows: Flows::default(),
            classes: FxHashMap::default(),
            fragments_serial: 0,
            fragmented: FxHashMap::default(),
            pullable_streams: FxHashSet::default(),
            silent_ns: 0,
            generation: 0,
            has_pulled_streams: false,
            suspensions: FxHashMap::default(),
            tells_settled: false,
            observer: None,
            lost: HashSet::new(),
            loss_policy: losses::end_all,
            revocation_hook: |_| None,
            revoked: FxHashSet::default(),
            losses: 0,
        }
    }

    /// Says what a loss means. Until then, it ends everything that may wait for the process.
    pub fn set_loss_policy(&mut self, policy: LossPolicy) {
        self.loss_policy = policy;
    }

    /// Says who is told of communicators that are revoked.
    pub fn set_revocation_hook(&mut self, hook: RevocationHook) {
        self.revocation_hook = hook;
    }

    /// The ways to the peers.
    #[inline]
    pub fn endpoints(&mut self) -> &mut Endpoints<T> {
        &mut self.endpoints
    }

    /// Where messages wait that nobody receives yet.
    pub fn pool(&self) -> &T::Pool {
        &self.pool
    }

    /// The handlers of all kinds of packets, from the tables of the parts.
    const HANDLERS: [Option<Handler<T>>; KINDS_MAX] = {
        let mut table: [Option<Handler<T>>; KINDS_MAX] = [None; KINDS_MAX];
        let parts: [&[(Kind, Handler<T>)]; 4] =
            [Engine::<T>::POINT_TO_POINT, Engine::<T>::ONE_SIDED, Engine::<T>::CONTROL, Engine::<T>::WORKERS];
        let mut part = 0;
        while part < parts.len() {
            let mut at = 0;
            while at < parts[part].len() {
                let (kind, handler) = parts[part][at];
                assert!(table[kind.byte() as usize].is_none(), "a kind has two handlers");
                table[kind.byte() as usize] = Some(handler);
                at += 1;
            }
            part += 1;
        }
        let mut at = 0;
        while at < Kind::ALL.len() {
            assert!(table[Kind::ALL[at].byte() as usize].is_some(), "a kind has no handler");
            at += 1;
        }
        table
    };

    /// The kinds of sends and receives.
    const POINT_TO_POINT: &'static [(Kind, Handler<T>)] = &[
        (Kind::EAGER, Engine::on_eager),
        (Kind::EAGER_SYNC, Engine::on_eager),
        (Kind::REQUEST_TO_SEND, Engine::on_request_to_send),
        (Kind::CLEAR_TO_SEND, Engine::on_clear_to_send),
        (Kind::DATA, Engine::on_data),
        (Kind::FINISHED, Engine::on_acknowledged),
        (Kind::SYNC_ACK, Engine::on_acknowledged),
        (Kind::EAGER_FIRST, Engine::on_first_fragment),
        (Kind::EAGER_MIDDLE, Engine::on_fragment),
        (Kind::EAGER_LAST, Engine::on_fragment),
        (Kind::PUSHED, Engine::on_fragment),
        (Kind::WITHDRAW, Engine::on_withdraw),
        (Kind::CANCEL, Engine::on_cancel),
        (Kind::CANCELLED, Engine::on_cancelled),
    ];

    /// The kinds of lanes and endpoints.
    const CONTROL: &'static [(Kind, Handler<T>)] = &[
        (Kind::GOODBYE, Engine::ignore),
        (Kind::SUSPEND, Engine::on_suspend),
        (Kind::SUSPENDED, Engine::on_suspended),
        (Kind::RESUME, Engine::on_resume),
        (Kind::RECEIVED, Engine::on_received),
        (Kind::AFTER, Engine::ignore),
    ];

    /// The kinds of workers, which have no business here.
    const WORKERS: &'static [(Kind, Handler<T>)] = &[
        (Kind::WORKER_READY, Engine::ignore),
        (Kind::WORKER_DATA, Engine::ignore),
        (Kind::WORKER_PLACED, Engine::ignore),
        (Kind::WORKER_SEEN, Engine::ignore),
        (Kind::WORKER_FAILED, Engine::ignore),
    ];

    /// What handles packets of a kind.
    #[inline(always)]
    fn handler(kind: Kind) -> Handler<T> {
        Engine::<T>::HANDLERS[kind.byte() as usize].unwrap_or(Engine::ignore)
    }

    /// A packet that only its lane needs.
    fn ignore(&mut self, packet: T::Packet, _: &Header) {
        self.endpoints.transport().release(packet);
    }

    /// Starts a receive. `expected` is the process that `pattern.source` names, `None` for any source.
    #[inline(always)]
    pub fn post_recv(&mut self, pattern: Pattern, expected: Option<Peer>, sink: T::Sink) -> OpId {
        if self.matching.has_unexpected() || self.losses != 0 {
            // A copy, so that the sink of the short path stays in registers.
            return self.post_recv_after_a_look(pattern, expected, sink.clone());
        }
        self.post_recv_unseen(pattern, expected, sink)
    }

    /// As [`Engine::post_recv`], for patterns that mostly have a wildcard.
    #[inline(never)]
    pub fn post_recv_with_wildcards(&mut self, pattern: Pattern, expected: Option<Peer>, sink: T::Sink) -> OpId {
        self.post_recv(pattern, expected, sink)
    }

    /// Starts a receive whose message may be there, or never come.
    #[inline(never)]
    fn post_recv_after_a_look(&mut self, pattern: Pattern, expected: Option<Peer>, sink: T::Sink) -> OpId {
        if let Some(message) = self.matching.take(&pattern) {
            return self.receive_unexpected(message, pattern, expected, sink);
        }
        let error = self.in_vain(&pattern, expected);
        if let Some(error) = error.filter(|error| error.class != Class::ERR_PROC_FAILED_PENDING) {
            let state = ReceiveState::Ended(Box::new(failed(envelope_of(&pattern), error)));
            return OpId(self.receives.insert(Receive { sink, pattern, expected, state, found: NOTHING }));
        }
        let op = self.post_recv_unseen(pattern, expected, sink);
        if error.is_some()
            && let Some(receive) = self.receives.get_mut(op.0)
        {
            receive.state = ReceiveState::Interrupted;
        }
        op
    }

    /// Starts a receive whose message is not there.
    #[inline(always)]
    fn post_recv_unseen(&mut self, pattern: Pattern, expected: Option<Peer>, sink: T::Sink) -> OpId {
        let id = self.receives.insert(Receive { sink, pattern, expected, state: ReceiveState::Posted, found: NOTHING });
        self.matching.post(&pattern, id);
        OpId(id)
    }

    /// Ends a receive with an error.
    fn fail_receive(&mut self, id: u32, envelope: Envelope, error: Error) {
        if let Some(receive) = self.receives.get_mut(id) {
            receive.state = ReceiveState::Ended(Box::new(failed(envelope, error)));
        }
    }

    /// Looks for a message without receiving it. Makes no progress.
    pub fn probe(&self, pattern: &Pattern) -> Option<Found> {
        let id = self.matching.peek(pattern)?;
        self.unexpected.get(id).map(|m| m.found)
    }

    /// As [`Engine::probe`]; an error if a receive would end because of a loss.
    pub fn probe_or_lost(&self, pattern: &Pattern, expected: Option<Peer>) -> Option<Result<Found>> {
        if let Some(found) = self.probe(pattern) {
            return Some(Ok(found));
        }
        let error = self.in_vain(pattern, expected)?;
        // A probe leaves nothing behind that could go on.
        Some(Err(if error.class == Class::ERR_PROC_FAILED_PENDING { PEER_LOST } else { error }))
    }

    /// Takes a message out of the queue, for [`Engine::post_recv_message`]. Makes no progress.
    pub fn extract(&mut self, pattern: &Pattern) -> Option<(MessageId, Found)> {
        let id = self.matching.take(pattern)?;
        self.unexpected.get(id).map(|m| (MessageId(id), m.found))
    }

    /// Starts the receive of an extracted message.
    pub fn post_recv_message(&mut self, message: MessageId, sink: T::Sink) -> Result<OpId> {
        let Some(m) = self.unexpected.get(message.0) else {
            return Err(Error::new(Class::ERR_REQUEST, "no such message"));
        };
        let e = m.found.envelope;
        let pattern = Pattern { context: e.context, source: Some(e.source), tag: Some(e.tag) };
        let peer = m.peer;
        Ok(self.receive_unexpected(message.0, pattern, Some(peer), sink))
    }

    /// Cancels an operation that is not matched. False if it can't be cancelled any more, or not at once: the completion of a send tells.
    pub fn cancel(&mut self, op: OpId) -> bool {
        if op.is_send() {
            self.cancel_send(op.0 & !SEND_BIT);
            return false;
        }
        let Some(receive) = self.receives.get_mut(op.0) else { return false };
        let (ReceiveState::Posted | ReceiveState::Interrupted) = receive.state else { return false };
        self.matching.withdraw(&receive.pattern, op.0);
        let completion = Completion { cancelled: true, ..failed(envelope_of(&receive.pattern), PEER_LOST) };
        receive.state = ReceiveState::Ended(Box::new(Completion { error: None, ..completion }));
        true
    }

    /// Whether [`Engine::take`] would answer.
    #[inline]
    pub fn is_complete(&self, op: OpId) -> bool {
        if op.is_send() {
            return self.send_outcome(op.0 & !SEND_BIT).is_some();
        }
        self.receives.get(op.0).is_some_and(|r| {
            matches!(r.state, ReceiveState::Received | ReceiveState::Ended(_) | ReceiveState::Interrupted)
        })
    }

    /// The outcome of a complete operation.
    pub fn outcome(&self, op: OpId) -> Option<Completion> {
        if op.is_send() {
            return self.send_outcome(op.0 & !SEND_BIT);
        }
        self.receives.get(op.0)?.outcome()
    }

    /// The outcome of a complete operation, which is forgotten with it.
    #[inline]
    pub fn take(&mut self, op: OpId) -> Option<Completion> {
        if op.is_send() {
            return self.take_send(op.0 & !SEND_BIT);
        }
        let completion = self.receives.get(op.0)?.outcome()?;
        if self.is_interrupted(op) {
            self.cancel(op);
        }
        self.receives.discard(op.0);
        Some(completion)
    }

    /// As [`Engine::take`], but only of a receive that has succeeded: the commonest outcome, in few words.
    #[inline(always)]
    pub fn take_received(&mut self, op: OpId) -> Option<Found> {
        // The number of a send is none of a receive.
        let Receive { state: ReceiveState::Received, found, .. } = *self.receives.get(op.0)? else { return None };
        self.receives.discard(op.0);
        Some(found)
    }

    /// Handles what comes next and moves what waits for room. True if anything happened.
    #[inline]
    pub fn progress(&mut self) -> bool {
        let mut moved = self.receive_posted();
        if !moved {
            moved = self.handle_arrival();
        }
        if self.has_backlog() {
            moved |= self.flush();
        }
        moved
    }

    /// Handles one arrival, if there is any.
    fn handle_arrival(&mut self) -> bool {
        match self.endpoints.poll() {
            Some(arrival) => {
                self.on_arrival(arrival);
                true
            }
            None if !self.pullable_streams.is_empty() => self.pull_silent_streams(),
            None => false,
        }
    }

    #[inline(always)]
    fn on_arrival(&mut self, arrival: Arrival<T::Packet>) {
        match arrival {
            Arrival::Packet(packet) => {
                let header = packet.header();
                Engine::<T>::handler(header.kind)(self, packet, &header);
            }
            Arrival::Landed { peer, header, len } => self.on_landed(peer, &header, len as u64),
            Arrival::Sent(token) => self.on_sent(token),
            Arrival::Accessed(token, value) => self.on_accessed(token, value),
            Arrival::Opened(peer) => self.on_opened(peer),
            Arrival::Suspend(peers) => self.suspend_all(&peers),
            Arrival::Resume(peers) => self.resume_all(&peers),
            Arrival::Lost(peer) => self.on_lost(peer),
            Arrival::Revoked(context) => self.revoke(context),
        }
    }

    /// Whether anything that was sent waits for a lane.
    pub fn has_unsent(&self) -> bool {
        !self.flows.is_empty()
    }

    /// Whether anything waits for a lane: for room in it, or for it to open.
    #[inline]
    pub fn has_backlog(&self) -> bool {
        !self.flows.is_empty() || !self.suspensions.is_empty()
    }
}

/// No message.
const NOTHING: Found = Found { envelope: Envelope { context: 0, source: 0, tag: 0 }, length: 0 };

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
