//! Registered memory through the engine: by the lane itself, by packets, and both at once, whatever the lanes do.

use base::{Class, Peer};
use protocol::endpoint::Endpoints;
use protocol::engine::Engine;
use protocol::engine::one_sided::AccessId;
use protocol::kind::Kind;
use protocol::memory::{Atomic, Change, Key, Target, Verbs};
use protocol::order::Number;
use protocol::transport::Caps;
use protocol::wire::Header;
use std::cell::RefCell;
use std::rc::Rc;
use testkit::rng::Rng;
use testkit::transport::{Bytes, Faults, SimTransport, World};

const CAPS: Caps =
    Caps { packet_max: 64, piece_min: 8, eager_max: 40, fragments_max: 150, push_max: 180, pull_min: 200 };
const FAULTS: Faults = Faults { refuse: 30, delay: 30, pull_fails: 0, land: 30, stream: 0, hold: 0, post: 50 };

struct Job {
    world: Rc<RefCell<World>>,
    engines: Vec<Engine<SimTransport>>,
    /// The memory that each process has registered, and its key.
    memory: Vec<(Bytes, Key)>,
    polls: usize,
}

impl Job {
    fn new(seed: u64, size: u32, len: usize, faults: Faults, verbs: Verbs) -> Job {
        let world = World::new(seed, faults, CAPS);
        world.borrow_mut().offer_verbs(verbs);
        world.borrow_mut().use_lanes(1 + seed as usize % 3);
        let engine = |i| Engine::new(Endpoints::new(SimTransport::new(Peer(i), size, &world)));
        let mut engines: Vec<_> = (0..size).map(engine).collect();
        let register = |engine: &mut Engine<SimTransport>| {
            let bytes = Bytes::new(vec![0; len]);
            (bytes.clone(), engine.register(bytes))
        };
        let memory = engines.iter_mut().map(register).collect();
        Job { world, engines, memory, polls: 0 }
    }

    /// Moves everybody on; now and then a lane that is not the last one is lost.
    fn progress(&mut self) {
        self.polls += 1;
        if self.polls.is_multiple_of(40) {
            let (a, b) = [(0, 1), (1, 2), (0, 2)][self.polls / 40 % 3];
            let number = 1 + self.polls / 120 % 3;
            self.world.borrow_mut().lose_lane(Peer(a), Peer(b), number);
        }
        for engine in &mut self.engines {
            engine.progress();
        }
    }

    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Job) -> bool) {
        for _ in 0..100_000 {
            if done(self) {
                return;
            }
            self.progress();
        }
        let pending: Vec<_> = self.engines.iter().map(Engine::describe_pending).collect();
        panic!("no {what}: {pending:?}");
    }

    fn finish(&mut self, at: usize, id: AccessId) -> base::Result<u64> {
        let mut outcome = None;
        self.until("completion", |job| {
            outcome = job.engines[at].take_access(id);
            outcome.is_some()
        });
        outcome.expect("just seen")
    }
}

fn verbs_of(seed: u64) -> Verbs {
    [
        Verbs::NONE,
        Verbs::ALL,
        Verbs { put: true, ..Verbs::NONE },
        Verbs { get: true, ..Verbs::NONE },
        Verbs { atomic: true, ..Verbs::NONE },
    ][seed as usize % 5]
}

/// Every process writes and reads its own part of everybody's memory; a plain copy of it says what must be there.
#[test]
fn puts_and_gets_move_the_right_bytes() {
    const PART: usize = 2000;
    for seed in 0..50 {
        let mut rng = Rng::new(seed);
        let mut job = Job::new(seed, 3, 3 * PART, FAULTS, verbs_of(seed));
        let mut expected = vec![vec![0u8; 3 * PART]; 3];
        for _ in 0..12 {
            let mut open = Vec::new();
            for (me, to) in [(0, 1), (1, 2), (2, 0), (0, 0), (1, 0), (2, 2)] {
                let len = [0, 1, 39, 40, 41, 500, 1500][rng.below(7)];
                let at = me * PART + rng.below(PART - len);
                let (peer, key) = (Peer(to as u32), job.memory[to].1);
                let bytes: Vec<u8> = (0..len).map(|_| rng.bits() as u8).collect();
                expected[to][at..at + len].copy_from_slice(&bytes);
                let source = Bytes::new(bytes);
                let put = job.engines[me].post_put(peer, &key, at as u64, source.clone());
                open.push((me, put, source));
            }
            for (me, put, source) in open {
                assert_eq!(job.finish(me, put), Ok(0), "seed {seed}");
                source.overwrite(0xee);
            }
            for (me, to) in [(0, 1), (1, 2), (2, 0), (1, 1)] {
                let (len, key) = (rng.below(1000), job.memory[to].1);
                let at = me * PART + rng.below(PART - len);
                let sink = Bytes::new(vec![0; len]);
                let get = job.engines[me].post_get(Peer(to as u32), &key, at as u64, sink.clone());
                assert_eq!(job.finish(me, get), Ok(0), "seed {seed}");
                assert_eq!(sink.bytes(), expected[to][at..at + len], "seed {seed}");
            }
        }
        for (expected, (bytes, _)) in expected.iter().zip(&job.memory) {
            assert_eq!(bytes.bytes(), *expected, "seed {seed}");
        }
    }
}

#[test]
fn atomics_of_all_processes_are_one_after_the_other() {
    for seed in 0..50 {
        // A lane does all atomics by itself, or none.
        let verbs = if seed % 2 == 0 { Verbs::ALL } else { Verbs { atomic: false, ..Verbs::ALL } };
        let mut job = Job::new(seed, 3, 32, FAULTS, verbs);
        let key = job.memory[1].1;
        let add = Atomic { change: Change::Add(1), width: if seed % 3 == 0 { 4 } else { 8 } };
        let mut ids = Vec::new();
        for i in 0..60 {
            ids.push((i % 3, job.engines[i % 3].post_atomic(Peer(1), &key, 8, add)));
            job.progress();
        }
        let mut before: Vec<u64> = ids.into_iter().map(|(at, id)| job.finish(at, id).expect("done")).collect();
        before.sort_unstable();
        assert_eq!(before, (0..60).collect::<Vec<u64>>(), "seed {seed}");
        let swap = Atomic { change: Change::CompareSwap { expected: 60, new: 7 }, ..add };
        let outcomes = [0, 2].map(|at| {
            let id = job.engines[at].post_atomic(Peer(1), &key, 8, swap);
            job.finish(at, id)
        });
        assert_eq!(outcomes, [Ok(60), Ok(7)]);
        let id = job.engines[0].post_atomic(Peer(1), &key, 8, Atomic { change: Change::Swap(9), ..add });
        assert_eq!(job.finish(0, id), Ok(7));
        assert_eq!(job.memory[1].0.bytes()[..24], [[0; 8], 9u64.to_le_bytes(), [0; 8]].concat());
    }
}

#[test]
fn a_flush_ends_after_all_accesses_before_it() {
    for seed in 0..50 {
        let mut job = Job::new(seed, 2, 4000, FAULTS, verbs_of(seed));
        let key = job.memory[1].1;
        let puts: Vec<AccessId> =
            (0..4).map(|i| job.engines[0].post_put(Peer(1), &key, i * 1000, Bytes::new(vec![5; 1000]))).collect();
        let flush = job.engines[0].post_flush(Peer(1));
        let later = job.engines[0].post_put(Peer(1), &key, 0, Bytes::new(vec![5; 1000]));
        assert_eq!(job.finish(0, flush), Ok(0));
        assert!(puts.iter().all(|put| job.engines[0].is_access_complete(*put)), "seed {seed}");
        assert_eq!(job.memory[1].0.bytes(), vec![5; 4000], "seed {seed}");
        assert_eq!(job.finish(0, later), Ok(0));
    }
}

#[test]
fn bad_keys_are_refused_and_touch_nothing() {
    let refused = |outcome: base::Result<u64>| outcome.map_err(|error| error.class) == Err(Class::ERR_RMA_RANGE);
    for seed in 0..40 {
        let mut job = Job::new(seed, 2, 64, FAULTS, verbs_of(seed));
        let good = job.memory[1].1;
        let gone = job.engines[1].register(Bytes::new(vec![3; 64]));
        assert!(job.engines[1].deregister(&gone) && !job.engines[1].deregister(&gone));
        // A key of another process, one that is over, a nonce that is guessed, a number that doesn't exist, and lengths that are made up.
        let own = Key { number: good.number, ..job.memory[0].1 };
        let bad = [
            (own, 0),
            (gone, 0),
            (Key { nonce: good.nonce ^ 1, ..good }, 0),
            (Key { number: 99, ..good }, 0),
            (Key { len: u64::MAX, ..good }, 40),
            (Key { len: u64::MAX, ..good }, u64::MAX - 40),
            (good, 40),
            (good, u64::MAX),
        ];
        for (key, at) in bad {
            let sink = Bytes::new(vec![0; 40]);
            let put = job.engines[0].post_put(Peer(1), &key, at, Bytes::new(vec![9; 40]));
            let get = job.engines[0].post_get(Peer(1), &key, at, sink);
            let add = Atomic { change: Change::Add(1), width: 8 };
            let place = if at == 40 { 64 } else { at };
            let atomic = job.engines[0].post_atomic(Peer(1), &key, place, add);
            for id in [put, get, atomic] {
                assert!(refused(job.finish(0, id)), "seed {seed}, {key:?} at {at}");
            }
        }
        // Numbers lie at multiples of their size.
        let odd = job.engines[0].post_atomic(Peer(1), &good, 4, Atomic { change: Change::Add(1), width: 8 });
        assert!(refused(job.finish(0, odd)));
        assert_eq!(job.memory.iter().map(|m| m.0.bytes()).collect::<Vec<_>>(), [[0; 64]; 2]);
    }
}

#[test]
fn a_peer_that_takes_no_answers_is_kept_few() {
    let mut job = Job::new(0, 2, 64, Faults::default(), Verbs::NONE);
    let key = job.memory[0].1;
    let body = Target { number: key.number, nonce: key.nonce, at: 0 }.encode_range(8).to_vec();
    for token in 0..20_000 {
        let header = Header { kind: Kind::GET, number: Number::NONE, source: 0, tag: 0, token, context: 0 };
        job.world.borrow_mut().inject(Peer(1), Peer(0), header, body.clone());
    }
    // Only the target moves on, so the lane to the peer is full.
    while job.engines[0].progress() {}
    let waiting = job.engines[0].describe_pending();
    let count: usize = waiting[0].split(' ').find_map(|word| word.parse().ok().filter(|n| *n > 1)).expect("a number");
    assert!((1000..=4096).contains(&count), "{waiting:?}");
    // It reads what there is, none of which it has asked for, and may go on.
    job.until("room", |job| job.engines[0].describe_pending().is_empty());
    let sink = Bytes::new(vec![1; 64]);
    let get = job.engines[1].post_get(Peer(0), &key, 0, sink.clone());
    assert_eq!((job.finish(1, get), sink.bytes()), (Ok(0), vec![0; 64]));
}

#[test]
fn any_number_of_accesses_may_be_open() {
    const OPEN: usize = 6000;
    let mut job = Job::new(0, 2, OPEN, Faults::default(), Verbs::NONE);
    job.memory[1].0.overwrite(7);
    let key = job.memory[1].1;
    let sinks: Vec<Bytes> = (0..OPEN).map(|_| Bytes::new(vec![0])).collect();
    let post = |(at, sink): (usize, &Bytes)| job.engines[0].post_get(Peer(1), &key, at as u64, sink.clone());
    let ids: Vec<AccessId> = sinks.iter().enumerate().map(post).collect();
    // The target reads everything before the other one looks for its answers again.
    for _ in 0..OPEN {
        job.engines[0].progress();
        while job.engines[1].progress() {}
    }
    for id in ids {
        assert_eq!(job.finish(0, id), Ok(0));
    }
    assert!(sinks.iter().all(|sink| sink.bytes() == [7]));
}

#[test]
fn accesses_to_a_dead_process_end() {
    for seed in 0..60 {
        let mut job = Job::new(seed, 3, 3000, FAULTS, verbs_of(seed));
        let key = job.memory[1].1;
        let sink = Bytes::new(vec![0; 3000]);
        let mut ids = vec![
            job.engines[0].post_put(Peer(1), &key, 0, Bytes::new(vec![1; 3000])),
            job.engines[0].post_get(Peer(1), &key, 0, sink),
            job.engines[0].post_atomic(Peer(1), &key, 0, Atomic { change: Change::Add(1), width: 8 }),
            job.engines[0].post_flush(Peer(1)),
        ];
        for _ in 0..seed {
            job.progress();
        }
        job.world.borrow_mut().kill(Peer(1));
        job.until("loss", |job| job.engines[0].losses() == 1);
        ids.push(job.engines[0].post_put(Peer(1), &key, 0, Bytes::new(vec![1; 3000])));
        for id in ids {
            let outcome = job.finish(0, id);
            assert!(outcome.is_ok() || outcome.map_err(|e| e.class) == Err(Class::ERR_PROC_ABORTED), "seed {seed}");
        }
    }
}

#[test]
fn a_process_moves_while_its_memory_is_accessed() {
    for seed in 0..60 {
        let mut job = Job::new(seed, 2, 6000, FAULTS, verbs_of(seed));
        let key = job.memory[1].1;
        let data: Vec<u8> = (0..3000u32).map(|i| (i * 7 + i / 256) as u8).collect();
        for round in 0..3 {
            let put = job.engines[0].post_put(Peer(1), &key, 0, Bytes::new(data.clone()));
            let add = Atomic { change: Change::Add(1), width: 8 };
            let atomic = job.engines[0].post_atomic(Peer(1), &key, 4000, add);
            for _ in 0..seed {
                job.progress();
            }
            job.engines[seed as usize % 2].suspend(Peer(1 - seed as u32 % 2));
            job.until("suspension", |job| job.engines[0].is_suspended(Peer(1)) && job.engines[1].is_suspended(Peer(0)));
            job.world.borrow_mut().move_to_another_host(Peer(1));
            job.engines[1].resume(Peer(0));
            let sink = Bytes::new(vec![0; 3000]);
            assert_eq!((job.finish(0, put), job.finish(0, atomic)), (Ok(0), Ok(round)), "seed {seed}");
            let get = job.engines[0].post_get(Peer(1), &key, 0, sink.clone());
            assert_eq!(job.finish(0, get), Ok(0));
            assert_eq!(sink.bytes(), data, "seed {seed}");
        }
    }
}
