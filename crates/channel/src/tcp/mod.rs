//! The network lane: packets over TCP, connected on demand.
//!
//! [`Net`] owns the listener, the connections in their handshake and the open ones, one per link; a peer has one link, or several
//! (`FERRULE_LANES`), which are lanes of one endpoint. `intro.rs` and `settle.rs` bring
//! connections from the first byte to open, this file uses them. A link has a *slot* from the moment that its peer is dialled or has
//! introduced itself.
//!
//! ```text
//! slot: Idle ─ dialled, or introduced ─► Open ─ goodbye, end ─► Finished
//!         │                              │  ▲
//!         │      end without goodbye     ▼  │ connected again, by either side
//!         └─ no address answers ─► Lost ◄─ Broken
//!                                       └─ time is over, nobody listens any more, or news from the agent
//! ```
//! A link goes on over broken connections (`conn.rs`); only a peer that can't be reached over one of its links, or is dead, is lost.
//! With few connections each is read at every poll; with many, epoll says which. Strangers never disturb: they are
//! dropped, counted and logged once per kind.

pub mod classes;
pub mod conn;
mod dial;
mod ends;
pub mod frame;
mod health;
pub mod hello;
pub mod ids;
mod intro;
pub mod listen_at;
mod pending;
pub mod rails;
pub mod record;
mod rest;
pub mod security;
mod settle;
mod slot;
pub mod stream;

use crate::buffer::{RecvBuf, SendBuf};
use base::Peer;
use classes::Classes;
use conn::{Conn, Polled, Sizes};
use frame::FRAME_BYTES;
use hello::{Identity, LinkId, Stranger};
use pending::Pending;
use protocol::kind::BODY_MAX;
use protocol::lanes::LanePlan;
use protocol::transport::{Caps, Delivery, Outcome, Token};
use protocol::wire::Header;
use rails::Nic;
use slot::{Slot, State};
use std::collections::{HashMap, VecDeque};
use std::mem::Discriminant;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};
use sys::epoll::{Epoll, Interest, Ready};

base::config! {
    /// Ports that TCP listeners may use, as `first-last`; empty lets the kernel choose.
    PORT_RANGE: text = "";
    /// Where mpiexec, node agents and ranks listen, and what they tell others to call: an address, a network (10.1.0.0/16: each host
    /// finds its own address in it) or an interface; empty for every address.
    LISTEN: text = "";
    /// Largest message that is sent over TCP without asking the receiver; the same on all ranks.
    TCP_EAGER_MAX: u64 = 65536, 256..=1048576, "bytes";
    /// Largest message that is sent over TCP without asking the receiver and without a copy, if there is one lane. What nobody receives yet waits in the receiver's memory.
    /// 0: the receiver is asked for all that is larger than `TCP_EAGER_MAX`.
    TCP_PUSH_MAX: u64 = 1048576, 0..=16777216, "bytes";
    /// Largest piece of a streamed message; the same on all ranks.
    TCP_PACKET_MAX: u64 = 1048576, 4096..=16777216, "bytes";
    /// Largest piece that the kernel is given at once, which travels while the next one is copied; less if that makes whole segments.
    TCP_WRITE_MAX: u64 = 524288, 4096..=1073741824, "bytes";
    /// How long a peer is dialled at all of its addresses before it is given up.
    TCP_CONNECT_TIMEOUT_MS: u64 = 30000, 1..=3600000, "ms";
    /// Whether a broken connection is made again; the same on all ranks.
    TCP_RECONNECT: bool = true;
    /// How long a broken connection may stay so before the peer is given up.
    TCP_RECONNECT_TIMEOUT_MS: u64 = 30000, 1..=3600000, "ms";
    /// How long the peer's address of a broken connection may refuse connections before the peer is given up.
    TCP_REFUSED_TIMEOUT_MS: u64 = 1000, 1..=3600000, "ms";
    /// What is kept of small packets that a peer's process has not acknowledged, in case of a reconnect; at least room for two of the largest; the same on all ranks.
    TCP_REPLAY_MAX: u64 = 2097152, 4096..=1073741824, "bytes";
    /// How connections between ranks are protected: none; mac, so that nobody can change what goes over them; encrypt, so that nobody can read it
    /// either. The same on all ranks.
    TCP_SECURITY: text = "none";
    /// How long whoever connects may take to introduce himself.
    TCP_HELLO_TIMEOUT_MS: u64 = 10000, 1..=3600000, "ms";
    /// Connections that may wait to be introduced; the oldest makes room for a new one.
    TCP_HALF_OPEN_MAX: u64 = 512, 1..=65536, "connections";
    /// How long sent bytes may stay unacknowledged before the connection is given up; 0 leaves it to the kernel.
    TCP_USER_TIMEOUT_MS: u64 = 60000, 0..=86400000, "ms";
    /// Silence after which the kernel asks whether the peer's host is still there; 0 for never.
    TCP_KEEPALIVE_S: u64 = 30, 0..=86400, "s";
    /// The kernel's send buffer of a connection; 0 leaves it to the kernel.
    TCP_SEND_BUFFER: u64 = 0, 0..=1073741824, "bytes";
    /// The kernel's receive buffer of a connection; 0 leaves it to the kernel.
    TCP_RECEIVE_BUFFER: u64 = 0, 0..=1073741824, "bytes";
}

/// How long a peer is dialled.
pub fn connect_timeout() -> Duration {
    Duration::from_millis(TCP_CONNECT_TIMEOUT_MS.value())
}

/// Up to so many connections are read without asking epoll first.
const DIRECT_MAX: usize = 4;
/// Polls between two looks at listener, handshakes and timers when nothing is known to happen there.
const ATTEND_EVERY: u32 = 64;
/// Tokens of this module in the epoll set have one of these in their upper half.
const TOKEN_LISTENER: u64 = 3 << 32;
const TOKEN_CONN: u64 = 4 << 32;
const TOKEN_PENDING: u64 = 5 << 32;
const TOKEN_INDEX: u64 = (1 << 32) - 1;

/// What a poll brings.
#[derive(Debug)]
pub enum NetEvent {
    /// A packet, to be given back by [`Net::release`] before the next poll.
    Packet(NetPacket),
    /// A landing payload is complete.
    Landed {
        /// Who sent it.
        peer: Peer,
        /// The packet's header.
        header: Header,
        /// Bytes delivered.
        len: usize,
    },
    /// All of a packet that was to be gathered.
    Gathered {
        /// Who sent it.
        peer: Peer,
        /// The packet's header.
        header: Header,
        /// All of it.
        payload: Box<[u8]>,
    },
    /// The source of a packet that was `Posted` is no longer in use.
    Sent(Token),
    /// The peer can't be reached any more, and why.
    Lost(Peer, String),
}

/// A packet in the buffer of its connection.
#[derive(Clone, Copy, Debug)]
pub struct NetPacket {
    /// Who sent it.
    pub peer: Peer,
    /// What it is.
    pub header: Header,
    /// Bytes of its payload.
    pub len: usize,
    slot: u32,
}

/// All TCP connections of one process.
pub struct Net {
    id: Identity,
    sizes: Sizes,
    /// Largest message that is pushed.
    push_max: usize,
    epoll: Arc<Epoll>,
    listener: Option<TcpListener>,
    /// Listening pauses until then, because there are no descriptors left.
    paused_until: Option<Instant>,
    addresses: Vec<SocketAddr>,
    slots: Vec<Slot>,
    by_link: HashMap<LinkId, u32>,
    /// Links with each peer.
    links: u8,
    classes: Classes,
    /// Interfaces that may be rails.
    nics: Vec<Nic>,
    /// When rails are looked at next; `None` while no link has any.
    look_at: Option<Instant>,
    /// Slots with an open connection.
    open: Vec<u32>,
    /// Slots whose connection has something to send that the kernel didn't take.
    full: Vec<u32>,
    current: Option<u32>,
    cursor: usize,
    pendings: Vec<Option<Pending>>,
    handshakes: usize,
    /// Slots that wait for a timer: dialling, broken, or dead.
    timed: usize,
    ready: Vec<Ready>,
    readable: Vec<u32>,
    events: VecDeque<NetEvent>,
    /// Kinds of strangers that were logged.
    strangers_logged: Vec<Discriminant<Stranger>>,
    tick: u32,
    closing: bool,
}

/// The sizes that the settings ask for.
fn configured_sizes() -> Sizes {
    let [eager_max, packet_max, write_max] =
        [&TCP_EAGER_MAX, &TCP_PACKET_MAX, &TCP_WRITE_MAX].map(|size| size.value() as usize);
    let replay_max = (TCP_REPLAY_MAX.value() as usize).max(2 * (eager_max + FRAME_BYTES + BODY_MAX));
    let replay_max = if TCP_RECONNECT.value() { replay_max } else { 0 };
    Sizes { eager_max, packet_max: packet_max.max(eager_max), write_max, replay_max }
}

/// The plan of the lanes; whoever opens a [`Net`] has looked whether it can be read.
fn configured_lanes() -> LanePlan {
    LanePlan::configured().unwrap_or(LanePlan::SINGLE)
}

/// Stands for the settings that must be the same on all ranks, in the introduction.
pub fn format_number() -> u32 {
    let Sizes { eager_max, packet_max, replay_max, .. } = configured_sizes();
    // Multiplied by different primes, so that two differences don't cancel each other out.
    let lanes = configured_lanes().format_number() as usize;
    let settings =
        [(eager_max, 2_654_435_761), (packet_max, 2_246_822_519), (replay_max, 3_266_489_917), (lanes, 374_761_393)];
    let mixed =
        settings.into_iter().fold(0u64, |sum, (value, prime)| sum.wrapping_add((value as u64).wrapping_mul(prime)));
    (mixed ^ mixed >> 32) as u32
}

#[inline]
fn limits_of(sizes: Sizes, push_max: usize) -> Caps {
    let Sizes { eager_max, packet_max, .. } = sizes;
    Caps { packet_max, piece_min: packet_max, eager_max, fragments_max: 0, push_max, pull_min: usize::MAX }
}

/// What a connection can do, as far as the settings say.
pub fn configured_limits() -> Caps {
    limits_of(configured_sizes(), TCP_PUSH_MAX.value() as usize)
}

/// A listener that other jobs call, and its addresses.
pub fn listen_for_jobs() -> std::io::Result<(TcpListener, Vec<SocketAddr>)> {
    intro::listen(0, true)
}

impl Net {
    /// Listens on all interfaces. `with_loopback`: peers are (also) on this host.
    pub fn open(id: Identity, epoll: Arc<Epoll>, with_loopback: bool) -> std::io::Result<Net> {
        let classes = Classes::configured().map_err(std::io::Error::other)?;
        let (listener, addresses) = intro::listen(id.me().rank.0, with_loopback)?;
        use std::os::fd::AsFd;
        epoll.add(listener.as_fd(), TOKEN_LISTENER, Interest::READ)?;
        let sizes = configured_sizes();
        Ok(Net {
            id,
            sizes,
            push_max: TCP_PUSH_MAX.value() as usize,
            epoll,
            listener: Some(listener),
            paused_until: None,
            addresses,
            slots: Vec::new(),
            by_link: HashMap::new(),
            links: classes.plan.lanes() as u8,
            classes,
            nics: rails::nics(),
            look_at: None,
            open: Vec::new(),
            full: Vec::new(),
            current: None,
            cursor: 0,
            pendings: Vec::new(),
            handshakes: 0,
            timed: 0,
            ready: Vec::new(),
            readable: Vec::new(),
            events: VecDeque::new(),
            strangers_logged: Vec::new(),
            tick: 0,
            closing: false,
        })
    }

    /// What the listener is bound to.
    pub fn listens_at(&self) -> Option<SocketAddr> {
        self.listener.as_ref()?.local_addr().ok()
    }

    /// Where peers can dial this process.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Endpoint ids of this rank and of its peers: from now on callers must know them.
    pub fn ids(&mut self) -> &mut hello::Ids {
        &mut self.id.ids
    }

    /// From now on a process of another job may call and be called; both ends know `secret`. The first one of a pair stays.
    pub fn admit(&mut self, peer: Peer, secret: [u8; 16]) {
        let known = self.id.processes.borrow().id(peer);
        if let Some(id) = known {
            self.id.others.entry(id).or_insert(secret);
        }
    }

    /// Whether the kernel has taken everything that was sent.
    pub fn is_flushed(&self) -> bool {
        self.full.is_empty() && !self.slots.iter().any(|s| matches!(s.state, State::Broken(_)))
    }

    /// Whether all links with `peer` have their connections.
    pub fn is_connected(&self, peer: Peer) -> bool {
        let slots = self.slots_of(peer);
        slots.len() == usize::from(self.links)
            && slots.into_iter().all(|slot| matches!(self.slots[slot as usize].state, State::Open(_)))
    }

    /// The slots of a peer, in the order of its links.
    fn slots_of(&self, peer: Peer) -> Vec<u32> {
        (0..self.links).filter_map(|number| self.by_link.get(&LinkId { peer, number }).copied()).collect()
    }

    /// What a connection can do.
    #[inline]
    pub fn limits(&self) -> Caps {
        limits_of(self.sizes, self.push_max)
    }

    /// Whether there is any connection, or one in the making.
    #[inline]
    pub fn is_active(&self) -> bool {
        !self.open.is_empty() || self.handshakes > 0 || self.timed > 0 || !self.events.is_empty()
    }

    /// Whether epoll doesn't know of all that is left to do: what waits for room, and what may have been read and not been looked at.
    pub fn has_own_work(&self) -> bool {
        !self.full.is_empty() || self.has_unread()
    }

    /// Whether something may have been read and not been looked at.
    pub fn has_unread(&self) -> bool {
        !self.events.is_empty() || !self.readable.is_empty() || self.current.is_some()
    }

    /// How long a sleep may be: while peers are dialled, the next address has its time, and rails are looked at.
    pub fn sleep_limit(&self) -> Option<Duration> {
        let rails = self.look_at.is_some().then_some(health::LOOK);
        if self.timed > 0 { Some(dial::STAGGER) } else { rails }
    }

    /// Whether a connection broke and the agent could say why.
    pub fn wants_news(&self) -> bool {
        self.timed > 0 && self.slots.iter().any(|s| matches!(s.state, State::Broken(_)))
    }

    fn slot_of(&mut self, link: LinkId) -> u32 {
        let slots = &mut self.slots;
        *self.by_link.entry(link).or_insert_with(|| {
            slots.push(Slot::new(link));
            slots.len() as u32 - 1
        })
    }

    /// Sends a packet through a slot that [`Net::dial`] gave.
    #[inline]
    pub fn send(
        &mut self,
        slot: u32,
        header: &Header,
        body: &[u8],
        source: Option<(&SendBuf, usize, usize)>,
    ) -> Outcome {
        match &mut self.slots[slot as usize].state {
            State::Open(conn) => {
                let was_full = conn.is_full();
                let outcome = conn.send(header, body, source);
                if !was_full && conn.is_full() {
                    self.full.push(slot);
                }
                outcome
            }
            State::Idle | State::Broken(_) => Outcome::Again,
            State::Finished | State::Lost => Outcome::Lost,
        }
    }

    /// The next event.
    #[inline]
    pub fn poll(&mut self) -> Option<NetEvent> {
        self.tick = self.tick.wrapping_add(1);
        if !self.full.is_empty() {
            self.flush_full();
        }
        if !self.events.is_empty() {
            return self.events.pop_front();
        }
        if self.tick.is_multiple_of(ATTEND_EVERY) {
            // Also when there is traffic all the time: others must get their turn. What this connection has already read
            // is nothing that epoll would tell.
            if let Some(slot) = self.current.take()
                && !self.readable.contains(&slot)
            {
                self.readable.push(slot);
            }
            self.attend();
        }
        if let Some(slot) = self.current {
            if let Some(event) = self.poll_slot(slot) {
                return Some(event);
            }
            self.current = None;
        }
        if self.open.len() > DIRECT_MAX {
            return self.poll_many();
        }
        for _ in 0..self.open.len() {
            self.cursor = if self.cursor + 1 >= self.open.len() { 0 } else { self.cursor + 1 };
            let Some(slot) = self.open.get(self.cursor).copied() else { break };
            if let Some(event) = self.poll_slot(slot) {
                self.current = Some(slot);
                return Some(event);
            }
        }
        if self.handshakes > 0 {
            self.attend();
        }
        self.events.pop_front()
    }

    /// Asks epoll who has something.
    fn poll_many(&mut self) -> Option<NetEvent> {
        if self.readable.is_empty() {
            self.attend();
        }
        while let Some(slot) = self.readable.pop() {
            if let Some(event) = self.poll_slot(slot) {
                self.current = Some(slot);
                return Some(event);
            }
        }
        self.events.pop_front()
    }

    fn flush_full(&mut self) {
        let (slots, events) = (&mut self.slots, &mut self.events);
        self.full.retain(|slot| match &mut slots[*slot as usize].state {
            State::Open(conn) => {
                conn.flush();
                // Without reconnects a source is over when the kernel has it.
                events.extend(std::iter::from_fn(|| conn.pop_sent()).map(NetEvent::Sent));
                conn.is_full() && conn.send_error().is_none()
            }
            _ => false,
        });
    }

    #[inline]
    fn poll_slot(&mut self, index: u32) -> Option<NetEvent> {
        let slot = &mut self.slots[index as usize];
        let State::Open(conn) = &mut slot.state else { return None };
        let peer = slot.id.peer;
        let was_full = conn.is_full();
        let polled = conn.poll();
        if !was_full && conn.is_full() {
            // It has acknowledged something.
            self.full.push(index);
        }
        match polled {
            Polled::Packet(header, len) => Some(NetEvent::Packet(NetPacket { peer, header, len, slot: index })),
            Polled::Landed(header, len) => Some(NetEvent::Landed { peer, header, len }),
            Polled::Gathered(header, payload) => Some(NetEvent::Gathered { peer, header, payload }),
            Polled::Sent(token) => Some(NetEvent::Sent(token)),
            Polled::Nothing => None,
            Polled::Ended(end) => {
                self.ended(index, end);
                None
            }
        }
    }

    fn conn(&mut self, packet: &NetPacket) -> Option<&mut Conn> {
        match &mut self.slots.get_mut(packet.slot as usize)?.state {
            State::Open(conn) => Some(conn),
            _ => None,
        }
    }

    /// See [`protocol::transport::Transport::body`].
    #[inline]
    pub fn body<const N: usize>(&mut self, packet: &NetPacket) -> Option<[u8; N]> {
        self.conn(packet)?.body::<N>()
    }

    /// See [`protocol::transport::Transport::deliver`].
    #[inline]
    pub fn deliver(
        &mut self,
        packet: &NetPacket,
        skip: usize,
        place: (&RecvBuf, usize, usize),
        may_land: bool,
    ) -> Delivery {
        let header = packet.header;
        self.conn(packet).map_or(Delivery::Complete, |conn| conn.deliver(header, skip, place, may_land))
    }

    /// See [`protocol::transport::Transport::gather`]. False if all of the packet is there.
    pub fn gather(&mut self, packet: &NetPacket) -> bool {
        let header = packet.header;
        self.conn(packet).is_some_and(|conn| conn.gather(header))
    }

    /// Gives a packet's room back.
    #[inline]
    pub fn release(&mut self, packet: &NetPacket) {
        if let Some(conn) = self.conn(packet) {
            conn.release();
        }
    }

    /// Prepares to sleep on the epoll set: it must also wake when the kernel takes bytes again.
    pub fn arm(&mut self) {
        for index in &self.full {
            if let State::Open(conn) = &mut self.slots[*index as usize].state
                && !conn.watched_for_writing
                && self.epoll.modify(conn.fd(), TOKEN_CONN | u64::from(*index), Interest::BOTH).is_ok()
            {
                conn.watched_for_writing = true;
            }
        }
    }

    /// Active again.
    pub fn disarm(&mut self) {
        for index in &self.open {
            if let State::Open(conn) = &mut self.slots[*index as usize].state
                && conn.watched_for_writing
                && self.epoll.modify(conn.fd(), TOKEN_CONN | u64::from(*index), Interest::READ).is_ok()
            {
                conn.watched_for_writing = false;
            }
        }
        // The next poll looks at whatever has woken us.
        self.tick = u32::MAX;
    }
}

#[cfg(test)]
mod reconnect_tests;
#[cfg(test)]
mod tests;
