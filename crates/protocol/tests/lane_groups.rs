//! Groups of lanes: messages of every context arrive once and in order with every lane policy, while lanes are delayed and lost, endpoints suspended and
//! classes changed; and what is small doesn't wait for what is large.
//!
//! `FERRULE_TEST_SEEDS` is the number of seeds of each test, for long runs, or `A-B` for those from A to B.

mod job;

use base::Peer;
use base::ids::ContextId;
use job::{CONTEXT, Job, message};
use protocol::engine::{Mode, OpId};
use protocol::lanes::{Class, LanePlan};
use std::ops::Range;
use testkit::rng::Rng;
use testkit::transport::{Bytes, Faults};

const LENS: [usize; 14] = [0, 1, 8, 16, 17, 40, 41, 100, 150, 170, 199, 200, 500, 3000];
const LONGEST: usize = 3000;
const PAIRS: [(u32, u32); 6] = [(0, 1), (1, 0), (0, 1), (1, 2), (2, 0), (1, 0)];
/// Two communicators, each with messages of the program and of collectives.
const CONTEXTS: [u64; 4] = [CONTEXT, CONTEXT + 1, 2 * CONTEXT, 2 * CONTEXT + 1];
const PLANS: [(&str, &str); 8] = [
    ("2", "segregate"),
    ("4", "segregate"),
    ("2", "segregate:traffic"),
    ("3", "segregate:traffic"),
    ("6", "segregate:traffic"),
    ("3", "distribute"),
    ("4", "distribute:connection"),
    ("auto", "auto"),
];

fn seeds(few: u64) -> Range<u64> {
    let Ok(text) = std::env::var("FERRULE_TEST_SEEDS") else { return 0..few };
    let number = |text: &str| text.parse().expect("FERRULE_TEST_SEEDS is a number, or two with - between them");
    text.split_once('-').map_or_else(|| 0..number(&text), |(first, last)| number(first)..number(last) + 1)
}

fn plan(seed: u64) -> LanePlan {
    let (lanes, policy) = PLANS[seed as usize % PLANS.len()];
    LanePlan::parse(lanes, policy).unwrap()
}

fn faults(seed: u64) -> Faults {
    match seed / PLANS.len() as u64 % 3 {
        0 => Faults::default(),
        1 => Faults { delay: 40, land: 50, ..Faults::default() },
        _ => Faults { refuse: 30, delay: 30, pull_fails: 30, land: 50, stream: 50, hold: 60, post: 50 },
    }
}

struct Message {
    number: u64,
    context: u64,
    from: u32,
    to: u32,
}

/// Messages of one tag between three processes in several contexts, and what became of them.
struct Traffic {
    job: Job,
    rng: Rng,
    seed: u64,
    plan: LanePlan,
    sent: u64,
    sends: Vec<(u32, OpId)>,
    receives: Vec<(u64, u32, OpId, Bytes)>,
    /// Messages whose receive is posted later.
    late: Vec<Message>,
}

impl Traffic {
    fn new(seed: u64) -> Traffic {
        let plan = plan(seed);
        let job = Job::with_plan(seed, 3, faults(seed), plan);
        let (rng, sends, receives, late) = (Rng::new(seed), Vec::new(), Vec::new(), Vec::new());
        Traffic { job, rng, seed, plan, sent: 0, sends, receives, late }
    }

    fn length(&self, number: u64) -> usize {
        LENS[Rng::new(self.seed << 32 | number).below(LENS.len())]
    }

    /// Sends the next message of a random pair; its receive is posted before, or together with those of all that wait.
    fn send(&mut self) {
        let (from, to) = PAIRS[self.rng.below(PAIRS.len())];
        let context = CONTEXTS[self.rng.below(CONTEXTS.len())];
        let number = self.sent;
        self.sent += 1;
        self.late.push(Message { number, context, from, to });
        if self.rng.chance(30) {
            self.receive_late();
        }
        let mode = if self.rng.chance(25) { Mode::Synchronous } else { Mode::Standard };
        let data = message(number, self.length(number));
        self.sends.extend(self.job.send_in(context, from, to, 5, mode, data).map(|op| (from, op)));
        let at = self.rng.below(3);
        self.job.engines[at].progress();
    }

    fn receive_late(&mut self) {
        for Message { number, context, from, to } in std::mem::take(&mut self.late) {
            // Process 1 has one sender, so a wildcard means it, too.
            let source = (to != 1 || self.rng.chance(80)).then_some(from);
            let (op, sink) = self.job.recv_in(context, to, source, Some(5), LONGEST);
            self.receives.push((number, to, op, sink));
        }
    }

    /// Loses a random lane of a random pair, if it isn't the last one.
    fn lose_a_lane(&mut self) -> bool {
        let (a, b) = PAIRS[self.rng.below(PAIRS.len())];
        let number = self.rng.below(self.plan.lanes());
        let mut world = self.job.world.borrow_mut();
        let open = world.open_lanes(Peer(a), Peer(b)).min(world.open_lanes(Peer(b), Peer(a)));
        open > 1 && world.lose_lane(Peer(a), Peer(b), number)
    }

    /// A process gives a random communicator another class.
    fn change_class(&mut self) {
        let classes = [None, Some(Class::Bulk), Some(Class::Latency), Some(Class::Collectives), Some(Class::OneSided)];
        let (at, class) = (self.rng.below(3), classes[self.rng.below(classes.len())]);
        let context = ContextId::of_plane(CONTEXTS[self.rng.below(CONTEXTS.len())]);
        self.job.engines[at].set_class(context, class);
    }

    /// Every message has arrived, as the one of its number.
    fn finish(&mut self) {
        self.receive_late();
        for (number, at, op, sink) in std::mem::take(&mut self.receives) {
            let (seed, expected) = (self.seed, message(number, self.length(number)));
            let completion = self.job.finish(at, op);
            assert_eq!(completion.error, None, "seed {seed}, message {number}");
            assert!(sink.bytes()[..completion.length as usize] == expected, "seed {seed}, message {number}");
        }
        for (from, op) in std::mem::take(&mut self.sends) {
            assert_eq!(self.job.finish(from, op).error, None, "seed {}", self.seed);
        }
        let left: usize =
            self.job.engines.iter().map(|engine| engine.unexpected_count() + engine.pending().len()).sum();
        assert_eq!(left, 0, "seed {}: a message has come twice", self.seed);
    }
}

#[test]
fn messages_of_a_context_keep_their_order_with_every_policy() {
    for seed in seeds(120) {
        let mut traffic = Traffic::new(seed);
        for _ in 0..150 {
            traffic.send();
        }
        traffic.finish();
    }
}

#[test]
fn they_do_while_lanes_are_lost() {
    let mut lost = 0;
    let seeds = seeds(160);
    for seed in seeds.clone() {
        let mut traffic = Traffic::new(seed);
        for i in 0..120 {
            traffic.send();
            if i % 10 == 9 && traffic.rng.chance(40) {
                lost += u64::from(traffic.lose_a_lane());
            }
        }
        traffic.finish();
    }
    assert!(lost >= seeds.end - seeds.start, "{lost} lanes were lost");
}

/// One lane is lost after each number of polls.
#[test]
fn a_lane_may_be_lost_at_every_step() {
    for seed in seeds(160) {
        let mut traffic = Traffic::new(seed);
        for _ in 0..4 {
            traffic.send();
        }
        let steps = seed % 400;
        (0..steps).for_each(|_| traffic.job.progress());
        traffic.lose_a_lane();
        for _ in 0..30 {
            traffic.send();
        }
        traffic.finish();
    }
}

#[test]
fn they_do_while_contexts_change_their_class() {
    for seed in seeds(160) {
        let mut traffic = Traffic::new(seed);
        for i in 0..150 {
            traffic.send();
            if i % 5 == 4 {
                traffic.change_class();
            }
        }
        traffic.finish();
    }
}

#[test]
fn they_do_while_endpoints_are_suspended() {
    for seed in seeds(80) {
        let mut traffic = Traffic::new(seed);
        for round in 0..4 {
            for i in 0..40 {
                traffic.send();
                match i % 10 {
                    5 => drop(traffic.lose_a_lane()),
                    8 => traffic.change_class(),
                    _ => {}
                }
            }
            let job = &mut traffic.job;
            match (seed + round) % 3 {
                0 => [0, 2].into_iter().for_each(|peer| job.engines[1].suspend(Peer(peer))),
                1 => [0, 2].into_iter().for_each(|at| job.engines[at].suspend(Peer(1))),
                _ => [(1, 0), (0, 1), (2, 1)].into_iter().for_each(|(at, peer)| job.engines[at].suspend(Peer(peer))),
            }
            let pairs = [(1, 0), (1, 2), (0, 1), (2, 1)];
            job.run_until("suspension", |job| {
                pairs.iter().all(|(at, peer)| job.engines[*at].is_suspended(Peer(*peer)))
            });
            job.world.borrow_mut().move_to_another_host(Peer(1));
            // Messages wait meanwhile; the next lanes may be fewer, or just one, or more again.
            job.world.borrow_mut().use_lanes([3, 1, 2, 6][(seed + round) as usize % 4]);
            for i in 0..20 {
                traffic.send();
                if i % 4 == 1 {
                    traffic.change_class();
                }
            }
            pairs.iter().for_each(|(at, peer)| traffic.job.engines[*at].resume(Peer(*peer)));
        }
        traffic.finish();
    }
}

/// The bulk lane delivers nothing; small messages arrive all the same, behind large ones of another context and before them.
#[test]
fn small_messages_do_not_wait_for_bulk() {
    for seed in 0..30 {
        let plan = LanePlan::parse("2", "segregate").unwrap();
        let mut job = Job::with_plan(seed, 2, faults(seed), plan);
        let first = job.recv(1, Some(0), Some(5), 8).0;
        job.send(0, 1, 5, Mode::Standard, message(0, 8));
        job.finish(1, first);
        job.world.borrow_mut().stall_lane(Peer(0), Peer(1), 1, true);
        let (large, place) = job.recv(1, Some(0), Some(6), 3000);
        let (medium, second_place) = job.recv(1, Some(0), Some(7), 40);
        job.send(0, 1, 6, Mode::Standard, message(1, 3000));
        job.send(0, 1, 7, Mode::Standard, message(2, 40));
        for number in 3..2000 {
            let (op, sink) = job.recv(1, Some(0), Some(5), 8);
            job.send(0, 1, 5, Mode::Standard, message(number, 8));
            assert_eq!(job.finish(1, op).error, None);
            assert!(sink.bytes() == message(number, 8), "seed {seed}, message {number}");
        }
        assert!(!job.engines[1].is_complete(medium), "seed {seed}: a payload went over another lane");
        job.world.borrow_mut().stall_lane(Peer(0), Peer(1), 1, false);
        job.finish(1, large);
        job.finish(1, medium);
        assert!(place.bytes() == message(1, 3000) && second_place.bytes() == message(2, 40), "seed {seed}");
    }
}

/// Each kind of traffic arrives while the lanes of the other kinds deliver nothing.
#[test]
fn kinds_of_traffic_do_not_wait_for_each_other() {
    for seed in 0..30 {
        let plan = LanePlan::parse("4", "segregate:traffic").unwrap();
        for (context, stalled) in [(CONTEXT, 1), (CONTEXT + 1, 0)] {
            let mut job = Job::with_plan(seed, 2, faults(seed), plan);
            let first = job.recv(1, Some(0), Some(5), 8).0;
            job.send(0, 1, 5, Mode::Standard, message(0, 8));
            job.finish(1, first);
            job.world.borrow_mut().stall_lane(Peer(0), Peer(1), stalled, true);
            let other = CONTEXT + 1 - (context - CONTEXT);
            let (waiting, place) = job.recv_in(other, 1, Some(0), Some(6), 3000);
            job.send_in(other, 0, 1, 6, Mode::Standard, message(1, 3000));
            for number in 2..300 {
                let len = LENS[number as usize % LENS.len()];
                let (op, sink) = job.recv_in(context, 1, Some(0), Some(5), len);
                job.send_in(context, 0, 1, 5, Mode::Standard, message(number, len));
                assert_eq!(job.finish(1, op).error, None);
                assert!(sink.bytes() == message(number, len), "seed {seed}, message {number}");
            }
            assert!(!job.engines[1].is_complete(waiting), "seed {seed}: it went over another lane");
            job.world.borrow_mut().stall_lane(Peer(0), Peer(1), stalled, false);
            job.finish(1, waiting);
            assert!(place.bytes() == message(1, 3000), "seed {seed}");
        }
    }
}

/// A class that a context gets while its earlier messages stall: later ones wait for those.
#[test]
fn a_change_of_class_keeps_the_order() {
    for seed in 0..30 {
        let plan = LanePlan::parse("2", "segregate").unwrap();
        let mut job = Job::with_plan(seed, 2, faults(seed), plan);
        let receives: Vec<_> = (0..40).map(|_| job.recv(1, Some(0), Some(5), 100)).collect();
        job.send(0, 1, 5, Mode::Standard, message(0, 100));
        job.finish(1, receives[0].0);
        for number in 1..receives.len() {
            if number % 10 == 1 {
                let class = [Class::Bulk, Class::Latency][number / 10 % 2];
                let stalled = [0, 1][number / 10 % 2];
                job.engines[0].set_class(ContextId(CONTEXT), Some(class));
                job.world.borrow_mut().stall_lane(Peer(0), Peer(1), stalled, true);
                job.world.borrow_mut().stall_lane(Peer(0), Peer(1), 1 - stalled, false);
            }
            job.send(0, 1, 5, Mode::Standard, message(number as u64, number * 2));
            (0..20).for_each(|_| job.progress());
        }
        (0..2).for_each(|lane| job.world.borrow_mut().stall_lane(Peer(0), Peer(1), lane, false));
        for (number, (op, sink)) in receives.into_iter().enumerate().skip(1) {
            let completion = job.finish(1, op);
            let is_whole = sink.bytes()[..completion.length as usize] == message(number as u64, number * 2);
            assert!(is_whole, "seed {seed}, message {number}");
        }
    }
}
