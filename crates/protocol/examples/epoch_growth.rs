//! How a migration epoch grows with ranks and peers, on the simulated transport, which has no time of its own: packets between ranks, messages between mpiexec and ranks, and
//! rounds in which each rank handles one packet. One JSON object for each job. `cargo run --release -p protocol --example epoch_growth`; `bench/migration.py` calls it.

#[path = "../tests/job/mod.rs"]
mod job;

use base::Peer;
use job::{Job, message};
use protocol::control::epoch::{Done, Step};
use protocol::engine::Mode;
use protocol::epoch::{Action, Epochs, Limits};
use testkit::transport::Faults;

/// Jobs: ranks, how many of them are on the host that moves, and how many peers each of these has exchanged messages with.
const JOBS: &[(u32, u32, u32)] = &[(8, 4, 7), (64, 4, 63), (256, 4, 255), (1000, 4, 8), (1000, 4, 32)];

/// What an epoch has cost so far; rounds until all is suspended, and until all is resumed.
#[derive(Default)]
struct Cost {
    messages: usize,
    rounds: [usize; 2],
}

fn concerned(at: u32, ranks: u32, movers: u32) -> Vec<Peer> {
    (0..ranks).filter(|peer| *peer != at && (at < movers || *peer < movers)).map(Peer).collect()
}

/// Lets every rank of `job` do its part of a step; how many rounds it took until each had settled.
fn take_step(job: &mut Job, step: &Step, ranks: u32, movers: u32) -> usize {
    for at in 0..ranks {
        let engine = &mut job.engines[at as usize];
        match step {
            Step::Drain {} => engine.suspend_all(&concerned(at, ranks, movers)),
            Step::Settle {} => engine.suspend_all(&[]),
            Step::Activate {} => engine.resume_all(&concerned(at, ranks, movers)),
            Step::Agree {} | Step::Release {} | Step::Publish {} => return 0,
        }
    }
    let mut rounds = 0;
    while !job.engines.iter().all(|engine| engine.is_settled()) {
        job.progress();
        rounds += 1;
    }
    rounds
}

/// Each mover sends a message to so many others; the number of pairs.
fn talk(job: &mut Job, ranks: u32, movers: u32, peers: u32) -> usize {
    let (mut pairs, mut posted) = (0, Vec::new());
    for at in 0..movers {
        for to in (1..=peers).map(|distance| (at + distance) % ranks) {
            posted.push((to, job.recv(to, Some(at), Some(1), 8).0));
            posted.extend(job.send(at, to, 1, Mode::Standard, message(1, 8)).map(|op| (at, op)));
            // Two movers that send to each other are one pair.
            let is_second = to < movers && to < at && at - to <= peers;
            pairs += usize::from(!is_second);
        }
    }
    for (at, op) in posted {
        job.finish(at, op);
    }
    pairs
}

fn epoch(job: &mut Job, ranks: u32, movers: u32) -> Cost {
    let mut cost = Cost::default();
    let mut epochs = Epochs::default();
    let limits = Limits { step: 1 << 40, hold: 1 << 40 };
    let mut actions = epochs.begin(vec![0], 0..ranks, limits, 0).expect("no other epoch is under way");
    let mut is_resuming = false;
    while let Some(action) = actions.pop() {
        match action {
            Action::Order(order) => {
                // The order, and the answer.
                cost.messages += 2 * ranks as usize;
                cost.rounds[usize::from(is_resuming)] += take_step(job, &order.step, ranks, movers);
                for rank in 0..ranks {
                    let step = order.step.clone();
                    let done = Done { epoch: order.epoch, step, endpoints: 0, refusal: String::new() };
                    actions.extend(epochs.on_done(rank, &done, 0));
                }
            }
            Action::Ready => {
                is_resuming = true;
                (0..movers).for_each(|at| job.world.borrow_mut().move_to_another_host(Peer(at)));
                actions.extend(epochs.resume(0).expect("all is suspended"));
            }
            Action::Over | Action::Notice(_) => {}
        }
    }
    assert!(epochs.is_over(), "the epoch is not over");
    cost
}

fn main() {
    for (ranks, movers, peers) in JOBS.iter().copied() {
        let mut job = Job::new(1, ranks, Faults::default());
        let pairs = talk(&mut job, ranks, movers, peers);
        let before = job.world.borrow().packets;
        let Cost { messages, rounds } = epoch(&mut job, ranks, movers);
        let packets = job.world.borrow().packets - before;
        // Everything goes on.
        talk(&mut job, ranks, movers, peers);
        println!(
            "{{\"ranks\": {ranks}, \"movers\": {movers}, \"peers\": {peers}, \"pairs\": {pairs}, \"packets\": {packets}, \
             \"messages\": {messages}, \"suspend_rounds\": {}, \"resume_rounds\": {}}}",
            rounds[0], rounds[1]
        );
    }
}
