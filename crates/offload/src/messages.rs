//! Messages between workers of different nodes: who may send what now, and what is done again when one of the two workers is replaced. No I/O.
//!
//! ```text
//! receiver's worker                              sender's worker
//! READY   route, number, room ────────────────►  kept until the send is begun
//!         ◄─────────────── route, number, offset, total, ≤ 64 KiB   DATA      written to the rank's memory at once
//! PLACED  route, number ──────────────────────►  the send is over
//!         ◄─────────────── route, number                            SEEN      the receiver's worker may forget the message
//! ```
//! The receiver asks, so nothing arrives that has no place, and no worker keeps data for others. Of each route one message is sent at a time; routes to one node take
//! turns, and so do nodes, beginning with the one after the own node, so that not all fill the same receiver.
//!
//! Invariants: a send is over only when its receiver has noted the message; until then its buffer holds the data. A message that isn't noted is sent again from its
//! first byte to, or by, a worker that has taken another one's place: until its receive is over nobody reads what is there. A message that is noted is not
//! forgotten before its sender's worker has seen `PLACED`, which is said again to each worker that takes its place.

use crate::packet::{Packet, What};
use base::{Class, Error, Result, log};
use mpi::coll::portable::remote::Route;
use protocol::transport::Outcome;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Receives of one node that may have been announced before their sends begin; more are nonsense.
const READY_MAX: usize = 1 << 20;

const FAILED: Error = Error::new(Class::ERR_OTHER, "the memory of a sender can't be read by its worker");

/// An operation of a rank: number of the rank, slot.
pub type Slot = (u64, u32);

/// One end of a message that a run has begun.
#[derive(Clone, Copy, Debug)]
pub struct Begun<E> {
    /// The end, as [`Ends`] knows it.
    pub end: E,
    /// Whose messages.
    pub route: Route,
    /// Which one of them.
    pub number: u64,
    /// Bytes, or room.
    pub bytes: u64,
}

/// What the runs do with their ends.
pub trait Ends {
    /// An end.
    type End: Copy;
    /// Reads bytes of a message that is sent.
    fn read(&mut self, end: &Self::End, offset: u64, into: &mut [u8]) -> Result;
    /// Writes bytes of a message that is received.
    fn write(&mut self, end: &Self::End, offset: u64, from: &[u8]) -> Result;
    /// The end is over; the message has `total` bytes.
    fn end(&mut self, end: &Self::End, total: u64, outcome: Result);
}

struct Sending<E> {
    begun: Begun<E>,
    /// What the receiver has room for, once it has said so.
    room: Option<u64>,
    /// Bytes that were sent.
    offset: u64,
    is_sent: bool,
    outcome: Result,
}

impl<E> Sending<E> {
    /// Where it ends.
    fn end(&self) -> u64 {
        self.begun.bytes.min(self.room.unwrap_or(0))
    }
}

struct Sends<E> {
    queue: VecDeque<Sending<E>>,
    /// It has a turn.
    is_active: bool,
}

struct Receiving<E> {
    begun: Begun<E>,
    /// Bytes that are there.
    received: u64,
}

/// What there is with the workers of one other node.
struct Node<E> {
    outbox: VecDeque<Packet>,
    /// A part of a message that the link has had no room for.
    part: Option<Packet>,
    bytes: Vec<u8>,
    ready: HashMap<Route, VecDeque<(u64, u64)>>,
    ready_count: usize,
    sends: HashMap<Route, Sends<E>>,
    /// Routes that have something to send, in turn.
    active: VecDeque<Route>,
    receives: HashMap<Route, VecDeque<Receiving<E>>>,
}

impl<E> Default for Node<E> {
    fn default() -> Node<E> {
        Node {
            outbox: VecDeque::new(),
            part: None,
            bytes: Vec::new(),
            ready: HashMap::new(),
            ready_count: 0,
            sends: HashMap::new(),
            active: VecDeque::new(),
            receives: HashMap::new(),
        }
    }
}

/// Messages that are there, of which the sender's worker may not know it.
struct Placed {
    node: u32,
    number: u64,
    /// The operation that has received them, once it has ended.
    slot: Option<Slot>,
}

/// See the head of this file.
pub struct Messages<E> {
    me: u32,
    nodes: BTreeMap<u32, Node<E>>,
    placed: HashMap<Route, Placed>,
    /// Operations that have ended, and how many of their routes wait for `SEEN`.
    held: HashMap<Slot, usize>,
    released: Vec<Slot>,
}

impl<E: Copy> Messages<E> {
    /// Those of a worker of node `me`.
    pub fn new(me: u32) -> Messages<E> {
        Messages { me, nodes: BTreeMap::new(), placed: HashMap::new(), held: HashMap::new(), released: Vec::new() }
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        let idle = |node: &Node<E>| {
            node.outbox.is_empty() && node.part.is_none() && node.sends.is_empty() && node.receives.is_empty()
        };
        self.placed.is_empty() && self.nodes.values().all(idle)
    }

    /// Nodes for which there is something to send.
    pub fn wanted(&self) -> impl Iterator<Item = u32> {
        let has = |node: &Node<E>| !node.outbox.is_empty() || node.part.is_some() || !node.sends.is_empty();
        self.nodes.iter().filter(move |(_, node)| has(node)).map(|(number, _)| *number)
    }

    /// A send to a process of `node` has begun.
    pub fn begin_send(&mut self, node: u32, begun: Begun<E>) {
        let node = self.nodes.entry(node).or_default();
        let mut room = None;
        if let Some(ready) = node.ready.get_mut(&begun.route) {
            if let Some(at) = ready.iter().position(|(number, _)| *number == begun.number) {
                room = ready.remove(at).map(|(_, room)| room);
                node.ready_count -= 1;
            }
            if ready.is_empty() {
                node.ready.remove(&begun.route);
            }
        }
        let sends = node.sends.entry(begun.route).or_insert(Sends { queue: VecDeque::new(), is_active: false });
        sends.queue.push_back(Sending { begun, room, offset: 0, is_sent: false, outcome: Ok(()) });
        node.activate(begun.route);
    }

    /// A receive from a process of `node` has begun.
    pub fn begin_receive(&mut self, node: u32, begun: Begun<E>) {
        let node = self.nodes.entry(node).or_default();
        node.outbox.push_back(ready_of(&begun));
        node.receives.entry(begun.route).or_default().push_back(Receiving { begun, received: 0 });
    }

    /// A packet of the worker of `node`.
    pub fn on_packet(&mut self, from: u32, packet: &Packet, payload: &[u8], ends: &mut impl Ends<End = E>) {
        let Packet { route, number, what } = *packet;
        match what {
            What::Ready { room } => self.nodes.entry(from).or_default().on_ready(route, number, room),
            What::Data { offset, total } => {
                if let Some(outcome) = self.write(from, packet, (offset, total), payload, ends) {
                    self.received(from, packet, total, outcome, ends);
                }
            }
            What::Failed => self.received(from, packet, 0, Err(FAILED), ends),
            What::Placed => {
                let node = self.nodes.entry(from).or_default();
                node.on_placed(route, number, ends);
                node.outbox.push_back(Packet { what: What::Seen, ..*packet });
            }
            What::Seen => self.on_seen(route, number),
        }
    }

    /// Writes a part; how the receive has ended if it is the last one.
    fn write(
        &mut self,
        from: u32,
        packet: &Packet,
        (offset, total): (u64, u64),
        payload: &[u8],
        ends: &mut impl Ends<End = E>,
    ) -> Option<Result> {
        // A receive that is over, or was dropped.
        let receives = self.nodes.get_mut(&from)?.receives.get_mut(&packet.route)?;
        let receiving = receives.iter_mut().find(|receiving| receiving.begun.number == packet.number)?;
        if offset == 0 {
            receiving.received = 0;
        }
        let (len, wanted) = (payload.len() as u64, total.min(receiving.begun.bytes));
        if offset != receiving.received || offset.checked_add(len).is_none_or(|end| end > wanted) {
            log!(Error, "a worker of node {from} has sent {len} bytes for place {offset} of {wanted}; dropped");
            return None;
        }
        if let Err(error) = ends.write(&receiving.begun.end, offset, payload) {
            return Some(Err(error));
        }
        receiving.received += len;
        (receiving.received == wanted).then_some(Ok(()))
    }

    /// A receive is over.
    fn received(&mut self, from: u32, packet: &Packet, total: u64, outcome: Result, ends: &mut impl Ends<End = E>) {
        let Packet { route, number, .. } = *packet;
        let Some(node) = self.nodes.get_mut(&from) else { return };
        let Some(receives) = node.receives.get_mut(&route) else { return };
        let Some(at) = receives.iter().position(|receiving| receiving.begun.number == number) else { return };
        let Some(receiving) = receives.remove(at) else { return };
        if receives.is_empty() {
            node.receives.remove(&route);
        }
        ends.end(&receiving.begun.end, total, outcome);
        self.restore(from, route, number, None);
    }

    /// So many messages of this route are there; `slot` is the operation if it has ended.
    pub fn restore(&mut self, from: u32, route: Route, number: u64, slot: Option<Slot>) {
        self.placed.insert(route, Placed { node: from, number, slot });
        if let Some(slot) = slot {
            *self.held.entry(slot).or_default() += 1;
        }
        self.nodes.entry(from).or_default().outbox.push_back(Packet { route, number, what: What::Placed });
    }

    fn on_seen(&mut self, route: Route, number: u64) {
        let Some(placed) = self.placed.get(&route).filter(|placed| placed.number <= number) else { return };
        if let Some(slot) = placed.slot
            && let Some(left) = self.held.get_mut(&slot)
        {
            *left -= 1;
            if *left == 0 {
                self.held.remove(&slot);
                self.released.push(slot);
            }
        }
        self.placed.remove(&route);
    }

    /// How many messages of a route are there, if its sender's worker may not know that.
    pub fn unseen(&self, route: &Route) -> Option<u64> {
        self.placed.get(route).map(|placed| placed.number)
    }

    /// The operation that has received from these routes, all of them unseen, has ended.
    pub fn hold<'a>(&mut self, slot: Slot, routes: impl Iterator<Item = &'a Route>) {
        for route in routes {
            if let Some(placed) = self.placed.get_mut(route) {
                placed.slot = Some(slot);
                *self.held.entry(slot).or_default() += 1;
            }
        }
    }

    /// Operations that were held and are not any more, since the last call.
    pub fn take_released(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.released)
    }

    /// Another worker has taken the place of the one of `node`.
    pub fn restart(&mut self, number: u32) {
        let node = self.nodes.entry(number).or_default();
        (node.part, node.ready_count) = (None, 0);
        node.outbox.clear();
        node.ready.clear();
        node.active.clear();
        for sends in node.sends.values_mut() {
            sends.is_active = false;
            for sending in &mut sends.queue {
                (sending.room, sending.offset, sending.is_sent) = (None, 0, false);
            }
        }
        for receiving in node.receives.values_mut().flatten() {
            receiving.received = 0;
            node.outbox.push_back(ready_of(&receiving.begun));
        }
        for (route, placed) in self.placed.iter().filter(|(_, placed)| placed.node == number) {
            node.outbox.push_back(Packet { route: *route, number: placed.number, what: What::Placed });
        }
    }

    /// A rank of this node is gone, with all its operations.
    pub fn forget_rank(&mut self, rank: u64) {
        self.placed.retain(|route, _| route.to != rank);
        self.held.retain(|(owner, _), _| *owner != rank);
        for node in self.nodes.values_mut() {
            node.forget(|route| route.from == rank, |route| route.to == rank);
        }
    }

    /// A rank of another node is gone: nothing is sent to it any more, and nobody asks for what it has sent. Operations with it are dropped by their own ranks.
    pub fn forget_peer(&mut self, rank: u64) {
        for route in self.placed.keys().filter(|route| route.from == rank).copied().collect::<Vec<_>>() {
            self.on_seen(route, u64::MAX);
        }
        for node in self.nodes.values_mut() {
            node.ready.retain(|route, _| route.to != rank);
            node.ready_count = node.ready.values().map(VecDeque::len).sum();
        }
    }

    /// A run was given up: its ends are no more.
    pub fn forget_ends(&mut self, is_of_run: impl Fn(&E) -> bool) {
        for node in self.nodes.values_mut() {
            for sends in node.sends.values_mut() {
                sends.queue.retain(|sending| !is_of_run(&sending.begun.end));
            }
            for receives in node.receives.values_mut() {
                receives.retain(|receiving| !is_of_run(&receiving.begun.end));
            }
            node.sends.retain(|_, sends| !sends.queue.is_empty());
            node.receives.retain(|_, receives| !receives.is_empty());
        }
    }

    /// Sends what can be sent: `send` puts a packet on the link to the worker of a node. Data go in parts of at most `part_max` bytes.
    pub fn push(
        &mut self,
        part_max: usize,
        ends: &mut impl Ends<End = E>,
        mut send: impl FnMut(u32, &Packet, &[u8]) -> Outcome,
    ) {
        let (after, before): (Vec<u32>, Vec<u32>) = self.nodes.keys().partition(|number| **number > self.me);
        let mut open: Vec<u32> = after.into_iter().chain(before).collect();
        // One part to each node in a turn.
        while !open.is_empty() {
            open.retain(|number| {
                let Some(node) = self.nodes.get_mut(number) else { return false };
                node.push(part_max, ends, |packet, bytes| send(*number, packet, bytes))
            });
        }
    }
}

fn ready_of<E>(begun: &Begun<E>) -> Packet {
    Packet { route: begun.route, number: begun.number, what: What::Ready { room: begun.bytes } }
}

impl<E: Copy> Node<E> {
    fn on_ready(&mut self, route: Route, number: u64, room: u64) {
        let known = self.sends.get_mut(&route).map(|sends| &mut sends.queue);
        if let Some(sending) = known.and_then(|queue| queue.iter_mut().find(|sending| sending.begun.number == number)) {
            sending.room.get_or_insert(room);
            return self.activate(route);
        }
        if self.ready_count == READY_MAX {
            log!(Error, "a worker has announced too many receives; dropped");
            return;
        }
        self.ready_count += 1;
        self.ready.entry(route).or_default().push_back((number, room));
    }

    /// All messages of the route up to this one are there.
    fn on_placed(&mut self, route: Route, number: u64, ends: &mut impl Ends<End = E>) {
        let Some(sends) = self.sends.get_mut(&route) else { return };
        while let Some(sending) = sends.queue.pop_front_if(|sending| sending.begun.number <= number) {
            ends.end(&sending.begun.end, sending.begun.bytes, sending.outcome);
        }
        if sends.queue.is_empty() {
            self.sends.remove(&route);
        }
        // The next message may have waited for this one.
        self.activate(route);
    }

    /// Gives a route its turn, if it has something to send.
    fn activate(&mut self, route: Route) {
        let Some(sends) = self.sends.get_mut(&route).filter(|sends| !sends.is_active) else { return };
        if sends.queue.iter().find(|sending| !sending.is_sent).is_some_and(|sending| sending.room.is_some()) {
            sends.is_active = true;
            self.active.push_back(route);
        }
    }

    fn forget(&mut self, sends: impl Fn(&Route) -> bool, receives: impl Fn(&Route) -> bool) {
        self.sends.retain(|route, _| !sends(route));
        self.ready.retain(|route, _| !sends(route));
        self.ready_count = self.ready.values().map(VecDeque::len).sum();
        self.receives.retain(|route, _| !receives(route));
    }

    /// Sends packets without data, and one part. False if nothing more can be sent now.
    fn push(
        &mut self,
        part_max: usize,
        ends: &mut impl Ends<End = E>,
        mut send: impl FnMut(&Packet, &[u8]) -> Outcome,
    ) -> bool {
        while let Some(packet) = self.outbox.front() {
            if send(packet, &[]) != Outcome::Done {
                return false;
            }
            self.outbox.pop_front();
        }
        if self.part.is_none() {
            self.part = self.next_part(part_max, ends);
        }
        match &self.part {
            Some(packet) if send(packet, &self.bytes) == Outcome::Done => {
                self.part = None;
                true
            }
            _ => false,
        }
    }

    /// The next part of the route whose turn it is, with its bytes.
    fn next_part(&mut self, part_max: usize, ends: &mut impl Ends<End = E>) -> Option<Packet> {
        loop {
            let route = self.active.pop_front()?;
            let Some(sends) = self.sends.get_mut(&route) else { continue };
            sends.is_active = false;
            let Some(sending) = sends.queue.iter_mut().find(|sending| !sending.is_sent) else { continue };
            if sending.room.is_none() {
                continue;
            }
            let (offset, total, number) = (sending.offset, sending.begun.bytes, sending.begun.number);
            let len = (sending.end() - offset).min(part_max as u64);
            self.bytes.resize(len as usize, 0);
            let read = ends.read(&sending.begun.end, offset, &mut self.bytes);
            sending.offset += len;
            sending.is_sent = read.is_err() || sending.offset == sending.end();
            let what = match read {
                Ok(()) => What::Data { offset, total },
                Err(error) => {
                    self.bytes.clear();
                    sending.outcome = Err(error);
                    What::Failed
                }
            };
            // Of a rank that is gone others learn from their agents.
            let is_gone = sending.outcome.is_err_and(|error| error.class == Class::ERR_PROC_ABORTED);
            self.activate(route);
            if !is_gone {
                return Some(Packet { route, number, what });
            }
        }
    }
}

#[cfg(test)]
mod tests;
