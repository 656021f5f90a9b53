//! Queue pairs: what hosts have to send, message by message, and what is on its way.

use std::collections::VecDeque;

/// Number of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Qp(pub u32);

/// A message that has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivered {
    /// The queue pair that carried it.
    pub qp: Qp,
    /// What its sender named it.
    pub tag: u64,
    /// When it was given to the queue pair, in ps.
    pub posted_ps: u64,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    tag: u64,
    posted_ps: u64,
}

/// A packet that leaves a queue pair.
pub(super) struct Segment {
    /// It ends its message.
    pub is_last: bool,
    /// Counts the packets of the queue pair.
    pub number: u32,
}

/// One direction of a connection: packets of one service level from a host to another one.
#[derive(Debug)]
pub(super) struct QueuePair {
    pub channel: u32,
    pub to: u32,
    pub level: u8,
    pub lane: u8,
    /// Bytes of each message that is not sent yet; of the first one what is left of it.
    unsent: VecDeque<u32>,
    /// Messages that have not arrived.
    on_the_way: VecDeque<Message>,
    packets: u32,
    /// Packets of this turn.
    pub turn: u32,
}

impl QueuePair {
    pub fn new(channel: u32, to: u32, level: u8, lane: u8) -> QueuePair {
        QueuePair {
            channel,
            to,
            level,
            lane,
            unsent: VecDeque::new(),
            on_the_way: VecDeque::new(),
            packets: 0,
            turn: 0,
        }
    }

    /// Adds a message. Returns whether there was nothing to send before.
    pub fn post(&mut self, bytes: u32, tag: u64, now_ps: u64) -> bool {
        self.unsent.push_back(bytes);
        self.on_the_way.push_back(Message { tag, posted_ps: now_ps });
        self.unsent.len() == 1
    }

    /// Payload of the next packet. An empty message is one packet.
    pub fn next_bytes(&self, mtu: u32) -> Option<u32> {
        self.unsent.front().map(|left| (*left).min(mtu))
    }

    /// Cuts the next packet off.
    pub fn cut(&mut self, mtu: u32) -> Option<Segment> {
        let left = self.unsent.front_mut()?;
        *left -= (*left).min(mtu);
        let is_last = *left == 0;
        if is_last {
            self.unsent.pop_front();
        }
        self.packets += 1;
        Some(Segment { is_last, number: self.packets - 1 })
    }

    /// The oldest message has arrived.
    pub fn delivered(&mut self, qp: Qp) -> Option<Delivered> {
        self.on_the_way.pop_front().map(|Message { tag, posted_ps }| Delivered { qp, tag, posted_ps })
    }

    /// Messages that have not arrived.
    pub fn missing(&self) -> usize {
        self.on_the_way.len()
    }
}
