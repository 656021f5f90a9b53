//! Control messages: any frame decodes to a message with exactly these bytes or is refused; the splitter cuts like a naive
//! reader; and nobody without the key gets through the handshake between agents.

use crate::input::Input;
use launch::container::Container;
use launch::invite::Invite;
use launch::top::table::{self, Sample};
use launch::waits::{Seen, explain};
use protocol::control::adopt::Plan;
use protocol::control::exchange::Step;
use protocol::control::frame::{HEADER, RANK_LIMIT, Splitter, frame};
use protocol::control::handshake::{self, Handshake, Key, Step as Next};
use protocol::control::inquiry::{Answer, Question, RankStatus};
use protocol::control::near::SameKernel;
use protocol::control::rank::Times;
use protocol::control::tree::{self, JobSpec, Packet};
use protocol::control::{EndpointAddress, JobInfo, ToAgent, ToRank, Wire, decode, encode};

/// Plays one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    match input.byte() % 17 {
        0 => codec::<Packet>(input.rest()),
        1 => codec::<ToAgent>(input.rest()),
        2 => codec::<ToRank>(input.rest()),
        3 => codec::<JobInfo>(input.rest()),
        4 => codec::<EndpointAddress>(input.rest()),
        5 => codec::<JobSpec>(input.rest()),
        6 => invite(input.rest()),
        7 => splitter(&mut input),
        8 => handshake(&mut input),
        10 => container(input.rest()),
        11 => codec::<SameKernel>(input.rest()),
        12 => codec::<Question>(input.rest()),
        13 => answer(input.rest()),
        14 => codec::<Step>(input.rest()),
        15 => codec::<Times>(input.rest()),
        16 => codec::<Plan>(input.rest()),
        _ => routes(&mut input),
    }
}

fn codec<T: Wire + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let Ok(value) = decode::<T>(bytes) else { return };
    assert_eq!(encode(&value), bytes, "{value:?}");
    let whole = frame(&value);
    let mut splitter = Splitter::default();
    splitter.feed(&whole);
    if bytes.len() <= RANK_LIMIT && !bytes.is_empty() {
        assert_eq!(splitter.next_frame(RANK_LIMIT).expect("a frame of ours"), Some(bytes));
    }
}

fn invite(bytes: &[u8]) {
    codec::<Invite>(bytes);
    if let Ok(invite) = decode::<Invite>(bytes) {
        assert_eq!(Invite::from_line(&invite.to_line()), Some(invite));
    }
    if let Some(invite) = Invite::from_line(&String::from_utf8_lossy(bytes)) {
        assert_eq!(Invite::from_line(&invite.to_line()), Some(invite));
    }
}

/// What ranks say of themselves: `mpiexec` and `ferrule top` put it into words.
fn answer(bytes: &[u8]) {
    codec::<Answer>(bytes);
    let Ok(answer) = decode::<Answer>(bytes) else { return };
    table::lines(1, &answer, &Sample::of(&answer), 80);
    if let Answer::Job { ranks, .. } = answer {
        let seen = |r: RankStatus| Seen { host: r.host, process: r.process, report: r.report, ended: false };
        assert!(!explain(&ranks.into_iter().map(seen).collect::<Vec<Seen>>()).is_empty());
    }
}

/// What a container's supervisor reads.
fn container(bytes: &[u8]) {
    codec::<Container>(bytes);
    if let Some(container) = Container::from_line(&String::from_utf8_lossy(bytes)) {
        assert_eq!(Container::from_line(&container.to_line()), Some(container));
    }
}

/// The frames that a reader of the whole stream sees, and whether it stops at an error.
fn frames_of(mut stream: &[u8], limit: usize) -> (Vec<Vec<u8>>, bool) {
    let mut frames = Vec::new();
    while let Some((header, rest)) = stream.split_first_chunk::<HEADER>() {
        let length = u32::from_le_bytes(*header) as usize;
        if length == 0 || length > limit {
            return (frames, true);
        }
        let Some((body, rest)) = rest.split_at_checked(length) else { break };
        frames.push(body.to_vec());
        stream = rest;
    }
    (frames, false)
}

fn splitter(input: &mut Input<'_>) {
    let (step, limit) = (1 + input.below(300), 1 + input.below(2000));
    let mut stream = Vec::new();
    while !input.is_empty() {
        let n = input.below(400);
        let announced = if input.byte() == 0xff { input.word() } else { n as u32 };
        stream.extend_from_slice(&announced.to_le_bytes());
        stream.resize(stream.len() + n, input.byte());
    }
    let (expected, fails) = frames_of(&stream, limit);
    let (mut splitter, mut seen, mut failed) = (Splitter::default(), Vec::new(), false);
    for part in stream.chunks(step) {
        splitter.feed(part);
        loop {
            let missing = splitter.missing(limit);
            match splitter.next_frame(limit) {
                Ok(Some(body)) => {
                    assert_eq!(missing.expect("a frame is there"), 0);
                    seen.push(body.to_vec());
                }
                Ok(None) => {
                    assert!((1..=limit + HEADER).contains(&missing.expect("no error yet")));
                    break;
                }
                Err(_) => {
                    assert!(missing.is_err());
                    failed = true;
                    break;
                }
            }
        }
        if failed {
            break;
        }
    }
    assert_eq!((seen, failed), (expected, fails));
}

/// A parent and a child meet, and one of the three messages is harmed on its way, or made up from nothing: whoever gets it notices.
fn handshake(input: &mut Input<'_>) {
    let key = Key(*b"sixteen secrets!");
    let (nonce, answer_nonce) = ([1; 16], [2; 16]);
    let (mut parent, mut child) = (Handshake::of_parent(nonce), Handshake::of_child(7, answer_nonce));
    let target = input.below(4);
    let mut harmed = |at: usize, message: &[u8]| {
        let mut forged = message.to_vec();
        if at == target && input.flag() {
            forged = (0..message.len()).map(|_| input.byte()).collect();
        } else if at == target {
            let (place, flip) = (input.byte(), input.byte());
            forged[usize::from(place) % message.len()] ^= flip;
        }
        let is_true = forged == message;
        (forged, is_true)
    };
    let hear = |end: &mut Handshake, message: &[u8]| {
        let piece = 1 + message.len() / 3;
        let mut step = Ok(Next::Wait);
        for piece in message.chunks(piece) {
            if matches!(step, Ok(Next::Wait)) {
                assert_eq!(end.take(piece), piece.len());
                step = end.step(|_| key);
            }
        }
        step
    };
    let (forged, mut is_true) = harmed(0, &handshake::challenge(nonce));
    let Ok(Next::Answer(answer)) = hear(&mut child, &forged) else { return assert!(!is_true) };
    let (forged, is_same) = harmed(1, &answer);
    is_true &= is_same;
    let Ok(Next::Met(met)) = hear(&mut parent, &forged) else { return assert!(!is_true) };
    assert!(is_true && met.node == 7);
    let (forged, is_same) = harmed(2, &met.last);
    assert_eq!(matches!(hear(&mut child, &forged), Ok(Next::Met(_))), is_same);
}

fn routes(input: &mut Input<'_>) {
    let (node, target, width) = (input.word(), input.word(), 1 + input.below(1024) as u32);
    // The tree of 2^20 nodes is the largest that mpiexec makes.
    let (node, target) = (node % (1 << 20), target % (1 << 20));
    if width > 1 || target < 1 << 12 {
        if let Some(hop) = tree::next_hop(node, target, width) {
            assert_eq!(tree::parent(hop, width), node);
            assert!(tree::children(node, width, 1 << 20).contains(&hop));
        }
        let hop = tree::next_hop(tree::ROOT, target, width).expect("everybody is below the root");
        assert_eq!(tree::parent(hop, width), tree::ROOT);
    }
}
