//! The closed forms against the simulation, for random costs and shapes.

use netsim::events::{Costs, Processors};
use netsim::startup::closed::{self, TOLERANCE};
use netsim::startup::simulate::simulate;
use netsim::startup::traffic::between_hosts;
use netsim::startup::{Cost, Scheme, Shape};
use proptest::prelude::*;

fn costs() -> impl Strategy<Value = Cost> {
    let net = (1e-6..2e-5, 5e-6..5e-4, 0.1e-9..1e-8, 2e-6..2e-5, 0.02..0.2);
    let own = (0.0..0.2, 1e-4..2e-3, 1e-4..1e-2, 0.0..2e-5);
    let sizes = (4u64..64, 16u64..512, 8u64..64, 8u64..64);
    (net, own, sizes).prop_map(|(net, own, sizes)| Cost {
        net: Costs {
            message_s: net.0,
            latency_s: net.1,
            byte_s: net.2,
            local_latency_s: net.3,
            // Memory is faster than the network.
            local_byte_s: net.2 * net.4,
        },
        session_s: own.0,
        fork_s: own.1,
        init_s: own.2,
        compose_s: own.3,
        id_bytes: sizes.0,
        endpoint_bytes: sizes.1,
        address_bytes: sizes.2,
        header_bytes: sizes.3,
    })
}

fn shapes() -> impl Strategy<Value = Shape> {
    (1usize..80, 1usize..4, prop_oneof![Just(2usize), Just(4), Just(16), Just(64)])
        .prop_map(|(hosts, ranks_per_host, tree_width)| Shape { hosts, ranks_per_host, tree_width })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn closed_forms_agree_with_the_simulation(cost in costs(), shape in shapes()) {
        for scheme in Scheme::ALL {
            let simulated = simulate(scheme, shape, cost, Processors::Each(8)).end_s;
            let formula = closed::seconds(scheme, shape, &cost);
            let error = formula / simulated - 1.0;
            prop_assert!(error.abs() < TOLERANCE, "{} {shape:?}: formula {formula}, simulation {simulated}: {:+.1}%", scheme.name(), 100.0 * error);
        }
    }

    #[test]
    fn traffic_is_exact(cost in costs(), shape in shapes()) {
        for scheme in Scheme::ALL {
            let Some(expected) = between_hosts(scheme, shape, &cost) else { continue };
            let found = simulate(scheme, shape, cost, Processors::Each(8)).traffic;
            prop_assert_eq!((found.messages, found.bytes), (expected.messages, expected.bytes), "{} {:?}", scheme.name(), shape);
        }
    }

    /// Hosts that share processors are never faster, and at most one after the other.
    #[test]
    fn shared_processors_bound_the_time(cost in costs(), shape in shapes()) {
        for scheme in Scheme::ALL {
            let own = simulate(scheme, shape, cost, Processors::Each(8)).end_s;
            let two = simulate(scheme, shape, cost, Processors::Shared(2)).end_s;
            let starts = (2 * shape.hosts + shape.ranks()) as f64 * cost.fork_s + shape.ranks() as f64 * cost.init_s;
            prop_assert!(two > own * 0.99 && two > starts / 2.0 * 0.99, "{}: {own} {two}", scheme.name());
        }
    }
}

#[test]
fn bytes_grow_as_the_schemes_say() {
    let cost = Cost { header_bytes: 0, ..Cost::default() };
    let bytes = |scheme, hosts| {
        simulate(scheme, Shape { hosts, ranks_per_host: 2, tree_width: 64 }, cost, Processors::Each(4)).traffic.bytes
            as f64
    };
    let growth = |scheme| (bytes(scheme, 64) / bytes(scheme, 32)).log2();
    for (scheme, exponent) in [(Scheme::Original, 3.0), (Scheme::Dr, 2.0), (Scheme::Bc, 3.0), (Scheme::Tree, 2.0)] {
        assert!((growth(scheme) / exponent - 1.0).abs() < 0.05, "{}: {}", scheme.name(), growth(scheme));
    }
    assert_eq!(bytes(Scheme::Lazy, 64), 0.0);
}
