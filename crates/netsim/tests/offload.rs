//! The simulation of workers: small cases computed by hand, and what holds for all.

use netsim::offload::measure::{Load, measure};
use netsim::offload::{Path, Program, Schedule, Settings, Share, Simulation, Step, Workers};
use proptest::prelude::*;

/// Rank 0 sends, the last rank receives, the others do nothing.
fn one_message(ranks: u32, bytes: u32) -> Vec<Schedule> {
    let mut schedules = vec![Vec::new(); ranks as usize];
    schedules[0] = vec![Step::Send { to: ranks - 1, bytes }];
    schedules[ranks as usize - 1] = vec![Step::Receive { from: 0, bytes }];
    schedules
}

/// An all-to-all exchange in scatter-destination order, with so many messages under way in each direction at most.
fn all_to_all(ranks: u32, bytes: u32, window: u32) -> Vec<Schedule> {
    let schedule = |rank: u32| {
        let mut steps = Vec::new();
        for distance in 1..ranks {
            steps.push(Step::Receive { from: (rank + ranks - distance) % ranks, bytes });
            steps.push(Step::Send { to: (rank + distance) % ranks, bytes });
            if distance > window {
                steps.extend([Step::Await(2 * (distance - window) - 2), Step::Await(2 * (distance - window) - 1)]);
            }
        }
        steps.extend([Step::Copy { bytes }, Step::Fence]);
        steps
    };
    (0..ranks).map(schedule).collect()
}

/// 1000 bytes take 1 µs on a link; an operation takes 1 µs, a link's latency is 10 µs, that inside a node 2 µs, and 1000 bytes are copied in 4 µs.
fn round(nodes: u32, ranks_per_node: u32) -> Settings {
    Settings {
        nodes,
        ranks_per_node,
        link_gb_s: 1.0,
        latency_us: 10.0,
        op_us: 1.0,
        copy_gb_s: 0.25,
        local_us: 2.0,
        workers: None,
    }
}

/// Their cores take 2 µs for an operation, 1000 bytes are staged in 0.5 µs, and a rank is 100 µs away.
fn slow(path: Path) -> Workers {
    Workers { path, speed: 0.5, staging_gb_s: 2.0, hand_over_us: 100.0, chunk_bytes: 1000, ..Workers::smart_nic(1) }
}

fn ends(schedules: &[Schedule], settings: &Settings, program: Program) -> Vec<f64> {
    Simulation::run(schedules, settings, program).expect("it can be simulated").ends_us
}

#[test]
fn a_receiver_pulls_a_message_of_another_node() {
    // The sender starts and announces until 2, which the receiver has at 12. It takes note and asks until 14; the sender's adapter begins at 24, and 3000 bytes are there
    // at 24 + 10 + 3 = 37. The receiver takes note and tells the sender until 39, which the sender has at 49 and takes note of until 50.
    assert_eq!(ends(&one_message(2, 3000), &round(2, 1), Program::default()), [50.0, 39.0]);
}

#[test]
fn a_receiver_copies_a_message_of_its_own_node() {
    // Announced until 2, there at 4; the receiver takes note until 5, copies until 17, and tells the sender until 18, which has it at 20.
    assert_eq!(ends(&one_message(2, 3000), &round(1, 2), Program::default()), [21.0, 18.0]);
}

#[test]
fn a_rank_that_computes_notices_nothing() {
    // The announcement comes at 12. The receiver computes from 1 to 101, and needs 1 µs to call MPI: the data is asked for at 102 + 2, and there at 127.
    let program = Program { compute_us: 100.0, tests: 0 };
    let alone = ends(&one_message(2, 3000), &round(2, 1), program);
    assert_eq!(alone[1], 104.0 + 10.0 + 13.0 + 2.0);
    // With a test after 50 µs (from 51 to 52) it asks at 54, and computes on to 104. The data is there at 77.
    let tested = ends(&one_message(2, 3000), &round(2, 1), Program { tests: 1, ..program });
    assert_eq!(tested[1], 104.0 + 1.0 + 2.0);
}

#[test]
fn workers_move_a_chunk_while_ranks_compute() {
    // Ranks post until 1, and workers know at 101. The receiver's has started at 103, and tells that there is room until 105; the sender's has that at 115 and takes note until 117.
    let told = 117.0;
    // Registered memory: the worker begins until 119; 1000 bytes are there at 119 + 10 + 1. The receiver's worker takes note until 132, and ends the operation until 134; the rank knows at 234.
    let settings = |path| Settings { workers: Some(slow(path)), ..round(2, 1) };
    let there = told + 2.0 + 11.0;
    // The sender's adapter knows at 140, its worker until 142, and has ended the operation at 144.
    let expected = [there + 10.0 + 4.0 + 100.0 + 1.0, there + 4.0 + 100.0 + 1.0];
    assert_eq!(ends(&one_message(2, 1000), &settings(Path::Registered), Program::default()), expected);
    // Whatever ranks compute until then costs nothing.
    let program = Program { compute_us: 200.0, tests: 0 };
    assert_eq!(ends(&one_message(2, 1000), &settings(Path::Registered), program), expected);
    let program = Program { compute_us: 1000.0, tests: 0 };
    assert_eq!(ends(&one_message(2, 1000), &settings(Path::Registered), program), [1002.0, 1002.0]);
    // Staged: the chunk is in the worker's memory at 119 + 0.5 + 2, and the worker takes note and sends until 4 µs later.
    let staged = ends(&one_message(2, 1000), &settings(Path::Staged), Program::default());
    assert_eq!(staged[1], expected[1] + 2.5 + 4.0);
    // Copied: 8 µs at the half speed on each side.
    let copied = ends(&one_message(2, 1000), &settings(Path::Copy), Program::default());
    assert_eq!(copied[1], expected[1] + 16.0);
}

#[test]
fn chunks_fill_the_link_if_a_worker_may_have_several() {
    // Operations cost nothing and staging is as fast as the link: 100 chunks of 1 µs behind each other, and one more that nothing overlaps with.
    let workers = Workers { speed: 1.0, staging_gb_s: 1.0, hand_over_us: 0.0, ..slow(Path::Staged) };
    let free = Settings { op_us: 0.0, latency_us: 0.0, local_us: 0.0, ..round(2, 1) };
    let settings = Settings { workers: Some(workers.clone()), ..free.clone() };
    assert_eq!(ends(&one_message(2, 100_000), &settings, Program::default())[1], 101.0);
    // With one chunk under way, reading and sending take turns.
    let settings = Settings { workers: Some(Workers { chunks_max: 1, ..workers }), ..free };
    assert_eq!(ends(&one_message(2, 100_000), &settings, Program::default())[1], 200.0);
}

#[test]
fn workers_share_ranks_or_operations() {
    // Two ranks of a node send 1000 bytes each to two of another one. One worker copies them one after the other, two at the same time.
    let mut schedules = vec![Vec::new(); 4];
    for rank in 0..2 {
        schedules[rank as usize] = vec![Step::Send { to: rank + 2, bytes: 1000 }];
        schedules[rank as usize + 2] = vec![Step::Receive { from: rank, bytes: 1000 }];
    }
    let last = |workers: Workers| {
        let settings = Settings { workers: Some(workers), op_us: 0.0, latency_us: 0.0, ..round(2, 2) };
        ends(&schedules, &settings, Program::default())[3] - 200.0
    };
    let host = Workers { speed: 1.0, ..slow(Path::Copy) };
    // One: copied until 4 and 8, sent until 9, copied until 13. Two: copied until 4, sent until 6, copied until 10.
    assert_eq!(last(host.clone()), 13.0);
    assert_eq!(last(Workers { per_node: 2, ..host.clone() }), 10.0);
    assert_eq!(last(Workers { per_node: 2, share: Share::Operations, ..host }), 13.0);
}

#[test]
fn what_cannot_be_simulated_is_told() {
    let told = |schedules: &[Schedule], settings: &Settings| {
        Simulation::run(schedules, settings, Program::default()).expect_err("it is refused").0
    };
    assert_eq!(told(&one_message(3, 8), &round(2, 1)), "3 schedules for 2 ranks");
    let alone = vec![vec![Step::Receive { from: 1, bytes: 8 }], Vec::new()];
    assert_eq!(told(&alone, &round(2, 1)), "the schedules wait for each other");
    let load = Load { ratio: f64::INFINITY, tests: 0 };
    assert!(
        measure(&one_message(2, 8), &round(2, 1), load).expect_err("it is refused").0.starts_with("computation of inf")
    );
    let load = Load { ratio: 1.0, tests: 2_000_000 };
    assert!(measure(&one_message(2, 8), &round(2, 1), load).is_err());
}

#[test]
fn workers_hide_a_collective_that_ranks_do_not() {
    let schedules = all_to_all(32, 65_536, 8);
    let load = Load { ratio: 1.0, tests: 0 };
    let host = Settings { nodes: 8, ..Settings::cluster(4) };
    let alone = measure(&schedules, &host, load).expect("it can be simulated");
    let workers = Settings { workers: Some(Workers::smart_nic(1)), ..host.clone() };
    let offloaded = measure(&schedules, &workers, load).expect("it can be simulated");
    assert!(alone.overlap_percent < 50.0 && offloaded.overlap_percent > 95.0, "{alone:?} {offloaded:?}");
    assert!(offloaded.total_us < 0.8 * alone.total_us, "{alone:?} {offloaded:?}");
    let tested = measure(&schedules, &host, Load { tests: 100, ..load }).expect("it can be simulated");
    assert!(tested.overlap_percent > alone.overlap_percent + 20.0, "{alone:?} {tested:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Everything ends, links carry each byte once, none faster than it can, and a computation takes no less time than without the collective.
    #[test]
    fn all_ranks_end_and_all_bytes_arrive(
        nodes in 1u32..5, ranks_per_node in 1u32..5, bytes in 1u32..200_000, window in 1u32..9,
        workers in prop::option::of((1u32..5, 0usize..3, prop::bool::ANY, 512u32..70_000, 1u32..9)),
        (compute_us, tests) in (0.0f64..500.0, 0u32..9),
    ) {
        prop_assume!(nodes * ranks_per_node > 1);
        let workers = workers.map(|(per_node, path, by_rank, chunk_bytes, chunks_max)| Workers {
            per_node: per_node.min(ranks_per_node),
            path: [Path::Copy, Path::Registered, Path::Staged][path],
            share: if by_rank { Share::Ranks } else { Share::Operations },
            chunk_bytes,
            chunks_max,
            ..Workers::smart_nic(1)
        });
        let settings = Settings { nodes, workers, ..Settings::cluster(ranks_per_node) };
        let ranks = settings.ranks();
        let schedules = all_to_all(ranks, bytes, window);
        let outcome = Simulation::run(&schedules, &settings, Program { compute_us, tests }).map_err(|e| TestCaseError::fail(e.0))?;
        let far = u64::from(ranks) * u64::from(ranks - ranks_per_node) * u64::from(bytes);
        prop_assert_eq!(outcome.link_bytes, far);
        let each_us = far as f64 / f64::from(nodes) / settings.link_gb_s / 1000.0;
        prop_assert!((outcome.link_busy_us - each_us).abs() < 1e-3 * f64::from(ranks * ranks));
        let last_us = outcome.ends_us.iter().copied().fold(0.0, f64::max);
        prop_assert!(last_us >= each_us - 1.0, "{last_us} {each_us}");
        prop_assert!(outcome.ends_us.iter().all(|end| *end >= compute_us));
        let again = Simulation::run(&schedules, &settings, Program { compute_us, tests }).map_err(|e| TestCaseError::fail(e.0))?;
        prop_assert_eq!(outcome, again);
    }
}
