//! Several lanes of one endpoint: each keeps its order, and what a lost one may not have delivered comes over another.

use super::stage::{Letter, Seen, Stage};
use super::{Pair, Rig};
use protocol::transport::Outcome;

/// Opens all lanes of the pair in both directions; how many there are.
fn open<R: Rig>(stage: &mut Stage<R>, Pair { from, to }: Pair) -> usize {
    stage.open(from, to);
    stage.open(to, from);
    stage.lane_count(from, to)
}

/// Whether there are several lanes, and one can be lost; says so if not.
fn can_lose<R: Rig>(stage: &Stage<R>, lanes: usize) -> bool {
    let can = lanes > 1 && stage.abilities().loses_lanes;
    if !can {
        stage.skip("no lane can be lost here alone");
    }
    can
}

/// Sends letters over each lane in turn, or over the first one if that is lost; the sources are free afterwards.
fn send_in_turn<R: Rig>(stage: &mut Stage<R>, Pair { from, to }: Pair, lanes: usize, letters: &[Letter]) {
    let mut posted = Vec::new();
    for (i, letter) in letters.iter().enumerate() {
        stage.until("room", |stage| match stage.try_send_over((from, to, i % lanes), letter) {
            (Outcome::Posted(token), Some(source)) => {
                posted.push((token, source));
                true
            }
            (outcome, _) => outcome != Outcome::Again,
        });
    }
    for (token, source) in posted {
        stage.until("end of a posted send", |stage| stage.seen(from).contains(&Seen::Sent(token)));
        stage.rig.reuse(&source);
    }
}

pub(super) fn each_keeps_its_order<R: Rig>(stage: &mut Stage<R>) {
    let pair = stage.pair();
    let lanes = open(stage, pair);
    let letters: Vec<Letter> = (0..900).map(|i| Letter::mixed(i, 20).numbered(i as u64 * 20_000)).collect();
    send_in_turn(stage, pair, lanes, &letters);
    stage.until("packets", |stage| stage.count(pair.to, pair.from) == letters.len());
    let seen = stage.packets(pair.to, pair.from);
    for number in 0..lanes {
        let of_lane: Vec<Seen> = letters.iter().skip(number).step_by(lanes).map(|l| l.seen(pair.from)).collect();
        let got: Vec<&Seen> = seen.iter().filter(|seen| of_lane.contains(seen)).collect();
        assert!(got.into_iter().eq(&of_lane), "lane {number} keeps its order");
    }
}

pub(super) fn packets_of_a_lost_one_come_over_another<R: Rig>(stage: &mut Stage<R>) {
    let pair @ Pair { from, to } = stage.pair();
    let lanes = open(stage, pair);
    if !can_lose(stage, lanes) {
        return;
    }
    let letters: Vec<Letter> = (0..400).map(|i| Letter::mixed(i, 20)).collect();
    let per_lane = letters.len() / lanes;
    for number in 0..lanes - 1 {
        send_in_turn(stage, pair, lanes, &letters[number * per_lane..(number + 1) * per_lane]);
        stage.rig.lose_lane(pair, number);
        for (at, peer) in [(from, to), (to, from)] {
            stage.until("loss", |stage| stage.seen(at).contains(&Seen::LaneLost(peer, number)));
        }
    }
    send_in_turn(stage, pair, lanes, &letters[(lanes - 1) * per_lane..]);
    stage.until("all packets", |stage| {
        let seen = stage.seen(to);
        letters.iter().all(|letter| seen.contains(&letter.seen(from)))
    });
    let known = |seen: &Seen| letters.iter().any(|letter| letter.seen(from) == *seen);
    // The packet by which the lane was tried may come again.
    let is_first = |seen: &Seen| matches!(seen, Seen::Packet(_, header, _) if header.tag == -1);
    assert!(stage.packets(to, from).iter().all(|seen| known(seen) || is_first(seen)), "a packet has changed");
    assert_eq!(stage.losses(from, to) + stage.losses(to, from), 0);
}

pub(super) fn the_peer_is_lost_with_the_last<R: Rig>(stage: &mut Stage<R>) {
    let pair @ Pair { from, to } = stage.pair();
    let lanes = open(stage, pair);
    if !can_lose(stage, lanes) {
        return;
    }
    for number in 0..lanes {
        stage.rig.lose_lane(pair, number);
    }
    for (at, peer) in [(from, to), (to, from)] {
        stage.until("loss", |stage| stage.losses(at, peer) > 0);
        let lost = stage.seen(at).iter().filter(|seen| matches!(seen, Seen::LaneLost(..))).count();
        assert_eq!((stage.losses(at, peer), lost), (1, lanes - 1));
    }
}
