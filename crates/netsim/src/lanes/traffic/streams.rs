//! Streams from one host to another: each sends windows of messages, and the next window when the last one has been answered (as `osu_mbw_mr` does).

use crate::lanes::random::Random;
use crate::lanes::{BadTables, Delivered, End, Fabric, Network, Program, Qp, Settings};

/// What streams send.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Pairs of ranks, one queue pair each.
    pub streams: usize,
    /// Service levels that the queue pairs take in turn.
    pub levels: usize,
    /// Of each message.
    pub message_bytes: u32,
    /// Messages until the receiver answers.
    pub window: u32,
    /// Windows of each stream.
    pub windows: u32,
    /// Time of a processor to post a message; as much again is added at random, exponentially distributed.
    pub post_ps: u64,
}

/// What arrived.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Between the messages of a stream, in ns.
    pub gaps_ns: Vec<f64>,
    /// From a message's post to its arrival, in ns.
    pub latencies_ns: Vec<f64>,
    /// Payload of all streams through the time of the run, in GB/s.
    pub bandwidth: f64,
}

struct Streams {
    shape: Shape,
    data: Vec<Qp>,
    answers: Vec<Qp>,
    posted: Vec<u32>,
    arrived: Vec<u32>,
    last_ps: Vec<u64>,
    random: Random,
    outcome: Outcome,
}

/// In a tag: an answer.
const ANSWER: u64 = 1 << 32;

/// Runs streams from host 0 to host 1 of one switch. Errors: settings that can't work.
pub fn run(shape: Shape, settings: Settings, seed: u64) -> Result<Outcome, BadTables> {
    let mut fabric = Fabric::new(Network::single_switch(2), settings)?;
    let level = |stream: usize| (stream % shape.levels) as u8;
    let mut open = |from, to| (0..shape.streams).map(|i| fabric.open(from, to, level(i))).collect::<Result<_, _>>();
    let mut streams = Streams {
        data: open(0, 1)?,
        answers: open(1, 0)?,
        posted: vec![0; shape.streams],
        arrived: vec![0; shape.streams],
        last_ps: vec![0; shape.streams],
        random: Random::new(seed),
        outcome: Outcome::default(),
        shape,
    };
    for stream in 0..shape.streams {
        let at_ps = streams.random.exponential(shape.post_ps);
        fabric.timer(at_ps, stream as u32);
    }
    match fabric.run(&mut streams) {
        End::Done => {}
        End::Deadlock(missing) => return Err(BadTables(format!("deadlock: {missing} messages never arrive"))),
    }
    let bytes = f64::from(shape.message_bytes) * streams.arrived.iter().copied().map(f64::from).sum::<f64>();
    streams.outcome.bandwidth = bytes / (fabric.now_ps() as f64 / 1e3);
    Ok(streams.outcome)
}

impl Program for Streams {
    fn on_timer(&mut self, fabric: &mut Fabric, stream: u32) {
        let i = stream as usize;
        fabric.post(self.data[i], self.shape.message_bytes, u64::from(stream));
        self.posted[i] += 1;
        if !self.posted[i].is_multiple_of(self.shape.window) {
            let next_ps = fabric.now_ps() + self.shape.post_ps + self.random.exponential(self.shape.post_ps);
            fabric.timer(next_ps, stream);
        }
    }

    fn on_message(&mut self, fabric: &mut Fabric, message: Delivered) {
        let i = (message.tag & !ANSWER) as usize;
        if message.tag & ANSWER != 0 {
            if self.posted[i] < self.shape.window * self.shape.windows {
                fabric.timer(fabric.now_ps() + self.shape.post_ps, i as u32);
            }
            return;
        }
        let now_ps = fabric.now_ps();
        // The first window fills the buffers.
        if self.arrived[i] >= self.shape.window {
            self.outcome.gaps_ns.push((now_ps - self.last_ps[i]) as f64 / 1e3);
            self.outcome.latencies_ns.push((now_ps - message.posted_ps) as f64 / 1e3);
        }
        self.last_ps[i] = now_ps;
        self.arrived[i] += 1;
        if self.arrived[i].is_multiple_of(self.shape.window) {
            fabric.post(self.answers[i], 4, message.tag | ANSWER);
        }
    }
}
