//! What a process knows about one of its links with a peer.

use super::conn::{Conn, Link};
use super::dial::Dial;
use super::health::Health;
use super::hello::{LinkId, Terms};
use super::rails::Rail;
use std::net::SocketAddr;
use std::time::Instant;

pub(super) enum State {
    Idle,
    Open(Box<Conn>),
    Broken(Box<Broken>),
    Finished,
    Lost,
}

/// A link without a connection: both sides try to connect again, and the node agent may say that the peer is dead.
pub(super) struct Broken {
    pub link: Link,
    pub since: Instant,
    pub why: String,
}

pub(super) struct Slot {
    pub id: LinkId,
    pub state: State,
    pub dial: Option<Box<Dial>>,
    /// An introduced connection that waits until our own dialling has failed; index of its handshake.
    pub parked: Option<usize>,
    /// When the agent told that the peer is dead.
    pub dead_since: Option<Instant>,
    /// Where the peer can be dialled; empty while only it knows how to reach us.
    pub addresses: Vec<SocketAddr>,
    /// The peer has moved, and no connection has been opened at its new addresses.
    pub is_moving: bool,
    /// The endpoint is suspended, and its connections are closed without being made again.
    pub is_resting: bool,
    /// The other end of the last connection.
    pub known: Option<SocketAddr>,
    /// Number of the last connection that was opened, and the largest that was ever proposed: an answer may have been lost.
    pub opened: u64,
    pub proposed: u64,
    /// What joins the two hosts, if it is more than one network; and which of them is the link's.
    pub rails: Vec<Rail>,
    pub home: usize,
    pub health: Health,
    /// How many connections somebody has tampered with since the link had received so many bytes.
    pub harmed: (u32, u64),
}

impl Slot {
    pub fn new(id: LinkId) -> Slot {
        Slot {
            id,
            state: State::Idle,
            dial: None,
            parked: None,
            dead_since: None,
            addresses: Vec::new(),
            is_moving: false,
            is_resting: false,
            known: None,
            opened: 0,
            proposed: 0,
            rails: Vec::new(),
            home: 0,
            health: Health::default(),
            harmed: (0, 0),
        }
    }

    /// The link, if there is one.
    pub fn link(&self) -> Option<&Link> {
        match &self.state {
            State::Open(conn) => Some(conn.link()),
            State::Broken(broken) => Some(&broken.link),
            State::Idle | State::Finished | State::Lost => None,
        }
    }

    /// Our terms for the connection of this number.
    pub fn terms(&mut self, connection: u64) -> Terms {
        self.proposed = self.proposed.max(connection);
        Terms { connection, received: self.link().map_or(0, |link| link.received()) }
    }

    /// Whether the peer can have received so much and no more.
    pub fn may_resume(&self, received: u64) -> bool {
        self.link().map_or(received == 0, |link| link.may_resume(received))
    }

    /// The rail of one of the peer's addresses.
    pub fn rail_to(&self, address: SocketAddr) -> Option<&Rail> {
        self.rails.iter().find(|rail| rail.remote == address)
    }

    /// The peer's addresses: that of the link's own rail first and of one that has failed after the other rails'; without rails the one first that led to the
    /// last connection.
    pub fn addresses_to_dial(&self) -> Vec<SocketAddr> {
        let mut addresses = self.addresses.clone();
        let place = |address: &SocketAddr| match self.rails.iter().position(|rail| rail.remote == *address) {
            Some(rail) if Some(rail) == self.health.failed => 3,
            Some(rail) if rail == self.home => 1,
            Some(_) => 2,
            None if self.rails.is_empty() && Some(*address) == self.known => 0,
            None => 4,
        };
        addresses.sort_by_key(place);
        addresses
    }
}
