//! The simulator of lanes: cases computed by hand, and what holds for all networks and traffic.

use netsim::lanes::credits::BLOCK_BYTES;
use netsim::lanes::random::Random;
use netsim::lanes::tables::{Arbitration, Entry};
use netsim::lanes::{Buffering, Delivered, End, Fabric, Network, Node, Program, Qp, Settings, Tables};
use proptest::prelude::*;

/// Writes down what arrives.
#[derive(Default)]
struct Log {
    packets: Vec<(u64, Qp, u32)>,
    messages: Vec<(u64, Delivered)>,
}

impl Program for Log {
    fn on_packet(&mut self, fabric: &mut Fabric, qp: Qp, number: u32) {
        self.packets.push((fabric.now_ps(), qp, number));
    }
    fn on_message(&mut self, fabric: &mut Fabric, message: Delivered) {
        self.messages.push((fabric.now_ps(), message));
    }
}

/// Links of 1 ns a byte, hosts as fast, cables of 10 ns, switches of 100 ns, 1000-byte packets.
fn round_numbers(tables: Tables) -> Settings {
    Settings {
        link_ps_per_byte: 1000,
        host_ps_per_byte: 1000,
        wire_ps: 10_000,
        switch_ps: 100_000,
        is_cut_through: true,
        mtu_bytes: 960,
        header_bytes: 40,
        buffering: Buffering::Private { lane_bytes: 4096 },
        turn_packets: 1,
        tables,
    }
}

fn run(settings: Settings, network: Network, send: impl Fn(&mut Fabric)) -> (Log, Fabric, End) {
    let mut fabric = Fabric::new(network, settings).unwrap();
    send(&mut fabric);
    let mut log = Log::default();
    let end = fabric.run(&mut log);
    (log, fabric, end)
}

fn times(log: &Log) -> Vec<u64> {
    log.packets.iter().map(|(at_ps, ..)| at_ps / 1000).collect()
}

fn one_message(settings: Settings, bytes: u32) -> Vec<u64> {
    let (log, _, end) = run(settings, Network::single_switch(2), |fabric| {
        let qp = fabric.open(0, 1, 0).unwrap();
        fabric.post(qp, bytes, 7);
    });
    assert_eq!((end, log.messages.len(), log.messages[0].1.tag), (End::Done, 1, 7));
    times(&log)
}

#[test]
fn one_packet_costs_cables_switch_and_its_bytes() {
    // Cable 10, switch 100, cable 10, and 1000 bytes once.
    assert_eq!(one_message(round_numbers(Tables::equal(1, 16)), 960), [1120]);
    // Without cut-through, its bytes twice.
    let settings = Settings { is_cut_through: false, ..round_numbers(Tables::equal(1, 16)) };
    assert_eq!(one_message(settings, 960), [2120]);
    // The link behind the switch is twice as fast: the packet can't leave before it has come in, so its last byte passes switch and cables.
    let settings = Settings { link_ps_per_byte: 500, ..round_numbers(Tables::equal(1, 16)) };
    assert_eq!(one_message(settings, 960), [1120]);
    assert_eq!(one_message(round_numbers(Tables::equal(1, 16)), 0), [160], "an empty message is a header");
}

#[test]
fn packets_follow_each_other_without_a_gap() {
    assert_eq!(one_message(round_numbers(Tables::equal(1, 16)), 2880), [1120, 2120, 3120]);
    // Memory that takes twice as long as the link: each further packet is one writing later. The sender's is as slow.
    let settings = Settings { host_ps_per_byte: 2000, ..round_numbers(Tables::equal(1, 16)) };
    assert_eq!(one_message(settings, 1920), [2120, 4120]);
}

#[test]
fn a_buffer_of_one_packet_waits_for_its_credits() {
    // 1000 bytes are 16 blocks. The first packet leaves the switch from 110 to 1110 ns, its credits are back at 1120: the next one leaves the host then, and
    // reaches the switch at 1230. There it could leave at 1110, but the host's buffer is free at 1120 and the credits are back at 1130.
    let settings =
        Settings { buffering: Buffering::Private { lane_bytes: 1024 }, ..round_numbers(Tables::equal(1, 16)) };
    assert_eq!(one_message(settings, 1920), [1120, 2240]);
}

#[test]
fn lanes_of_one_port_take_turns_by_weight() {
    let low = vec![Entry { lane: 0, weight: 32 }, Entry { lane: 1, weight: 16 }];
    let mut tables = Tables::equal(2, 16);
    tables.hosts.arbitration = Arbitration { high: vec![], low, high_limit: 0 };
    let (log, ..) = run(round_numbers(tables), Network::single_switch(2), |fabric| {
        for level in 0..2 {
            let qp = fabric.open(0, 1, level).unwrap();
            fabric.post(qp, 6 * 960, 0);
        }
    });
    // The first packet leaves before the second queue pair has anything; its lane's turn goes on.
    let order: Vec<u32> = log.packets.iter().map(|(_, qp, _)| qp.0).collect();
    assert_eq!(order, [0, 0, 1, 0, 0, 1, 0, 0, 1, 1, 1, 1]);
}

/// Hosts 0 and 1 send to host 2, and host 1 also to host 3, whose link is free. With one lane, that packet stands behind those for host 2.
fn behind_a_jam(lanes: usize) -> u64 {
    let settings =
        Settings { buffering: Buffering::Private { lane_bytes: 1024 }, ..round_numbers(Tables::equal(lanes, 16)) };
    let (log, ..) = run(settings, Network::single_switch(4), |fabric| {
        let (a, b) = (fabric.open(0, 2, 0).unwrap(), fabric.open(1, 2, 0).unwrap());
        let free = fabric.open(1, 3, 1).unwrap();
        fabric.post(a, 20 * 960, 0);
        fabric.post(b, 20 * 960, 0);
        fabric.post(free, 960, 1);
    });
    log.messages.iter().find(|(_, message)| message.tag == 1).map_or(0, |(at_ps, _)| at_ps / 1000)
}

#[test]
fn a_lane_of_its_own_passes_a_jam() {
    // Alone on its lane it leaves host 1 when the first packet has left, at 1000 ns.
    assert_eq!(behind_a_jam(2), 2120);
    assert!(behind_a_jam(1) > 3000, "{}", behind_a_jam(1));
}

#[test]
fn a_circle_of_full_buffers_is_told() {
    // Four switches in a ring, each host sends to the one two switches on, clockwise.
    let mut network = Network::new(4, 4);
    for host in 0..4 {
        network.link(Node::Host(host), Node::Switch(host));
    }
    let ring: Vec<u32> = (0..4).map(|i| network.link(Node::Switch(i), Node::Switch((i + 1) % 4)).0).collect();
    for switch in 0..4 {
        for host in 0..4 {
            let channel = if switch == host { 2 * host + 1 } else { ring[switch as usize] };
            network.route(switch, host, channel);
        }
    }
    let settings =
        Settings { buffering: Buffering::Private { lane_bytes: 1024 }, ..round_numbers(Tables::equal(1, 16)) };
    let (log, fabric, end) = run(settings, network, |fabric| {
        for host in 0..4 {
            let qp = fabric.open(host, (host + 2) % 4, 0).unwrap();
            fabric.post(qp, 50 * 960, 0);
        }
    });
    assert_eq!((end, log.messages.len()), (End::Deadlock(4), 0));
    assert_eq!(fabric.audit(), Ok(()));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |settings: Settings| Fabric::new(Network::single_switch(2), settings).err().map(|e| e.to_string());
    let settings = || round_numbers(Tables::equal(4, 16));
    assert!(refused(settings()).is_none());
    let small = Settings { buffering: Buffering::Divided { port_bytes: 2048 }, ..settings() };
    assert_eq!(refused(small).unwrap(), "a lane has a buffer of 512 bytes, but a packet takes 1024");
    assert!(refused(Settings { turn_packets: 0, ..settings() }).is_some());
    assert!(refused(Settings { tables: Tables::equal(3, 16), ..settings() }).unwrap().contains("not 3"));
    let mut tables = Tables::equal(2, 16);
    tables.switches.sl2vl.0[5] = 15;
    let mut fabric = Fabric::new(Network::single_switch(2), round_numbers(tables)).unwrap();
    assert!(fabric.open(0, 1, 5).unwrap_err().to_string().contains("service level 5 has no virtual lane"));
    assert!(fabric.open(0, 0, 0).unwrap_err().to_string().contains("host 0 has no way to host 0"));
    assert!(fabric.open(0, 9, 0).is_err() && fabric.open(9, 0, 0).is_err() && fabric.open(0, 1, 16).is_err());
}

fn networks() -> impl Strategy<Value = (Vec<usize>, Vec<usize>)> {
    prop_oneof![
        (2usize..9).prop_map(|hosts| (vec![hosts], vec![1])),
        (1usize..5, 2usize..5, 1usize..4).prop_map(|(a, b, c)| (vec![a, b], vec![1, c])),
        (1usize..3, 2usize..4, 2usize..4, 1usize..3, 1usize..3)
            .prop_map(|(a, b, c, d, e)| (vec![a, b, c], vec![1, d, e])),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    let lanes = prop_oneof![Just(1usize), Just(2), Just(4), Just(8)];
    let buffers = prop_oneof![
        (1u32..6).prop_map(|n| Buffering::Private { lane_bytes: n * 2112 }),
        (1u32..3).prop_map(|n| Buffering::Divided { port_bytes: n * 8 * 2112 }),
        (1u32..3, 0u32..9)
            .prop_map(|(own, pool)| Buffering::Shared { reserve_bytes: own * 2112, pool_bytes: pool * 1000 }),
    ];
    let rates = (200u32..400, 150u32..500, 0u64..60_000, 0u64..200_000);
    let weights = (prop::collection::vec(0u8..100, 15), prop::collection::vec(1u8..100, 15), any::<u8>());
    (lanes, buffers, rates, weights, any::<bool>(), 1u32..9, 200u32..2048).prop_map(
        |(lanes, buffering, rates, (high, low, high_limit), is_cut_through, turn_packets, mtu_bytes)| {
            let mut tables = Tables::equal(lanes, 1);
            let entries = |weights: &[u8]| -> Vec<Entry> {
                weights
                    .iter()
                    .take(lanes)
                    .enumerate()
                    .map(|(lane, weight)| Entry { lane: lane as u8, weight: *weight })
                    .collect()
            };
            tables.hosts.arbitration = Arbitration { high: entries(&high), low: entries(&low), high_limit };
            tables.switches.arbitration = Arbitration { high: vec![], low: entries(&low), high_limit };
            Settings {
                link_ps_per_byte: rates.0,
                host_ps_per_byte: rates.1,
                wire_ps: rates.2,
                switch_ps: rates.3,
                is_cut_through,
                mtu_bytes,
                header_bytes: 26,
                buffering,
                turn_packets,
                tables,
            }
        },
    )
}

/// Random messages between random hosts, on random levels.
fn load(fabric: &mut Fabric, hosts: u64, seed: u64, messages: u32) -> Vec<(Qp, Vec<u64>, u64)> {
    let mut random = Random::new(seed);
    let mut sent: Vec<(Qp, Vec<u64>, u64)> = Vec::new();
    for _ in 0..(hosts * 3).min(60) {
        let from = random.below(hosts);
        let to = (from + 1 + random.below(hosts - 1)) % hosts;
        sent.push((fabric.open(from as u32, to as u32, random.below(16) as u8).unwrap(), Vec::new(), 0));
    }
    for tag in 0..u64::from(messages) {
        let index = random.below(sent.len() as u64) as usize;
        let bytes = random.below(20_000) as u32;
        let (qp, tags, packets) = &mut sent[index];
        fabric.post(*qp, bytes, tag);
        tags.push(tag);
        *packets += u64::from(bytes.div_ceil(fabric.settings().mtu_bytes).max(1));
    }
    sent
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every packet arrives once and in the order of its queue pair, no fat tree deadlocks, and credits are conserved at each step.
    #[test]
    fn packets_and_credits_are_conserved((down, up) in networks(), settings in settings(), seed in any::<u64>(), messages in 1u32..150) {
        let network = Network::fat_tree(&down, &up);
        prop_assume!(network.hosts() > 1);
        let hosts = network.hosts() as u64;
        let mut fabric = Fabric::new(network, settings).unwrap();
        let sent = load(&mut fabric, hosts, seed, messages);
        let mut log = Log::default();
        let mut steps = 0u64;
        while fabric.step(&mut log) {
            steps += 1;
            if steps.is_multiple_of(97) {
                prop_assert_eq!(fabric.audit(), Ok(()));
            }
        }
        prop_assert_eq!(fabric.run(&mut log), End::Done);
        prop_assert_eq!(fabric.audit(), Ok(()));
        let counts = fabric.counts();
        prop_assert_eq!(counts.sent, counts.arrived);
        for (qp, tags, packets) in &sent {
            let numbers: Vec<u32> = log.packets.iter().filter(|(_, other, _)| other == qp).map(|(.., number)| *number).collect();
            prop_assert_eq!(numbers, (0..*packets as u32).collect::<Vec<u32>>());
            let found: Vec<u64> = log.messages.iter().filter(|(_, m)| m.qp == *qp).map(|(_, m)| m.tag).collect();
            prop_assert_eq!(&found, tags);
        }
    }

    /// No link carries more than its rate, so a run takes at least as long as its busiest host.
    #[test]
    fn no_link_is_faster_than_its_rate(settings in settings(), seed in any::<u64>()) {
        let (hosts, mut bytes) = (6u64, [[0u64; 6]; 2]);
        let mut fabric = Fabric::new(Network::single_switch(6), settings).unwrap();
        let mut random = Random::new(seed);
        for _ in 0..80 {
            let from = random.below(hosts);
            let to = (from + 1 + random.below(hosts - 1)) % hosts;
            let qp = fabric.open(from as u32, to as u32, random.below(16) as u8).unwrap();
            let size = random.below(9000);
            fabric.post(qp, size as u32, 0);
            bytes[0][from as usize] += size;
            bytes[1][to as usize] += size;
        }
        let end = fabric.run(&mut Log::default());
        let slowest = u64::from(fabric.settings().link_ps_per_byte.max(fabric.settings().host_ps_per_byte));
        let least = bytes[0].iter().max().unwrap() * slowest;
        prop_assert!(end == End::Done && fabric.now_ps() >= least.max(bytes[1].iter().max().unwrap() * u64::from(fabric.settings().link_ps_per_byte)));
    }

    /// The same seed gives the same run.
    #[test]
    fn runs_are_repeated_exactly(settings in settings(), seed in any::<u64>()) {
        let once = || {
            let (log, fabric, _) = run(settings.clone(), Network::fat_tree(&[3, 3], &[1, 2]), |fabric| drop(load(fabric, 9, seed, 60)));
            (log.packets, fabric.counts())
        };
        prop_assert_eq!(once(), once());
    }
}

#[test]
fn weights_hold_at_a_busy_port_of_a_switch() {
    // Three hosts send to a fourth, each on a lane of its own with weights 1, 2 and 4 packets.
    let mut tables = Tables::equal(4, 16);
    tables.switches.arbitration.low =
        (0..4).map(|lane| Entry { lane, weight: if lane == 3 { 16 } else { 16 << lane } }).collect();
    let (log, ..) = run(round_numbers(tables), Network::single_switch(4), |fabric| {
        for host in 0..3 {
            let qp = fabric.open(host, 3, host as u8).unwrap();
            fabric.post(qp, 2000 * 960, 0);
        }
    });
    assert_eq!(1000_u32.div_ceil(BLOCK_BYTES), 16);
    // The buffers hold 4 packets of each lane, so the port always has a choice.
    let mut counts = [0u32; 3];
    log.packets[100..1500].iter().for_each(|(_, qp, _)| counts[qp.0 as usize] += 1);
    assert_eq!(counts, [200, 400, 800]);
}
