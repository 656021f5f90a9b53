//! Drives the processes of a rig: polls them in turn, opens lanes, keeps what arrives.

use super::{Abilities, Pair, Rig};
use base::Peer;
use protocol::kind::Kind;
use protocol::memory::Verbs;
use protocol::order::Number;
use protocol::transport::{Access, Caps, Delivery, Event, Outcome, Packet, Token, Transport};
use protocol::wire::Header;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long nothing may happen before a case fails.
const WATCHDOG: Duration = Duration::from_secs(60);

/// What a process has seen, in its order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Seen {
    /// A packet: sender, header, payload.
    Packet(Peer, Header, Vec<u8>),
    Sent(Token),
    Accessed(Token, Option<u64>),
    LaneLost(Peer, usize),
    Lost(Peer),
}

type Lane<R> = <<R as Rig>::T as Transport>::Lane;
type Source<R> = <<R as Rig>::T as Transport>::Source;
type Sink<R> = <<R as Rig>::T as Transport>::Sink;

/// One process.
struct Process<R: Rig> {
    /// By number; a lost one leaves its place empty.
    lanes: HashMap<Peer, Vec<Option<Lane<R>>>>,
    seen: Vec<Seen>,
    /// Packets among that, by sender.
    packets: HashMap<Peer, usize>,
    /// The payload that is landing: its sink, and where it is to be entered in `seen`.
    landing: Option<(Sink<R>, usize)>,
    /// It is not polled.
    rests: bool,
    /// It takes packets out of their lanes and looks at them later: these.
    kept: Option<Vec<<R::T as Transport>::Packet>>,
}

/// A packet to be sent.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub(super) kind: Kind,
    /// Its place among the packets of its pair.
    pub(super) order: Number,
    pub(super) number: i32,
    pub(super) body: Vec<u8>,
    pub(super) data: Vec<u8>,
}

/// See the head of this file.
pub(super) struct Stage<R: Rig> {
    pub(super) rig: R,
    processes: Vec<Process<R>>,
    name: &'static str,
}

/// The first lane to `peer` that is not lost.
fn first<L>(lanes: &mut HashMap<Peer, Vec<Option<L>>>, peer: Peer) -> &mut L {
    lanes.get_mut(&peer).and_then(|lanes| lanes.iter_mut().flatten().next()).expect("it is open")
}

/// The header of packet `number`.
pub(super) fn header(kind: Kind, number: i32) -> Header {
    Header { kind, number: Number::NONE, source: 7, tag: number, token: number as u32 ^ 0x55, context: 64 }
}

/// Bytes that depend on a number.
pub(super) fn pattern(number: i32, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u32).wrapping_mul(31).wrapping_add(number as u32 * 7 + (i >> 8) as u32) as u8).collect()
}

impl Letter {
    /// Packet `number` of a mix of all ways to send, with `len` bytes of data at most.
    pub(super) fn mixed(number: i32, len: usize) -> Letter {
        let (kind, body, len) = match number % 4 {
            0 => (Kind::EAGER, 0, len),
            1 => (Kind::REQUEST_TO_SEND, 16, 0),
            2 => (Kind::EAGER_MIDDLE, 8, len),
            _ => (Kind::FINISHED, 0, 0),
        };
        Letter { kind, order: Number::NONE, number, body: pattern(number + 1, body), data: pattern(number, len) }
    }

    /// A packet of `len` bytes of a stream.
    pub(super) fn data(number: i32, len: usize) -> Letter {
        Letter {
            kind: Kind::DATA,
            order: Number::NONE,
            number,
            body: pattern(number + 1, 8),
            data: pattern(number, len),
        }
    }

    /// A pushed piece of `len` bytes; every second one finds no place, and is gathered.
    pub(super) fn pushed(number: i32, len: usize) -> Letter {
        Letter { kind: Kind::PUSHED, ..Letter::data(number, len) }
    }

    /// The same with a place among the packets of its pair.
    pub(super) fn numbered(self, count: u64) -> Letter {
        Letter { order: Number::of(count), ..self }
    }

    fn header(&self) -> Header {
        Header { number: self.order, ..header(self.kind, self.number) }
    }

    /// What the receiver should see.
    pub(super) fn seen(&self, from: Peer) -> Seen {
        Seen::Packet(from, self.header(), [&self.body[..], &self.data].concat())
    }
}

impl<R: Rig> Stage<R> {
    pub(super) fn new(rig: R, name: &'static str) -> Stage<R> {
        let new = |_| Process {
            lanes: HashMap::new(),
            seen: Vec::new(),
            packets: HashMap::new(),
            landing: None,
            rests: false,
            kept: None,
        };
        let processes = (0..rig.size()).map(new).collect();
        Stage { rig, processes, name }
    }

    pub(super) fn abilities(&self) -> Abilities {
        self.rig.abilities()
    }

    pub(super) fn pair(&self) -> Pair {
        self.rig.pair()
    }

    /// What `at` has seen so far.
    pub(super) fn seen(&self, at: Peer) -> &[Seen] {
        &self.processes[at.0 as usize].seen
    }

    /// Packets of `from` that `at` has seen.
    pub(super) fn packets(&self, at: Peer, from: Peer) -> Vec<Seen> {
        let of = |seen: &&Seen| matches!(seen, Seen::Packet(sender, ..) if *sender == from);
        self.seen(at).iter().filter(of).cloned().collect()
    }

    /// How many packets of `from` `at` has seen.
    pub(super) fn count(&self, at: Peer, from: Peer) -> usize {
        self.processes[at.0 as usize].packets.get(&from).copied().unwrap_or(0)
    }

    /// How often `at` was told that `peer` is lost.
    pub(super) fn losses(&self, at: Peer, peer: Peer) -> usize {
        self.seen(at).iter().filter(|seen| **seen == Seen::Lost(peer)).count()
    }

    /// Whether `at` is polled from now on.
    pub(super) fn rest(&mut self, at: Peer, rests: bool) {
        self.processes[at.0 as usize].rests = rests;
    }

    /// Polls everybody once. True if anything came.
    pub(super) fn poll(&mut self) -> bool {
        (0..self.rig.size()).map(Peer).fold(false, |any, at| self.poll_one(at) | any)
    }

    fn poll_one(&mut self, at: Peer) -> bool {
        let process = &mut self.processes[at.0 as usize];
        if process.rests {
            return false;
        }
        let Some(event) = self.rig.transport(at).and_then(Transport::poll) else { return false };
        match event {
            Event::Packet(packet) => self.take(at, packet),
            Event::Landed { peer, header, len } => {
                let (sink, place) = process.landing.take().expect("a payload is landing");
                assert_eq!(len, protocol::transport::Sink::len(&sink), "{}: all of it has landed", self.name);
                let bytes = self.rig.bytes(&sink);
                match &mut process.seen[place] {
                    Seen::Packet(from, found, payload) if *from == peer && *found == header => payload.extend(bytes),
                    other => panic!("{}: landed {header:?}, awaited {other:?}", self.name),
                }
            }
            Event::Sent(token) => process.seen.push(Seen::Sent(token)),
            Event::Accessed(token, value) => process.seen.push(Seen::Accessed(token, value)),
            Event::Opened(peer, lanes) => drop(process.lanes.insert(peer, lanes.into_iter().map(Some).collect())),
            Event::LaneLost(peer, number) => {
                process.seen.push(Seen::LaneLost(peer, number));
                let lanes = process.lanes.get_mut(&peer).expect("they are open");
                assert!(lanes[number].take().is_some(), "{}: a lane is lost once", self.name);
            }
            Event::Wanted(peer) => self.connect(at, peer),
            Event::Suspend(_) | Event::Resume(_) => panic!("nobody has ordered a migration"),
            Event::Revoked(_) => panic!("nobody has revoked anything"),
            Event::Lost(peer) => {
                process.seen.push(Seen::Lost(peer));
                process.lanes.remove(&peer);
            }
        }
        true
    }

    /// Copies a packet out, the body first.
    fn take(&mut self, at: Peer, packet: <R::T as Transport>::Packet) {
        if let Some(kept) = &mut self.processes[at.0 as usize].kept {
            return kept.push(self.rig.transport(at).expect("it has just been polled").detach(packet));
        }
        self.look_at(at, packet);
    }

    /// Whether `at` keeps packets from now on; when it no longer does it looks at them.
    pub(super) fn keep(&mut self, at: Peer, keeps: bool) {
        let kept = std::mem::replace(&mut self.processes[at.0 as usize].kept, keeps.then(Vec::new));
        kept.into_iter().flatten().for_each(|packet| self.look_at(at, packet));
    }

    /// Packets that `at` keeps.
    pub(super) fn kept(&self, at: Peer) -> usize {
        self.processes[at.0 as usize].kept.as_ref().map_or(0, Vec::len)
    }

    fn look_at(&mut self, at: Peer, packet: <R::T as Transport>::Packet) {
        let (peer, header) = (packet.peer(), packet.header());
        let packet = match header.kind == Kind::PUSHED && header.tag % 2 == 1 {
            true => match self.rig.transport(at).expect("it has just been polled").gather(packet) {
                Some(whole) => whole,
                None => return,
            },
            false => packet,
        };
        *self.processes[at.0 as usize].packets.entry(peer).or_default() += 1;
        let skip = header.kind.info().body.min(packet.len());
        let rest = packet.len() - skip;
        let (sink, head) = (self.rig.sink(rest), self.rig.sink(skip));
        let transport = self.rig.transport(at).expect("it has just been polled");
        if skip == 8 {
            let body = transport.body::<8>(&packet).expect("the body is there");
            let delivery = transport.deliver(&packet, skip, &sink, 0, rest, header.kind.info().lands);
            transport.release(packet);
            let process = &mut self.processes[at.0 as usize];
            let mut payload = body.to_vec();
            match delivery {
                Delivery::Complete => payload.extend(self.rig.bytes(&sink)),
                Delivery::Landing => process.landing = Some((sink, process.seen.len())),
            }
            return process.seen.push(Seen::Packet(peer, header, payload));
        }
        // In two parts, so that places inside of a payload are tried.
        assert_eq!(transport.deliver(&packet, 0, &head, 0, skip, false), Delivery::Complete);
        assert_eq!(transport.deliver(&packet, skip, &sink, 0, rest, false), Delivery::Complete);
        transport.release(packet);
        let payload = [self.rig.bytes(&head), self.rig.bytes(&sink)].concat();
        self.processes[at.0 as usize].seen.push(Seen::Packet(peer, header, payload));
    }

    /// Polls until `done`.
    pub(super) fn until(&mut self, what: &str, mut done: impl FnMut(&mut Stage<R>) -> bool) {
        let mut deadline = Instant::now() + WATCHDOG;
        while !done(self) {
            if self.poll() {
                deadline = Instant::now() + WATCHDOG;
            } else {
                assert!(Instant::now() < deadline, "{}: no {what}", self.name);
                std::thread::yield_now();
            }
        }
    }

    /// Polls for a while, so that what should not come could come.
    pub(super) fn linger(&mut self) {
        let end = Instant::now() + Duration::from_millis(20);
        for _ in 0..5000 {
            self.poll();
        }
        while Instant::now() < end {
            self.poll();
        }
    }

    pub(super) fn connect(&mut self, at: Peer, peer: Peer) {
        if let Some(transport) = self.rig.transport(at) {
            transport.connect(peer);
        }
    }

    pub(super) fn has_lane(&self, at: Peer, peer: Peer) -> bool {
        self.processes[at.0 as usize].lanes.contains_key(&peer)
    }

    /// Opens a lane from `at` to `peer`, and waits until a packet has passed through it: a lane may be there before it is connected.
    pub(super) fn open(&mut self, at: Peer, peer: Peer) {
        self.connect(at, peer);
        self.until("lane", |stage| stage.has_lane(at, peer));
        let first =
            Letter { kind: Kind::SYNC_ACK, order: Number::NONE, number: -1, body: Vec::new(), data: Vec::new() };
        self.send(at, peer, &first);
        let wanted = first.seen(at);
        self.until("first packet", |stage| stage.seen(peer).contains(&wanted));
        let receiver = &mut self.processes[peer.0 as usize];
        receiver.seen.retain(|seen| *seen != wanted);
        *receiver.packets.entry(at).or_default() -= 1;
    }

    /// Gives the lane from `at` to `peer` back.
    pub(super) fn close(&mut self, at: Peer, peer: Peer) {
        let lanes = self.processes[at.0 as usize].lanes.remove(&peer).expect("they are open");
        let transport = self.rig.transport(at).expect("it lives");
        lanes.into_iter().flatten().for_each(|lane| transport.close_lane(peer, lane));
    }

    pub(super) fn caps(&mut self, at: Peer, peer: Peer) -> Caps {
        let lane = first(&mut self.processes[at.0 as usize].lanes, peer);
        self.rig.transport(at).expect("it lives").caps(lane)
    }

    /// How many lanes have been opened.
    pub(super) fn lane_count(&self, at: Peer, peer: Peer) -> usize {
        self.processes[at.0 as usize].lanes.get(&peer).map_or(0, Vec::len)
    }

    /// Tries to send a letter over the first lane. Its source is reused as soon as it may be; a posted one is returned.
    pub(super) fn try_send(&mut self, at: Peer, to: Peer, letter: &Letter) -> (Outcome, Option<Source<R>>) {
        let lanes = &self.processes[at.0 as usize].lanes[&to];
        let number = lanes.iter().position(Option::is_some).expect("a lane lives");
        self.try_send_over((at, to, number), letter)
    }

    /// As [`Stage::try_send`], over the lane of a number, or the first one if that is lost.
    pub(super) fn try_send_over(
        &mut self,
        (at, to, number): (Peer, Peer, usize),
        letter: &Letter,
    ) -> (Outcome, Option<Source<R>>) {
        let header = letter.header();
        // Not all of it is sent, so that the place in a source is tried.
        let margin = if letter.kind == Kind::EAGER { 0 } else { 3 };
        let bytes = [&vec![0xdd; margin][..], &letter.data, &vec![0xdd; margin]].concat();
        let source = self.rig.source(&bytes);
        let lanes = &mut self.processes[at.0 as usize].lanes;
        let lane = match lanes.get(&to).is_some_and(|lanes| lanes[number].is_some()) {
            true => lanes.get_mut(&to).and_then(|lanes| lanes[number].as_mut()).expect("it lives"),
            false => first(lanes, to),
        };
        let transport = self.rig.transport(at).expect("it lives");
        let outcome = match letter.kind {
            Kind::EAGER => transport.try_bcopy(lane, &header, &letter.body, &source),
            Kind::EAGER_MIDDLE | Kind::DATA | Kind::PUSHED => {
                transport.try_zcopy(lane, &header, &letter.body, &source, margin, letter.data.len())
            }
            _ => transport.try_control(lane, &header, &letter.body),
        };
        match outcome {
            Outcome::Posted(_) => {
                let is_zero_copy = matches!(letter.kind, Kind::EAGER_MIDDLE | Kind::DATA | Kind::PUSHED);
                assert!(is_zero_copy, "{}: only zero copy posts", self.name);
                (outcome, Some(source))
            }
            _ => {
                self.rig.reuse(&source);
                (outcome, None)
            }
        }
    }

    /// Sends a letter, polling while there is no room, and waits until its source is free.
    pub(super) fn send(&mut self, at: Peer, to: Peer, letter: &Letter) {
        let mut result = (Outcome::Again, None);
        self.until("room", |stage| {
            result = stage.try_send(at, to, letter);
            result.0 != Outcome::Again
        });
        match result {
            (Outcome::Posted(token), Some(source)) => {
                self.until("end of a posted send", |stage| stage.seen(at).contains(&Seen::Sent(token)));
                self.rig.reuse(&source);
            }
            (outcome, _) => assert_eq!(outcome, Outcome::Done, "{}: packet {}", self.name, letter.number),
        }
    }

    /// Reaches memory that `to` has registered, polling while that can't be done now: the number before, or `None` if it was refused.
    pub(super) fn access(
        &mut self,
        (at, to): (Peer, Peer),
        mut access: impl FnMut(&mut R::T, &mut Lane<R>) -> Access,
    ) -> Option<u64> {
        let mut outcome = Access::Again;
        self.until("access", |stage| {
            let lane = first(&mut stage.processes[at.0 as usize].lanes, to);
            outcome = access(stage.rig.transport(at).expect("it lives"), lane);
            outcome != Access::Again
        });
        match outcome {
            Access::Done(value) => Some(value),
            Access::Refused => None,
            Access::Posted(token) => {
                let mut value = None;
                self.until("end of an access", |stage| {
                    let of = |seen: &Seen| match seen {
                        Seen::Accessed(other, value) if *other == token => Some(*value),
                        _ => None,
                    };
                    value = stage.seen(at).iter().find_map(of);
                    value.is_some()
                });
                value.flatten()
            }
            other => panic!("{}: an access ends with {other:?}", self.name),
        }
    }

    /// What the lane does with registered memory.
    pub(super) fn verbs(&mut self, at: Peer, to: Peer) -> Verbs {
        let lane = first(&mut self.processes[at.0 as usize].lanes, to);
        self.rig.transport(at).expect("it lives").verbs(lane)
    }

    /// Whether a payload is on its way into its place at `at`.
    pub(super) fn is_landing(&self, at: Peer) -> bool {
        self.processes[at.0 as usize].landing.is_some()
    }

    /// Waits until `at` has seen exactly these packets of `from`.
    pub(super) fn expect(&mut self, at: Peer, from: Peer, letters: &[Letter]) {
        self.until("packet", |stage| stage.count(at, from) >= letters.len() && !stage.is_landing(at));
        let wanted: Vec<Seen> = letters.iter().map(|letter| letter.seen(from)).collect();
        let got = self.packets(at, from);
        let first_wrong = wanted.iter().zip(&got).position(|(wanted, got)| wanted != got);
        if let Some(place) = first_wrong {
            let (wanted, got) = (&wanted[place], &got[place]);
            panic!(
                "{}: packet {place}: {:.300} instead of {:.300}",
                self.name,
                format!("{got:?}"),
                format!("{wanted:?}")
            );
        }
        assert_eq!(got.len(), wanted.len(), "{}: too many packets", self.name);
    }

    /// Says why a case does not apply.
    pub(super) fn skip(&self, why: &str) {
        base::log::write(base::log::Level::Info, format_args!("skipped: {}: {why}", self.name));
    }
}
