//! Several lanes of one endpoint: every message arrives once, in order, with all protocols, while lanes are lost and endpoints suspended.

mod job;

use base::{Class, Peer};
use job::{Job, message};
use protocol::engine::{Mode, OpId};
use protocol::order::{CYCLE, FIRST, WINDOW};
use testkit::rng::Rng;
use testkit::transport::{Bytes, Faults};

const LENS: [usize; 12] = [0, 1, 8, 40, 41, 100, 150, 170, 199, 200, 500, 3000];
const LONGEST: usize = 3000;
const PAIRS: [(u32, u32); 6] = [(0, 1), (1, 0), (0, 1), (1, 2), (2, 0), (1, 0)];

fn faults(seed: u64) -> Faults {
    match seed % 3 {
        0 => Faults::default(),
        1 => Faults { delay: 40, land: 50, ..Faults::default() },
        _ => Faults { refuse: 30, delay: 30, pull_fails: 30, land: 50, stream: 50, hold: 60, post: 50 },
    }
}

/// Messages of one tag between three processes, and what became of them.
struct Traffic {
    job: Job,
    rng: Rng,
    seed: u64,
    lanes: usize,
    sent: u64,
    sends: Vec<(u32, OpId)>,
    receives: Vec<(u64, u32, OpId, Bytes)>,
    /// Messages whose receive is posted later.
    late: Vec<(u64, u32, u32)>,
}

impl Traffic {
    fn new(seed: u64, lanes: usize) -> Traffic {
        let job = Job::with_lanes(seed, 3, faults(seed), lanes);
        let (rng, sends, receives, late) = (Rng::new(seed), Vec::new(), Vec::new(), Vec::new());
        Traffic { job, rng, seed, lanes, sent: 0, sends, receives, late }
    }

    fn length(&self, number: u64) -> usize {
        LENS[Rng::new(self.seed << 32 | number).below(LENS.len())]
    }

    /// Sends the next message of a random pair; its receive is posted before, or together with those of all that wait.
    fn send(&mut self) {
        let (from, to) = PAIRS[self.rng.below(PAIRS.len())];
        let number = self.sent;
        self.sent += 1;
        self.late.push((number, from, to));
        if self.rng.chance(30) {
            self.receive_late();
        }
        let mode = if self.rng.chance(25) { Mode::Synchronous } else { Mode::Standard };
        let data = message(number, self.length(number));
        self.sends.extend(self.job.send(from, to, 5, mode, data).map(|op| (from, op)));
        let at = self.rng.below(3);
        self.job.engines[at].progress();
    }

    fn receive_late(&mut self) {
        for (number, from, to) in std::mem::take(&mut self.late) {
            // Process 1 has one sender, so a wildcard means it, too.
            let source = (to != 1 || self.rng.chance(80)).then_some(from);
            let (op, sink) = self.job.recv(to, source, Some(5), LONGEST);
            self.receives.push((number, to, op, sink));
        }
    }

    /// Loses a lane of a random pair, perhaps, but not the last one.
    fn lose_a_lane(&mut self) -> bool {
        let (a, b) = PAIRS[self.rng.below(PAIRS.len())];
        let number = 1 + self.rng.below(self.lanes - 1);
        self.job.world.borrow_mut().lose_lane(Peer(a), Peer(b), number)
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
fn messages_keep_their_order_over_several_lanes() {
    for seed in 0..90 {
        let mut traffic = Traffic::new(seed, 2 + seed as usize % 3);
        for _ in 0..120 {
            traffic.send();
        }
        traffic.finish();
    }
}

#[test]
fn nothing_is_lost_or_doubled_when_lanes_are_lost() {
    let mut lost = 0;
    for seed in 0..150 {
        let mut traffic = Traffic::new(seed, 2 + seed as usize % 3);
        for i in 0..120 {
            traffic.send();
            if i % 10 == 9 && traffic.rng.chance(40) {
                lost += usize::from(traffic.lose_a_lane());
            }
        }
        traffic.finish();
    }
    assert!(lost > 300, "{lost} lanes were lost");
}

#[test]
fn endpoints_are_suspended_and_resumed_with_all_their_lanes() {
    for seed in 0..60 {
        let mut traffic = Traffic::new(seed, 2 + seed as usize % 3);
        for round in 0..4 {
            for i in 0..40 {
                traffic.send();
                if i % 10 == 5 {
                    traffic.lose_a_lane();
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
                if round.is_multiple_of(2) {
                    job.world.borrow_mut().lose_lane(Peer(0), Peer(1), 1);
                }
                pairs.iter().all(|(at, peer)| job.engines[*at].is_suspended(Peer(*peer)))
            });
            job.world.borrow_mut().move_to_another_host(Peer(1));
            // The next lanes may be fewer, or just one, or more again.
            job.world.borrow_mut().use_lanes([3, 1, 2, 4][(seed + round) as usize % 4]);
            pairs.iter().for_each(|(at, peer)| job.engines[*at].resume(Peer(*peer)));
            traffic.lanes = 4;
        }
        traffic.finish();
    }
}

/// More messages than there are counts before the end of the first cycle, in both directions.
#[test]
fn numbers_begin_anew_after_the_end_of_a_cycle() {
    for seed in 0..6 {
        let mut job = Job::with_lanes(seed, 2, faults(seed), 3);
        let messages = 2 * (CYCLE - FIRST);
        let mut receives = Vec::new();
        for number in 0..messages {
            for (from, to) in [(0, 1), (1, 0)] {
                job.send(from, to, 5, Mode::Standard, message(number, 8));
                receives.push((number, to, job.recv(to, Some(from), Some(5), 8)));
            }
            if number % 700 == 699 {
                job.world.borrow_mut().lose_lane(Peer(0), Peer(1), number as usize / 700 % 2);
            }
            job.engines[number as usize % 2].progress();
        }
        for (number, at, (op, sink)) in receives {
            job.finish(at, op);
            assert!(sink.bytes() == message(number, 8), "seed {seed}, message {number}");
        }
    }
}

#[test]
fn a_lane_that_stalls_holds_the_pair_up_until_it_goes_on() {
    for seed in 0..6 {
        let mut job = Job::with_lanes(seed, 2, faults(seed), 3);
        let (first, _) = job.recv(1, Some(0), Some(5), 8);
        job.send(0, 1, 5, Mode::Standard, message(0, 8));
        job.finish(1, first);
        job.world.borrow_mut().stall_lane(Peer(0), Peer(1), 2, true);
        let before = job.world.borrow().packets;
        let messages = 2 * WINDOW;
        let receives: Vec<_> = (0..messages).map(|_| job.recv(1, Some(0), Some(5), 8)).collect();
        for number in 0..messages {
            job.send(0, 1, 5, Mode::Standard, message(number, 8));
        }
        for _ in 0..20_000 {
            job.progress();
        }
        let sent = (job.world.borrow().packets - before) as u64;
        assert!((WINDOW / 2..=WINDOW).contains(&sent), "seed {seed}: {sent} packets");
        assert!(!job.engines[1].is_complete(receives[10].0), "seed {seed}: a message has overtaken another");
        job.world.borrow_mut().stall_lane(Peer(0), Peer(1), 2, false);
        for (number, (op, sink)) in receives.into_iter().enumerate() {
            job.finish(1, op);
            assert!(sink.bytes() == message(number as u64, 8), "seed {seed}, message {number}");
        }
    }
}

#[test]
fn the_endpoint_is_lost_with_its_last_lane() {
    for seed in 0..30 {
        let mut job = Job::with_lanes(seed, 3, faults(seed), 3);
        for (from, to) in [(0, 1), (1, 0), (0, 2)] {
            let (op, _) = job.recv(to, Some(from), Some(1), 8);
            job.send(from, to, 1, Mode::Standard, vec![1; 8]);
            job.finish(to, op);
        }
        let receive = job.recv(0, Some(1), Some(1), 8).0;
        let send = job.send(0, 1, 1, Mode::Synchronous, vec![0; 3000]).expect("pending");
        for _ in 0..seed {
            job.progress();
        }
        for number in 0..3 {
            assert!(job.world.borrow_mut().lose_lane(Peer(0), Peer(1), number));
        }
        for op in [receive, send] {
            assert_eq!(job.finish(0, op).error.map(|e| e.class), Some(Class::ERR_PROC_ABORTED), "seed {seed}");
        }
        job.run_until("loss", |job| job.engines[1].losses() == 1);
        assert_eq!((job.engines[0].losses(), job.engines[2].losses()), (1, 0));
        // The others still reach each other.
        let (op, _) = job.recv(2, Some(0), Some(1), 8);
        job.send(0, 2, 1, Mode::Standard, vec![1; 8]);
        assert_eq!(job.finish(2, op).error, None);
    }
}
