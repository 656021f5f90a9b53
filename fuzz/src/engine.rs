//! The message engine with one honest peer and one that sends any packet at any time.
//!
//! Process 0 is under test, process 1 is another engine, process 2 is the fuzzer. Whatever 2 does, nothing panics, no sink
//! is overrun, and all messages between 0 and 1 arrive whole and in order.

use crate::input::Input;
use base::Peer;
use protocol::endpoint::Endpoints;
use protocol::engine::{Address, Engine, Mode, OpId};
use protocol::kind::Kind;
use protocol::matching::{Envelope, Pattern};
use protocol::order::{FIRST, Number};
use protocol::transport::Caps;
use protocol::wire::{BODY_BYTES, Grant, Header, Offer};
use std::cell::RefCell;
use std::rc::Rc;
use testkit::transport::{Bytes, Faults, SimTransport, World};

const ME: Peer = Peer(0);
const FRIEND: Peer = Peer(1);
const FOE: Peer = Peer(2);
/// Context of the honest pair; the fuzzer's packets have others, since a rank may talk in the contexts it belongs to.
const HONEST: u64 = 10;
const OTHER: u64 = 20;
const CAPS: Caps = Caps { packet_max: 64, piece_min: 8, eager_max: 48, fragments_max: 80, push_max: 92, pull_min: 100 };
/// Progress calls within which honest messages must arrive.
const PATIENCE: usize = 200_000;

/// Plays one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let percent = |byte: u8| usize::from(byte) % 60;
    let faults = Faults {
        refuse: percent(input.byte()),
        delay: percent(input.byte()),
        pull_fails: usize::from(input.byte()) % 101,
        land: percent(input.byte()),
        stream: 30,
        hold: 30,
        post: 30,
    };
    let seed = input.byte();
    let world = World::new(seed.into(), faults, CAPS);
    world.borrow_mut().use_lanes(1 + usize::from(seed % 3));
    let engine = |me| Engine::new(Endpoints::new(SimTransport::new(me, 3, &world)));
    let mut stage = Stage {
        engines: [engine(ME), engine(FRIEND)],
        world: Rc::clone(&world),
        letters: [Letters::default(), Letters::default()],
        others: Vec::new(),
    };
    while !input.is_empty() {
        stage.step(&mut input);
    }
    stage.finish();
}

/// The messages of one direction of the honest pair.
#[derive(Default)]
struct Letters {
    sent: usize,
    sends: Vec<OpId>,
    received: Vec<(OpId, Bytes)>,
}

/// Message `n`: long enough for every protocol.
fn letter(n: usize) -> Vec<u8> {
    let len = [0, 5, 48, 49, 90, 99, 100, 333][n % 8];
    (0..len).map(|i| (n * 31 + i) as u8).collect()
}

struct Stage {
    engines: [Engine<SimTransport>; 2],
    world: Rc<RefCell<World>>,
    /// To 0 and to 1.
    letters: [Letters; 2],
    /// Operations of 0 that the fuzzer may disturb.
    others: Vec<OpId>,
}

fn buffer(bytes: Vec<u8>) -> Bytes {
    Bytes::new(bytes)
}

impl Stage {
    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 13 {
            0..=2 => self.inject(input),
            3 => self.post_letter(input.below(2), input.flag()),
            4 => self.await_letter(input.below(2)),
            5 => {
                let pattern = self.pattern(input);
                let sink = buffer(vec![0; input.below(200)]);
                let expected = input.flag().then_some(FOE);
                let op = self.engines[0].post_recv(pattern, expected, sink);
                self.others.push(op);
            }
            6 => {
                let envelope = Envelope { context: OTHER, source: 0, tag: input.below(3) as i32 };
                let mode = if input.flag() { Mode::Synchronous } else { Mode::Standard };
                let source = buffer(vec![7; input.below(400)]);
                if let Ok(Some(op)) = self.engines[0].post_send(Address { peer: FOE, envelope }, mode, source) {
                    self.others.push(op);
                }
            }
            7..=8 => self.progress(input.below(2), 1 + input.below(20)),
            9 => self.disturb(input),
            10 => {
                let pattern = self.pattern(input);
                let found = self.engines[0].probe(&pattern);
                if let Some((message, again)) = self.engines[0].extract(&pattern) {
                    assert_eq!(found, Some(again));
                    let op = self.engines[0].post_recv_message(message, buffer(vec![0; input.below(200)]));
                    self.others.push(op.expect("an extracted message"));
                }
            }
            11 => drop(self.engines[0].describe_pending()),
            _ => match input.byte() {
                0 => self.world.borrow_mut().kill(FOE),
                byte @ 1..=60 => {
                    self.world.borrow_mut().lose_lane(ME, FRIEND, 1 + usize::from(byte % 2));
                }
                _ => {}
            },
        }
    }

    /// A packet from the foe.
    fn inject(&mut self, input: &mut Input<'_>) {
        let kind = Kind::ALL[input.below(Kind::ALL.len())];
        let to = if input.byte() > 240 { FRIEND } else { ME };
        let token = if input.byte() > 200 { input.word() } else { input.below(8) as u32 };
        let context = if input.byte() > 200 { input.long() | 1 << 40 } else { OTHER };
        // Packets with numbers wait for those before them, or have come before.
        let number = match input.byte() {
            0..=200 => Number::NONE,
            201..=240 => Number::of(FIRST + input.below(6) as u64),
            _ => Number::from_bytes([input.byte(), input.byte(), input.byte()]),
        };
        let header = Header { kind, number, source: input.below(4) as u32, tag: input.below(3) as i32, token, context };
        let (a, b) = (input.evil() as u64, input.evil() as u64);
        let mut payload = match kind {
            Kind::REQUEST_TO_SEND => Offer { length: a, address: b }.encode().to_vec(),
            Kind::CLEAR_TO_SEND => Grant { length: a, receive: b }.encode().to_vec(),
            Kind::EAGER_FIRST => Offer { length: a, address: b }.encode().to_vec(),
            Kind::DATA | Kind::EAGER_MIDDLE | Kind::EAGER_LAST => [&a.to_le_bytes(), input.bytes(20)].concat(),
            _ => input.bytes(30).to_vec(),
        };
        if input.byte() > 230 {
            payload.truncate(input.below(BODY_BYTES));
        }
        self.world.borrow_mut().inject(FOE, to, header, payload);
    }

    fn pattern(&self, input: &mut Input<'_>) -> Pattern {
        let source = input.flag().then(|| input.below(4) as u32);
        let tag = input.flag().then(|| input.below(3) as i32);
        Pattern { context: OTHER, source, tag }
    }

    /// The other engine sends the next message to `to`.
    fn post_letter(&mut self, to: usize, sync: bool) {
        let letters = &mut self.letters[to];
        let from = 1 - to;
        let envelope = Envelope { context: HONEST, source: from as u32, tag: 1 };
        let mode = if sync { Mode::Synchronous } else { Mode::Standard };
        let address = Address { peer: Peer(to as u32), envelope };
        let op = self.engines[from].post_send(address, mode, buffer(letter(letters.sent)));
        letters.sends.extend(op.expect("the friend lives"));
        letters.sent += 1;
    }

    fn await_letter(&mut self, at: usize) {
        let from = 1 - at as u32;
        let pattern = Pattern { context: HONEST, source: Some(from), tag: Some(1) };
        let sink = buffer(vec![0; 400]);
        let op = self.engines[at].post_recv(pattern, Some(Peer(from)), sink.clone());
        self.letters[at].received.push((op, sink));
    }

    fn progress(&mut self, of: usize, times: usize) {
        for _ in 0..times {
            self.engines[of].progress();
        }
    }

    fn disturb(&mut self, input: &mut Input<'_>) {
        if self.others.is_empty() {
            return;
        }
        let at = input.below(self.others.len());
        let op = self.others[at];
        if input.flag() {
            self.engines[0].cancel(op);
        }
        if self.engines[0].take(op).is_some() {
            self.others.swap_remove(at);
        }
    }

    /// All honest messages arrive, as they were sent.
    fn finish(mut self) {
        for at in 0..2 {
            while self.letters[at].received.len() < self.letters[at].sent {
                self.await_letter(at);
            }
        }
        let mut patience = PATIENCE;
        while !self.is_done() {
            assert!(patience > 0, "{:?}", self.engines[0].describe_pending());
            patience -= 1;
            self.progress(0, 1);
            self.progress(1, 1);
        }
        for at in 0..2 {
            let letters = std::mem::take(&mut self.letters[at]);
            for (n, (op, sink)) in letters.received.into_iter().take(letters.sent).enumerate() {
                let wanted = letter(n);
                let outcome = self.engines[at].take(op).expect("it is complete");
                assert_eq!((outcome.error, outcome.length as usize), (None, wanted.len()));
                assert_eq!(sink.bytes()[..wanted.len()], wanted, "message {n} to {at}");
            }
            for op in letters.sends {
                assert_eq!(self.engines[1 - at].take(op).expect("it is complete").error, None);
            }
        }
    }

    fn is_done(&self) -> bool {
        (0..2).all(|at| {
            let letters = &self.letters[at];
            letters.received.iter().take(letters.sent).all(|(op, _)| self.engines[at].is_complete(*op))
                && letters.sends.iter().all(|op| self.engines[1 - at].is_complete(*op))
        })
    }
}
