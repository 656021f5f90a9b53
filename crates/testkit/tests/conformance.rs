//! The simulated transport passes the conformance suite, with and without faults.

use base::Peer;
use protocol::memory::Verbs;
use protocol::transport::Caps;
use std::cell::RefCell;
use std::rc::Rc;
use testkit::conformance::{Abilities, Pair, Rig, run};
use testkit::transport::{Bytes, Faults, SimTransport, World};

const CAPS: Caps =
    Caps { packet_max: 64, piece_min: 8, eager_max: 40, fragments_max: 150, push_max: 180, pull_min: 200 };

struct Simulated {
    world: Rc<RefCell<World>>,
    transports: Vec<Option<SimTransport>>,
}

impl Simulated {
    fn new(seed: u64, faults: Faults, lanes: usize) -> Simulated {
        let world = World::new(seed, faults, CAPS);
        world.borrow_mut().use_lanes(lanes);
        world.borrow_mut().offer_verbs(if seed.is_multiple_of(4) { Verbs::NONE } else { Verbs::ALL });
        let transports = (0..3).map(|i| Some(SimTransport::new(Peer(i), 3, &world))).collect();
        Simulated { world, transports }
    }
}

impl Rig for Simulated {
    type T = SimTransport;

    fn abilities(&self) -> Abilities {
        Abilities { dies: true, relocates: true, loses_lanes: true }
    }
    fn pair(&self) -> Pair {
        Pair { from: Peer(0), to: Peer(1) }
    }
    fn size(&self) -> u32 {
        3
    }
    fn transport(&mut self, at: Peer) -> Option<&mut SimTransport> {
        self.transports[at.0 as usize].as_mut()
    }
    fn source(&mut self, bytes: &[u8]) -> Bytes {
        Bytes::new(bytes.to_vec())
    }
    fn reuse(&mut self, source: &Bytes) {
        source.overwrite(0xee);
    }
    fn sink(&mut self, len: usize) -> Bytes {
        Bytes::new(vec![0; len])
    }
    fn bytes(&self, sink: &Bytes) -> Vec<u8> {
        sink.bytes()
    }
    fn region(&mut self, len: usize) -> Bytes {
        Bytes::new(vec![0; len])
    }
    fn kill(&mut self, peer: Peer) {
        self.world.borrow_mut().kill(peer);
        self.transports[peer.0 as usize] = None;
    }
    fn lose_lane(&mut self, pair: Pair, number: usize) {
        assert!(self.world.borrow_mut().lose_lane(pair.from, pair.to, number));
    }
    fn relocate(&mut self, peer: Peer) {
        self.world.borrow_mut().move_to_another_host(peer);
    }
}

fn simulated_with_lanes(lanes: usize) {
    run(|| Simulated::new(1, Faults::default(), lanes));
    for seed in 0..20 {
        run(|| Simulated::new(seed, Faults { refuse: 30, delay: 30, land: 50, post: 50, ..Faults::default() }, lanes));
    }
}

#[test]
fn simulated() {
    simulated_with_lanes(1);
}

#[test]
fn simulated_with_several_lanes() {
    simulated_with_lanes(3);
}
