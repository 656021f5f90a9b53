//! Workers of three nodes that die at any moment, while the packets under way are lost: each message arrives once, as it was sent, and nobody waits for ever.

use super::*;

const NODES: u32 = 3;
const RANKS: u64 = 6;
const MESSAGES: u64 = 3;
const ROUNDS: u64 = 4;
const PART_MAX: usize = 100;

fn node_of(rank: u64) -> u32 {
    (rank % u64::from(NODES)) as u32
}

fn others(rank: u64) -> impl Iterator<Item = u64> {
    (0..RANKS).filter(move |other| node_of(*other) != node_of(rank))
}

fn hash(route: &Route, number: u64, salt: u64) -> u64 {
    let words = [route.round, route.from, route.to, number, salt];
    words
        .into_iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, word| (hash ^ (word + 1)).wrapping_mul(0x0100_0000_01b3) ^ hash >> 29)
}

/// Bytes of a message: none, few, or several parts.
fn content(route: &Route, number: u64) -> Vec<u8> {
    let len = [0, 1, 90, 350][hash(route, number, 1) as usize % 4];
    (0..len).map(|i| hash(route, number, 100 + i) as u8).collect()
}

/// Mostly what is sent, sometimes less.
fn room(route: &Route, number: u64) -> usize {
    let len = content(route, number).len();
    if hash(route, number, 2).is_multiple_of(5) { len / 2 } else { len }
}

type End = (Route, u64, bool);

/// What is left of a rank when its worker dies: shared memory.
#[derive(Default, Clone)]
struct Rank {
    round: u64,
    /// By peer: messages received, and sent.
    counts: BTreeMap<u64, [u64; 2]>,
    held: BTreeMap<u32, Vec<(Route, u64)>>,
}

#[derive(Default)]
struct Ranks {
    ranks: Vec<Rank>,
    memory: HashMap<(Route, u64), Vec<u8>>,
}

impl Ranks {
    fn route(&self, rank: u64, peer: u64, sends: bool) -> Route {
        let (from, to) = if sends { (rank, peer) } else { (peer, rank) };
        Route { context: 1, tag: 2, round: self.ranks[rank as usize].round, from, to }
    }

    fn is_received(&self, route: &Route, number: u64) -> bool {
        let rank = &self.ranks[route.to as usize];
        rank.round > route.round || rank.counts.get(&route.from).is_some_and(|counts| counts[0] >= number)
    }
}

impl Ends for Ranks {
    type End = End;

    fn read(&mut self, (route, number, sends): &End, offset: u64, into: &mut [u8]) -> Result {
        assert!(sends);
        into.copy_from_slice(&content(route, *number)[offset as usize..][..into.len()]);
        Ok(())
    }

    fn write(&mut self, (route, number, sends): &End, offset: u64, from: &[u8]) -> Result {
        assert!(!sends && !self.is_received(route, *number));
        let memory = self.memory.entry((*route, *number)).or_insert_with(|| vec![0; room(route, *number)]);
        memory[offset as usize..][..from.len()].copy_from_slice(from);
        Ok(())
    }

    fn end(&mut self, (route, number, sends): &End, total: u64, outcome: Result) {
        outcome.unwrap();
        let sent = content(route, *number);
        assert_eq!(total, sent.len() as u64);
        let (me, peer) = if *sends { (route.from, route.to) } else { (route.to, route.from) };
        if *sends {
            assert!(self.is_received(route, *number), "a send is over before its receive");
        } else if let Some(memory) = self.memory.remove(&(*route, *number)) {
            assert_eq!(memory, sent[..memory.len()]);
        } else {
            assert_eq!(room(route, *number).min(sent.len()), 0);
        }
        assert_eq!(self.ranks[me as usize].round, route.round);
        let count = &mut self.ranks[me as usize].counts.entry(peer).or_default()[usize::from(*sends)];
        *count += 1;
        assert_eq!(*count, *number, "in order, and once");
    }
}

struct Worker {
    messages: Messages<End>,
    incarnation: u32,
    /// Whom it takes to be the worker of each node.
    known: Vec<u32>,
}

/// A packet with its payload, and the incarnations of the two workers.
type Sent = (u32, u32, Packet, Vec<u8>);

struct World {
    ranks: Ranks,
    workers: Vec<Worker>,
    /// Under way from one node to another.
    links: BTreeMap<(u32, u32), VecDeque<Sent>>,
    random: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let workers = (0..NODES).map(|node| Worker {
            messages: Messages::new(node),
            incarnation: 0,
            known: vec![0; NODES as usize],
        });
        let ranks = Ranks { ranks: vec![Rank::default(); RANKS as usize], memory: HashMap::new() };
        let mut world = World { ranks, workers: workers.collect(), links: BTreeMap::new(), random: seed };
        (0..RANKS).for_each(|rank| world.begin(rank));
        world
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16) % below
    }

    /// A rank's operation, or what is left of it.
    fn begin(&mut self, rank: u64) {
        if self.ranks.ranks[rank as usize].round == ROUNDS {
            return;
        }
        let messages = &mut self.workers[node_of(rank) as usize].messages;
        for peer in others(rank) {
            let done = self.ranks.ranks[rank as usize].counts.get(&peer).copied().unwrap_or_default();
            for sends in [true, false] {
                let route = self.ranks.route(rank, peer, sends);
                for number in done[usize::from(sends)] + 1..=MESSAGES {
                    let bytes = if sends { content(&route, number).len() } else { room(&route, number) } as u64;
                    let begun = Begun { end: (route, number, sends), route, number, bytes };
                    match sends {
                        true => messages.begin_send(node_of(peer), begun),
                        false => messages.begin_receive(node_of(peer), begun),
                    }
                }
            }
        }
    }

    /// Operations that have ended make room for the next ones.
    fn settle(&mut self, node: u32) {
        for rank in (0..RANKS).filter(|rank| node_of(*rank) == node) {
            let known = &self.ranks.ranks[rank as usize];
            let is_over = others(rank).all(|peer| known.counts.get(&peer) == Some(&[MESSAGES; 2]));
            if known.round == ROUNDS || !is_over {
                continue;
            }
            let messages = &mut self.workers[node as usize].messages;
            let routes = others(rank).map(|peer| self.ranks.route(rank, peer, false));
            let unseen: Vec<(Route, u64)> =
                routes.filter_map(|route| Some((route, messages.unseen(&route)?))).collect();
            let slot = self.ranks.ranks[rank as usize].round as u32;
            messages.hold((rank, slot), unseen.iter().map(|(route, _)| route));
            let known = &mut self.ranks.ranks[rank as usize];
            if !unseen.is_empty() {
                known.held.insert(slot, unseen);
            }
            known.round += 1;
            known.counts.clear();
            self.begin(rank);
        }
        for (rank, slot) in self.workers[node as usize].messages.take_released() {
            assert!(self.ranks.ranks[rank as usize].held.remove(&slot).is_some());
        }
    }

    /// The worker of a node dies, and another one takes its place.
    fn replace(&mut self, node: u32) {
        let incarnation = self.workers[node as usize].incarnation + 1;
        let known = self.workers.iter().map(|worker| worker.incarnation).collect();
        self.workers[node as usize] = Worker { messages: Messages::new(node), incarnation, known };
        self.links.retain(|(from, to), _| *from != node && *to != node);
        for rank in (0..RANKS).filter(|rank| node_of(*rank) == node) {
            let left = self.ranks.ranks[rank as usize].clone();
            self.begin(rank);
            let messages = &mut self.workers[node as usize].messages;
            for (peer, counts) in left.counts.iter().filter(|(_, counts)| counts[0] > 0) {
                let route = self.ranks.route(rank, *peer, false);
                messages.restore(node_of(*peer), route, counts[0], None);
            }
            for (slot, routes) in &left.held {
                for (route, number) in routes {
                    messages.restore(node_of(route.from), *route, *number, Some((rank, *slot)));
                }
            }
        }
    }

    fn notice(&mut self, node: u32, other: u32, incarnation: u32) {
        let worker = &mut self.workers[node as usize];
        if worker.known[other as usize] != incarnation {
            worker.known[other as usize] = incarnation;
            worker.messages.restart(other);
        }
    }

    fn push(&mut self, node: u32) {
        let mut room = self.random(8);
        let (links, incarnations) =
            (&mut self.links, self.workers.iter().map(|worker| worker.incarnation).collect::<Vec<_>>());
        let Worker { messages, incarnation, known } = &mut self.workers[node as usize];
        messages.push(PART_MAX, &mut self.ranks, |to, packet, bytes| {
            assert!(bytes.len() <= PART_MAX);
            if room == 0 {
                return Outcome::Again;
            }
            room -= 1;
            // What a dead worker is sent is lost.
            if known[to as usize] == incarnations[to as usize] {
                let link = links.entry((node, to)).or_default();
                link.push_back((*incarnation, known[to as usize], *packet, bytes.to_vec()));
            }
            Outcome::Done
        });
    }

    fn deliver(&mut self, from: u32, to: u32) {
        let Some((by, whom, packet, bytes)) = self.links.get_mut(&(from, to)).and_then(VecDeque::pop_front) else {
            return;
        };
        assert_eq!((by, whom), (self.workers[from as usize].incarnation, self.workers[to as usize].incarnation));
        self.notice(to, from, by);
        self.workers[to as usize].messages.on_packet(from, &packet, &bytes, &mut self.ranks);
        self.settle(to);
    }

    fn is_over(&self) -> bool {
        self.ranks.ranks.iter().all(|rank| rank.round == ROUNDS && rank.held.is_empty())
            && self.workers.iter().all(|worker| worker.messages.is_idle())
    }

    /// Runs until all is over; the number of workers that have died.
    fn run(&mut self, deaths_per_mille: u64) -> u32 {
        for _ in 0..2_000_000 {
            if self.is_over() && self.links.values().all(VecDeque::is_empty) {
                return self.workers.iter().map(|worker| worker.incarnation).sum();
            }
            let (node, other) = (self.random(NODES.into()) as u32, self.random(NODES.into()) as u32);
            let calm = self.workers.iter().map(|worker| worker.incarnation).sum::<u32>() > 300;
            match self.random(1000) {
                what if what < deaths_per_mille && !calm => self.replace(node),
                what if what < 100 => self.notice(node, other, self.workers[other as usize].incarnation),
                what if what < 400 => self.push(node),
                _ => self.deliver(node, other),
            }
        }
        panic!("somebody waits for ever");
    }
}

#[test]
fn without_deaths_everything_arrives() {
    for seed in 1..20_u64 {
        assert_eq!(World::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)).run(0), 0);
    }
}

#[test]
fn workers_that_die_at_any_moment_are_replaced() {
    let mut deaths = 0;
    for seed in 1..60_u64 {
        deaths += World::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)).run(1 + seed % 30);
    }
    assert!(deaths > 1000, "{deaths} deaths only");
}

#[test]
fn what_is_not_asked_for_is_dropped() {
    let mut world = World::new(7);
    let route = world.ranks.route(1, 0, false);
    let messages = &mut world.workers[1].messages;
    let data = |number, offset, total| Packet { route, number, what: What::Data { offset, total } };
    let room = room(&route, 1) as u64;
    let lies = [
        (data(1, 1, room), vec![0; 1]),
        (data(1, 0, room), vec![0; room as usize + 1]),
        (data(1, u64::MAX, u64::MAX), vec![0; 2]),
        (data(9, 0, 1), vec![0; 1]),
        (Packet { route: Route { round: 99, ..route }, number: 1, what: What::Failed }, Vec::new()),
        (Packet { route, number: u64::MAX, what: What::Seen }, Vec::new()),
    ];
    for (packet, payload) in lies {
        messages.on_packet(0, &packet, &payload, &mut world.ranks);
    }
    assert!(world.ranks.memory.values().all(|bytes| bytes.iter().all(|byte| *byte == 0)));
    assert_eq!(world.run(0), 0);
}

#[test]
fn a_slot_is_not_held_for_a_sender_that_is_gone() {
    let mut messages: Messages<End> = Messages::new(0);
    let route = |from: u64| Route { context: 1, tag: 2, round: 0, from, to: 0 };
    messages.restore(1, route(1), 3, Some((0, 9)));
    messages.restore(2, route(2), 3, Some((0, 9)));
    messages.forget_peer(1);
    assert_eq!((messages.take_released(), messages.unseen(&route(1))), (Vec::new(), None));
    messages.forget_peer(2);
    assert_eq!(messages.take_released(), [(0, 9)]);
}

#[test]
fn a_rank_that_leaves_takes_its_messages_along() {
    let mut world = World::new(9);
    for worker in &mut world.workers {
        (0..RANKS).for_each(|rank| worker.messages.forget_rank(rank));
        worker.messages.restart((worker.messages.me + 1) % NODES);
        worker.messages.restart((worker.messages.me + 2) % NODES);
        assert!(worker.messages.is_idle());
    }
    let mut world = World::new(10);
    world.workers[0].messages.forget_ends(|_| true);
    world.workers[0].messages.restart(1);
    world.workers[0].messages.restart(2);
    assert!(world.workers[0].messages.is_idle());
}
