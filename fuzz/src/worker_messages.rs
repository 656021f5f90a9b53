//! Packets of a worker of another node, in any order and with any contents, between what runs begin and give up: only the memory of ends that have begun and are not over is
//! touched, inside of their bounds, and each end is over once.

use crate::input::Input;
use base::{Class, Error, Result};
use mpi::coll::portable::remote::Route;
use offload::messages::{Begun, Ends, Messages};
use offload::packet::{BODY_MAX, Packet};
use protocol::kind::Kind;
use protocol::order::Number;
use protocol::transport::Outcome;
use protocol::wire::Header;
use std::collections::{BTreeMap, HashMap};

const STEPS_MAX: usize = 500;
const PART_MAX: usize = 16;
const KINDS: [Kind; 6] = [
    Kind::WORKER_READY,
    Kind::WORKER_DATA,
    Kind::WORKER_DATA,
    Kind::WORKER_PLACED,
    Kind::WORKER_SEEN,
    Kind::WORKER_FAILED,
];

struct Open {
    begun: Begun<u32>,
    sends: bool,
}

/// Ends that have begun and are not over.
#[derive(Default)]
struct Story {
    open: BTreeMap<u32, Open>,
    is_readable: bool,
}

impl Story {
    fn check(&self, end: u32, sends: bool, offset: u64, len: usize) {
        let open = &self.open[&end];
        assert!(open.sends == sends && offset.checked_add(len as u64).is_some_and(|to| to <= open.begun.bytes));
    }
}

impl Ends for Story {
    type End = u32;

    fn read(&mut self, end: &u32, offset: u64, into: &mut [u8]) -> Result {
        self.check(*end, true, offset, into.len());
        if self.is_readable { Ok(()) } else { Err(Error::new(Class::ERR_OTHER, "it can't be read")) }
    }

    fn write(&mut self, end: &u32, offset: u64, from: &[u8]) -> Result {
        self.check(*end, false, offset, from.len());
        if self.is_readable { Ok(()) } else { Err(Error::new(Class::ERR_OTHER, "it can't be written")) }
    }

    fn end(&mut self, end: &u32, _total: u64, _outcome: Result) {
        assert!(self.open.remove(end).is_some(), "an end is over twice");
    }
}

/// Few routes, so that packets meet what has begun. The own ranks are 0 and 1.
fn route(input: &mut Input<'_>, sends: bool) -> Route {
    let (own, other) = (u64::from(input.byte() % 2), 2 + u64::from(input.byte() % 2));
    let (from, to) = if sends { (own, other) } else { (other, own) };
    Route { context: 1, tag: 2, round: u64::from(input.byte() % 2), from, to }
}

fn packet(input: &mut Input<'_>) -> Packet {
    let kind = KINDS[input.below(KINDS.len())];
    let is_wild = input.byte().is_multiple_of(8);
    let sends = matches!(kind, Kind::WORKER_READY | Kind::WORKER_PLACED);
    let known = route(input, sends);
    let mut words =
        [known.round, u64::from(input.byte() % 4), u64::from(input.byte() % 64), u64::from(input.byte() % 64)];
    if is_wild {
        words[input.below(4)] = input.long();
    }
    let mut body = [0; BODY_MAX];
    words.iter().enumerate().for_each(|(i, word)| body[8 * i..][..8].copy_from_slice(&word.to_le_bytes()));
    let (source, token) = (known.from as u32, known.to as u32);
    let header = Header { kind, number: Number::NONE, source, tag: known.tag, token, context: known.context };
    let packet = Packet::decode(&header, &body).expect("these are the kinds of workers");
    let (again, body) = packet.encode();
    assert_eq!(Packet::decode(&again, &body), Some(packet));
    packet
}

/// See the head of this file.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut messages = Messages::new(0);
    let mut story = Story { is_readable: true, ..Story::default() };
    let mut numbers: HashMap<(Route, bool), u64> = HashMap::new();
    let mut next = 0;
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        let node = 1 + u32::from(input.byte() % 2);
        match input.byte() % 10 {
            what @ (0 | 1) => {
                let sends = what == 0;
                let route = route(&mut input, sends);
                let number = numbers.entry((route, sends)).or_default();
                *number += 1;
                let begun = Begun { end: next, route, number: *number, bytes: u64::from(input.byte() % 64) };
                story.open.insert(next, Open { begun, sends });
                next += 1;
                // The other ranks are on nodes 1 and 2.
                let home = if sends { route.to } else { route.from } as u32 - 1;
                if sends { messages.begin_send(home, begun) } else { messages.begin_receive(home, begun) }
            }
            2..=5 => {
                let packet = packet(&mut input);
                let len = input.below(PART_MAX + 1);
                let payload = input.bytes(len);
                messages.on_packet(node, &packet, payload, &mut story);
            }
            6 => messages.restart(node),
            7 => story.is_readable = !input.byte().is_multiple_of(4),
            8 => {
                let rank = u64::from(input.byte() % 4);
                if rank < 2 {
                    messages.forget_rank(rank);
                    story
                        .open
                        .retain(|_, open| rank != if open.sends { open.begun.route.from } else { open.begun.route.to });
                } else {
                    messages.forget_peer(rank);
                }
                let gone = input.word() % (next + 1);
                messages.forget_ends(|end| *end == gone);
                story.open.remove(&gone);
            }
            _ => {
                let mut room = input.below(20);
                messages.push(PART_MAX, &mut story, |_, _, bytes| {
                    assert!(bytes.len() <= PART_MAX);
                    room = room.saturating_sub(1);
                    if room > 0 { Outcome::Done } else { Outcome::Again }
                });
            }
        }
        let (slot, routes) = ((u64::from(input.byte() % 2), 7), [route(&mut input, false)]);
        if messages.unseen(&routes[0]).is_some() {
            messages.hold(slot, routes.iter());
        }
        messages.take_released();
    }
}
