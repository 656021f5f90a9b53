//! Each scheme as messages between the launcher, agents and ranks, played by the discrete-event simulator.
//!
//! All of them: an agent starts with its session, starts the agents below it (parallel schemes), then its ranks; a rank registers with its
//! agent. What follows differs:
//! - `original`, `dr`: when all hosts have started, the launcher asks each agent for the N ids of each of its ranks. It sends each rank,
//!   through its agent, all N² ids (`original`) or the N that it needs (`dr`).
//! - `bc`, `mpd-bc`: the launcher collects addresses and tells each rank its neighbours; ranks connect, and each rank's N ids go round the ring.
//! - `tree`: endpoint addresses go up, the table comes down. `hypercube`: agents double what they hold in each round; with H not a power of two the
//!   agents beyond it give theirs to a partner first and get the result from it at the end.
//! - `lazy`: nothing follows.

use super::{Cost, Scheme, Shape};
use crate::events::{Processors, Traffic, World};
use protocol::control::tree::{ROOT, children, parent};

/// What a simulated start gave.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// When the last rank could return from `MPI_Init`.
    pub end_s: f64,
    /// All messages.
    pub traffic: Traffic,
}

#[derive(Clone, Copy)]
enum Message {
    Launch,
    Begun,
    Registered,
    Started,
    Ask,
    /// What some ranks have to tell, on its way to the launcher.
    Up {
        ranks: usize,
    },
    /// The launcher's answer on its way down the tree.
    Down,
    /// What an agent has for one of its ranks.
    ForRank(usize),
    Neighbours,
    Table,
    Hello,
    Welcome,
    Block {
        hops: usize,
    },
    Fold {
        ranks: usize,
    },
    Round {
        round: u32,
        ranks: usize,
    },
    Unfold,
}

#[derive(Clone, Copy, Default)]
struct Agent {
    registered: usize,
    asked: bool,
    reports: usize,
    /// Ranks whose data this agent holds.
    held: usize,
    round: u32,
    /// Rounds whose partner has spoken, and what it brought.
    arrived: u64,
    brought: [u32; 32],
    folded: bool,
    doubling: bool,
}

#[derive(Clone, Default)]
struct Rank {
    connected: bool,
    has_neighbours: bool,
    blocks: usize,
    waiting: Vec<usize>,
}

struct Job {
    scheme: Scheme,
    shape: Shape,
    cost: Cost,
    agents: Vec<Agent>,
    ranks: Vec<Rank>,
    /// Hosts that the launcher has started one after the other; then answers that it has.
    started: usize,
    answers: usize,
    done: usize,
    end_s: f64,
}

const LAUNCHER: usize = 0;

/// Plays the start of a job.
pub fn simulate(scheme: Scheme, shape: Shape, cost: Cost, processors: Processors) -> Outcome {
    let (hosts, each) = (shape.hosts, shape.ranks_per_host);
    // The launcher's host is the last one and has no ranks.
    let mut host_of = vec![hosts];
    host_of.extend(0..hosts);
    host_of.extend((0..shape.ranks()).map(|rank| rank / each));
    let mut world = World::new(host_of, cost.net, processors);
    let mut job = Job {
        scheme,
        shape,
        cost,
        agents: vec![Agent { held: each, ..Agent::default() }; hosts],
        ranks: vec![Rank::default(); shape.ranks()],
        started: 0,
        answers: 0,
        done: 0,
        end_s: 0.0,
    };
    world.begin(LAUNCHER, 0.0, Message::Launch);
    let traffic = world.run(|world, actor, message| job.on_message(world, actor, message));
    assert_eq!(job.done, shape.ranks(), "{} with {shape:?} did not finish", scheme.name());
    Outcome { end_s: job.end_s, traffic }
}

impl Job {
    fn agent_actor(&self, node: usize) -> usize {
        1 + node
    }

    fn rank_actor(&self, rank: usize) -> usize {
        1 + self.shape.hosts + rank
    }

    fn width(&self) -> u32 {
        self.shape.tree_width.max(2) as u32
    }

    fn children(&self, node: u32) -> std::ops::Range<u32> {
        children(node, self.width(), self.shape.hosts as u32)
    }

    fn parent_actor(&self, node: usize) -> usize {
        match parent(node as u32, self.width()) {
            ROOT => LAUNCHER,
            node => self.agent_actor(node as usize),
        }
    }

    fn send(&self, world: &mut World<Message>, to: usize, bytes: usize, message: Message) {
        world.send(to, bytes as u64 + self.cost.header_bytes, message);
    }

    /// Bytes that one rank has to tell.
    fn contribution(&self) -> usize {
        let cost = &self.cost;
        match self.scheme {
            Scheme::Original | Scheme::Dr => self.shape.ranks() * cost.id_bytes as usize,
            Scheme::Bc | Scheme::MpdBc => cost.address_bytes as usize,
            Scheme::Tree | Scheme::Hypercube | Scheme::Lazy => cost.endpoint_bytes as usize,
        }
    }

    fn on_message(&mut self, world: &mut World<Message>, actor: usize, message: Message) {
        let hosts = self.shape.hosts;
        if actor == LAUNCHER {
            self.on_launcher(world, message);
        } else if actor <= hosts {
            self.on_agent(world, actor - 1, message);
        } else {
            self.on_rank(world, actor - 1 - hosts, message);
        }
    }

    fn launch(&self, world: &mut World<Message>, node: usize) {
        world.work(self.cost.fork_s);
        world.begin(self.agent_actor(node), self.cost.session_s + self.cost.net.latency_s, Message::Launch);
    }

    fn on_launcher(&mut self, world: &mut World<Message>, message: Message) {
        match message {
            Message::Launch if self.scheme.is_serial() => self.launch(world, 0),
            Message::Launch => self.children(ROOT).for_each(|node| self.launch(world, node as usize)),
            Message::Started => {
                self.started += 1;
                if self.started < self.shape.hosts {
                    self.launch(world, self.started);
                } else {
                    (0..self.shape.hosts).for_each(|node| self.send(world, self.agent_actor(node), 0, Message::Ask));
                }
            }
            Message::Up { .. } => {
                self.answers += 1;
                let expected = if self.scheme.is_serial() { self.shape.hosts } else { self.children(ROOT).len() };
                if self.answers == expected {
                    self.answer(world);
                }
            }
            _ => unreachable!("not for the launcher"),
        }
    }

    /// The launcher has heard of all ranks.
    fn answer(&mut self, world: &mut World<Message>) {
        let (ranks, each) = (self.shape.ranks(), self.shape.ranks_per_host);
        let address = self.cost.address_bytes as usize;
        match self.scheme {
            Scheme::Original | Scheme::Dr => {
                for rank in 0..ranks {
                    if self.scheme == Scheme::Dr {
                        world.work(self.cost.compose_s);
                    }
                    let bytes = self.table_bytes();
                    self.send(world, self.agent_actor(rank / each), bytes, Message::ForRank(rank));
                }
            }
            Scheme::Bc => {
                world.work(ranks as f64 * self.cost.compose_s);
                (0..self.shape.hosts).for_each(|node| {
                    self.send(world, self.agent_actor(node), each * 2 * address, Message::Neighbours);
                });
            }
            _ => {
                world.work(if self.scheme == Scheme::MpdBc { ranks as f64 * self.cost.compose_s } else { 0.0 });
                self.pass_down(world, ROOT);
            }
        }
    }

    /// What each rank gets in the end.
    fn table_bytes(&self) -> usize {
        let (ranks, cost) = (self.shape.ranks(), &self.cost);
        match self.scheme {
            Scheme::Original => ranks * ranks * cost.id_bytes as usize,
            Scheme::Dr => ranks * cost.id_bytes as usize,
            Scheme::Bc | Scheme::MpdBc => ranks * 2 * cost.address_bytes as usize,
            Scheme::Tree | Scheme::Hypercube | Scheme::Lazy => ranks * cost.endpoint_bytes as usize,
        }
    }

    fn pass_down(&self, world: &mut World<Message>, node: u32) {
        let bytes = self.table_bytes();
        self.children(node).for_each(|c| self.send(world, self.agent_actor(c as usize), bytes, Message::Down));
    }

    fn local_ranks(&self, node: usize) -> std::ops::Range<usize> {
        node * self.shape.ranks_per_host..(node + 1) * self.shape.ranks_per_host
    }

    fn on_agent(&mut self, world: &mut World<Message>, node: usize, message: Message) {
        match message {
            Message::Launch => {
                world.work(self.cost.fork_s);
                if !self.scheme.is_serial() {
                    self.children(node as u32).for_each(|c| self.launch(world, c as usize));
                }
                for rank in self.local_ranks(node) {
                    world.work(self.cost.fork_s);
                    world.begin(self.rank_actor(rank), 0.0, Message::Begun);
                }
                if self.scheme.is_serial() {
                    self.send(world, LAUNCHER, 0, Message::Started);
                }
            }
            Message::Registered => {
                self.agents[node].registered += 1;
                self.try_report(world, node);
            }
            Message::Ask => {
                self.agents[node].asked = true;
                self.try_report(world, node);
            }
            Message::Up { ranks } => {
                self.agents[node].reports += 1;
                self.agents[node].held += ranks;
                self.try_report(world, node);
            }
            Message::ForRank(rank) => self.send(world, self.rank_actor(rank), self.table_bytes(), Message::Table),
            Message::Neighbours => self.tell_neighbours(world, node),
            Message::Down => {
                self.pass_down(world, node as u32);
                if self.scheme == Scheme::MpdBc { self.tell_neighbours(world, node) } else { self.deliver(world, node) }
            }
            Message::Fold { ranks } => {
                self.agents[node].folded = true;
                self.agents[node].held += ranks;
                self.try_double(world, node);
            }
            Message::Round { round, ranks } => {
                self.agents[node].arrived |= 1 << round;
                self.agents[node].brought[round as usize] = ranks as u32;
                self.try_double(world, node);
            }
            Message::Unfold => self.deliver(world, node),
            _ => unreachable!("not for an agent"),
        }
    }

    /// The agent speaks up once it has heard of all its ranks, and of all agents below it or of the launcher's question.
    fn try_report(&mut self, world: &mut World<Message>, node: usize) {
        let agent = self.agents[node];
        if agent.registered < self.shape.ranks_per_host {
            return;
        }
        let own = self.contribution();
        match self.scheme {
            Scheme::Lazy => {}
            Scheme::Hypercube => self.try_double(world, node),
            Scheme::Original | Scheme::Dr | Scheme::Bc if agent.asked => {
                self.send(world, LAUNCHER, agent.held * own, Message::Up { ranks: agent.held });
            }
            Scheme::MpdBc | Scheme::Tree if agent.reports == self.children(node as u32).len() => {
                self.send(world, self.parent_actor(node), agent.held * own, Message::Up { ranks: agent.held });
            }
            _ => {}
        }
    }

    fn tell_neighbours(&self, world: &mut World<Message>, node: usize) {
        let bytes = 2 * self.cost.address_bytes as usize;
        self.local_ranks(node).for_each(|rank| self.send(world, self.rank_actor(rank), bytes, Message::Neighbours));
    }

    fn deliver(&self, world: &mut World<Message>, node: usize) {
        let bytes = self.table_bytes();
        self.local_ranks(node).for_each(|rank| self.send(world, self.rank_actor(rank), bytes, Message::Table));
    }

    /// Recursive doubling, as far as it can go now.
    fn try_double(&mut self, world: &mut World<Message>, node: usize) {
        let hosts = self.shape.hosts;
        let power = 1 << hosts.ilog2();
        let endpoint = self.cost.endpoint_bytes as usize;
        if self.agents[node].registered < self.shape.ranks_per_host {
            return;
        }
        let held = self.agents[node].held;
        if node >= power {
            self.send(world, self.agent_actor(node - power), held * endpoint, Message::Fold { ranks: held });
            return;
        }
        if node < hosts - power && !self.agents[node].folded {
            return;
        }
        if !self.agents[node].doubling {
            self.agents[node].doubling = true;
            self.speak(world, node, power);
        }
        while self.agents[node].arrived & (1 << self.agents[node].round) != 0 {
            let agent = &mut self.agents[node];
            agent.held += agent.brought[agent.round as usize] as usize;
            agent.round += 1;
            self.speak(world, node, power);
        }
    }

    /// The message of the present round, or what follows the last one.
    fn speak(&self, world: &mut World<Message>, node: usize, power: usize) {
        let Agent { round, held, .. } = self.agents[node];
        let endpoint = self.cost.endpoint_bytes as usize;
        if 1 << round < power {
            let partner = self.agent_actor(node ^ (1 << round));
            self.send(world, partner, held * endpoint, Message::Round { round, ranks: held });
            return;
        }
        if node < self.shape.hosts - power {
            self.send(world, self.agent_actor(node + power), self.table_bytes(), Message::Unfold);
        }
        self.deliver(world, node);
    }

    fn on_rank(&mut self, world: &mut World<Message>, rank: usize, message: Message) {
        let ranks = self.shape.ranks();
        match message {
            Message::Begun => {
                world.work(self.cost.init_s);
                let agent = self.agent_actor(rank / self.shape.ranks_per_host);
                self.send(world, agent, self.contribution(), Message::Registered);
                if self.scheme == Scheme::Lazy {
                    self.finish(world);
                }
            }
            Message::Table => self.finish(world),
            Message::Neighbours if ranks == 1 => self.finish(world),
            Message::Neighbours => {
                self.ranks[rank].has_neighbours = true;
                self.send(world, self.rank_actor((rank + 1) % ranks), 0, Message::Hello);
            }
            Message::Hello => self.send(world, self.rank_actor((rank + ranks - 1) % ranks), 0, Message::Welcome),
            Message::Welcome => {
                self.ranks[rank].connected = true;
                self.pass_on(world, rank, 0);
                for hops in std::mem::take(&mut self.ranks[rank].waiting) {
                    self.pass_on(world, rank, hops);
                }
                self.try_finish_ring(world, rank);
            }
            Message::Block { hops } => {
                self.ranks[rank].blocks += 1;
                if self.ranks[rank].connected {
                    self.pass_on(world, rank, hops);
                } else {
                    self.ranks[rank].waiting.push(hops);
                }
                self.try_finish_ring(world, rank);
            }
            _ => unreachable!("not for a rank"),
        }
    }

    /// Sends a block that has come `hops` edges far to the right neighbour, unless it has been everywhere.
    fn pass_on(&self, world: &mut World<Message>, rank: usize, hops: usize) {
        let ranks = self.shape.ranks();
        if hops + 1 < ranks {
            let to = self.rank_actor((rank + 1) % ranks);
            self.send(world, to, ranks * self.cost.id_bytes as usize, Message::Block { hops: hops + 1 });
        }
    }

    fn try_finish_ring(&mut self, world: &World<Message>, rank: usize) {
        if self.ranks[rank].connected && self.ranks[rank].blocks == self.shape.ranks() - 1 {
            self.finish(world);
        }
    }

    fn finish(&mut self, world: &World<Message>) {
        self.done += 1;
        self.end_s = self.end_s.max(world.now_s());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheme_ends_for_every_shape() {
        for scheme in Scheme::ALL {
            for hosts in [1, 2, 3, 5, 8, 17, 33] {
                for (ranks_per_host, tree_width) in [(1, 2), (2, 16), (3, 4)] {
                    let shape = Shape { hosts, ranks_per_host, tree_width };
                    let one = simulate(scheme, shape, Cost::default(), Processors::Each(4));
                    let again = simulate(scheme, shape, Cost::default(), Processors::Each(4));
                    assert_eq!((one.end_s, one.traffic), (again.end_s, again.traffic));
                }
            }
        }
    }
}
