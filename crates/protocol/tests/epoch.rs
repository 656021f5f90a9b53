//! Migration epochs on the simulated transport: all endpoints of one process are suspended, whether they have lanes or not, and traffic goes on in order.

mod job;

use base::Peer;
use job::{Job, message};
use protocol::engine::Mode;
use testkit::rng::Rng;
use testkit::transport::Faults;

const SIZE: u32 = 4;
const MOVER: u32 = 1;

fn concerned(at: u32) -> Vec<Peer> {
    let others = (0..SIZE).filter(|peer| *peer != at && (at == MOVER || *peer == MOVER));
    others.map(Peer).collect()
}

/// Whether every endpoint of the mover is suspended, at both ends.
fn all_are_suspended(job: &Job) -> bool {
    (0..SIZE).all(|at| concerned(at).iter().all(|peer| job.engines[at as usize].is_suspended(*peer)))
}

/// Orders everybody to do something, each at another moment, and waits until each has settled after that.
fn order(job: &mut Job, rng: &mut Rng, act: impl Fn(&mut Job, u32)) {
    let mut due: Vec<u32> = (0..SIZE).collect();
    let mut awaited = Vec::new();
    job.run_until("an answer of everybody", |job| {
        if !due.is_empty() && rng.chance(20) {
            let at = due.swap_remove(rng.below(due.len()));
            act(job, at);
            awaited.push(at);
        }
        awaited.retain(|at| !job.engines[*at as usize].is_settled());
        due.is_empty() && awaited.is_empty()
    });
}

#[test]
fn an_epoch_suspends_open_and_unopened_endpoints_and_loses_nothing() {
    for seed in 0..80 {
        let faults = Faults { refuse: 30, delay: 20, pull_fails: 20, land: 30, stream: 50, hold: 40, post: 50 };
        let mut job = Job::with_lanes(seed, SIZE, faults, 1 + (seed % 2) as usize);
        let mut rng = Rng::new(seed + 1);
        let mut number = 0;
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        for round in 0..4 {
            // Not all pairs have lanes at first.
            for _ in 0..6 + 4 * round {
                let from = rng.below(SIZE as usize) as u32;
                let to = (from + 1 + rng.below(SIZE as usize - 1) as u32) % SIZE;
                let len = [0, 8, 41, 400, 3000][rng.below(5)];
                sends.extend(job.send(from, to, 5, Mode::Standard, message(number, len)).map(|op| (from, op)));
                receives.push((number, len, to, job.recv(to, Some(from), Some(5), 3000)));
                number += 1;
                if rng.chance(50) {
                    job.progress();
                }
            }
            order(&mut job, &mut rng, |job, at| job.engines[at as usize].suspend_all(&concerned(at)));
            // One who has settled may have to answer a peer that had a lane: the second order waits for that.
            order(&mut job, &mut rng, |job, at| job.engines[at as usize].suspend_all(&[]));
            assert!(all_are_suspended(&job), "seed {seed}, round {round}");
            (0..500).for_each(|_| job.progress());
            assert!(all_are_suspended(&job), "seed {seed}, round {round}: something was still under way");
            job.world.borrow_mut().move_to_another_host(Peer(MOVER));
            order(&mut job, &mut rng, |job, at| job.engines[at as usize].resume_all(&concerned(at)));
        }
        for (number, len, to, (op, sink)) in receives {
            let completion = job.finish(to, op);
            assert_eq!(completion.error, None, "seed {seed}, message {number}");
            let got = &sink.bytes()[..completion.length as usize];
            assert!(got == message(number, len), "seed {seed}, message {number}");
        }
        for (from, op) in sends {
            assert_eq!(job.finish(from, op).error, None, "seed {seed}");
        }
    }
}
