//! All-to-all of ranks on several hosts, by pairwise exchange: in step *s* rank *r* exchanges a message with rank *r* xor *s*. Between two all-to-alls the
//! ranks may compute, and then agree on a number (recursive doubling with 8 bytes), as a plane-wave code does between its transforms.
//!
//! Messages up to [`Shape::eager_max`] are sent at once. Larger ones ask first and are answered when the receiver is in that step; their send ends when they have arrived. Ranks of
//! one host exchange through memory.

use crate::lanes::random::Random;
use crate::lanes::{BadTables, Delivered, End, Fabric, Network, Program, Qp, Settings};
use protocol::lanes::{Class, LanePlan, Policy};

/// What is run.
#[derive(Clone, Debug)]
pub struct Shape {
    /// A power of two.
    pub ranks: usize,
    /// Ranks of each host.
    pub per_host: usize,
    /// From each rank to each.
    pub message_bytes: u32,
    /// All-to-alls, one after the other.
    pub rounds: u32,
    /// Computation before each one; a rank takes from 95 to 105 % of it. 0: none, and no agreement either.
    pub compute_ps: u64,
    /// Largest message that is sent without asking.
    pub eager_max: u32,
    /// Largest message on the lane for small ones.
    pub small_max: u32,
    /// Time of a processor for a step; as much again is added at random, exponentially distributed.
    pub step_ps: u64,
    /// Which lanes a pair has, and what each carries.
    pub plan: LanePlan,
}

/// How long it took.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Until the last rank was done, in µs.
    pub total_us: f64,
    /// What a rank spent in an all-to-all, in µs; mean of ranks and rounds.
    pub alltoall_us: f64,
}

/// What a message of the protocol is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Eager,
    Ask,
    Answer,
    Data,
}

const KINDS: [Kind; 4] = [Kind::Eager, Kind::Ask, Kind::Answer, Kind::Data];
/// Bytes of a question or an answer.
const CONTROL_BYTES: u32 = 64;
/// A message through memory: latency, and a byte.
const LOCAL_PS: u64 = 500_000;
const LOCAL_PS_PER_BYTE: u64 = 200;

#[derive(Clone, Default)]
struct Rank {
    step: usize,
    round: u32,
    is_waiting: bool,
    has_sent: bool,
    begun_ps: u64,
}

struct Job {
    shape: Shape,
    ranks: Vec<Rank>,
    /// Queue pairs by sender, receiver and lane.
    qps: Vec<Option<Qp>>,
    /// Messages of each sender that have come to each receiver and were not taken; questions that wait.
    arrived: Vec<u32>,
    asked: Vec<bool>,
    random: Random,
    in_alltoall_ps: u64,
}

/// The service level of a class: shares have theirs, small messages 0, bulk 1.
pub fn level(class: Option<Class>) -> u8 {
    match class {
        Some(Class::Share(share)) => share,
        Some(Class::Bulk) => 1,
        _ => 0,
    }
}

/// Runs it on `network`, whose hosts take ranks in blocks. Errors: settings that can't work, or tables in which a lane's level has no way.
pub fn run(shape: Shape, network: Network, settings: Settings, seed: u64) -> Result<Outcome, BadTables> {
    let hosts = shape.ranks.div_ceil(shape.per_host.max(1));
    if !shape.ranks.is_power_of_two() || network.hosts() < hosts {
        return Err(BadTables(format!(
            "{} ranks are no power of two, or don't fit on {} hosts",
            shape.ranks,
            network.hosts()
        )));
    }
    let mut fabric = Fabric::new(network, settings)?;
    let lanes = shape.plan.lanes();
    let mut qps = Vec::new();
    for (from, to, lane) in
        (0..shape.ranks * shape.ranks * lanes).map(|i| (i / lanes / shape.ranks, i / lanes % shape.ranks, i % lanes))
    {
        let (a, b) = (from / shape.per_host, to / shape.per_host);
        let class = shape.plan.class(lane, (from + to) as u64);
        qps.push(if a == b { None } else { Some(fabric.open(a as u32, b as u32, level(class))?) });
    }
    let pairs = shape.ranks * shape.ranks;
    let mut job = Job {
        ranks: vec![Rank { step: 1, ..Rank::default() }; shape.ranks],
        qps,
        arrived: vec![0; pairs],
        asked: vec![false; pairs],
        random: Random::new(seed),
        in_alltoall_ps: 0,
        shape,
    };
    (0..job.shape.ranks).for_each(|rank| job.schedule(&mut fabric, rank));
    let end = fabric.run(&mut job);
    let rounds = job.shape.rounds;
    if end != End::Done || job.ranks.iter().any(|rank| rank.round < rounds) {
        return Err(BadTables(format!("the job did not end: {end:?}")));
    }
    let all = f64::from(rounds) * job.shape.ranks as f64;
    Ok(Outcome { total_us: fabric.now_ps() as f64 / 1e6, alltoall_us: job.in_alltoall_ps as f64 / all / 1e6 })
}

impl Job {
    /// Steps of a round: all-to-all, and agreement if there is one.
    fn steps(&self) -> usize {
        let agreement = if self.shape.compute_ps > 0 { self.shape.ranks.ilog2() as usize } else { 0 };
        self.shape.ranks - 1 + agreement
    }

    /// The other rank and the bytes of a rank's step.
    fn exchange(&self, rank: usize) -> (usize, u32) {
        let step = self.ranks[rank].step;
        match step.checked_sub(self.shape.ranks) {
            None => (rank ^ step, self.shape.message_bytes),
            Some(bit) => (rank ^ (1 << bit), 8),
        }
    }

    /// The rank's next step begins after its computation.
    fn schedule(&mut self, fabric: &mut Fabric, rank: usize) {
        let mut delay_ps = self.shape.step_ps + self.random.exponential(self.shape.step_ps);
        if self.ranks[rank].step == 1 {
            delay_ps += (self.shape.compute_ps as f64 * (0.95 + 0.1 * self.random.unit())) as u64;
        }
        fabric.timer(fabric.now_ps() + delay_ps, rank as u32);
    }

    fn begin_step(&mut self, fabric: &mut Fabric, rank: usize) {
        let (peer, bytes) = self.exchange(rank);
        let now_ps = fabric.now_ps();
        let state = &mut self.ranks[rank];
        if state.step == 1 {
            state.begun_ps = now_ps;
        }
        state.is_waiting = true;
        state.has_sent = true;
        if rank / self.shape.per_host == peer / self.shape.per_host {
            let token = self.shape.ranks * (1 + rank) + peer;
            fabric.timer(now_ps + LOCAL_PS + u64::from(bytes) * LOCAL_PS_PER_BYTE, token as u32);
        } else if bytes <= self.shape.eager_max {
            self.send(fabric, rank, peer, Kind::Eager, bytes);
        } else {
            self.ranks[rank].has_sent = false;
            self.send(fabric, rank, peer, Kind::Ask, CONTROL_BYTES);
        }
        if std::mem::take(&mut self.asked[rank * self.shape.ranks + peer]) {
            self.send(fabric, rank, peer, Kind::Answer, CONTROL_BYTES);
        }
        self.advance(fabric, rank);
    }

    fn send(&mut self, fabric: &mut Fabric, from: usize, to: usize, kind: Kind, bytes: u32) {
        let lanes = self.shape.plan.lanes();
        let is_bulk = self.shape.plan.policy() == Policy::Segregate && bytes > self.shape.small_max;
        let index = (from * self.shape.ranks + to) * lanes + usize::from(is_bulk);
        let tag = ((kind as u64) << 40) | ((from as u64) << 20) | to as u64;
        if let Some(qp) = self.qps[index] {
            fabric.post(qp, bytes, tag);
        }
    }

    /// Ends the rank's step if its message has come and its own is sent.
    fn advance(&mut self, fabric: &mut Fabric, rank: usize) {
        let (peer, _) = self.exchange(rank);
        let arrived = rank * self.shape.ranks + peer;
        let (steps, last) = (self.steps(), self.shape.ranks - 1);
        let state = &mut self.ranks[rank];
        if !state.is_waiting || !state.has_sent || self.arrived[arrived] == 0 {
            return;
        }
        self.arrived[arrived] -= 1;
        state.is_waiting = false;
        if state.step == last {
            self.in_alltoall_ps += fabric.now_ps() - state.begun_ps;
        }
        state.step += 1;
        if state.step > steps {
            state.step = 1;
            state.round += 1;
        }
        if state.round < self.shape.rounds {
            self.schedule(fabric, rank);
        }
    }

    fn receive(&mut self, fabric: &mut Fabric, from: usize, to: usize) {
        self.arrived[to * self.shape.ranks + from] += 1;
        self.advance(fabric, to);
    }
}

impl Program for Job {
    fn on_timer(&mut self, fabric: &mut Fabric, token: u32) {
        let (above, below) = (token as usize / self.shape.ranks, token as usize % self.shape.ranks);
        match above.checked_sub(1) {
            None => self.begin_step(fabric, below),
            Some(from) => self.receive(fabric, from, below),
        }
    }

    fn on_message(&mut self, fabric: &mut Fabric, message: Delivered) {
        let kind = KINDS[(message.tag >> 40) as usize];
        let (from, to) = ((message.tag >> 20 & 0xf_ffff) as usize, (message.tag & 0xf_ffff) as usize);
        match kind {
            Kind::Eager => self.receive(fabric, from, to),
            Kind::Ask if self.ranks[to].is_waiting && self.exchange(to).0 == from => {
                self.send(fabric, to, from, Kind::Answer, CONTROL_BYTES);
            }
            Kind::Ask => self.asked[to * self.shape.ranks + from] = true,
            Kind::Answer => self.send(fabric, to, from, Kind::Data, self.shape.message_bytes),
            Kind::Data => {
                self.ranks[from].has_sent = true;
                self.advance(fabric, from);
                self.receive(fabric, from, to);
            }
        }
    }
}
