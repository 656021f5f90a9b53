//! The simulation: packets on channels, lane by lane.
//!
//! Each switch has input buffers with a queue for each lane of each port, and a crossbar that can read all of them at once. The head of a queue asks for its output
//! port, on the lane that the port's SL-to-VL table says. A port that is free sends what its arbitration chooses among the lanes that
//! have a packet and credits for it. Heads that ask for the same lane go in the order of asking. A head that has no credits holds up what is behind it (head-of-line blocking).
//! Queue pairs of a host are queues in the same sense, except that they have turns of several packets.
//!
//! | event | when |
//! |---|---|
//! | arrive | the first byte of a packet (at a host, or without cut-through, the last one) can be looked at |
//! | serve | an output port may be able to send: it is free, or credits come back. Only if somebody waits for it |
//! | deliver | a host has written a packet to its memory |
//! | timer | the program asked for it |

use super::arbiter::Arbiter;
use super::calendar::Calendar;
use super::credits::{BLOCK_BYTES, Credits};
use super::fifo::{Fifo, NIL};
use super::host::{Delivered, Qp, QueuePair};
use super::network::{Network, Node};
use super::settings::Settings;
use super::tables::{BadTables, PortTables};

/// What programs on the hosts do. Each is called at [`Fabric::now_ps`].
pub trait Program {
    /// A packet is in the memory of its host; `number` counts those of the queue pair from 0.
    fn on_packet(&mut self, _fabric: &mut Fabric, _qp: Qp, _number: u32) {}
    /// A message is.
    fn on_message(&mut self, fabric: &mut Fabric, message: Delivered);
    /// A timer has run out.
    fn on_timer(&mut self, _fabric: &mut Fabric, _token: u32) {}
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that hosts sent.
    pub sent: u64,
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets times links that they passed.
    pub hops: u64,
    /// Events of the simulation.
    pub events: u64,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing is left to happen, and every message has arrived.
    Done,
    /// Nothing is left to happen, and so many messages have not arrived: packets wait for each other's buffers in a circle.
    Deadlock(usize),
}

const ARRIVE: u32 = 0;
const SERVE: u32 = 1;
const DELIVER: u32 = 2;
const TIMER: u32 = 3;
/// Bits of an event that say whose it is; above them is its kind.
const INDEX_BITS: u32 = 30;
const INDEX_MAX: u32 = (1 << INDEX_BITS) - 1;

fn event(kind: u32, index: u32) -> u32 {
    kind << INDEX_BITS | index
}

/// A packet in the network.
#[derive(Clone, Copy)]
struct Packet {
    /// When its last byte is in the buffer where it is.
    tail_ps: u64,
    qp: u32,
    to: u32,
    /// The one that it is on, or in whose buffer it is.
    channel: u32,
    number: u32,
    /// On the wire.
    bytes: u32,
    level: u8,
    lane: u8,
    is_last: bool,
}

/// An output port.
struct Port {
    to: Node,
    from_host: bool,
    ps_per_byte: u32,
    /// From the first byte's departure until the packet can be looked at.
    latency_ps: u64,
    free_ps: u64,
    /// When the next look at the port is due; `u64::MAX`: none is.
    serve_ps: u64,
    /// Lanes that have a packet waiting.
    waiting: u16,
    /// It waits for credits that nobody has given back yet.
    is_starved: bool,
    arbiter: Arbiter,
}

/// See the head of this file.
pub struct Fabric {
    settings: Settings,
    lanes: usize,
    network: Network,
    now_ps: u64,
    calendar: Calendar,
    ports: Vec<Port>,
    credits: Vec<Credits>,
    /// Packets of a lane's input buffer: channel times lanes plus lane.
    buffers: Vec<Fifo>,
    /// Queues that ask for a lane of an output port: channel times lanes plus lane. A queue is an input buffer or, after those, a queue pair.
    requests: Vec<Fifo>,
    next_queue: Vec<u32>,
    /// Bytes on the wire of each queue's first packet.
    head_bytes: Vec<u32>,
    packets: Vec<Packet>,
    next_packet: Vec<u32>,
    unused: Fifo,
    qps: Vec<QueuePair>,
    /// When each host has written what it has received so far.
    written_ps: Vec<u64>,
    counts: Counts,
}

impl Fabric {
    /// A fabric at rest. Errors: see [`Settings::check`].
    pub fn new(network: Network, settings: Settings) -> Result<Fabric, BadTables> {
        settings.check()?;
        let lanes = settings.tables.lanes;
        let count = network.channels().len();
        let ports = network.channels().iter().map(|channel| {
            let from_host = matches!(channel.from, Node::Host(_));
            let into_switch = matches!(channel.to, Node::Switch(_));
            let link = settings.link_ps_per_byte;
            Port {
                to: channel.to,
                from_host,
                ps_per_byte: if from_host { link.max(settings.host_ps_per_byte) } else { link },
                latency_ps: settings.wire_ps + if into_switch { settings.switch_ps } else { 0 },
                free_ps: 0,
                serve_ps: u64::MAX,
                waiting: 0,
                is_starved: false,
                arbiter: Arbiter::new(&tables(&settings, from_host).arbitration),
            }
        });
        Ok(Fabric {
            lanes,
            now_ps: 0,
            // About two events in each bucket if all links are busy with whole packets.
            calendar: Calendar::new((settings.packet_ps() / (2 * count as u64).max(1)).max(settings.packet_ps() / 256)),
            ports: ports.collect(),
            credits: vec![Credits::new(lanes, settings.buffering); count],
            buffers: vec![Fifo::EMPTY; count * lanes],
            requests: vec![Fifo::EMPTY; count * lanes],
            next_queue: vec![NIL; count * lanes],
            head_bytes: vec![0; count * lanes],
            packets: Vec::new(),
            next_packet: Vec::new(),
            unused: Fifo::EMPTY,
            qps: Vec::new(),
            written_ps: vec![0; network.hosts()],
            counts: Counts::default(),
            network,
            settings,
        })
    }

    /// Opens a queue pair. Errors: the hosts are the same or not connected, or the service level has no lane on the way.
    pub fn open(&mut self, from: u32, to: u32, level: u8) -> Result<Qp, BadTables> {
        let path = if from == to { Err(Node::Host(to)) } else { self.network.path(from, to) };
        let path =
            path.map_err(|node| BadTables(format!("host {from} has no way to host {to}: it ends at {node:?}")))?;
        let tables = &self.settings.tables;
        let (Some(lane), true) =
            (tables.hosts.sl2vl.lane(level), path.len() == 1 || tables.switches.sl2vl.lane(level).is_some())
        else {
            return Err(BadTables(format!("service level {level} has no virtual lane: its packets are dropped")));
        };
        let qp = Qp(self.qps.len() as u32);
        self.qps.push(QueuePair::new(path[0], to, level, lane));
        self.next_queue.push(NIL);
        self.head_bytes.push(0);
        Ok(qp)
    }

    /// Gives a message to a queue pair; one without bytes is a packet, too. `tag` comes back when it has arrived.
    pub fn post(&mut self, qp: Qp, bytes: u32, tag: u64) {
        let pair = &mut self.qps[qp.0 as usize];
        if pair.post(bytes, tag, self.now_ps) {
            pair.turn = 0;
            let channel = pair.channel;
            self.request_qp(qp.0, false);
            self.serve(channel);
        }
    }

    /// [`Program::on_timer`] will be called with this token, which is below 2^30.
    pub fn timer(&mut self, at_ps: u64, token: u32) {
        debug_assert!(token <= INDEX_MAX);
        self.calendar.push(at_ps.max(self.now_ps), event(TIMER, token & INDEX_MAX));
    }

    /// The time of the run.
    pub fn now_ps(&self) -> u64 {
        self.now_ps
    }

    /// What has happened so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The constants.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Runs until nothing is left to happen.
    pub fn run(&mut self, program: &mut impl Program) -> End {
        while self.step(program) {}
        match self.qps.iter().map(QueuePair::missing).sum() {
            0 => End::Done,
            missing => End::Deadlock(missing),
        }
    }

    /// The next event. Returns whether there was one.
    #[inline]
    pub fn step(&mut self, program: &mut impl Program) -> bool {
        let Some((at_ps, what)) = self.calendar.pop() else { return false };
        self.now_ps = at_ps;
        self.counts.events += 1;
        let index = what & INDEX_MAX;
        match what >> INDEX_BITS {
            ARRIVE => self.arrive(index),
            SERVE => {
                let port = &mut self.ports[index as usize];
                // Another look may have become due before.
                if port.serve_ps == at_ps {
                    port.serve_ps = u64::MAX;
                    self.serve(index);
                }
            }
            DELIVER => self.deliver(program, index),
            _ => program.on_timer(self, index),
        }
        true
    }

    /// A packet can be looked at where its channel ends.
    fn arrive(&mut self, packet: u32) {
        let Packet { channel, to, lane, bytes, level, .. } = self.packets[packet as usize];
        let switch = match self.ports[channel as usize].to {
            Node::Switch(switch) => switch,
            Node::Host(host) => return self.write(packet, host),
        };
        let queue = channel as usize * self.lanes + usize::from(lane);
        let was_empty = self.buffers[queue].is_empty();
        self.buffers[queue].push(&mut self.next_packet, packet);
        if was_empty {
            self.head_bytes[queue] = bytes;
            self.request_head(queue as u32, switch, to, level);
        }
    }

    /// The host writes a packet to its memory, after those before it.
    fn write(&mut self, packet: u32, host: u32) {
        let Packet { bytes, channel, lane, .. } = self.packets[packet as usize];
        let whole_ps = u64::from(bytes) * u64::from(self.settings.host_ps_per_byte);
        let written = &mut self.written_ps[host as usize];
        // It is written while it comes in, unless packets before it still are.
        *written = self.now_ps.max(*written + whole_ps);
        let at_ps = *written;
        self.give_back(channel, lane, bytes, at_ps);
        self.calendar.push(at_ps, event(DELIVER, packet));
    }

    fn deliver(&mut self, program: &mut impl Program, packet: u32) {
        let Packet { qp, number, is_last, .. } = self.packets[packet as usize];
        self.unused.push(&mut self.next_packet, packet);
        self.counts.arrived += 1;
        program.on_packet(self, Qp(qp), number);
        if is_last && let Some(message) = self.qps[qp as usize].delivered(Qp(qp)) {
            program.on_message(self, message);
        }
    }

    /// The buffer of a packet is free at `at_ps`; its sender knows it after the wire's latency.
    #[inline]
    fn give_back(&mut self, channel: u32, lane: u8, bytes: u32, at_ps: u64) {
        let blocks = bytes.div_ceil(BLOCK_BYTES);
        let at_ps = self.credits[channel as usize].give_back(usize::from(lane), at_ps + self.settings.wire_ps, blocks);
        if self.ports[channel as usize].is_starved {
            self.ports[channel as usize].is_starved = false;
            self.serve_at(channel, at_ps);
        }
    }

    /// The first packet of an input buffer asks for its output port.
    #[inline]
    fn request_head(&mut self, queue: u32, switch: u32, to: u32, level: u8) {
        // `open` has walked the route and looked the level up.
        let (Some(channel), Some(lane)) =
            (self.network.next(switch, to), self.settings.tables.switches.sl2vl.lane(level))
        else {
            return;
        };
        self.request(queue, channel, lane, false);
        self.serve(channel);
    }

    fn request_qp(&mut self, qp: u32, goes_on: bool) {
        let pair = &self.qps[qp as usize];
        let (channel, lane) = (pair.channel, pair.lane);
        if let Some(bytes) = pair.next_bytes(self.settings.mtu_bytes) {
            let queue = self.buffers.len() as u32 + qp;
            self.head_bytes[queue as usize] = self.settings.wire_bytes(bytes);
            self.request(queue, channel, lane, goes_on);
        }
    }

    #[inline]
    fn request(&mut self, queue: u32, channel: u32, lane: u8, is_first: bool) {
        let list = &mut self.requests[channel as usize * self.lanes + usize::from(lane)];
        if is_first {
            list.push_front(&mut self.next_queue, queue);
        } else {
            list.push(&mut self.next_queue, queue);
        }
        self.ports[channel as usize].waiting |= 1 << lane;
    }

    /// A look at the port is due at this time, unless one is due before.
    #[inline]
    fn serve_at(&mut self, channel: u32, at_ps: u64) {
        let port = &mut self.ports[channel as usize];
        if at_ps < port.serve_ps {
            port.serve_ps = at_ps;
            self.calendar.push(at_ps, event(SERVE, channel));
        }
    }

    /// The port sends a packet if it can.
    #[inline]
    fn serve(&mut self, channel: u32) {
        let port = &self.ports[channel as usize];
        if port.waiting == 0 {
            return;
        }
        if port.free_ps > self.now_ps {
            let free_ps = port.free_ps;
            return self.serve_at(channel, free_ps);
        }
        let ready = self.ready(channel);
        if ready == 0 {
            return self.wait_for_credits(channel);
        }
        let first = channel as usize * self.lanes;
        let (requests, head_bytes) = (&self.requests, &self.head_bytes);
        let bytes = |lane: u8| head_bytes[requests[first + usize::from(lane)].head as usize];
        let port = &mut self.ports[channel as usize];
        let arbitration = &tables(&self.settings, port.from_host).arbitration;
        let lane = if self.lanes == 1 { Some(0) } else { port.arbiter.choose(arbitration, ready, bytes) };
        // Every lane that is mapped to has weight (`Settings::check`).
        let Some(lane) = lane else { return };
        let list = &mut self.requests[first + usize::from(lane)];
        let Some(queue) = list.pop(&self.next_queue) else { return };
        if list.is_empty() {
            port.waiting &= !(1 << lane);
        }
        self.send(channel, lane, queue);
        if self.ports[channel as usize].waiting != 0 {
            let free_ps = self.ports[channel as usize].free_ps;
            self.serve_at(channel, free_ps);
        }
    }

    /// Lanes whose next packet has credits.
    #[inline]
    fn ready(&mut self, channel: u32) -> u16 {
        let credits = &mut self.credits[channel as usize];
        if credits.is_shared() {
            (0..self.lanes).for_each(|lane| credits.settle(lane, self.now_ps));
        }
        let (mut left, mut ready) = (self.ports[channel as usize].waiting, 0);
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            left &= left - 1;
            credits.settle(lane, self.now_ps);
            let head = self.requests[channel as usize * self.lanes + lane].head;
            if credits.has(lane, self.head_bytes[head as usize].div_ceil(BLOCK_BYTES)) {
                ready |= 1 << lane;
            }
        }
        ready
    }

    /// Nothing can go: the next look is due when credits come back.
    fn wait_for_credits(&mut self, channel: u32) {
        let credits = &self.credits[channel as usize];
        let (waiting, shared) = (self.ports[channel as usize].waiting, credits.is_shared());
        let wanted = |lane: &usize| shared || waiting & (1 << lane) != 0;
        let next = (0..self.lanes).filter(wanted).filter_map(|lane| credits.next_return(lane)).min();
        // Another lane's may be given back before.
        self.ports[channel as usize].is_starved = true;
        if let Some(at_ps) = next {
            self.serve_at(channel, at_ps);
        }
    }

    /// The first packet of a queue leaves on a lane.
    #[inline]
    fn send(&mut self, channel: u32, lane: u8, queue: u32) {
        let bytes = self.head_bytes[queue as usize];
        self.credits[channel as usize].take(usize::from(lane), bytes.div_ceil(BLOCK_BYTES));
        self.counts.hops += 1;
        let is_buffer = (queue as usize) < self.buffers.len();
        let packet = if is_buffer { self.pop_buffer(queue) } else { self.pop_qp(queue, bytes) };
        let Some(packet) = packet else { return };
        let port = &mut self.ports[channel as usize];
        let moved = &mut self.packets[packet as usize];
        let (before, before_lane) = (moved.channel, moved.lane);
        // A packet that still comes in can't have left before it has come in.
        let left_ps = (self.now_ps + u64::from(bytes) * u64::from(port.ps_per_byte)).max(moved.tail_ps);
        port.free_ps = left_ps;
        moved.tail_ps = left_ps + port.latency_ps;
        moved.channel = channel;
        moved.lane = lane;
        let cut_through = self.settings.is_cut_through && matches!(port.to, Node::Switch(_));
        let looked_at_ps = if cut_through { self.now_ps + port.latency_ps } else { moved.tail_ps };
        self.calendar.push(looked_at_ps, event(ARRIVE, packet));
        if is_buffer {
            self.give_back(before, before_lane, bytes, left_ps);
            self.next_head(queue, before);
        } else {
            self.next_turn(queue - self.buffers.len() as u32);
        }
    }

    fn pop_buffer(&mut self, queue: u32) -> Option<u32> {
        self.buffers[queue as usize].pop(&self.next_packet)
    }

    /// Makes the next packet of a queue pair.
    fn pop_qp(&mut self, queue: u32, bytes: u32) -> Option<u32> {
        let qp = queue - self.buffers.len() as u32;
        let pair = &mut self.qps[qp as usize];
        let segment = pair.cut(self.settings.mtu_bytes)?;
        self.counts.sent += 1;
        let packet = Packet {
            tail_ps: 0,
            qp,
            to: pair.to,
            channel: pair.channel,
            number: segment.number,
            bytes,
            level: pair.level,
            lane: pair.lane,
            is_last: segment.is_last,
        };
        match self.unused.pop(&self.next_packet) {
            Some(index) => {
                self.packets[index as usize] = packet;
                Some(index)
            }
            None => {
                self.packets.push(packet);
                self.next_packet.push(NIL);
                Some(self.packets.len() as u32 - 1)
            }
        }
    }

    /// The packet behind the one that left asks for its output port.
    #[inline]
    fn next_head(&mut self, queue: u32, channel: u32) {
        let head = self.buffers[queue as usize].head;
        if head == NIL {
            return;
        }
        let Packet { bytes, to, level, .. } = self.packets[head as usize];
        self.head_bytes[queue as usize] = bytes;
        if let Node::Switch(switch) = self.ports[channel as usize].to {
            self.request_head(queue, switch, to, level);
        }
    }

    /// The queue pair goes on until its turn is over; then it stands behind the others of its lane.
    fn next_turn(&mut self, qp: u32) {
        let pair = &mut self.qps[qp as usize];
        pair.turn = (pair.turn + 1) % self.settings.turn_packets;
        let goes_on = pair.turn != 0;
        self.request_qp(qp, goes_on);
    }

    /// Checks what must hold at any time between two events: every block that a sender counts as taken is a packet on the wire or in the buffer, or on its way back.
    pub fn audit(&self) -> Result<(), String> {
        let mut expected = vec![0u32; self.buffers.len()];
        let mut is_unused = vec![false; self.packets.len()];
        let mut at = self.unused.head;
        while at != NIL {
            is_unused[at as usize] = true;
            at = self.next_packet[at as usize];
        }
        for packet in self.packets.iter().zip(&is_unused).filter(|(_, unused)| !**unused).map(|(packet, _)| packet) {
            // A packet at a host has given its blocks back when its writing began.
            let is_written =
                matches!(self.ports[packet.channel as usize].to, Node::Host(_)) && packet.tail_ps <= self.now_ps;
            if !is_written {
                expected[packet.channel as usize * self.lanes + usize::from(packet.lane)] +=
                    packet.bytes.div_ceil(BLOCK_BYTES);
            }
        }
        for (channel, credits) in self.credits.iter().enumerate() {
            if !credits.is_sound() {
                return Err(format!("channel {channel} has more credits taken than there are"));
            }
            for lane in 0..self.lanes {
                let (used, returning) = credits.in_use(lane);
                let held = expected[channel * self.lanes + lane];
                if used != held + returning && !self.arrives_now(channel) {
                    return Err(format!(
                        "channel {channel}, lane {lane}: {used} blocks taken, {held} held, {returning} on their way back"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Whether a packet's last byte arrives at a host at this very time: its event may or may not have been.
    fn arrives_now(&self, channel: usize) -> bool {
        self.packets.iter().any(|packet| packet.channel as usize == channel && packet.tail_ps == self.now_ps)
    }
}

/// The tables of a port.
#[inline]
fn tables(settings: &Settings, from_host: bool) -> &PortTables {
    if from_host { &settings.tables.hosts } else { &settings.tables.switches }
}

impl Settings {
    /// What a whole packet takes on a link.
    fn packet_ps(&self) -> u64 {
        u64::from(self.wire_bytes(self.mtu_bytes)) * u64::from(self.link_ps_per_byte)
    }
}
