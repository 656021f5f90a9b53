//! Registered memory of peers: put, get, atomic, flush. What a lane can do it does by itself; the rest is done by packets. This file is
//! the side that asks, `one_sided_target` the side whose memory it is.
//!
//! | access | packets |
//! |---|---|
//! | put | `PUT`…, back for each: `ACCESSED` |
//! | get | `GET`…, back for each: `GOT`… |
//! | atomic | `ATOMIC`, back: `ACCESSED` |
//! | any, with a bad key | back: `ACCESSED`, refused |
//!
//! An access is complete when it has been done at the peer. So a flush is complete when all accesses before it are, and the lane says
//! so of what it has done by itself. Accesses don't keep the order of the calls, neither among each other nor with messages.
//!
//! Invariant: source and sink are in use until the access is complete, and it is not complete while an answer may still come.

use super::receiving::reject;
use super::sending::own;
use super::{Engine, PEER_LOST};
use crate::endpoint::{State, Way};
use crate::kind::Kind;
use crate::memory::{Atomic, Key, RANGE_BYTES, Target, Verbs, is_inside};
use crate::transport::{Access, Caps, Outcome, Packet, Sink, Source, Token, Transport};
use crate::wire::Header;
use base::{Class, Error, Peer, Result};
use std::collections::VecDeque;

/// An access that is not forgotten yet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AccessId(u32);

/// The error of an access that its key doesn't allow.
pub const REFUSED: Error =
    Error::new(Class::ERR_RMA_RANGE, "the key names no memory of the target, or not so much of it");

/// Packets, or pieces that were asked for, that may be under way for one access.
const WINDOW: u64 = 8;
/// Accesses to one peer that may be under way by packets. It answers each packet, and what it keeps for that is limited ([`super::one_sided_target`]).
const UNDER_WAY_MAX: usize = 128;
/// Bytes of the body of `GOT`: the place.
pub(super) const PLACE_BYTES: usize = size_of::<u64>();

/// What is done.
enum What<T: Transport> {
    Put(T::Source),
    Get(T::Sink),
    Atomic(Atomic),
    /// Waits for all accesses before this one.
    Flush,
}

#[derive(Clone, Copy)]
enum Progress {
    /// Waits for a lane, or room in it; in the peer's flow.
    Waiting,
    /// Waits for others that go by packets; in the peer's [`Turns`].
    Behind,
    /// The lane does it.
    Posted,
    /// By packets.
    Packets(Pieces),
    Complete(Result<u64>),
}

/// The accesses to one peer that go by packets.
#[derive(Default)]
pub(super) struct Turns {
    /// How many are under way.
    under_way: usize,
    /// Those that wait until one of them is complete.
    behind: VecDeque<u32>,
}

/// An access by packets.
#[derive(Clone, Copy, Default)]
struct Pieces {
    /// Bytes that were sent or asked for; for an atomic whether it was sent.
    begun: u64,
    /// Bytes of which the end is known.
    ended: u64,
    /// Some were refused.
    refused: bool,
    /// The number before an atomic.
    value: u64,
}

/// Bit of an `ACCESSED`'s first word: refused. The rest are the bytes whose end this is.
pub(super) const REFUSED_BIT: u64 = 1 << 63;

/// An access, from the call until its completion is taken.
pub(super) struct Accessing<T: Transport> {
    peer: Peer,
    key: Key,
    at: u64,
    what: What<T>,
    progress: Progress,
    /// It goes by packets, whatever the lane can do: the lane was unable.
    by_packets: bool,
    /// Packets whose source the transport still uses.
    in_use: u32,
    /// Of two the earlier one has less.
    serial: u64,
}

impl<T: Transport> Accessing<T> {
    fn is_complete(&self) -> bool {
        matches!(self.progress, Progress::Complete(_))
    }

    /// Bytes that are moved; 1 for an atomic, so that it counts as a piece.
    fn len(&self) -> u64 {
        match &self.what {
            What::Put(source) => source.len() as u64,
            What::Get(sink) => sink.len() as u64,
            What::Atomic(_) => 1,
            What::Flush => 0,
        }
    }

    fn is_possible(&self) -> bool {
        match &self.what {
            What::Atomic(atomic) => atomic.fits(self.key.len, self.at),
            What::Flush => true,
            What::Put(_) | What::Get(_) => self.key.contains(self.at, self.len()),
        }
    }

    fn can_go_by_itself(&self, verbs: Verbs) -> bool {
        !self.by_packets
            && match self.what {
                What::Put(_) => verbs.put,
                What::Get(_) => verbs.get,
                What::Atomic(_) => verbs.atomic,
                What::Flush => true,
            }
    }
}

impl<T: Transport> Engine<T> {
    /// The kinds of registered memory.
    pub(super) const ONE_SIDED: &'static [(Kind, super::Handler<T>)] = &[
        (Kind::PUT, Engine::on_put),
        (Kind::GET, Engine::on_get),
        (Kind::GOT, Engine::on_got),
        (Kind::ATOMIC, Engine::on_atomic),
        (Kind::ACCESSED, Engine::on_accessed_packet),
    ];

    /// Lets peers read and write memory of this process, by the key.
    pub fn register(&mut self, region: T::Region) -> Key {
        self.endpoints.transport().register(region)
    }

    /// See [`Transport::deregister`].
    pub fn deregister(&mut self, key: &Key) -> bool {
        self.endpoints.transport().deregister(key)
    }

    /// Writes `source` to what `peer` has registered as `key`, from `at` on.
    pub fn post_put(&mut self, peer: Peer, key: &Key, at: u64, source: T::Source) -> AccessId {
        self.post_access(peer, *key, at, What::Put(source))
    }

    /// Reads what `peer` has registered as `key`, from `at` on, into all of `sink`.
    pub fn post_get(&mut self, peer: Peer, key: &Key, at: u64, sink: T::Sink) -> AccessId {
        self.post_access(peer, *key, at, What::Get(sink))
    }

    /// Changes the number at `at` of what `peer` has registered as `key`. Its completion tells the number before.
    pub fn post_atomic(&mut self, peer: Peer, key: &Key, at: u64, atomic: Atomic) -> AccessId {
        self.post_access(peer, *key, at, What::Atomic(atomic))
    }

    /// Completes when all accesses to `peer` that were posted before are visible there.
    pub fn post_flush(&mut self, peer: Peer) -> AccessId {
        let key = Key { number: 0, nonce: 0, len: 0, record: 0 };
        self.post_access(peer, key, 0, What::Flush)
    }

    fn post_access(&mut self, peer: Peer, key: Key, at: u64, what: What<T>) -> AccessId {
        self.access_serial += 1;
        let serial = self.access_serial;
        let mut access =
            Accessing { peer, key, at, what, progress: Progress::Waiting, by_packets: false, in_use: 0, serial };
        if !access.is_possible() {
            access.progress = Progress::Complete(Err(REFUSED));
        } else if access.len() == 0 && !matches!(access.what, What::Flush) {
            access.progress = Progress::Complete(Ok(0));
        }
        let id = self.accesses.insert(access);
        self.advance_access(id);
        AccessId(id)
    }

    /// Whether [`Engine::take_access`] would answer.
    pub fn is_access_complete(&self, id: AccessId) -> bool {
        self.accesses.get(id.0).is_some_and(Accessing::is_complete)
    }

    /// The outcome of a complete access, which is forgotten with it: of an atomic, the number before.
    pub fn take_access(&mut self, id: AccessId) -> Option<Result<u64>> {
        let Progress::Complete(outcome) = self.accesses.get(id.0)?.progress else { return None };
        self.accesses.remove(id.0);
        Some(outcome)
    }

    /// Moves the waiting accesses of a flow on. True if any moved.
    pub(super) fn flush_accesses(&mut self, place: usize) -> bool {
        let ids = std::mem::take(&mut self.flows.at(place).accesses);
        ids.into_iter().fold(false, |moved, id| self.advance_access(id) | moved)
    }

    /// Does what can be done now; what waits for a lane comes into the peer's flow. True if anything moved.
    fn advance_access(&mut self, id: u32) -> bool {
        let Some(access) = self.accesses.get_mut(id) else { return false };
        let peer = access.peer;
        let (moved, waits) = match access.progress {
            Progress::Waiting => self.start_access(id),
            Progress::Packets(_) => self.send_pieces(id),
            Progress::Behind | Progress::Posted | Progress::Complete(_) => (false, false),
        };
        if waits {
            self.flows.of(Way::first(peer)).accesses.push(id);
        }
        moved
    }

    /// Begins an access: whether anything moved, and whether it waits for its lane.
    fn start_access(&mut self, id: u32) -> (bool, bool) {
        let Some(access) = self.accesses.get(id) else { return (false, false) };
        let (peer, serial) = (access.peer, access.serial);
        let earlier = |other: &Accessing<T>| other.peer == peer && other.serial < serial && !other.is_complete();
        if matches!(access.what, What::Flush) && self.accesses.iter().any(|(_, other)| earlier(other)) {
            return (false, true);
        }
        let way = self.one_sided_way(peer, self.accesses.get(id).map_or(0, |access| access.len() as usize));
        let Some(access) = self.accesses.get_mut(id) else { return (false, false) };
        let (key, at) = (&access.key, access.at);
        let outcome = match access.what {
            What::Flush => self.endpoints.flush(peer),
            _ => self.endpoints.access(way, |transport, lane| {
                if !access.can_go_by_itself(transport.verbs(lane)) {
                    return Access::Unable;
                }
                match &access.what {
                    What::Put(source) => transport.put(lane, key, at, source),
                    What::Get(sink) => transport.get(lane, key, at, sink),
                    What::Atomic(atomic) => transport.atomic(lane, key, at, atomic),
                    What::Flush => Access::Unable,
                }
            }),
        };
        access.progress = match outcome {
            Access::Again => return (false, true),
            Access::Done(value) => Progress::Complete(Ok(value)),
            Access::Refused => Progress::Complete(Err(REFUSED)),
            Access::Lost => Progress::Complete(Err(PEER_LOST)),
            Access::Posted(token) => {
                self.posted_accesses.insert(token, id);
                Progress::Posted
            }
            Access::Unable => {
                access.by_packets = true;
                let turns = self.turns.entry(peer).or_default();
                if turns.under_way == UNDER_WAY_MAX {
                    access.progress = Progress::Behind;
                    turns.behind.push_back(id);
                    return (true, false);
                }
                turns.under_way += 1;
                access.progress = Progress::Packets(Pieces::default());
                return (true, self.send_pieces(id).1);
            }
        };
        (true, false)
    }

    /// Sends packets of an access until its lane or its window is full: whether any, and whether it waits for the lane.
    fn send_pieces(&mut self, id: u32) -> (bool, bool) {
        let Some(access) = self.accesses.get(id) else { return (false, false) };
        let (peer, whole) = (access.peer, access.len());
        let (small, payload) = (self.one_sided_way(peer, 0), self.one_sided_way(peer, whole as usize));
        let Some(access) = self.accesses.get_mut(id) else { return (false, false) };
        let Progress::Packets(mut pieces) = access.progress else { return (false, false) };
        let before = pieces.begun;
        let mut outcome = Outcome::Done;
        while !pieces.refused && pieces.begun < whole {
            // Asked anew each time, because a lane may have less room now.
            let Some(caps) = self.endpoints.caps(peer) else {
                outcome = if self.endpoints.state(peer) == State::Lost { Outcome::Lost } else { Outcome::Again };
                break;
            };
            let most = payload_max(&caps, RANGE_BYTES);
            if pieces.begun - pieces.ended >= WINDOW * most {
                break;
            }
            let len = most.min(whole - pieces.begun);
            let target = Target::new(&access.key, access.at + pieces.begun);
            outcome = match &access.what {
                What::Put(source) => {
                    let place = (pieces.begun as usize, len as usize);
                    self.endpoints.try_zcopy(
                        payload,
                        &own(Kind::PUT, id),
                        &target.encode_range(whole - pieces.begun),
                        source,
                        place,
                    )
                }
                What::Get(_) => self.endpoints.try_control(small, &own(Kind::GET, id), &target.encode_range(len)),
                What::Atomic(atomic) => {
                    let body = Target::new(&access.key, access.at).encode_atomic(atomic);
                    self.endpoints.try_control(small, &own(Kind::ATOMIC, id), &body)
                }
                What::Flush => Outcome::Done,
            };
            match outcome {
                Outcome::Done => {}
                Outcome::Posted(token) => {
                    access.in_use += 1;
                    self.posted_accesses.insert(token, id);
                }
                Outcome::Again | Outcome::Lost => break,
            }
            pieces.begun += len;
        }
        access.progress = Progress::Packets(pieces);
        if outcome == Outcome::Lost {
            self.end_packets(id, Err(PEER_LOST));
        }
        (pieces.begun > before, outcome == Outcome::Again)
    }

    /// `len` bytes of an access by packets are over: completes it, or sends more.
    fn end_piece(&mut self, id: u32, len: u64, outcome: Option<u64>) {
        let Some(access) = self.accesses.get_mut(id) else { return };
        let Progress::Packets(pieces) = &mut access.progress else { return };
        pieces.ended += len;
        pieces.refused |= outcome.is_none();
        pieces.value = outcome.unwrap_or(0);
        self.settle(id);
        let Some(access) = self.accesses.get(id) else { return };
        if !access.is_complete()
            && !self.flows.get(Way::first(access.peer)).is_some_and(|flow| flow.accesses.contains(&id))
        {
            self.advance_access(id);
        }
    }

    /// Completes an access by packets that has come to its end.
    fn settle(&mut self, id: u32) {
        let Some(access) = self.accesses.get(id) else { return };
        let Progress::Packets(pieces) = access.progress else { return };
        let is_over = pieces.ended == pieces.begun && (pieces.refused || pieces.begun == access.len());
        if is_over && access.in_use == 0 {
            self.end_packets(id, if pieces.refused { Err(REFUSED) } else { Ok(pieces.value) });
        }
    }

    /// Completes an access by packets; the next one has its turn.
    fn end_packets(&mut self, id: u32, outcome: Result<u64>) {
        let Some(access) = self.accesses.get_mut(id) else { return };
        access.progress = Progress::Complete(outcome);
        let Some(turns) = self.turns.get_mut(&access.peer) else { return };
        turns.under_way -= 1;
        let Some(next) = turns.behind.pop_front() else { return };
        if let Some(next) = self.accesses.get_mut(next) {
            next.progress = Progress::Waiting;
        }
        self.advance_access(next);
    }

    /// The access by packets that `token` names, if it expects the end of `len` bytes from `peer`.
    fn expecting(&self, peer: Peer, token: u32, len: u64) -> Option<&Accessing<T>> {
        let access = self.accesses.get(token).filter(|access| access.peer == peer)?;
        let Progress::Packets(pieces) = access.progress else { return None };
        (len > 0 && len <= pieces.begun - pieces.ended).then_some(access)
    }

    /// The transport no longer needs the source of a packet of an access.
    pub(super) fn on_piece_sent(&mut self, token: Token) {
        let Some(id) = self.posted_accesses.remove(&token) else { return };
        if let Some(access) = self.accesses.get_mut(id) {
            access.in_use = access.in_use.saturating_sub(1);
            self.settle(id);
        }
    }

    /// A lane has done an access, or its key was refused.
    pub(super) fn on_accessed(&mut self, token: Token, value: Option<u64>) {
        if let Some(access) = self.posted_accesses.remove(&token).and_then(|id| self.accesses.get_mut(id)) {
            access.progress = Progress::Complete(value.ok_or(REFUSED));
        }
    }

    /// Whether a lane to `peer` works on an access.
    pub(super) fn uses_memory_for(&self, peer: Peer) -> bool {
        let of_peer = |id: &u32| self.accesses.get(*id).is_some_and(|access| access.peer == peer);
        self.posted_accesses.values().any(of_peer)
    }

    /// Ends every access to a peer that is gone.
    pub(super) fn fail_accesses_to(&mut self, peer: Peer) {
        for (_, access) in self.accesses.iter_mut().filter(|(_, access)| access.peer == peer) {
            access.in_use = 0;
            if !access.is_complete() {
                access.progress = Progress::Complete(Err(PEER_LOST));
            }
        }
        self.turns.remove(&peer);
        let accesses = &self.accesses;
        self.posted_accesses.retain(|_, id| accesses.get(*id).is_some_and(|access| access.peer != peer));
    }

    /// Accesses that are not complete, and how many answers to those of peers wait for room, one line each.
    pub(super) fn describe_accesses(&self) -> impl Iterator<Item = String> {
        let pending = self.accesses.iter().filter(|(_, access)| !access.is_complete());
        let answers = self.flows.all_answers();
        let answers = answers.map(|(peer, count)| format!("answers to accesses of {}: {count} wait for room", peer.0));
        let accesses = pending.map(|(_, access)| {
            let what = match access.what {
                What::Put(_) => "put to",
                What::Get(_) => "get from",
                What::Atomic(_) => "atomic at",
                What::Flush => "flush of",
            };
            format!("{what} {}: {} bytes at {}", access.peer.0, access.len(), access.at)
        });
        accesses.chain(answers)
    }

    /// `GOT`: a part of what was asked for.
    fn on_got(&mut self, packet: T::Packet, packet_header: &Header) {
        let (peer, token) = (packet.peer(), packet_header.token);
        let body = self.endpoints.transport().body::<PLACE_BYTES>(&packet).map(u64::from_le_bytes);
        let len = packet.len().saturating_sub(PLACE_BYTES);
        let place = match (body, self.expecting(peer, token, len as u64)) {
            (Some(at), Some(access)) => at.checked_sub(access.at).filter(|at| is_inside(access.len(), *at, len as u64)),
            _ => None,
        };
        let sink = match (place, self.accesses.get(token)) {
            (Some(place), Some(Accessing { what: What::Get(sink), .. })) => Some((place, sink)),
            _ => None,
        };
        let Some((place, sink)) = sink else { return self.refuse_packet(packet) };
        let transport = self.endpoints.transport();
        transport.deliver(&packet, PLACE_BYTES, sink, place as usize, len, false);
        transport.release(packet);
        self.end_piece(token, len as u64, Some(0));
    }

    /// `ACCESSED`: a piece is over.
    fn on_accessed_packet(&mut self, packet: T::Packet, packet_header: &Header) {
        let peer = packet.peer();
        let Some(body) = self.take_body(packet) else { return reject(peer, packet_header) };
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| body[at + i]));
        let (len, is_refused) = (word(0) & !REFUSED_BIT, word(0) & REFUSED_BIT != 0);
        match self.expecting(peer, packet_header.token, len) {
            // What is got comes with `GOT`.
            Some(Accessing { what: What::Get(_), .. }) if !is_refused => reject(peer, packet_header),
            Some(_) => self.end_piece(packet_header.token, len, (!is_refused).then(|| word(8))),
            None => reject(peer, packet_header),
        }
    }

    /// Drops a packet that nothing expects, or that is too short.
    pub(super) fn refuse_packet(&mut self, packet: T::Packet) {
        reject(packet.peer(), &packet.header());
        self.endpoints.transport().release(packet);
    }
}

/// Most bytes behind a body of so many in a packet that isn't `DATA`: not every lane takes larger ones.
pub(super) fn payload_max(caps: &Caps, body: usize) -> u64 {
    caps.eager_max.min(caps.packet_max).saturating_sub(body).max(1) as u64
}
