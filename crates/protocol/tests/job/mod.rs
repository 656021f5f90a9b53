//! A job on the simulated transport.
#![allow(dead_code, reason = "not every test uses all of it")]

use base::Peer;
use protocol::endpoint::Endpoints;
use protocol::engine::{Address, Completion, Engine, Mode, OpId};
use protocol::lanes::LanePlan;
use protocol::matching::{Envelope, Pattern};
use protocol::transport::Caps;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use testkit::rng::Rng;
use testkit::transport::{Bytes, Faults, SimTransport, World};

pub const CAPS: Caps =
    Caps { packet_max: 64, piece_min: 8, eager_max: 40, fragments_max: 150, push_max: 180, pull_min: 200 };
pub const CONTEXT: u64 = 64;
/// Larger messages are large.
pub const SMALL_MAX: usize = 16;

pub struct Job {
    pub world: Rc<RefCell<World>>,
    pub engines: Vec<Engine<SimTransport>>,
    /// Sources of sends that are not over.
    sources: HashMap<(u32, OpId), Bytes>,
}

impl Job {
    pub fn new(seed: u64, size: u32, faults: Faults) -> Job {
        Job::with_lanes(seed, size, faults, 1)
    }

    /// With so many lanes of each pair.
    pub fn with_lanes(seed: u64, size: u32, faults: Faults, lanes: usize) -> Job {
        Job::with_plan(seed, size, faults, LanePlan::SINGLE.with_lanes(lanes))
    }

    /// With the lanes of a plan.
    pub fn with_plan(seed: u64, size: u32, faults: Faults, plan: LanePlan) -> Job {
        let world = World::new(seed, faults, CAPS);
        world.borrow_mut().use_lanes(plan.lanes());
        let transport = |i| SimTransport::new(Peer(i), size, &world);
        let engines = (0..size).map(|i| Engine::new(Endpoints::with_plan(transport(i), plan, SMALL_MAX))).collect();
        Job { world, engines, sources: HashMap::new() }
    }

    pub fn send(&mut self, from: u32, to: u32, tag: i32, mode: Mode, data: Vec<u8>) -> Option<OpId> {
        self.send_in(CONTEXT, from, to, tag, mode, data)
    }

    pub fn send_in(&mut self, context: u64, from: u32, to: u32, tag: i32, mode: Mode, data: Vec<u8>) -> Option<OpId> {
        let envelope = Envelope { context, source: from, tag };
        let source = Bytes::new(data);
        let to = Address { peer: Peer(to), envelope };
        let op = self.engines[from as usize].post_send(to, mode, source.clone()).expect("peer lives");
        match op {
            Some(op) => drop(self.sources.insert((from, op), source)),
            None => source.overwrite(0xee),
        }
        op
    }

    pub fn recv(&mut self, at: u32, from: Option<u32>, tag: Option<i32>, capacity: usize) -> (OpId, Bytes) {
        self.recv_in(CONTEXT, at, from, tag, capacity)
    }

    pub fn recv_in(
        &mut self,
        context: u64,
        at: u32,
        from: Option<u32>,
        tag: Option<i32>,
        capacity: usize,
    ) -> (OpId, Bytes) {
        let sink = Bytes::new(vec![0; capacity]);
        let pattern = Pattern { context, source: from, tag };
        let op = self.engines[at as usize].post_recv(pattern, from.map(Peer), sink.clone());
        (op, sink)
    }

    pub fn progress(&mut self) {
        for engine in &mut self.engines {
            engine.progress();
        }
    }

    pub fn run_until(&mut self, what: &str, mut done: impl FnMut(&mut Job) -> bool) {
        for _ in 0..200_000 {
            self.progress();
            if done(self) {
                return;
            }
        }
        let pending: Vec<_> = self.engines.iter().map(Engine::describe_pending).collect();
        panic!("{what} did not happen: {pending:?}");
    }

    pub fn finish(&mut self, at: u32, op: OpId) -> Completion {
        let mut completion = None;
        self.run_until("completion", |job| {
            completion = job.engines[at as usize].take(op);
            completion.is_some()
        });
        if let Some(source) = self.sources.remove(&(at, op)) {
            // The program reuses its buffer: nothing of it may leave from now on.
            source.overwrite(0xee);
        }
        completion.expect("just seen")
    }
}

pub fn message(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..len).map(|_| rng.bits() as u8).collect()
}
