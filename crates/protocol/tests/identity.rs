//! Two jobs that have connected: their processes have the same ranks, each numbers its endpoints in its own way, and nothing is mixed up.

use base::ids::{JobId, ProcId, Proposer};
use base::{Class, ContextId, Peer, WorldRank};
use protocol::endpoint::Endpoints;
use protocol::engine::{Address, Awaits, Engine, Mode, OpId, PEER_LOST};
use protocol::matching::{Envelope, Pattern};
use protocol::processes::{Processes, SharedProcesses};
use protocol::realm::Realm;
use protocol::transport::Caps;
use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use testkit::rng::Rng;
use testkit::transport::{Bytes, Faults, SimTransport, World};

const CAPS: Caps =
    Caps { packet_max: 64, piece_min: 8, eager_max: 40, fragments_max: 150, push_max: 180, pull_min: 200 };
/// Every process has proposed as many contexts before.
const COUNTER: u32 = 16;
const SIZES: [(JobId, u32); 2] = [(JobId(0xa), 3), (JobId(0xb), 4)];
const FAULTS: Faults = Faults { refuse: 20, delay: 20, pull_fails: 10, land: 20, stream: 20, hold: 20, post: 30 };

struct Process {
    id: ProcId,
    processes: SharedProcesses,
    engine: Engine<SimTransport>,
}

impl Process {
    fn peer(&self, id: ProcId) -> Peer {
        self.processes.borrow().peer(id).expect("all have met")
    }
}

/// The processes of both jobs.
struct Jobs {
    world: Rc<RefCell<World>>,
    all: Vec<Process>,
    /// Of all processes.
    realm: Realm,
}

impl Jobs {
    fn new(seed: u64) -> Jobs {
        let mut rng = Rng::new(seed);
        let ids: Vec<ProcId> = SIZES.iter().flat_map(|job| members(*job)).collect();
        let world = World::new(seed, FAULTS, CAPS);
        let join = |id: &ProcId| {
            let size = SIZES.iter().find(|job| job.0 == id.job).expect("it is of one of the jobs").1;
            let processes = Processes::shared(*id, size);
            // Each hears of the others in an order of its own.
            let mut others = ids.clone();
            while !others.is_empty() {
                let other = others.swap_remove(rng.below(others.len()));
                processes.borrow_mut().learn(other).unwrap();
            }
            let engine = Engine::new(Endpoints::new(SimTransport::among_jobs(&processes, ids.clone(), &world)));
            Process { id: *id, processes, engine }
        };
        let all = ids.iter().map(join).collect();
        let end = SIZES.iter().map(|job| Realm::of_job(job.0, job.1).end()).max().unwrap();
        let realm = Realm::connect(ids.iter().copied(), end).unwrap();
        Jobs { world, all, realm }
    }

    /// Sends what `message` says, with the rank in the communicator as source.
    fn send(&mut self, context: ContextId, (from, rank): (usize, u32), to: ProcId) {
        let process = &mut self.all[from];
        let envelope = Envelope { context: context.0, source: rank, tag: 1 };
        let text = message(context, process.id, to);
        let to = Address { peer: process.peer(to), envelope };
        process.engine.post_send(to, Mode::Standard, Bytes::new(text)).expect("all live");
    }

    fn receive(&mut self, context: ContextId, at: usize) -> (OpId, Bytes) {
        let sink = Bytes::new(vec![0; 1000]);
        let anybody = Pattern { context: context.0, source: None, tag: Some(1) };
        (self.all[at].engine.post_recv(anybody, None, sink.clone()), sink)
    }

    fn run_until<R>(&mut self, what: &str, mut find: impl FnMut(&mut Jobs) -> Option<R>) -> R {
        for _ in 0..100_000 {
            for process in &mut self.all {
                process.engine.progress();
            }
            if let Some(found) = find(self) {
                return found;
            }
        }
        panic!("{what} did not happen");
    }

    /// Everybody sends a message to everybody in the communicator of `members`, and each gets one of each, in whatever order.
    fn swap_messages(&mut self, context: ContextId, members: &[ProcId]) {
        let places: Vec<usize> =
            members.iter().map(|id| self.all.iter().position(|process| process.id == *id).unwrap()).collect();
        let receives: Vec<_> =
            places.iter().flat_map(|at| vec![*at; members.len()]).map(|at| (at, self.receive(context, at))).collect();
        for (rank, from) in (0..).zip(&places) {
            for to in members {
                self.send(context, (*from, rank), *to);
            }
        }
        let mut got = HashSet::new();
        for (at, (op, sink)) in receives {
            let completion = self.run_until("a message", |jobs| jobs.all[at].engine.take(op));
            assert_eq!(completion.error, None);
            got.insert((at, sink.bytes()[..completion.length as usize].to_vec()));
        }
        let expected =
            places.iter().flat_map(|at| members.iter().map(|from| (*at, message(context, *from, self.all[*at].id))));
        assert_eq!(got, expected.collect());
    }
}

fn members((job, size): (JobId, u32)) -> Vec<ProcId> {
    (0..size).map(|rank| ProcId { job, rank: WorldRank(rank) }).collect()
}

/// A long or a short one.
fn message(context: ContextId, from: ProcId, to: ProcId) -> Vec<u8> {
    let text = format!("{from} to {to} in {:#x}. ", context.0).into_bytes();
    text.repeat(1 + (from.rank.0 + to.rank.0) as usize % 3 * 4)
}

#[test]
fn endpoints_are_not_ranks() {
    let jobs = Jobs::new(1);
    let mut all_numbers = HashSet::new();
    for process in &jobs.all {
        let others = jobs.all.iter().filter(|other| other.id.job != process.id.job);
        for other in others {
            let peer = process.peer(other.id);
            assert_ne!(peer.0, other.id.rank.0, "the endpoint of {} at {}", other.id, process.id);
            assert_eq!(process.processes.borrow().id(peer), Some(other.id));
            assert_eq!(process.processes.borrow().rank(peer), None, "the launcher does not know {}", other.id);
            all_numbers.insert((other.id, peer));
        }
    }
    assert!(all_numbers.len() > jobs.all.len(), "processes number their endpoints in different ways");
}

#[test]
fn contexts_of_two_jobs_are_told_apart() {
    for seed in 0..10 {
        let mut jobs = Jobs::new(seed);
        let ids: Vec<ProcId> = jobs.all.iter().map(|process| process.id).collect();
        // Both jobs have a communicator of this context, which is no other context of a realm across them.
        let own = ContextId::new(Proposer(1), COUNTER);
        let across: Vec<ContextId> =
            ids.iter().map(|id| ContextId::new(jobs.realm.proposer(*id).unwrap(), COUNTER)).collect();
        let different: HashSet<ContextId> = across.iter().copied().chain([own]).collect();
        assert_eq!(different.len(), ids.len() + 1, "contexts collide");
        for context in across {
            jobs.swap_messages(context, &ids);
        }
        for job in SIZES {
            jobs.swap_messages(own, &members(job));
        }
    }
}

/// Communicators made after the loss don't contain the lost process.
fn ends(awaits: Awaits, lost: Peer) -> Option<base::Error> {
    let ends = match awaits {
        Awaits::From(peer) => peer == lost,
        Awaits::FromAny(context) => context & u64::from(u32::MAX) < ContextId::new(Proposer(0), COUNTER + 1).0,
    };
    ends.then_some(PEER_LOST)
}

#[test]
fn the_lost_process_is_the_right_one() {
    for seed in 0..10 {
        let mut jobs = Jobs::new(seed);
        let ids: Vec<ProcId> = jobs.all.iter().map(|process| process.id).collect();
        let context = ContextId::new(jobs.realm.proposer(ids[0]).unwrap(), COUNTER);
        // Rank 1 of the first job; the second one has a rank 1, too.
        let victim = 1;
        let survivors: Vec<usize> = (0..ids.len()).filter(|at| *at != victim).collect();
        let waits: Vec<OpId> = survivors
            .iter()
            .map(|at| {
                let process = &mut jobs.all[*at];
                let peer = process.peer(ids[victim]);
                let pattern = Pattern { context: context.0, source: Some(victim as u32), tag: Some(1) };
                process.engine.post_recv(pattern, Some(peer), Bytes::new(vec![0; 10]))
            })
            .collect();
        jobs.world.borrow_mut().kill(Peer(victim as u32));
        for (at, op) in survivors.iter().zip(waits) {
            let completion = jobs.run_until("the loss", |jobs| jobs.all[*at].engine.take(op));
            assert_eq!(completion.error.map(|error| error.class), Some(Class::ERR_PROC_ABORTED));
            let Process { engine, processes, .. } = &jobs.all[*at];
            let mut lost = Vec::new();
            engine.any_lost(|peer| {
                lost.extend(processes.borrow().id(peer));
                false
            });
            assert_eq!(lost, [ids[victim]]);
        }
        // The others go on with a communicator of their own, rank 1 of the second job among them.
        let left: Vec<ProcId> = survivors.iter().map(|at| ids[*at]).collect();
        let next = ContextId::new(jobs.realm.proposer(ids[0]).unwrap(), COUNTER + 1);
        jobs.all.retain(|process| process.id != ids[victim]);
        jobs.all.iter_mut().for_each(|process| process.engine.set_loss_policy(ends));
        jobs.swap_messages(next, &left);
    }
}
