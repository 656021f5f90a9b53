//! Lanes that are closed when nothing is under way in them, and opened again.

use super::stage::{Letter, Stage};
use super::{Pair, Rig};
use base::Peer;

/// Both directions of a pair, or the one direction of a process to itself.
fn directions(Pair { from, to }: Pair) -> Vec<(Peer, Peer)> {
    if from == to { vec![(from, to)] } else { vec![(from, to), (to, from)] }
}

/// Closes and opens the lanes of a pair, with traffic of others under way, and before and after it of its own.
fn rounds<R: Rig>(stage: &mut Stage<R>, relocates: bool) {
    let pair = stage.pair();
    let other = (0..stage.rig.size()).map(Peer).find(|peer| *peer != pair.from && *peer != pair.to);
    if let Some(other) = other {
        stage.open(other, pair.to);
    }
    let (mut letters, mut others) = (Vec::new(), Vec::new());
    for round in 0..4 {
        for (at, peer) in directions(pair) {
            stage.open(at, peer);
        }
        let more: Vec<Letter> = (0..40).map(|i| Letter::mixed(round * 40 + i, 20)).collect();
        for letter in &more {
            for (at, peer) in directions(pair) {
                stage.send(at, peer, letter);
            }
        }
        letters.extend(more);
        for (at, peer) in directions(pair) {
            stage.expect(peer, at, &letters);
        }
        if let Some(other) = other {
            // It stays in its lane meanwhile.
            let letter = Letter::mixed(4 * round, 20);
            stage.rest(pair.to, true);
            stage.send(other, pair.to, &letter);
            others.push(letter);
        }
        for (at, peer) in directions(pair) {
            stage.close(at, peer);
        }
        if relocates {
            stage.rig.relocate(pair.from);
        }
        stage.rest(pair.to, false);
        if let Some(other) = other {
            stage.expect(pair.to, other, &others);
        }
    }
    assert_eq!(stage.losses(pair.from, pair.to) + stage.losses(pair.to, pair.from), 0);
}

pub(super) fn lanes_close_and_open_again<R: Rig>(stage: &mut Stage<R>) {
    rounds(stage, false);
}

pub(super) fn at_another_address<R: Rig>(stage: &mut Stage<R>) {
    if !stage.abilities().relocates {
        return stage.skip("this transport stays at its address");
    }
    rounds(stage, true);
}
