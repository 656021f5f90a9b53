//! Endpoints: how this process reaches each other process, whatever carries it.
//!
//! ```text
//! Idle ─ first use ─► Connecting ─ Opened ─► Active ─ suspend ─► Draining ─ both sides quiet ─► Suspended ─ resume ─► Connecting
//!                         └────────────┬────────┴──────────────────┴────────────────────────────────┘
//!                                      └─ Lost (for ever)
//! ```
//! An endpoint is a dense local index ([`base::Peer`]). It has a lane once it is active. What is sent before finds [`Outcome::Again`].
//! Packets are taken from every transport, whatever the state of the sender's endpoint: a state only says how this process sends.
//!
//! Invariant: the state `Lost` is final, and is reported once.

use crate::transport::{Access, Caps, Event, Outcome, Token, Transport};
use crate::wire::Header;
use base::Peer;

/// How far an endpoint is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Nobody has asked yet.
    Idle,
    /// A lane is being opened.
    Connecting,
    /// It has a lane.
    Active,
    /// What is under way is drained; nothing else is sent.
    Draining,
    /// There is no lane, until somebody resumes.
    Suspended,
    /// The peer is gone, or can't be reached.
    Lost,
}

struct Entry<L> {
    state: State,
    /// There is one in the state `Active` only.
    lane: Option<Box<L>>,
    /// The lane that is drained.
    draining: Option<Box<L>>,
}

/// What a poll brings beside what changes an endpoint's state.
#[derive(Debug)]
pub enum Arrival<P> {
    /// A packet; must be given back by [`Transport::release`] before the next poll, or left by [`Transport::hold`].
    Packet(P),
    /// A payload whose delivery was `Landing` is complete.
    Landed {
        /// Who sent it.
        peer: Peer,
        /// The packet's header.
        header: Header,
        /// Bytes that were delivered.
        len: usize,
    },
    /// A send that was `Posted` is over.
    Sent(Token),
    /// An access that was `Posted` is over: done, with the number before it of an atomic, or refused.
    Accessed(Token, Option<u64>),
    /// Packets to this peer find a lane now.
    Opened(Peer),
    /// No packet will come from this peer any more, and none can be sent.
    Lost(Peer),
}

/// All endpoints of one process, and the transport that carries them.
pub struct Endpoints<T: Transport> {
    transport: T,
    /// By peer, up to the last one that was used.
    entries: Vec<Entry<T::Lane>>,
}

impl<T: Transport> Endpoints<T> {
    /// No endpoint is in use yet.
    pub fn new(transport: T) -> Endpoints<T> {
        Endpoints { transport, entries: Vec::new() }
    }

    /// What carries the packets.
    #[inline]
    pub fn transport(&mut self) -> &mut T {
        &mut self.transport
    }

    /// The state of the endpoint of `peer`.
    pub fn state(&self, peer: Peer) -> State {
        self.entries.get(peer.0 as usize).map_or(State::Idle, |entry| entry.state)
    }

    /// The lane to `peer`, if it is active.
    pub fn lane(&self, peer: Peer) -> Option<&T::Lane> {
        self.entries.get(peer.0 as usize)?.lane.as_deref()
    }

    /// All lanes that are open, and the transport.
    pub fn lanes(&mut self) -> (&mut T, impl Iterator<Item = (Peer, &mut T::Lane)>) {
        let entries = self.entries.iter_mut().enumerate();
        let lanes = entries.filter_map(|(i, e)| Some((Peer(i as u32), e.lane.as_deref_mut()?)));
        (&mut self.transport, lanes)
    }

    /// Starts to open a lane to `peer`, unless it is open, or being opened, or lost.
    pub fn connect(&mut self, peer: Peer) {
        let entry = entry(&mut self.entries, peer);
        if entry.state == State::Idle {
            entry.state = State::Connecting;
            self.transport.connect(peer);
        }
    }

    /// Sends nothing more to an active `peer` but [`Endpoints::try_last`].
    pub(crate) fn drain(&mut self, peer: Peer) {
        let entry = entry(&mut self.entries, peer);
        if entry.state == State::Active {
            (entry.state, entry.draining) = (State::Draining, entry.lane.take());
        }
    }

    /// Sends a packet without a payload over a lane that is drained.
    pub(crate) fn try_last(&mut self, peer: Peer, header: &Header) -> Outcome {
        match &mut entry(&mut self.entries, peer).draining {
            Some(lane) => self.transport.try_control(lane, header, &[]),
            None => Outcome::Lost,
        }
    }

    /// A lane that was drained is empty in both directions.
    pub(crate) fn suspend(&mut self, peer: Peer) {
        let entry = entry(&mut self.entries, peer);
        if let (State::Draining, Some(lane)) = (entry.state, entry.draining.take()) {
            entry.state = State::Suspended;
            self.transport.close_lane(peer, *lane);
        }
    }

    /// Opens a lane to a suspended `peer`. False if it isn't suspended.
    pub(crate) fn resume(&mut self, peer: Peer) -> bool {
        let entry = entry(&mut self.entries, peer);
        let was_suspended = entry.state == State::Suspended;
        if was_suspended {
            entry.state = State::Idle;
            self.connect(peer);
        }
        was_suspended
    }

    /// The lane to send to `peer` now, and the transport.
    #[inline(always)]
    fn open(&mut self, peer: Peer) -> Result<(&mut T, &mut T::Lane), Outcome> {
        let has_lane = self.entries.get(peer.0 as usize).is_some_and(|entry| entry.lane.is_some());
        if !has_lane {
            return Err(self.without_lane(peer));
        }
        match self.entries[peer.0 as usize].lane.as_deref_mut() {
            Some(lane) => Ok((&mut self.transport, lane)),
            None => Err(Outcome::Again),
        }
    }

    #[cold]
    fn without_lane(&mut self, peer: Peer) -> Outcome {
        match self.state(peer) {
            State::Lost => Outcome::Lost,
            State::Draining | State::Suspended => Outcome::Again,
            State::Idle | State::Connecting | State::Active => {
                self.connect(peer);
                Outcome::Again
            }
        }
    }

    /// What the lane to `peer` can do; `None` while there is no lane (asking starts to open one).
    #[inline]
    pub fn caps(&mut self, peer: Peer) -> Option<Caps> {
        self.open(peer).ok().map(|(transport, lane)| transport.caps(lane))
    }

    /// See [`Transport::try_short`].
    #[inline(always)]
    pub fn try_short(&mut self, peer: Peer, header: &Header, source: &T::Source) -> bool {
        match self.entries.get_mut(peer.0 as usize) {
            Some(Entry { lane: Some(lane), .. }) => T::try_short(lane, header, source),
            _ => false,
        }
    }

    /// See [`Transport::try_control`].
    #[inline]
    pub fn try_control(&mut self, peer: Peer, header: &Header, body: &[u8]) -> Outcome {
        self.open(peer).map_or_else(|none| none, |(transport, lane)| transport.try_control(lane, header, body))
    }

    /// See [`Transport::try_bcopy`].
    #[inline]
    pub fn try_bcopy(&mut self, peer: Peer, header: &Header, body: &[u8], source: &T::Source) -> Outcome {
        self.open(peer).map_or_else(|none| none, |(transport, lane)| transport.try_bcopy(lane, header, body, source))
    }

    /// See [`Transport::try_zcopy`].
    #[inline]
    pub fn try_zcopy(
        &mut self,
        peer: Peer,
        header: &Header,
        body: &[u8],
        source: &T::Source,
        (from, len): (usize, usize),
    ) -> Outcome {
        match self.open(peer) {
            Ok((transport, lane)) => transport.try_zcopy(lane, header, body, source, from, len),
            Err(none) => none,
        }
    }

    /// See [`Transport::expose`]; 0 without a lane.
    pub fn expose(&mut self, peer: Peer, source: &T::Source) -> u64 {
        self.open(peer).map_or(0, |(transport, lane)| transport.expose(lane, source))
    }

    /// See [`Transport::pull`].
    pub fn pull(&mut self, peer: Peer, address: u64, sink: &T::Sink, len: usize) -> bool {
        self.open(peer).is_ok_and(|(transport, lane)| transport.pull(lane, address, sink, len))
    }

    /// Reaches registered memory of `peer` over its lane; `Again` while there is none.
    pub(crate) fn access(&mut self, peer: Peer, access: impl FnOnce(&mut T, &mut T::Lane) -> Access) -> Access {
        match self.open(peer) {
            Ok((transport, lane)) => access(transport, lane),
            Err(Outcome::Lost) => Access::Lost,
            Err(_) => Access::Again,
        }
    }

    /// See [`Transport::prefers_stream`].
    pub fn prefers_stream(&mut self, peer: Peer, len: usize) -> bool {
        self.open(peer).is_ok_and(|(transport, lane)| transport.prefers_stream(lane, len))
    }

    /// See [`Transport::note_streamed`]. Opens a lane if there is none: messages of this peer could perhaps be pulled.
    pub fn note_streamed(&mut self, peer: Peer, len: usize, since_ns: u64) {
        if let Ok((transport, lane)) = self.open(peer) {
            transport.note_streamed(lane, len, since_ns);
        }
    }

    /// See [`Transport::peer_pulls`].
    pub fn peer_pulls(&mut self, peer: Peer, len: usize) -> bool {
        self.open(peer).is_ok_and(|(transport, lane)| transport.peer_pulls(lane, len))
    }

    /// The next arrival, if any. What only changes the state of endpoints is done on the way.
    #[inline]
    pub fn poll(&mut self) -> Option<Arrival<T::Packet>> {
        loop {
            return Some(match self.transport.poll()? {
                Event::Packet(packet) => Arrival::Packet(packet),
                Event::Landed { peer, header, len } => Arrival::Landed { peer, header, len },
                Event::Sent(token) => Arrival::Sent(token),
                Event::Accessed(token, value) => Arrival::Accessed(token, value),
                event => match self.change(event) {
                    Some(arrival) => arrival,
                    None => continue,
                },
            });
        }
    }

    /// An endpoint comes into another state; what the engine must know of it.
    #[cold]
    fn change(&mut self, event: Event<T::Packet, T::Lane>) -> Option<Arrival<T::Packet>> {
        match event {
            Event::Opened(peer, lane) => {
                let entry = entry(&mut self.entries, peer);
                if entry.state == State::Lost {
                    return None;
                }
                (entry.state, entry.lane) = (State::Active, Some(lane));
                Some(Arrival::Opened(peer))
            }
            Event::Wanted(peer) => {
                self.connect(peer);
                None
            }
            Event::Lost(peer) => {
                let entry = entry(&mut self.entries, peer);
                (entry.lane, entry.draining) = (None, None);
                let before = std::mem::replace(&mut entry.state, State::Lost);
                (before != State::Lost).then_some(Arrival::Lost(peer))
            }
            Event::Packet(_) | Event::Landed { .. } | Event::Sent(_) | Event::Accessed(..) => None,
        }
    }
}

/// The entry of `peer`.
fn entry<L>(entries: &mut Vec<Entry<L>>, peer: Peer) -> &mut Entry<L> {
    let at = peer.0 as usize;
    if entries.len() <= at {
        entries.resize_with(at + 1, || Entry { state: State::Idle, lane: None, draining: None });
    }
    &mut entries[at]
}
