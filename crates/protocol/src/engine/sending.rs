//! The sending half of the engine.

use super::flows::{Queued, Waiting};
use super::observer::{How, What};
use super::one_sided::payload_max;
use super::pending::Stage;
use super::recall::Recall;
use super::receiving::reject;
use super::{Address, Completion, Engine, Mode, OpId, PEER_LOST, REVOKED, SEND_BIT, failed};
use crate::endpoint::{Endpoints, State, Way};
use crate::kind::{BODY_MAX, Kind};
use crate::lanes::Class;
use crate::matching::Found;
use crate::order::{Fence, Number};
use crate::protocols::Protocol;
use crate::route::Route;
use crate::transport::{Caps, Outcome, Packet, Source, Token, Transport};
use crate::wire::{Grant, Header, Offer};
use base::{Error, Peer, Result};

/// A send that did not leave at once.
pub(super) struct Send<S> {
    pub(super) source: S,
    pub(super) to: Address,
    /// Of its context, when it was posted.
    pub(super) class: Option<Class>,
    mode: Mode,
    pub(super) state: SendState,
    /// Packets that were `Posted` and are not over: so long the source is in use.
    in_use: u32,
    /// Whether it is taken back.
    pub(super) recall: Recall,
}

#[derive(Clone, Copy)]
pub(super) enum SendState {
    /// In the peer's backlog.
    Queued,
    /// `EAGER_SYNC` has left; waits for `SYNC_ACK`.
    Acknowledged,
    /// `REQUEST_TO_SEND` has left; waits for `FINISHED` or `CLEAR_TO_SEND`.
    Offered {
        exposed: bool,
    },
    /// Streams `sent .. until`.
    Streaming(Outflow),
    /// All has left; waits for `FINISHED`, because until then the peer may pull.
    Sent,
    Complete(Option<Error>),
}

#[derive(Clone, Copy)]
pub(super) struct Outflow {
    /// What the packets are.
    kind: Flowing,
    /// Of each packet: the operation and, for `DATA`, the generation.
    token: u32,
    generation: u32,
    sent: u64,
    until: u64,
    /// The peer could also pull the data.
    exposed: bool,
    /// Of fragments that don't go where the first one went: what comes before them.
    fence: Fence,
}

/// Why data flow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flowing {
    /// The receiver has asked for them: `DATA`.
    Granted,
    /// Nobody has: fragments.
    Fragments,
    /// Nobody has, but they may land: `PUSHED`.
    Pushed,
}

impl<S> Send<S> {
    /// How far it has come; `None` when it is complete.
    pub(super) fn stage(&self) -> Option<Stage> {
        Some(match self.state {
            SendState::Queued => Stage::NoRoom,
            SendState::Acknowledged | SendState::Offered { .. } => Stage::NoReceive,
            SendState::Streaming(flow) => Stage::Partial(flow.sent, flow.until),
            SendState::Sent => Stage::Copying,
            SendState::Complete(_) => return None,
        })
    }
}

#[inline(always)]
pub(super) fn header(kind: Kind, to: &Address, token: u32) -> Header {
    let e = &to.envelope;
    Header { kind, number: Number::NONE, source: e.source, tag: e.tag, token, context: e.context }
}

/// The header of a packet of the protocol itself.
pub(super) fn own(kind: Kind, token: u32) -> Header {
    Header { kind, number: Number::NONE, source: 0, tag: 0, token, context: 0 }
}

/// How a send has begun.
enum Started {
    /// It has left: nothing remains to be done.
    Left,
    /// There is no room, or no lane yet: nothing has happened.
    NoRoom,
    /// Its first packet has left.
    Waits(SendState),
    /// Its first fragment has left; the others follow as a stream.
    Fragments(Outflow),
    Lost,
}

impl<T: Transport> Engine<T> {
    /// Starts a send. `None`: it has left, the source may be reused.
    pub fn post_send(&mut self, to: Address, mode: Mode, source: T::Source) -> Result<Option<OpId>> {
        if self.is_revoked(to.envelope.context) {
            return Err(REVOKED);
        }
        let id = self.sends.next();
        let class = self.class_of(to.envelope.context);
        let route = self.route(to.peer, to.envelope.context, class);
        let way = Way { peer: to.peer, group: route.envelope };
        let started = match self.flows.holds(way) {
            true => Started::NoRoom,
            false => start(&mut self.endpoints, (id, &mut self.fragments_serial), &to, route, mode, &source),
        };
        self.note_started(&started, &to, source.len());
        let (state, flow) = match started {
            Started::Left => return Ok(None),
            Started::Lost => return Err(PEER_LOST),
            Started::NoRoom => (SendState::Queued, None),
            Started::Waits(state) => (state, None),
            Started::Fragments(flow) => (SendState::Streaming(flow), Some(flow)),
        };
        let inserted = self.sends.insert(Send { source, to, class, mode, state, in_use: 0, recall: Recall::No });
        debug_assert_eq!(inserted, id);
        match (state, flow) {
            (SendState::Queued, _) => self.queue(way, Queued::Message(id)),
            (_, Some(_)) => self.start_stream(id),
            _ => {}
        }
        Ok(Some(OpId(id | SEND_BIT)))
    }

    /// Starts a message that waited for room. False if there is none.
    fn start_queued(&mut self, id: u32) -> bool {
        let Some(route) = self.route_of(id) else { return true };
        let Some(send) = self.sends.get_mut(id) else { return true };
        let (to, bytes) = (send.to, send.source.len());
        let started = start(&mut self.endpoints, (id, &mut self.fragments_serial), &to, route, send.mode, &send.source);
        self.note_started(&started, &to, bytes);
        let Some(send) = self.sends.get_mut(id) else { return true };
        match started {
            Started::NoRoom => return false,
            Started::Left => send.state = SendState::Complete(None),
            Started::Lost => send.state = SendState::Complete(Some(PEER_LOST)),
            Started::Waits(state) => send.state = state,
            Started::Fragments(flow) => {
                send.state = SendState::Streaming(flow);
                self.start_stream(id);
            }
        }
        true
    }

    /// The first packet of a message has been tried.
    #[inline]
    fn note_started(&mut self, started: &Started, to: &Address, bytes: usize) {
        let how = match started {
            Started::Left | Started::Waits(SendState::Acknowledged) => How::Eager,
            Started::Fragments(_) => How::Fragments,
            Started::Waits(_) => How::Rendezvous,
            Started::NoRoom | Started::Lost => return,
        };
        self.note(What::Sent, how, to.peer, &Found { envelope: to.envelope, length: bytes as u64 });
    }

    /// The route of a send.
    fn route_of(&self, id: u32) -> Option<Route> {
        let send = self.sends.get(id)?;
        Some(self.route(send.to.peer, send.to.envelope.context, send.class))
    }

    /// Streams to a peer over the same lanes go one after the other: together they would only share its room, and each would look for it.
    fn start_stream(&mut self, id: u32) {
        let (Some(route), Some(send)) = (self.route_of(id), self.sends.get(id)) else { return };
        let way = Way { peer: send.to.peer, group: route.payload };
        let waits = self.flows.get(way).is_some_and(|flow| !flow.streams.is_empty());
        if waits || !self.pump(id).1 {
            self.flows.of(way).streams.push_back(id);
        }
    }

    /// Sends a packet of the protocol itself, now or when there is room.
    pub(super) fn send_control(&mut self, peer: Peer, kind: Kind, token: u32, body: &[u8]) {
        self.send_own(self.own_way(peer), own(kind, token), body);
    }

    /// As [`Engine::send_control`], with any header, any way.
    pub(super) fn send_own(&mut self, way: Way, header: Header, body: &[u8]) {
        if !self.flows.holds(way) && self.endpoints.try_control(way, &header, body) != Outcome::Again {
            return;
        }
        let mut bytes = [0; BODY_MAX];
        bytes[..body.len()].copy_from_slice(body);
        self.queue(way, Queued::Control(header, bytes, body.len()));
    }

    /// Queues a packet behind everything else that goes the same way.
    pub(super) fn queue(&mut self, way: Way, packet: Queued) {
        let now_ns = self.endpoints.transport().now_ns();
        self.flows.push(way, packet, now_ns);
    }

    /// Moves everything that waits for a lane. True if anything moved.
    pub(super) fn flush(&mut self) -> bool {
        let mut moved = !self.suspensions.is_empty() && self.advance_suspensions();
        let mut place = 0;
        while place < self.flows.len() {
            let way = self.flows.at(place).way;
            moved |= self.flush_queue(place) | self.flush_streams(place) | self.fetch_deferred(place);
            moved |= self.flush_accesses(place);
            if self.flows.at(place).is_empty() {
                // The last one takes its place.
                self.flows.remove(way);
            } else {
                place += 1;
            }
        }
        moved
    }

    /// Sends queued packets of a flow, in their order.
    fn flush_queue(&mut self, place: usize) -> bool {
        let mut moved = false;
        while let Some(&mut Waiting { packet, serial, .. }) = self.flows.at(place).first() {
            let way = self.flows.at(place).way;
            let gone = match packet {
                Queued::Message(id) => self.start_queued(id),
                Queued::Control(header, bytes, len) => {
                    self.endpoints.try_control(way, &header, &bytes[..len]) != Outcome::Again
                }
                Queued::Reclassed(change) => self.send_reclassed(way.peer, change, serial),
                Queued::Reply(reply) => match self.send_reply(way.peer, reply) {
                    Some(left) => {
                        if let Some(first) = self.flows.at(place).first() {
                            first.packet = Queued::Reply(left);
                        }
                        false
                    }
                    None => true,
                },
            };
            if !gone {
                break;
            }
            let now_ns = self.endpoints.transport().now_ns();
            if let Some(since_ns) = self.flows.at(place).pop() {
                self.endpoints.note_wait(way, now_ns.saturating_sub(since_ns));
            }
            moved = true;
        }
        moved
    }

    /// Sends data of the first stream of a flow until its lane is full, and then of the next one.
    fn flush_streams(&mut self, place: usize) -> bool {
        let mut moved = false;
        while let Some(&id) = self.flows.at(place).streams.front() {
            let (sent, is_over) = self.pump(id);
            moved |= sent;
            if !is_over {
                break;
            }
            self.flows.at(place).streams.pop_front();
        }
        moved
    }

    /// Sends data of a stream until its lane is full: whether any, and whether that was all.
    fn pump(&mut self, id: u32) -> (bool, bool) {
        let Some(route) = self.route_of(id) else { return (false, true) };
        let Some(send) = self.sends.get_mut(id) else { return (false, true) };
        let SendState::Streaming(mut flow) = send.state else { return (false, true) };
        let to = send.to;
        let way = Way { peer: to.peer, group: route.payload };
        let start = flow.sent;
        while flow.sent < flow.until {
            // Asked anew each time, because a lane may have less room now.
            let Some(caps) = self.endpoints.caps(to.peer) else { break };
            if flow.kind == Flowing::Pushed && caps.push_max == 0 {
                // Since it began, the endpoint has been resumed over lanes that can't.
                flow.kind = Flowing::Fragments;
            }
            let len = flow.piece_max(&caps).min((flow.until - flow.sent) as usize);
            let packet = flow.header(&to, len as u64);
            let body = flow.sent.to_le_bytes();
            match self.endpoints.try_zcopy(way, &packet, &body, &send.source, (flow.sent as usize, len)) {
                Outcome::Done => flow.sent += len as u64,
                Outcome::Posted(token) => {
                    flow.sent += len as u64;
                    send.in_use += 1;
                    self.posted.insert(token, id);
                }
                Outcome::Again => break,
                Outcome::Lost => {
                    send.state = SendState::Complete(Some(PEER_LOST));
                    return (true, true);
                }
            }
        }
        send.state = match flow.sent == flow.until {
            true if flow.exposed => SendState::Sent,
            true => SendState::Complete(None),
            false => SendState::Streaming(flow),
        };
        (flow.sent > start, flow.sent == flow.until)
    }

    /// The transport needs the source of a packet no longer.
    pub(super) fn on_sent(&mut self, token: Token) {
        match self.posted.remove(&token) {
            Some(id) => {
                if let Some(send) = self.sends.get_mut(id) {
                    send.in_use = send.in_use.saturating_sub(1);
                }
            }
            None => self.on_piece_sent(token),
        }
    }

    /// Whether the transport uses the source of a packet to `peer`.
    pub(super) fn uses_sources_of(&self, peer: Peer) -> bool {
        self.posted.values().any(|id| self.sends.get(*id).is_some_and(|send| send.to.peer == peer))
    }

    /// `CLEAR_TO_SEND`: the receiver wants the data streamed.
    pub(super) fn on_clear_to_send(&mut self, packet: T::Packet, header: &Header) {
        let (peer, body) = (packet.peer(), self.take_body(packet));
        let token = header.token;
        let granted = body.is_some_and(|body| self.grant(peer, token, Grant::decode(&body)));
        match granted {
            true => self.start_stream(token),
            false => reject(peer, header),
        }
    }

    /// Notes what the receiver has asked for; false if the send doesn't expect that.
    fn grant(&mut self, peer: Peer, token: u32, grant: Grant) -> bool {
        let Some(send) = self.sends.get_mut(token) else { return false };
        let SendState::Offered { exposed } = send.state else { return false };
        if send.to.peer != peer || grant.length > send.source.len() as u64 {
            return false;
        }
        let (receive, generation) = (grant.receive as u32, (grant.receive >> 32) as u32);
        let flow = Outflow {
            kind: Flowing::Granted,
            token: receive,
            generation,
            sent: 0,
            until: grant.length,
            exposed,
            fence: Fence::default(),
        };
        send.state = SendState::Streaming(flow);
        true
    }

    /// `FINISHED` or `SYNC_ACK`: the receiver has, or has matched, the message.
    pub(super) fn on_acknowledged(&mut self, packet: T::Packet, header: &Header) {
        let peer = packet.peer();
        self.endpoints.transport().release(packet);
        let send = self.sends.get_mut(header.token).filter(|send| send.to.peer == peer);
        match send.filter(|send| send.expects(header.kind)) {
            Some(send) => send.state = SendState::Complete(None),
            None => reject(peer, header),
        }
    }

    #[inline]
    pub(super) fn send_outcome(&self, id: u32) -> Option<Completion> {
        let send = self.sends.get(id)?;
        let SendState::Complete(error) = send.state else { return None };
        if send.in_use > 0 {
            return None;
        }
        let cancelled = send.recall == Recall::Cancelled;
        if cancelled && self.is_revoked(send.to.envelope.context) {
            return Some(failed(send.to.envelope, REVOKED));
        }
        Some(Completion { envelope: send.to.envelope, length: 0, error, cancelled })
    }

    pub(super) fn take_send(&mut self, id: u32) -> Option<Completion> {
        let completion = self.send_outcome(id)?;
        self.sends.remove(id);
        Some(completion)
    }

    /// Ends every send to a peer that is gone. The transport uses none of their sources any more. A message that is being cancelled is cancelled: no
    /// process that lives has it.
    pub(super) fn fail_sends_to(&mut self, peer: Peer) {
        for (_, send) in self.sends.iter_mut().filter(|(_, send)| send.to.peer == peer) {
            send.in_use = 0;
            let was_offered = matches!(send.state, SendState::Offered { .. } | SendState::Acknowledged);
            if was_offered && send.recall == Recall::Cancelling {
                send.recall = Recall::Cancelled;
                send.state = SendState::Complete(None);
            } else if !matches!(send.state, SendState::Complete(_)) {
                send.state = SendState::Complete(Some(PEER_LOST));
            }
        }
        let sends = &self.sends;
        self.posted.retain(|_, id| sends.get(*id).is_some_and(|send| send.to.peer != peer));
    }
}

/// Sends the first packet of a message: the only place where a message chooses its protocol. `serial` is the token of the last one in fragments.
fn start<T: Transport>(
    endpoints: &mut Endpoints<T>,
    (id, serial): (u32, &mut u32),
    to: &Address,
    route: Route,
    mode: Mode,
    source: &T::Source,
) -> Started {
    let len = source.len();
    let way = Way { peer: to.peer, group: route.envelope };
    let Some(caps) = endpoints.caps(to.peer) else {
        return if endpoints.state(to.peer) == State::Lost { Started::Lost } else { Started::NoRoom };
    };
    let protocol = match caps.protocol(len, mode) {
        Protocol::Eager if route.is_split() && len > endpoints.small_max() => caps.divided(len, mode),
        protocol => protocol,
    };
    if protocol == Protocol::Eager {
        let (kind, next) = match mode {
            Mode::Standard => (Kind::EAGER, Started::Left),
            Mode::Synchronous => (Kind::EAGER_SYNC, Started::Waits(SendState::Acknowledged)),
        };
        return after(endpoints.try_bcopy(way, &header(kind, to, id), &[], source), next);
    }
    let may_pull = match protocol {
        Protocol::Fragments => len >= caps.pull_min && endpoints.peer_pulls(to.peer, len),
        protocol => protocol == Protocol::Pulled,
    };
    let address = if may_pull { endpoints.expose(to.peer, source) } else { 0 };
    if protocol == Protocol::Pushed || protocol == Protocol::Fragments && address == 0 {
        let kind = if protocol == Protocol::Pushed { Flowing::Pushed } else { Flowing::Fragments };
        return start_fragments(endpoints, serial, to, route, (kind, len));
    }
    let next = Started::Waits(SendState::Offered { exposed: address != 0 });
    let offer = Offer { length: len as u64, address }.encode();
    after(endpoints.try_control(way, &header(Kind::REQUEST_TO_SEND, to, id), &offer), next)
}

/// Sends the first fragment of a message, which has a token of its own: a send of the next message may have the number of this one while fragments of this one
/// are under way over other lanes.
fn start_fragments<T: Transport>(
    endpoints: &mut Endpoints<T>,
    serial: &mut u32,
    to: &Address,
    route: Route,
    (kind, len): (Flowing, usize),
) -> Started {
    let token = serial.wrapping_add(1);
    let way = Way { peer: to.peer, group: route.envelope };
    let offer = Offer { length: len as u64, address: endpoints.transport().now_ns() }.encode();
    let outcome = endpoints.try_control(way, &header(Kind::EAGER_FIRST, to, token), &offer);
    let count = if route.is_split() { endpoints.sent(way) } else { 0 };
    let fence = Fence { group: route.envelope, count };
    let until = len as u64;
    let flow = Outflow { kind, token, generation: 0, sent: 0, until, exposed: false, fence };
    if outcome == Outcome::Done {
        *serial = token;
    }
    after(outcome, Started::Fragments(flow))
}

/// What has become of a message whose first packet has been tried.
fn after(outcome: Outcome, next: Started) -> Started {
    match outcome {
        // A source that is copied is never `Posted`.
        Outcome::Done | Outcome::Posted(_) => next,
        Outcome::Again => Started::NoRoom,
        Outcome::Lost => Started::Lost,
    }
}

impl Outflow {
    /// The header of the packet with the next `len` bytes.
    fn header(&self, to: &Address, len: u64) -> Header {
        let kind = match self.kind {
            Flowing::Granted => Kind::DATA,
            Flowing::Pushed => Kind::PUSHED,
            Flowing::Fragments if self.sent + len == self.until => Kind::EAGER_LAST,
            Flowing::Fragments => Kind::EAGER_MIDDLE,
        };
        let header = Header { tag: self.generation as i32, ..header(kind, to, self.token) };
        if self.kind == Flowing::Fragments { self.fence.on(header) } else { header }
    }

    /// Largest piece.
    fn piece_max(&self, caps: &Caps) -> usize {
        let most = caps.piece_max(self.until);
        match self.kind {
            // Not every lane takes larger packets of fragments.
            Flowing::Fragments if self.fence.count > 0 || caps.fragments_max == 0 => {
                most.min(payload_max(caps, size_of::<u64>()) as usize)
            }
            _ => most,
        }
    }
}

impl<S> Send<S> {
    /// Whether an acknowledgement of this kind is due.
    fn expects(&self, kind: Kind) -> bool {
        match self.state {
            SendState::Offered { .. } | SendState::Sent => kind == Kind::FINISHED,
            SendState::Streaming(flow) => kind == Kind::FINISHED && flow.exposed,
            SendState::Acknowledged => kind == Kind::SYNC_ACK,
            SendState::Queued | SendState::Complete(_) => false,
        }
    }
}
