//! The sending half of the engine.

use super::pending::Stage;
use super::{Address, Completion, Engine, Mode, OpId, PEER_LOST, SEND_BIT, WITHDRAWN};
use crate::fabric::{Fabric, Outcome};
use crate::protocols::Protocol;
use crate::wire::{BODY_BYTES, Grant, Header, Kind, Offer};
use base::{Error, Peer, Result};
use std::collections::VecDeque;

/// A send that did not leave at once.
pub(super) struct Send<S> {
    pub(super) source: S,
    pub(super) to: Address,
    mode: Mode,
    state: SendState,
    /// See [`Engine::withdraw`].
    withdrawn: bool,
}

#[derive(Clone, Copy)]
enum SendState {
    /// In the peer's backlog.
    Queued,
    /// `EagerSync` has left; waits for `SyncAck`.
    Acknowledged,
    /// `RequestToSend` has left; waits for `Finished` or `ClearToSend`.
    Offered {
        exposed: bool,
    },
    /// Streams `sent .. until`.
    Streaming(Outflow),
    /// All has left; waits for `Finished`, because until then the peer may pull.
    Sent,
    Complete(Option<Error>),
}

#[derive(Clone, Copy)]
struct Outflow {
    /// Of each packet: the operation and, for `Data`, the generation.
    kind: Kind,
    token: u32,
    generation: u32,
    sent: u64,
    until: u64,
    /// The peer could also pull the data.
    exposed: bool,
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

enum Queued {
    Message(u32),
    Control(Header, [u8; BODY_BYTES], usize),
}

/// What waits for room, by peer, in the order of the calls.
#[derive(Default)]
pub(super) struct Backlog {
    peers: Vec<(Peer, VecDeque<Queued>)>,
}

impl Backlog {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// Peers for which something waits.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.peers.len()
    }

    fn holds(&self, peer: Peer) -> bool {
        self.peers.iter().any(|(p, _)| *p == peer)
    }

    fn remove_message(&mut self, peer: Peer, id: u32) {
        if let Some((_, queue)) = self.peers.iter_mut().find(|(p, _)| *p == peer) {
            queue.retain(|item| !matches!(item, Queued::Message(other) if *other == id));
        }
    }

    fn push(&mut self, peer: Peer, item: Queued) {
        match self.peers.iter_mut().find(|(p, _)| *p == peer) {
            Some((_, queue)) => queue.push_back(item),
            None => self.peers.push((peer, VecDeque::from([item]))),
        }
    }
}

#[inline(always)]
fn header(kind: Kind, to: &Address, token: u32) -> Header {
    let e = &to.envelope;
    Header { kind, source: e.source, tag: e.tag, token, context: e.context }
}

impl<F: Fabric> Engine<F> {
    /// The shortest way of a standard send. False, and nothing has happened, if the message doesn't leave at once.
    #[inline(always)]
    pub fn send_now(&mut self, to: &Address, source: &F::Source) -> bool {
        self.backlog.is_empty() && self.fabric.send_now(to.peer, &header(Kind::Eager, to, 0), source)
    }

    /// Starts a send. `None`: it has left, the source may be reused.
    pub fn post_send(&mut self, to: Address, mode: Mode, source: F::Source) -> Result<Option<OpId>> {
        let len = self.fabric.source_len(&source);
        if self.backlog.is_empty()
            && mode == Mode::Standard
            && self.fabric.limits(to.peer).is_some_and(|limits| len <= limits.eager_max)
        {
            match self.fabric.try_send_from(to.peer, &header(Kind::Eager, &to, 0), &[], &source, 0, len) {
                Outcome::Done => {
                    self.fabric.note_sent(to.peer, to.envelope.context, len);
                    return Ok(None);
                }
                Outcome::Lost => return Err(PEER_LOST),
                Outcome::Again => {}
            }
        }
        if self.lost.contains(&to.peer) {
            return Err(PEER_LOST);
        }
        self.fabric.note_sent(to.peer, to.envelope.context, len);
        let id = self.sends.insert(Send { source, to, mode, state: SendState::Queued, withdrawn: false });
        if self.backlog.holds(to.peer) || !self.try_start(id) {
            self.backlog.push(to.peer, Queued::Message(id));
        }
        Ok(Some(OpId(id | SEND_BIT)))
    }

    /// Sends the first packet of a queued message. False if there is no room.
    fn try_start(&mut self, id: u32) -> bool {
        let Some(send) = self.sends.get_mut(id) else { return true };
        let to = send.to;
        let Some(limits) = self.fabric.limits(to.peer) else { return false };
        let len = self.fabric.source_len(&send.source);
        let protocol = limits.protocol(len, send.mode);
        let may_pull = match protocol {
            Protocol::Announced => len >= limits.pull_min && self.fabric.peer_pulls(to.peer, len),
            protocol => protocol == Protocol::Pulled,
        };
        let address = if may_pull { self.fabric.expose(&send.source) } else { 0 };
        let (outcome, next) = match protocol {
            Protocol::Announced if address == 0 => return self.try_announce(id, to, len as u64),
            Protocol::Eager => {
                let (kind, next) = match send.mode {
                    Mode::Standard => (Kind::Eager, SendState::Complete(None)),
                    Mode::Synchronous => (Kind::EagerSync, SendState::Acknowledged),
                };
                (self.fabric.try_send_from(to.peer, &header(kind, &to, id), &[], &send.source, 0, len), next)
            }
            Protocol::Announced | Protocol::Pulled | Protocol::Streamed => {
                let offer = Offer { length: len as u64, address };
                let request = header(Kind::RequestToSend, &to, id);
                (self.fabric.try_send(to.peer, &request, &offer.encode()), SendState::Offered { exposed: address != 0 })
            }
        };
        match outcome {
            Outcome::Done => send.state = next,
            Outcome::Again => return false,
            Outcome::Lost => send.state = SendState::Complete(Some(PEER_LOST)),
        }
        true
    }

    /// Starts a message whose data follow at once. False if there is no room.
    fn try_announce(&mut self, id: u32, to: Address, until: u64) -> bool {
        let offer = Offer { length: until, address: self.fabric.now_ns() };
        let outcome = self.fabric.try_send(to.peer, &header(Kind::Announce, &to, id), &offer.encode());
        let Some(send) = self.sends.get_mut(id) else { return true };
        match outcome {
            Outcome::Again => return false,
            Outcome::Lost => send.state = SendState::Complete(Some(PEER_LOST)),
            Outcome::Done => {
                let flow = Outflow { kind: Kind::Piece, token: id, generation: 0, sent: 0, until, exposed: false };
                send.state = SendState::Streaming(flow);
                self.start_stream(to.peer, id);
            }
        }
        true
    }

    /// Streams to a peer go one after the other: together they would only share its room, and each would look for it.
    fn start_stream(&mut self, peer: Peer, id: u32) {
        let waits = self.streams.iter().any(|(other, _)| *other == peer);
        if waits || !self.pump(id).1 {
            self.streams.push((peer, id));
        }
    }

    /// Sends a packet of the protocol itself, now or when there is room.
    pub(super) fn send_control(&mut self, peer: Peer, kind: Kind, token: u32, body: Option<Grant>) {
        let header = Header { kind, source: 0, tag: 0, token, context: 0 };
        let (bytes, len) = body.map_or(([0; BODY_BYTES], 0), |grant| (grant.encode(), BODY_BYTES));
        if !self.backlog.holds(peer) && self.fabric.try_send(peer, &header, &bytes[..len]) != Outcome::Again {
            return;
        }
        self.backlog.push(peer, Queued::Control(header, bytes, len));
    }

    /// Moves everything that waits for room. True if anything moved.
    pub(super) fn flush(&mut self) -> bool {
        let mut moved = false;
        let mut at = 0;
        while at < self.backlog.peers.len() {
            let (peer, mut queue) = {
                let (peer, queue) = &mut self.backlog.peers[at];
                (*peer, std::mem::take(queue))
            };
            while let Some(item) = queue.pop_front() {
                let gone = match &item {
                    Queued::Message(id) => self.try_start(*id),
                    Queued::Control(header, bytes, len) => {
                        self.fabric.try_send(peer, header, &bytes[..*len]) != Outcome::Again
                    }
                };
                if !gone {
                    queue.push_front(item);
                    break;
                }
                moved = true;
            }
            if queue.is_empty() {
                self.backlog.peers.remove(at);
            } else {
                self.backlog.peers[at].1 = queue;
                at += 1;
            }
        }
        moved | self.pump_streams()
    }

    /// Sends data of the first stream to each peer until its lane is full, and then of the next one. True if anything was sent.
    fn pump_streams(&mut self) -> bool {
        let mut moved = false;
        let mut at = 0;
        while let Some(&(peer, id)) = self.streams.get(at) {
            let before = self.streams[..at].iter().any(|(other, _)| *other == peer);
            let (sent, is_over) = if before { (false, false) } else { self.pump(id) };
            moved |= sent;
            if is_over {
                self.streams.remove(at);
            } else {
                at += 1;
            }
        }
        moved
    }

    /// Sends data of a stream until its lane is full: whether any, and whether that was all.
    fn pump(&mut self, id: u32) -> (bool, bool) {
        let Some(send) = self.sends.get_mut(id) else { return (false, true) };
        let SendState::Streaming(mut flow) = send.state else { return (false, true) };
        let to = send.to;
        let packet = Header { tag: flow.generation as i32, ..header(flow.kind, &to, flow.token) };
        let start = flow.sent;
        while flow.sent < flow.until {
            // Asked anew each time, because a lane may have less room now.
            let Some(limits) = self.fabric.limits(to.peer) else { break };
            let len = (limits.packet_max - size_of::<u64>()).min((flow.until - flow.sent) as usize);
            let body = flow.sent.to_le_bytes();
            match self.fabric.try_send_from(to.peer, &packet, &body, &send.source, flow.sent as usize, len) {
                Outcome::Done => flow.sent += len as u64,
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

    /// `ClearToSend`: the receiver wants the data streamed.
    pub(super) fn on_clear_to_send(&mut self, peer: Peer, token: u32, grant: Grant) -> bool {
        let Some(send) = self.sends.get_mut(token) else { return false };
        let length = self.fabric.source_len(&send.source) as u64;
        let SendState::Offered { exposed } = send.state else { return false };
        if send.to.peer != peer || grant.length > length {
            return false;
        }
        let (receive, generation) = (grant.receive as u32, (grant.receive >> 32) as u32);
        let flow = Outflow { kind: Kind::Data, token: receive, generation, sent: 0, until: grant.length, exposed };
        send.state = SendState::Streaming(flow);
        self.start_stream(peer, token);
        true
    }

    /// `Finished` or `SyncAck`: the receiver has, or has matched, the message.
    pub(super) fn on_acknowledged(&mut self, peer: Peer, token: u32, kind: Kind) -> bool {
        let Some(send) = self.sends.get_mut(token) else { return false };
        let expected = match kind {
            Kind::Finished => match send.state {
                SendState::Offered { .. } | SendState::Sent => true,
                SendState::Streaming(flow) => flow.exposed,
                _ => false,
            },
            _ => matches!(send.state, SendState::Acknowledged),
        };
        if send.to.peer != peer || !expected {
            return false;
        }
        send.state = SendState::Complete(None);
        true
    }

    /// Gives up a send that has failed in some other way: nobody may be left who would match it. It ends when the receiver has
    /// agreed, if it hasn't matched the message before. A message that has been sent at once, or is being sent, stays what it is.
    pub fn withdraw(&mut self, op: OpId) {
        let id = op.0 & !SEND_BIT;
        let Some(send) = self.sends.get_mut(id).filter(|send| op.is_send() && !send.withdrawn) else { return };
        let peer = send.to.peer;
        match send.state {
            SendState::Queued => {
                send.withdrawn = true;
                send.state = SendState::Complete(Some(WITHDRAWN));
                self.backlog.remove_message(peer, id);
            }
            SendState::Offered { .. } => {
                send.withdrawn = true;
                self.send_control(peer, Kind::Withdraw, id, None);
            }
            _ => {}
        }
    }

    #[inline]
    pub(super) fn send_outcome(&self, id: u32) -> Option<Completion> {
        let send = self.sends.get(id)?;
        let SendState::Complete(error) = send.state else { return None };
        Some(Completion { envelope: send.to.envelope, length: 0, error, cancelled: false })
    }

    pub(super) fn take_send(&mut self, id: u32) -> Option<Completion> {
        let completion = self.send_outcome(id)?;
        self.sends.remove(id);
        Some(completion)
    }

    /// Ends every send to a peer that is gone.
    pub(super) fn fail_sends_to(&mut self, peer: Peer) {
        self.backlog.peers.retain(|(p, _)| *p != peer);
        for (_, send) in self.sends.iter_mut() {
            if send.to.peer == peer && !matches!(send.state, SendState::Complete(_)) {
                send.state = SendState::Complete(Some(PEER_LOST));
            }
        }
    }
}
