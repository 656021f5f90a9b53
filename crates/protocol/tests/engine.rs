//! The engine under a simulated fabric: every message arrives once, in order, whatever the lanes do.

mod job;

use base::{Class, Peer};
use job::{CONTEXT, Job, message};
use protocol::engine::observer::{Happening, How, KEPT_MAX, What};
use protocol::engine::{Address, Awaits, Mode, OpId, PEER_LOST};
use protocol::kind::Kind;
use protocol::matching::{Envelope, Pattern};
use protocol::order::Number;
use protocol::wire::Header;
use testkit::rng::Rng;
use testkit::transport::{Bytes, Faults};

/// Sends random messages between random pairs, receives them late or early, exactly or with wildcards.
fn random_traffic(seed: u64, faults: Faults) {
    let mut rng = Rng::new(seed);
    let size = 2 + rng.below(4) as u32;
    let mut job = Job::new(seed, size, faults);
    let mut sends = Vec::new();
    let mut receives = Vec::new();
    // Messages of one pair and tag are received in the order in which they were sent.
    let mut planned = Vec::new();
    for i in 0..60u64 {
        let (from, to, tag) = (rng.below(size as usize) as u32, rng.below(size as usize) as u32, rng.below(3) as i32);
        let len = [0, 1, 40, 41, 100, 151, 180, 199, 200, 500, 3000][rng.below(11)];
        planned.push((i, from, to, tag, len));
    }
    let mut late = Vec::new();
    for &(i, from, to, tag, len) in &planned {
        if rng.chance(50) {
            receives.push((i, to, len, job.recv(to, Some(from), Some(tag), len)));
        } else {
            late.push((i, from, to, tag, len));
        }
    }
    // Receives that are posted early match the first messages of their kind, so data is checked per kind below.
    for &(i, from, to, tag, len) in &planned {
        let mode = if rng.chance(30) { Mode::Synchronous } else { Mode::Standard };
        if let Some(op) = job.send(from, to, tag, mode, message(i, len)) {
            sends.push((from, op));
        }
        for engine in &mut job.engines {
            engine.progress();
        }
    }
    for (i, from, to, tag, _) in late {
        receives.push((i, to, 3000, job.recv(to, Some(from), Some(tag), 3000)));
    }
    for (from, op) in sends {
        assert_eq!(job.finish(from, op).error, None, "seed {seed}");
    }
    let mut got: Vec<Vec<u8>> = Vec::new();
    for (_, at, _, (op, sink)) in receives {
        let completion = job.finish(at, op);
        if completion.error.is_none() {
            got.push(sink.bytes()[..completion.length as usize].to_vec());
        } else {
            assert_eq!(completion.error.map(|e| e.class), Some(Class::ERR_TRUNCATE), "seed {seed}");
        }
    }
    let mut sent: Vec<Vec<u8>> = planned.iter().map(|&(i, .., len)| message(i, len)).collect();
    for bytes in got {
        let at = sent.iter().position(|s| *s == bytes);
        sent.swap_remove(at.unwrap_or_else(|| panic!("seed {seed}: received what nobody sent")));
    }
}

#[test]
fn random_traffic_arrives_intact() {
    for seed in 0..60 {
        random_traffic(seed, Faults::default());
        random_traffic(
            seed,
            Faults { refuse: 30, delay: 30, pull_fails: 30, land: 50, stream: 50, hold: 60, post: 50 },
        );
    }
}

#[test]
fn order_is_kept_across_protocols() {
    for seed in 0..40 {
        let mut job = Job::new(
            seed,
            2,
            Faults { refuse: 40, delay: 20, pull_fails: 50, land: 30, stream: 50, hold: 60, post: 50 },
        );
        let lens = [8, 400, 100, 0, 170, 7];
        let ops: Vec<_> =
            (0..30).filter_map(|i| job.send(0, 1, 5, Mode::Standard, message(i, lens[i as usize % 6]))).collect();
        for i in 0..30u64 {
            let (op, sink) = if i % 2 == 0 { job.recv(1, Some(0), Some(5), 400) } else { job.recv(1, None, None, 400) };
            let completion = job.finish(1, op);
            assert_eq!(sink.bytes()[..completion.length as usize], message(i, lens[i as usize % 6]), "seed {seed}");
        }
        for op in ops {
            assert_eq!(job.finish(0, op).error, None);
        }
    }
}

#[test]
fn whoever_observes_is_told_of_each_message() {
    let kinds = |happenings: &[Happening]| happenings.iter().map(|h| (h.what, h.how, h.bytes)).collect::<Vec<_>>();
    let mut job = Job::new(1, 2, Faults::default());
    job.engines.iter_mut().for_each(|engine| engine.observe(true, true));
    let lens = [8, 100, 190, 400];
    let receives: Vec<_> = (0..4).map(|i| job.recv(1, Some(0), Some(i), 400)).collect();
    let sends: Vec<_> =
        (0..4).filter_map(|i| job.send(0, 1, i, Mode::Standard, message(1, lens[i as usize]))).collect();
    for (op, _) in receives {
        job.finish(1, op);
    }
    for op in sends {
        job.finish(0, op);
    }
    let sent: Vec<_> = job.engines[0].take_happenings().0.into();
    let hows = [How::Eager, How::Fragments, How::Rendezvous, How::Rendezvous];
    let expected: Vec<_> = hows.into_iter().zip(lens).map(|(how, len)| (What::Sent, how, len as u64)).collect();
    assert_eq!(kinds(&sent), expected);
    assert!(sent.iter().zip(0..).all(|(h, tag)| (h.peer, h.envelope.tag) == (Peer(1), tag)));
    let got = kinds(&Vec::from(job.engines[1].take_happenings().0));
    for (how, len) in hows.into_iter().zip(lens) {
        assert_eq!(got.iter().filter(|h| **h == (What::Matched, how, len as u64)).count(), 1, "{got:?}");
    }
    assert!(got.contains(&(What::Fetched, How::Streamed, 190)) && got.contains(&(What::Fetched, How::Pulled, 400)));

    // Unexpected ones, more than are kept.
    for _ in 0..=KEPT_MAX {
        assert_eq!(job.send(0, 1, 9, Mode::Standard, vec![1; 8]), None);
        job.engines.iter_mut().for_each(|engine| while engine.progress_observed() {});
    }
    let (kept, dropped) = job.engines[1].take_happenings();
    assert_eq!((kept.len(), dropped, job.engines[1].has_happenings()), (KEPT_MAX, 1, false));
    assert!(kept.iter().all(|h| (h.what, h.how) == (What::Unexpected, How::Eager)));
    job.engines[1].observe(true, false);
    let (op, _) = job.recv(1, Some(0), Some(9), 8);
    job.finish(1, op);
    assert!(!job.engines[1].has_happenings());
}

#[test]
fn a_synchronous_send_waits_for_its_receive() {
    let mut job = Job::new(1, 2, Faults::default());
    let small = job.send(0, 1, 1, Mode::Synchronous, vec![1; 8]).expect("pending");
    let large = job.send(0, 1, 2, Mode::Synchronous, vec![2; 800]).expect("pending");
    for _ in 0..100 {
        job.engines.iter_mut().for_each(|engine| while engine.progress() {});
    }
    assert!(!job.engines[0].is_complete(small) && !job.engines[0].is_complete(large));
    job.recv(1, Some(0), Some(1), 8);
    job.finish(0, small);
    job.recv(1, Some(0), Some(2), 800);
    job.finish(0, large);
}

#[test]
fn truncation_is_an_error_and_nothing_is_overrun() {
    for (len, seed) in [16, 100, 170, 500].into_iter().flat_map(|len| (0..20).map(move |seed| (len, seed))) {
        let mut job = Job::new(seed, 2, Faults { land: 50, hold: 30, ..Faults::default() });
        let early = (seed % 2 == 0).then(|| job.recv(1, Some(0), Some(1), 10));
        let send = job.send(0, 1, 1, Mode::Standard, vec![7; len]);
        let (op, sink) = early.unwrap_or_else(|| job.recv(1, Some(0), Some(1), 10));
        let completion = job.finish(1, op);
        assert_eq!(completion.error.map(|e| e.class), Some(Class::ERR_TRUNCATE));
        assert_eq!((completion.length, sink.bytes().as_slice()), (10, [7; 10].as_slice()));
        if let Some(op) = send {
            assert_eq!(job.finish(0, op).error, None);
        }
    }
}

#[test]
fn death_of_a_peer_ends_what_waits_for_it() {
    let mut job = Job::new(3, 3, Faults::default());
    let (from_dead, _) = job.recv(0, Some(1), Some(1), 8);
    let (any, _) = job.recv(0, None, Some(1), 8);
    let (from_living, _) = job.recv(0, Some(2), Some(9), 8);
    let to_dead = job.send(0, 1, 1, Mode::Synchronous, vec![0; 8]).expect("pending");
    job.world.borrow_mut().kill(Peer(1));
    for op in [from_dead, any, to_dead] {
        assert_eq!(job.finish(0, op).error.map(|e| e.class), Some(Class::ERR_PROC_ABORTED));
    }
    let (later, _) = job.recv(0, Some(1), Some(1), 8);
    assert!(job.engines[0].is_complete(later));
    assert!(!job.engines[0].is_complete(from_living));
    job.send(2, 0, 9, Mode::Standard, vec![1; 8]);
    assert_eq!(job.finish(0, from_living).error, None);
}

#[test]
fn a_loss_concerns_only_contexts_that_contain_the_process() {
    const OTHER: u64 = 128;
    let mut job = Job::new(3, 3, Faults::default());
    job.engines[0].set_loss_policy(|awaits, _| (awaits == Awaits::FromAny(CONTEXT)).then_some(PEER_LOST));
    let post = |job: &mut Job, context, source| {
        let pattern = Pattern { context, source: None, tag: Some(1) };
        let op = job.engines[0].post_recv(pattern, None, Bytes::new(vec![0; 8]));
        (op, job.engines[0].probe_or_lost(&Pattern { source, ..pattern }, None))
    };
    let (concerned, found) = post(&mut job, CONTEXT, None);
    assert!(found.is_none());
    let (other, _) = post(&mut job, OTHER, None);
    job.world.borrow_mut().kill(Peer(1));
    assert_eq!(job.finish(0, concerned).error.map(|e| e.class), Some(Class::ERR_PROC_ABORTED));
    assert!(!job.engines[0].is_complete(other));
    assert!(matches!(post(&mut job, CONTEXT, None), (_, Some(Err(_)))));
    let (later, found) = post(&mut job, OTHER, None);
    assert!(found.is_none() && !job.engines[0].is_complete(later));
    for op in [other, later] {
        let envelope = Envelope { context: OTHER, source: 2, tag: 1 };
        let to = Address { peer: Peer(0), envelope };
        job.engines[2].post_send(to, Mode::Standard, Bytes::new(vec![1; 8])).expect("peer lives");
        assert_eq!(job.finish(0, op).error, None);
    }
}

#[test]
fn a_cancelled_receive_takes_no_message() {
    let mut job = Job::new(4, 2, Faults::default());
    let (cancelled, _) = job.recv(1, None, Some(1), 8);
    assert!(job.engines[1].cancel(cancelled));
    assert!(job.finish(1, cancelled).cancelled);
    let (op, _) = job.recv(1, Some(0), Some(1), 8);
    job.send(0, 1, 1, Mode::Standard, vec![1; 8]);
    assert!(!job.finish(1, op).cancelled);
    assert!(!job.engines[1].cancel(op));
}

#[test]
fn a_withdrawn_message_ends_on_both_sides() {
    for seed in 0..50 {
        let mut job = Job::new(seed, 3, Faults { delay: 50, ..Faults::default() });
        // Matched before or after, or never: the send ends, and a receive has the message or an error.
        let matched = seed % 3;
        let early = (matched == 0).then(|| job.recv(1, Some(0), Some(1), 5000));
        let sent = job.send(0, 1, 1, Mode::Standard, vec![7; 5000]).expect("pending");
        for _ in 0..seed {
            job.engines[0].progress();
            job.engines[1].progress();
        }
        job.engines[0].withdraw(sent);
        job.engines[0].withdraw(sent);
        if matched == 2 {
            while !job.engines[0].is_complete(sent) {
                for engine in &mut job.engines {
                    engine.progress();
                }
            }
        }
        if job.engines[0].outcome(sent).is_none_or(|ended| ended.error.is_none()) {
            let (op, sink) = early.unwrap_or_else(|| job.recv(1, Some(0), Some(1), 5000));
            match job.finish(1, op).error {
                None => assert_eq!(sink.bytes(), [7; 5000]),
                Some(error) => assert_eq!(error.class, Class::ERR_PROC_ABORTED),
            }
        }
        job.finish(0, sent);
        // The pair goes on.
        let (op, sink) = job.recv(1, Some(0), Some(2), 5000);
        let next = job.send(0, 1, 2, Mode::Standard, vec![8; 5000]).expect("pending");
        job.finish(1, op);
        job.finish(0, next);
        assert_eq!(sink.bytes(), [8; 5000]);
    }
}

/// Many wait unreceived, also in the hands of a matched probe; each is withdrawn, cancelled or received alone.
#[test]
fn of_many_messages_the_right_one_is_taken_back() {
    const MESSAGES: i32 = 600;
    let mut job = Job::new(1, 2, Faults::default());
    let sent: Vec<_> = (0..MESSAGES).map(|tag| job.send(0, 1, tag, Mode::Standard, vec![tag as u8; 5000])).collect();
    for _ in 0..20 * MESSAGES {
        for engine in &mut job.engines {
            engine.progress();
        }
    }
    let pattern = |tag| Pattern { context: CONTEXT, source: Some(0), tag: Some(tag) };
    let probed: Vec<_> = (0..MESSAGES).step_by(5).map(|tag| job.engines[1].extract(&pattern(tag))).collect();
    assert!(probed.iter().all(Option::is_some));
    for (tag, op) in (0..MESSAGES).zip(&sent).rev() {
        let op = op.expect("pending");
        match tag % 3 {
            0 => job.engines[0].withdraw(op),
            1 if tag % 5 != 0 => assert!(!job.engines[0].cancel(op)),
            _ => continue,
        }
        assert_eq!(job.finish(0, op).cancelled, tag % 3 == 1, "{tag}");
    }
    for (tag, op) in (0..MESSAGES).zip(sent).filter(|(tag, _)| tag % 5 != 0 && tag % 3 != 1) {
        let (received, sink) = job.recv(1, Some(0), Some(tag), 5000);
        let error = job.finish(1, received).error;
        assert_eq!(error.map(|error| error.class), (tag % 3 == 0).then_some(Class::ERR_PROC_ABORTED), "{tag}");
        if tag % 3 == 2 {
            assert_eq!(sink.bytes(), [tag as u8; 5000]);
            job.finish(0, op.expect("pending"));
        }
    }
}

#[test]
fn a_cancelled_send_is_received_or_gone() {
    for seed in 0..100 {
        let mut job = Job::new(seed, 2, Faults { delay: 50, ..Faults::default() });
        let (mode, len) = [(Mode::Synchronous, 8), (Mode::Synchronous, 100), (Mode::Standard, 5000)][seed as usize % 3];
        // Nobody receives the message, or somebody may have before the cancellation comes.
        let early = seed.is_multiple_of(4).then(|| job.recv(1, None, Some(1), 5000));
        let sent = job.send(0, 1, 1, mode, vec![7; len]).expect("pending");
        for _ in 0..seed / 3 {
            job.engines[0].progress();
            job.engines[1].progress();
        }
        assert!(!job.engines[0].cancel(sent) && !job.engines[0].cancel(sent));
        let ended = job.finish(0, sent);
        assert_eq!(ended.error, None);
        // The next message with this envelope finds the receive if the first one is gone.
        let next = job.send(0, 1, 1, mode, vec![8; len]).expect("pending");
        let (op, sink) = early.unwrap_or_else(|| job.recv(1, Some(0), Some(1), 5000));
        assert_eq!(job.finish(1, op).length, len as u64);
        assert_eq!(sink.bytes()[..len], vec![if ended.cancelled { 8 } else { 7 }; len]);
        if !ended.cancelled {
            assert!(seed.is_multiple_of(4), "a message that nobody received was not cancelled");
            let (op, sink) = job.recv(1, Some(0), Some(1), 5000);
            job.finish(1, op);
            assert_eq!(sink.bytes()[..len], vec![8; len]);
        }
        job.finish(0, next);
        assert_eq!(job.engines[1].unexpected_count(), 0);
    }
}

#[test]
fn a_cancelled_send_to_a_process_that_ends_is_gone() {
    for (mode, len) in [(Mode::Synchronous, 8), (Mode::Standard, 5000)] {
        let mut job = Job::new(7, 2, Faults::default());
        let cancelled = job.send(0, 1, 1, mode, vec![7; len]).expect("pending");
        let other = job.send(0, 1, 2, mode, vec![7; len]).expect("pending");
        job.engines[0].cancel(cancelled);
        job.world.borrow_mut().kill(Peer(1));
        let ended = job.finish(0, cancelled);
        assert_eq!((ended.cancelled, ended.error), (true, None));
        assert_eq!(job.finish(0, other).error, Some(PEER_LOST));
    }
}

#[test]
fn a_probed_message_is_not_cancelled() {
    let mut job = Job::new(6, 2, Faults::default());
    let sent = job.send(0, 1, 1, Mode::Synchronous, vec![7; 8]).expect("pending");
    let pattern = Pattern { context: CONTEXT, source: Some(0), tag: Some(1) };
    job.run_until("arrival", |job| job.engines[1].probe(&pattern).is_some());
    let (message, _) = job.engines[1].extract(&pattern).expect("just seen");
    job.engines[0].cancel(sent);
    for _ in 0..100 {
        job.engines[0].progress();
        job.engines[1].progress();
    }
    let op = job.engines[1].post_recv_message(message, Bytes::new(vec![0; 8])).expect("extracted");
    assert_eq!(job.finish(1, op).length, 8);
    assert!(!job.finish(0, sent).cancelled);
}

#[test]
fn hostile_packets_are_dropped() {
    let mut rng = Rng::new(5);
    let mut job = Job::new(5, 2, Faults::default());
    let kinds =
        [Kind::CLEAR_TO_SEND, Kind::DATA, Kind::FINISHED, Kind::SYNC_ACK, Kind::GOODBYE, Kind::CANCEL, Kind::CANCELLED];
    let pending = job.send(0, 1, 1, Mode::Synchronous, vec![1; 500]).expect("pending");
    for _ in 0..2000 {
        let header = Header {
            kind: kinds[rng.below(kinds.len())],
            number: Number::NONE,
            source: rng.bits() as u32,
            tag: rng.bits() as i32,
            token: if rng.chance(50) { 1 } else { rng.bits() as u32 },
            context: rng.bits(),
        };
        let payload = message(rng.bits(), rng.below(40));
        job.world.borrow_mut().inject(Peer(1), Peer(0), header, payload);
        job.engines[0].progress();
    }
    let (op, sink) = job.recv(1, Some(0), Some(1), 500);
    job.finish(1, op);
    job.finish(0, pending);
    assert_eq!(sink.bytes(), vec![1; 500]);
}

#[test]
fn a_stream_waits_while_nothing_is_known_of_the_lane() {
    for seed in 0..50 {
        let mut job = Job::new(seed, 2, Faults { delay: 50, ..Faults::default() });
        let (op, sink) = job.recv(1, Some(0), Some(1), 199);
        job.send(0, 1, 1, Mode::Standard, vec![3; 199]);
        job.finish(1, op);
        assert_eq!(sink.bytes(), [3; 199]);
        assert!(job.world.borrow().packets < 10, "packets without data");
    }
}

#[test]
fn a_pushed_message_arrives_while_its_sender_computes() {
    for seed in 0..50 {
        let mut job = Job::new(seed, 2, Faults { delay: 30, land: 50, hold: 50, ..Faults::default() });
        // Now the lane is open.
        let (first, _) = job.recv(1, Some(0), Some(2), 8);
        job.send(0, 1, 2, Mode::Standard, vec![1; 8]);
        while !job.engines[1].is_complete(first) {
            job.engines.iter_mut().for_each(|engine| _ = engine.progress());
        }
        let early = (seed % 2 == 0).then(|| job.recv(1, Some(0), Some(1), 180));
        let pending = job.send(0, 1, 1, Mode::Standard, message(seed, 180));
        let (op, sink) = early.unwrap_or_else(|| job.recv(1, Some(0), Some(1), 180));
        for _ in 0..1000 {
            job.engines[1].progress();
        }
        assert!(job.engines[1].is_complete(op), "seed {seed}: it waits for its sender");
        assert_eq!(sink.bytes(), message(seed, 180));
        if let Some(pending) = pending {
            job.finish(0, pending);
        }
    }
}

#[test]
fn streams_to_a_peer_go_one_after_the_other() {
    for seed in 0..50 {
        let mut job = Job::new(seed, 3, Faults { refuse: 70, ..Faults::default() });
        let sent: Vec<OpId> = (0..20)
            .map(|i| job.send(0, 1 + i % 2, 1, Mode::Standard, vec![1; 150]))
            .map(|op| op.expect("no room"))
            .collect();
        let mut over = [0, 0];
        job.run_until("the end of all sends", |job| {
            for (to, over) in over.iter_mut().enumerate() {
                let ends: Vec<bool> =
                    sent.iter().skip(to).step_by(2).map(|op| job.engines[0].is_complete(*op)).collect();
                *over = ends.iter().filter(|end| **end).count();
                assert!(ends[..*over].iter().all(|end| *end), "{ends:?}");
            }
            over == [10, 10]
        });
    }
}

/// Process 1 moves to and fro while messages of all protocols are under way; both it and its peers have to suspend.
#[test]
fn endpoints_are_suspended_with_traffic_in_flight_and_resumed_elsewhere() {
    for seed in 0..60 {
        let faults = Faults { refuse: 30, delay: 20, pull_fails: 20, land: 30, stream: 50, hold: 40, post: 50 };
        let mut job = Job::new(seed, 3, faults);
        let lens = [8, 400, 100, 170, 41, 3000];
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        for round in 0..4u64 {
            for i in 0..18u64 {
                let (from, to) = [(0, 1), (1, 0), (2, 1), (1, 2), (0, 2), (2, 0)][i as usize % 6];
                let number = round * 18 + i;
                let data = message(number, lens[(number / 3) as usize % 6]);
                let mode = if i % 4 == 0 { Mode::Synchronous } else { Mode::Standard };
                sends.extend(job.send(from, to, 5, mode, data).map(|op| (from, op)));
                // Every second one is posted before the move, the others afterwards.
                receives.push((number, from, to, (i % 2 == 0).then(|| job.recv(to, Some(from), Some(5), 3000))));
                job.engines[(seed + i) as usize % 3].progress();
            }
            // The mover asks, or its peers do, or both at once.
            match (seed + round) % 3 {
                0 => [0, 2].into_iter().for_each(|peer| job.engines[1].suspend(Peer(peer))),
                1 => [0, 2].into_iter().for_each(|at| job.engines[at].suspend(Peer(1))),
                _ => {
                    job.engines[1].suspend(Peer(0));
                    job.engines[0].suspend(Peer(1));
                    job.engines[2].suspend(Peer(1));
                }
            }
            let pairs = [(1, 0), (1, 2), (0, 1), (2, 1)];
            job.run_until("suspension", |job| {
                pairs.iter().all(|(at, peer)| job.engines[*at].is_suspended(Peer(*peer)))
            });
            job.world.borrow_mut().move_to_another_host(Peer(1));
            match round % 2 {
                0 => [0, 2].into_iter().for_each(|peer| job.engines[1].resume(Peer(peer))),
                _ => pairs.iter().for_each(|(at, peer)| job.engines[*at].resume(Peer(*peer))),
            }
            let any = |job: &mut Job| pairs.iter().any(|(at, peer)| job.engines[*at].is_suspended(Peer(*peer)));
            job.run_until("resumption", |job| !any(job));
            for (_, from, to, posted) in receives.iter_mut().filter(|(.., posted)| posted.is_none()) {
                *posted = Some(job.recv(*to, Some(*from), Some(5), 3000));
            }
        }
        for (number, _, to, posted) in receives {
            let (op, sink) = posted.expect("posted above");
            let completion = job.finish(to, op);
            let expected = message(number, lens[(number / 3) as usize % 6]);
            assert_eq!(completion.error, None, "seed {seed}, message {number}");
            assert!(sink.bytes()[..completion.length as usize] == expected, "seed {seed}, message {number}");
        }
        for (from, op) in sends {
            assert_eq!(job.finish(from, op).error, None, "seed {seed}");
        }
        assert_eq!(job.world.borrow().lanes_closed(Peer(1)), 8, "two lanes in each round");
    }
}

#[test]
fn a_peer_that_dies_while_it_is_suspended_is_lost() {
    for seed in 0..40 {
        let mut job = Job::new(seed, 2, Faults { delay: 30, ..Faults::default() });
        let (op, _) = job.recv(0, Some(1), Some(1), 8);
        job.send(0, 1, 1, Mode::Standard, vec![1; 8]);
        job.engines[0].suspend(Peer(1));
        for _ in 0..seed {
            job.engines.iter_mut().for_each(|engine| {
                engine.progress();
            });
        }
        job.world.borrow_mut().kill(Peer(1));
        assert_eq!(job.finish(0, op).error.map(|e| e.class), Some(Class::ERR_PROC_ABORTED));
        assert!(!job.engines[0].is_suspended(Peer(1)));
    }
}
