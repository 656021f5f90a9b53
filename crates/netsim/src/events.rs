//! Discrete events: actors (processes) on hosts that send each other messages.
//!
//! An actor handles one message at a time, in the order of arrival, and needs a processor while it does. Processors belong to one host, or to
//! all hosts together when these are emulated on one machine. Each host has a link whose two directions carry bytes one message after the other.
//! Time is in whole nanoseconds and ties go by the order of sending, so a run is the same each time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Index of a process.
pub type Actor = usize;

/// Costs that the simulator knows; seconds.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Processor time to send, or to receive, a message.
    pub message_s: f64,
    /// One way between hosts.
    pub latency_s: f64,
    /// A byte on a host's link.
    pub byte_s: f64,
    /// One way between processes of one host.
    pub local_latency_s: f64,
    /// A byte between processes of one host (processor time of the sender).
    pub local_byte_s: f64,
}

/// Where processors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processors {
    /// Each host has so many.
    Each(usize),
    /// All hosts together have so many: hosts that are emulated on one machine.
    Shared(usize),
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages between hosts.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages inside hosts.
    pub local_messages: u64,
    /// Their bytes.
    pub local_bytes: u64,
}

struct Event<M> {
    at_ns: u64,
    sequence: u64,
    to: Actor,
    /// Zero for a message that costs its receiver nothing (the beginning of a process).
    receive_ns: u64,
    message: M,
}

impl<M> PartialEq for Event<M> {
    fn eq(&self, other: &Self) -> bool {
        (self.at_ns, self.sequence) == (other.at_ns, other.sequence)
    }
}
impl<M> Eq for Event<M> {}
impl<M> PartialOrd for Event<M> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<M> Ord for Event<M> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_ns, self.sequence).cmp(&(other.at_ns, other.sequence))
    }
}

#[derive(Clone, Copy, Default)]
struct Link {
    out_free_ns: u64,
    in_free_ns: u64,
}

/// The state of a run, as a handler sees it.
pub struct World<M> {
    costs: Costs,
    queue: BinaryHeap<Reverse<Event<M>>>,
    sequence: u64,
    host_of: Vec<usize>,
    actor_free_ns: Vec<u64>,
    links: Vec<Link>,
    pools: Vec<Vec<u64>>,
    traffic: Traffic,
    /// The handling actor and its own clock.
    own: Actor,
    clock_ns: u64,
}

fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round().max(0.0) as u64
}

impl<M> World<M> {
    /// Actors at rest; `host_of` says where each one lives.
    pub fn new(host_of: Vec<usize>, costs: Costs, processors: Processors) -> World<M> {
        let hosts = host_of.iter().max().map_or(0, |h| h + 1);
        let pools = match processors {
            Processors::Each(n) => vec![vec![0; n.max(1)]; hosts],
            Processors::Shared(n) => vec![vec![0; n.max(1)]],
        };
        World {
            costs,
            queue: BinaryHeap::new(),
            sequence: 0,
            actor_free_ns: vec![0; host_of.len()],
            links: vec![Link::default(); hosts],
            host_of,
            pools,
            traffic: Traffic::default(),
            own: 0,
            clock_ns: 0,
        }
    }

    fn post(&mut self, at_ns: u64, to: Actor, receive_ns: u64, message: M) {
        self.sequence += 1;
        self.queue.push(Reverse(Event { at_ns, sequence: self.sequence, to, receive_ns, message }));
    }

    /// The handling actor's time, in seconds.
    pub fn now_s(&self) -> f64 {
        self.clock_ns as f64 / 1e9
    }

    /// The handling actor computes.
    pub fn work(&mut self, seconds: f64) {
        self.clock_ns += ns(seconds);
    }

    /// Wakes `to` after `seconds`, at no cost: a process begins, or a time has passed.
    pub fn begin(&mut self, to: Actor, seconds: f64, message: M) {
        self.post(self.clock_ns + ns(seconds), to, 0, message);
    }

    /// Sends `bytes` bytes.
    pub fn send(&mut self, to: Actor, bytes: u64, message: M) {
        let costs = self.costs;
        let (from_host, to_host) = (self.host_of[self.own], self.host_of[to]);
        self.clock_ns += ns(costs.message_s);
        let at_ns = if from_host == to_host {
            self.clock_ns += ns(bytes as f64 * costs.local_byte_s);
            self.traffic.local_messages += 1;
            self.traffic.local_bytes += bytes;
            self.clock_ns + ns(costs.local_latency_s)
        } else {
            self.traffic.messages += 1;
            self.traffic.bytes += bytes;
            let transfer_ns = ns(bytes as f64 * costs.byte_s);
            let left_ns = self.links[from_host].out_free_ns.max(self.clock_ns);
            self.links[from_host].out_free_ns = left_ns + transfer_ns;
            // The first byte is there after the latency; another message may still be coming in.
            let comes_ns = self.links[to_host].in_free_ns.max(left_ns + ns(costs.latency_s));
            self.links[to_host].in_free_ns = comes_ns + transfer_ns;
            comes_ns + transfer_ns
        };
        self.post(at_ns, to, ns(costs.message_s), message);
    }

    /// Runs until nothing is left to happen; `on_message` handles each message. Returns the traffic.
    pub fn run(&mut self, mut on_message: impl FnMut(&mut World<M>, Actor, M)) -> Traffic {
        while let Some(Reverse(event)) = self.queue.pop() {
            let actor = event.to;
            let pool = if self.pools.len() == 1 { 0 } else { self.host_of[actor] };
            let ready_ns = event.at_ns.max(self.actor_free_ns[actor]);
            // The processor that is free first; of several that are free in time, the one that was busy last.
            let processors = &self.pools[pool];
            let in_time = (0..processors.len()).filter(|&p| processors[p] <= ready_ns).max_by_key(|&p| processors[p]);
            let chosen = in_time.or_else(|| (0..processors.len()).min_by_key(|&p| processors[p])).unwrap_or(0);
            self.own = actor;
            self.clock_ns = ready_ns.max(processors[chosen]) + event.receive_ns;
            on_message(self, actor, event.message);
            self.actor_free_ns[actor] = self.clock_ns;
            self.pools[pool][chosen] = self.clock_ns;
        }
        self.traffic
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs =
        Costs { message_s: 1e-6, latency_s: 10e-6, byte_s: 1e-9, local_latency_s: 2e-6, local_byte_s: 0.0 };

    #[test]
    fn one_message_costs_overheads_latency_and_transfer() {
        let mut world: World<u32> = World::new(vec![0, 1], COSTS, Processors::Each(1));
        world.begin(0, 0.0, 0);
        let mut end = 0.0;
        let traffic = world.run(|w, actor, _| if actor == 0 { w.send(1, 1000, 1) } else { end = w.now_s() });
        assert!((end - 13e-6).abs() < 1e-12, "{end}");
        assert_eq!(traffic, Traffic { messages: 1, bytes: 1000, ..Traffic::default() });
    }

    #[test]
    fn a_link_carries_one_message_after_the_other() {
        let mut world: World<u32> = World::new(vec![0, 1, 2], COSTS, Processors::Each(1));
        world.begin(0, 0.0, 0);
        world.begin(1, 0.0, 0);
        let mut end: f64 = 0.0;
        world.run(|w, actor, _| if actor < 2 { w.send(2, 100_000, 1) } else { end = end.max(w.now_s()) });
        assert!((end - 212e-6).abs() < 1e-9, "{end}");
    }

    #[test]
    fn shared_processors_serialize_work() {
        for (processors, expected) in
            [(Processors::Each(1), 1.0), (Processors::Shared(2), 2.0), (Processors::Shared(1), 4.0)]
        {
            let mut world: World<()> = World::new(vec![0, 1, 2, 3], COSTS, processors);
            (0..4).for_each(|actor| world.begin(actor, 0.0, ()));
            let mut end: f64 = 0.0;
            world.run(|w, _, ()| {
                w.work(1.0);
                end = end.max(w.now_s());
            });
            assert!((end - expected).abs() < 1e-9, "{processors:?}: {end}");
        }
    }
}
