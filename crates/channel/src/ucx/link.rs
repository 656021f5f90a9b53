//! One link: a lane of a pair of processes, its endpoint and its two directions.
//!
//! ```text
//! Idle ─ dialled, or greeted ─► Active ─ close_lane ─► Closing ─ both have said CLOSE ─► Idle
//!                                 │ └─ the peer has left ─► Finished
//!                                 └─ endpoint failed, or peer dead ─► Failing ─ all operations over, all packets read ─► Lost
//! ```
//! Each direction is opened by a hello with a generation of its own and a token.

use super::flow::{Order, Window};
use super::wire::{Front, Hello};
use base::Peer;
use std::collections::HashMap;
use std::time::Instant;
use ucx::{EndpointId, Payload, RemoteKey};

/// See the head of this file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// There is no endpoint.
    Idle,
    /// There is an endpoint.
    Active,
    /// This process has suspended its lane.
    Closing,
    /// No more can be sent, and nothing new arrives.
    Failing,
    /// One of the two has left in good order.
    Finished,
    /// The peer is gone.
    Lost,
}

/// A packet that has arrived, or the last message of its direction.
#[derive(Debug)]
pub struct Incoming {
    /// What stands before the data.
    pub front: Front,
    /// The data.
    pub payload: Payload,
}

/// What is known of a registration of the peer.
#[derive(Clone, Copy, Debug)]
pub enum Remote {
    /// The peer was asked.
    Asked,
    /// It can be reached.
    Known {
        /// Its key.
        key: RemoteKey,
        /// Where it begins.
        address: u64,
        /// Its bytes.
        len: u64,
    },
    /// There is no such registration.
    Refused,
}

/// Whether accesses are flushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Flush {
    /// Nothing is under way.
    #[default]
    Idle,
    /// It was started when so many accesses had been.
    Running(u64),
}

/// See the head of this file.
pub struct Link {
    pub peer: Peer,
    /// Its number among those of the pair.
    pub lane: u8,
    /// Index of its worker.
    pub worker: usize,
    pub state: State,
    pub endpoint: Option<EndpointId>,
    /// How many endpoints there have been: events name them.
    pub incarnation: u32,
    /// The last endpoint is being closed.
    pub leaves_endpoint: bool,
    /// Address of the peer's worker.
    pub address: Vec<u8>,
    /// Random identity of the peer.
    pub rank_id: u128,
    /// Generations of the hellos of both sides, and the tokens of their directions; 0: none.
    pub generation: u64,
    pub own_token: u64,
    pub their_generation: u64,
    pub their_token: u64,
    /// When this process has sent its hello and not got an answer.
    pub dialled: Option<Instant>,
    /// The peer has accepted this process's hello.
    pub is_accepted: bool,
    /// The lane was shown to the engine.
    pub is_opened: bool,
    /// The peer's last message has arrived.
    pub is_left: bool,
    pub closing_since: Option<Instant>,
    /// What to do when the link is closed.
    pub redials: bool,
    pub pending_hello: Option<Box<Hello>>,
    pub window: Window,
    pub order: Order<Incoming>,
    /// It is among those that have packets to show.
    pub is_queued: bool,
    /// A payload is on its way into the program's memory: what follows waits.
    pub is_landing: bool,
    /// Operations with the program's memory.
    pub posted: usize,
    pub remote: HashMap<(u32, u64), Remote>,
    /// Accesses so far, and how many of them are known to be visible.
    pub accesses: u64,
    pub flushed: u64,
    pub flush: Flush,
}

impl Link {
    pub fn new(peer: Peer, lane: u8, worker: usize) -> Link {
        Link {
            peer,
            lane,
            worker,
            state: State::Idle,
            endpoint: None,
            incarnation: 0,
            leaves_endpoint: false,
            address: Vec::new(),
            rank_id: 0,
            generation: 0,
            own_token: 0,
            their_generation: 0,
            their_token: 0,
            dialled: None,
            is_accepted: false,
            is_opened: false,
            is_left: false,
            closing_since: None,
            redials: false,
            pending_hello: None,
            window: Window::default(),
            order: Order::default(),
            is_queued: false,
            is_landing: false,
            posted: 0,
            remote: HashMap::new(),
            accesses: 0,
            flushed: 0,
            flush: Flush::Idle,
        }
    }

    /// The state after a suspension: only generations go on.
    pub fn reset(&mut self) {
        let old = std::mem::replace(self, Link::new(self.peer, self.lane, self.worker));
        (self.incarnation, self.rank_id, self.address) = (old.incarnation, old.rank_id, old.address);
        (self.generation, self.their_generation) = (old.generation, old.their_generation);
        (self.redials, self.pending_hello) = (old.redials, old.pending_hello);
        // An entry in the queue is only a hint.
        self.is_queued = old.is_queued;
    }

    /// Whether packets can be sent.
    #[inline]
    pub fn is_sendable(&self) -> bool {
        self.state == State::Active && self.is_accepted && !self.is_left
    }

    /// Whether anything has been agreed with the peer that a failure would break.
    pub fn is_in_use(&self) -> bool {
        self.is_opened || self.order.has_begun()
    }

    /// Whether nothing of it is left to be done or read.
    pub fn is_drained(&self) -> bool {
        self.endpoint.is_none()
            && !self.leaves_endpoint
            && self.posted == 0
            && !self.is_landing
            && self.order.first().is_none()
    }
}
