//! Registered memory: what a lane can do with it, and that nothing is touched without a right key.

use super::stage::{Stage, pattern};
use super::{Pair, Rig};
use base::Peer;
use protocol::memory::{Atomic, Change, Key};
use protocol::transport::{Region, Transport};

const LEN: usize = 300_000;

/// Memory that `at` has registered: its key and itself.
fn registered<R: Rig>(stage: &mut Stage<R>, at: Peer) -> (Key, <R::T as Transport>::Region) {
    let region = stage.rig.region(LEN);
    let key = stage.rig.transport(at).expect("it lives").register(region.clone());
    assert_eq!((key.len, key.nonce == 0), (LEN as u64, false));
    (key, region)
}

fn content<R: Rig>(stage: &Stage<R>, region: &<R::T as Transport>::Region) -> Vec<u8> {
    stage.rig.bytes(&region.sink())
}

fn flush<R: Rig>(stage: &mut Stage<R>, Pair { from, to }: Pair) {
    assert_eq!(stage.access((from, to), Transport::flush), Some(0));
}

pub(super) fn put_and_get<R: Rig>(stage: &mut Stage<R>) {
    let pair @ Pair { from, to } = stage.pair();
    stage.open(from, to);
    let verbs = stage.verbs(from, to);
    let (key, region) = registered(stage, to);
    let mut expected = vec![0; LEN];
    for (i, (at, len)) in [(0, 1), (7, 8), (100, 0), (1000, 4097), (LEN - 5, 5), (0, LEN)].into_iter().enumerate() {
        let bytes = pattern(i as i32 + 1, len);
        let source = stage.rig.source(&bytes);
        if verbs.put {
            assert_eq!(stage.access((from, to), |t, lane| t.put(lane, &key, at as u64, &source)), Some(0));
            stage.rig.reuse(&source);
            flush(stage, pair);
            expected[at..at + len].copy_from_slice(&bytes);
            assert!(content(stage, &region) == expected, "put of {len} bytes at {at}");
        }
        if verbs.get {
            let sink = stage.rig.sink(len);
            assert_eq!(stage.access((from, to), |t, lane| t.get(lane, &key, at as u64, &sink)), Some(0));
            assert!(stage.rig.bytes(&sink) == expected[at..at + len], "get of {len} bytes at {at}");
        }
    }
    if !verbs.put || !verbs.get {
        stage.skip(&format!("this lane has {verbs:?}"));
    }
}

pub(super) fn atomics<R: Rig>(stage: &mut Stage<R>) {
    let pair @ Pair { from, to } = stage.pair();
    stage.open(from, to);
    let (key, region) = registered(stage, to);
    // Whatever the lane can do, the engine does atomics of others by this.
    for (width, at) in [(8, 16), (4, 4)] {
        let mut number = 0;
        let changes = [
            Change::Add(5),
            Change::Add(u64::MAX),
            Change::Swap(77),
            Change::CompareSwap { expected: 76, new: 1 },
            Change::CompareSwap { expected: 77, new: u64::from(u32::MAX) },
            Change::Add(3),
        ];
        for change in changes {
            let atomic = Atomic { change, width };
            let before = match stage.verbs(from, to).atomic {
                true => stage.access((from, to), |t, lane| t.atomic(lane, &key, at, &atomic)),
                false => Some(region.atomic(at as usize, &atomic)),
            };
            assert_eq!(before, Some(number), "{atomic:?}");
            number = atomic.apply(number);
        }
        flush(stage, pair);
        let bytes = content(stage, &region);
        let (place, size) = (at as usize, usize::from(width));
        assert_eq!(bytes[place..place + size], number.to_ne_bytes()[..size]);
        assert!(bytes[..4].iter().chain(&bytes[8..16]).chain(&bytes[24..]).all(|byte| *byte == 0));
    }
}

pub(super) fn bad_keys_touch_nothing<R: Rig>(stage: &mut Stage<R>) {
    let pair @ Pair { from, to } = stage.pair();
    stage.open(from, to);
    let verbs = stage.verbs(from, to);
    let (good, region) = registered(stage, to);
    let (stale, stale_region) = registered(stage, to);
    let owner = stage.rig.transport(to).expect("it lives");
    assert!(owner.registered(stale.number, stale.nonce).is_some());
    assert!(owner.deregister(&stale) && !owner.deregister(&stale));
    assert!(owner.registered(stale.number, stale.nonce).is_none());
    assert!(owner.registered(good.number, good.nonce ^ 1).is_none());
    assert!(owner.registered(good.number + 1000, good.nonce).is_none());
    let guessed = Key { nonce: good.nonce ^ 1, ..good };
    let longer = Key { len: u64::MAX, ..good };
    let bad = [(stale, 0), (guessed, 0), (good, LEN as u64 - 7), (longer, LEN as u64 - 7), (longer, u64::MAX - 7)];
    for (key, at) in bad {
        let (source, sink) = (stage.rig.source(&[9; 8]), stage.rig.sink(8));
        if verbs.put {
            assert_eq!(stage.access((from, to), |t, lane| t.put(lane, &key, at, &source)), None, "{key:?} at {at}");
        }
        if verbs.get {
            assert_eq!(stage.access((from, to), |t, lane| t.get(lane, &key, at, &sink)), None, "{key:?} at {at}");
        }
        if verbs.atomic {
            let add = Atomic { change: Change::Add(1), width: 8 };
            assert_eq!(stage.access((from, to), |t, lane| t.atomic(lane, &key, at, &add)), None, "{key:?} at {at}");
        }
        flush(stage, pair);
    }
    for region in [&region, &stale_region] {
        assert!(content(stage, region).iter().all(|byte| *byte == 0), "memory was touched");
    }
    // The lane goes on.
    assert_eq!(stage.verbs(from, to), verbs);
    if verbs.get {
        let sink = stage.rig.sink(8);
        assert_eq!(stage.access((from, to), |t, lane| t.get(lane, &good, 0, &sink)), Some(0));
    }
}
