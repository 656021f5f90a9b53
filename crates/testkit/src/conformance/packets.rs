//! Order, refusals, back pressure, sources, places.

use super::stage::{Letter, Seen, Stage};
use super::{Pair, Rig};
use protocol::transport::Outcome;

/// Most packets that a lane may take without its receiver.
const FLOOD_MAX: i32 = 200_000;

/// Largest data of a mixed packet over a lane.
fn mixed_len<R: Rig>(stage: &mut Stage<R>, Pair { from, to }: Pair) -> usize {
    let caps = stage.caps(from, to);
    caps.eager_max.min(caps.packet_max - 8).min(3000)
}

pub(super) fn keep_their_order<R: Rig>(stage: &mut Stage<R>) {
    let pair @ Pair { from, to } = stage.pair();
    stage.open(from, to);
    let most = mixed_len(stage, pair);
    let letters: Vec<Letter> = (0..1200).map(|i| Letter::mixed(i, (i as usize * 37) % (most + 1))).collect();
    for letter in &letters {
        stage.send(from, to, letter);
    }
    stage.expect(to, from, &letters);
}

/// Sends packets until one is refused, while nobody receives; those that were taken.
fn fill<R: Rig>(stage: &mut Stage<R>, Pair { from, to }: Pair, make: impl Fn(i32) -> Letter) -> Vec<Letter> {
    let (mut taken, mut refused) = (Vec::new(), 0);
    // Now and then a refusal has other reasons than a full lane.
    while refused < 20 {
        let letter = make(taken.len() as i32);
        match stage.try_send(from, to, &letter).0 {
            Outcome::Done | Outcome::Posted(_) => (taken.push(letter), refused = 0).1,
            Outcome::Again => refused += 1,
            Outcome::Lost => panic!("the peer lives"),
        }
        assert!((taken.len() as i32) < FLOOD_MAX, "a lane takes any number of packets");
    }
    assert!(!taken.is_empty(), "an open lane takes a packet");
    taken
}

pub(super) fn refused_ones_leave_nothing<R: Rig>(stage: &mut Stage<R>) {
    let pair @ Pair { from, to } = stage.pair();
    stage.open(from, to);
    let most = mixed_len(stage, pair);
    let mut all = fill(stage, pair, |i| Letter::mixed(i, most));
    stage.expect(to, from, &all);
    let piece = stage.caps(from, to).piece_max(u64::MAX);
    let data = fill(stage, pair, |i| Letter::data(i, piece));
    all.extend(data);
    stage.expect(to, from, &all);
    stage.linger();
    stage.expect(to, from, &all);
}

pub(super) fn back_pressure_ends<R: Rig>(stage: &mut Stage<R>) {
    let pair @ Pair { from, to } = stage.pair();
    stage.open(from, to);
    let most = mixed_len(stage, pair);
    let mut all = Vec::new();
    for round in 0..3 {
        all.extend(fill(stage, pair, |i| Letter::mixed(i + round, most)));
        // Half of what is there, so that the lane is full again soon.
        let half = all.len() / 2;
        stage.until("half of the packets", |stage| stage.count(to, from) >= half);
        for i in 0..20 {
            let letter = Letter::mixed(i, most);
            stage.send(from, to, &letter);
            all.push(letter);
        }
    }
    stage.expect(to, from, &all);
}

pub(super) fn sources_are_free_when_done<R: Rig>(stage: &mut Stage<R>) {
    let Pair { from, to } = stage.pair();
    stage.open(from, to);
    let piece = stage.caps(from, to).piece_max(u64::MAX);
    let (mut letters, mut posted) = (Vec::new(), Vec::new());
    // `Stage::try_send` overwrites what is done at once; the receiver looks later.
    stage.rest(to, from != to);
    for i in 0..6 {
        let letter = Letter::data(i, piece - i as usize);
        let mut result = stage.try_send(from, to, &letter);
        if result.0 == Outcome::Again {
            stage.rest(to, false);
            stage.until("room", |stage| {
                result = stage.try_send(from, to, &letter);
                result.0 != Outcome::Again
            });
        }
        if let (Outcome::Posted(token), Some(source)) = result {
            assert!(posted.iter().all(|(other, _)| *other != token), "a token names two sends");
            posted.push((token, source));
        }
        letters.push(letter);
    }
    stage.rest(to, false);
    for (token, source) in posted {
        stage.until("end of a posted send", |stage| stage.seen(from).contains(&Seen::Sent(token)));
        stage.rig.reuse(&source);
        let ends = stage.seen(from).iter().filter(|seen| **seen == Seen::Sent(token)).count();
        assert_eq!(ends, 1, "a send ends once");
    }
    stage.expect(to, from, &letters);
}

pub(super) fn detached_ones_outlive_polls<R: Rig>(stage: &mut Stage<R>) {
    let pair @ Pair { from, to } = stage.pair();
    stage.open(from, to);
    let most = mixed_len(stage, pair);
    // What may land is never detached.
    let letters: Vec<Letter> = (0..60).map(|i| Letter::mixed(i, (i as usize * 97) % (most + 1))).collect();
    stage.keep(to, true);
    for letter in &letters {
        stage.send(from, to, letter);
    }
    stage.until("packets", |stage| stage.kept(to) == letters.len());
    stage.linger();
    stage.keep(to, false);
    stage.expect(to, from, &letters);
}

pub(super) fn payloads_go_where_they_belong<R: Rig>(stage: &mut Stage<R>) {
    let Pair { from, to } = stage.pair();
    stage.open(from, to);
    let caps = stage.caps(from, to);
    let piece = caps.piece_max(u64::MAX);
    let mut letters = vec![Letter::mixed(0, 0), Letter::mixed(4, caps.eager_max)];
    letters.extend([0, 1, 7, 8, 9, piece / 2, piece - 1, piece].iter().enumerate().flat_map(|(i, len)| {
        let middle = (*len).min(caps.eager_max.min(caps.packet_max) - 8);
        [Letter::data(i as i32, *len), Letter::mixed(4 * i as i32 + 2, middle)]
    }));
    if caps.push_max > 0 {
        letters.extend([0, 1, 8, piece / 2, piece].iter().flat_map(|len| [0, 1].map(|i| Letter::pushed(i, *len))));
    }
    for letter in &letters {
        stage.send(from, to, letter);
    }
    stage.expect(to, from, &letters);
}
