//! A peer dies, at each step: it is lost exactly once, after everything that it had sent.

use super::stage::{Letter, Seen, Stage};
use super::{Pair, Rig};
use base::Peer;
use protocol::transport::Outcome;

/// `peer` has died: `at` hears of it once, after `letters`.
fn expect_loss<R: Rig>(stage: &mut Stage<R>, at: Peer, peer: Peer, letters: &[Letter]) {
    stage.until("loss", |stage| stage.losses(at, peer) > 0);
    stage.expect(at, peer, letters);
    let of = |seen: &&Seen| matches!(seen, Seen::Packet(from, ..) | Seen::Lost(from) if *from == peer);
    let last = stage.seen(at).iter().rfind(of);
    assert_eq!(last, Some(&Seen::Lost(peer)), "a packet came after the loss");
    stage.linger();
    assert_eq!(stage.losses(at, peer), 1, "a peer is lost once");
    assert_eq!(stage.count(at, peer), letters.len());
}

/// Whether a peer can die; says so if not.
fn can_die<R: Rig>(stage: &Stage<R>) -> bool {
    if !stage.abilities().dies {
        stage.skip("no peer can die here alone");
    }
    stage.abilities().dies
}

pub(super) fn before_connecting<R: Rig>(stage: &mut Stage<R>) {
    if !can_die(stage) {
        return;
    }
    let Pair { from, to } = stage.pair();
    stage.rig.kill(from);
    stage.connect(to, from);
    expect_loss(stage, to, from, &[]);
}

pub(super) fn of_a_connected_peer<R: Rig>(stage: &mut Stage<R>) {
    if !can_die(stage) {
        return;
    }
    let Pair { from, to } = stage.pair();
    stage.open(from, to);
    stage.open(to, from);
    // A posted packet would not be over before it is received.
    let letters: Vec<Letter> = (0..30).filter(|i| i % 4 != 2).map(|i| Letter::mixed(i, 10)).collect();
    stage.rest(to, true);
    for letter in &letters {
        stage.send(from, to, letter);
    }
    stage.rest(to, false);
    stage.rig.kill(from);
    expect_loss(stage, to, from, &letters);
}

/// The rest of a stream never comes.
pub(super) fn in_the_middle_of_a_message<R: Rig>(stage: &mut Stage<R>) {
    if !can_die(stage) {
        return;
    }
    let Pair { from, to } = stage.pair();
    stage.open(from, to);
    stage.open(to, from);
    let letters = [Letter::mixed(1, 0), Letter::data(2, 20), Letter::data(3, 20)];
    for letter in &letters {
        stage.send(from, to, letter);
    }
    stage.rig.kill(from);
    expect_loss(stage, to, from, &letters);
}

/// Who has died no longer receives: a posted source is free with the loss, if not before.
pub(super) fn with_posted_sends<R: Rig>(stage: &mut Stage<R>) {
    if !can_die(stage) {
        return;
    }
    let Pair { from, to } = stage.pair();
    stage.open(from, to);
    stage.open(to, from);
    let piece = stage.caps(from, to).piece_max(u64::MAX);
    stage.rest(to, true);
    let mut posted = Vec::new();
    for i in 0..8 {
        if let (Outcome::Posted(token), source) = stage.try_send(from, to, &Letter::data(i, piece)) {
            posted.push((token, source));
        }
    }
    stage.rig.kill(to);
    expect_loss(stage, from, to, &[]);
    for (token, _) in posted {
        assert!(stage.seen(from).iter().filter(|seen| **seen == Seen::Sent(token)).count() <= 1);
    }
}
