//! Endpoints: how this process reaches each other process, whatever carries it.
//!
//! ```text
//! Idle ─ first use ─► Connecting ─ Opened ─► Active ─ suspend ─► Draining ─ both sides quiet ─► Suspended ─ resume ─► Connecting
//!                         └────────────┬────────┴──────────────────┴────────────────────────────────┘
//!                                      └─ Lost (for ever)
//! ```
//! An endpoint is a dense local index ([`base::Peer`]). It has a lane, or several ([`several`]), once it is active. What is sent before finds
//! [`Outcome::Again`].
//! Packets are taken from every transport, whatever the state of the sender's endpoint: a state only says how this process sends.
//!
//! Invariants: the state `Lost` is final, and is reported once; packets of a peer with several lanes ([`incoming`]) are shown in the order in which they
//! were sent over their group of lanes ([`crate::route`]), and once.

mod incoming;
mod several;

use crate::lanes::{Class, LanePlan};
use crate::order::Room;
use crate::route::Route;
use crate::transport::{Access, Caps, Event, Outcome, Packet, Source, Token, Transport};
use crate::wire::Header;
use base::{ContextId, Peer};
use incoming::Incoming;
pub use several::LaneCount;
use several::Several;

/// A peer, and a group of the lanes to it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Way {
    /// The peer.
    pub peer: Peer,
    /// The group ([`crate::route`]); 0 if there is one lane.
    pub group: u8,
}

impl Way {
    /// Over the first group.
    #[inline(always)]
    pub fn first(peer: Peer) -> Way {
        Way { peer, group: 0 }
    }
}

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
    /// In place of both, where there are several lanes.
    several: Option<Box<Several<L>>>,
}

impl<L> Entry<L> {
    /// The lanes, if there are several and the endpoint is in this state.
    fn several_in(&mut self, state: State) -> Option<&mut Several<L>> {
        self.several.as_deref_mut().filter(|several| self.state == state && !several.is_empty())
    }
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
    /// As [`Event::Suspend`].
    Suspend(Vec<Peer>),
    /// As [`Event::Resume`].
    Resume(Vec<Peer>),
    /// No packet will come from this peer any more, and none can be sent.
    Lost(Peer),
    /// As [`Event::Revoked`].
    Revoked(ContextId),
}

/// All endpoints of one process, and the transport that carries them.
pub struct Endpoints<T: Transport> {
    transport: T,
    /// By peer, up to the last one that was used.
    entries: Vec<Entry<T::Lane>>,
    incoming: Incoming<T::Packet>,
    /// What several lanes of an endpoint carry.
    plan: LanePlan,
    /// The largest message that goes whole where its envelope goes.
    small_max: usize,
    /// Some endpoint has had several groups of lanes.
    has_groups: bool,
}

impl<T: Transport> Endpoints<T> {
    /// No endpoint is in use yet. Several lanes of one carry packets in turn.
    pub fn new(transport: T) -> Endpoints<T> {
        Endpoints::with_plan(transport, LanePlan::SINGLE, usize::MAX)
    }

    /// As [`Endpoints::new`]; several lanes of an endpoint carry what the plan says. Messages of more than `small_max` bytes are large.
    pub fn with_plan(transport: T, plan: LanePlan, small_max: usize) -> Endpoints<T> {
        let (entries, incoming) = (Vec::new(), Incoming::default());
        Endpoints { transport, entries, incoming, plan, small_max, has_groups: false }
    }

    /// The groups that packets of this kind of traffic take, in a context of this class.
    #[inline(always)]
    pub fn route(&self, peer: Peer, class: Option<Class>, kind: Class) -> Route {
        if self.has_groups { self.route_by_group(peer, class, kind) } else { Route::FIRST }
    }

    #[cold]
    fn route_by_group(&self, peer: Peer, class: Option<Class>, kind: Class) -> Route {
        self.several(peer).map_or(Route::FIRST, |several| several.route(class, kind))
    }

    /// What has been sent over each lane to `peer` since the lanes were opened, if there are several; `pair` as of [`LanePlan::class`].
    pub fn lane_counts(&self, peer: Peer, pair: u64) -> Vec<LaneCount> {
        self.several(peer).map_or(Vec::new(), |several| several.counts(pair))
    }

    /// A packet has left this way that had waited for so long.
    pub(crate) fn note_wait(&mut self, way: Way, waited_ns: u64) {
        let entry = self.entries.get_mut(way.peer.0 as usize);
        if let Some(several) = entry.and_then(|entry| entry.several.as_deref_mut()) {
            several.note_wait(way.group, waited_ns);
        }
    }

    /// How many groups of lanes there are to `peer`; 1 also if there are no lanes.
    pub fn groups(&self, peer: Peer) -> usize {
        self.several(peer).map_or(1, Several::groups)
    }

    /// Peers to which there are several groups of lanes.
    pub(crate) fn grouped(&self) -> Vec<Peer> {
        let peers = (0..self.entries.len() as u32).map(Peer);
        peers.filter(|peer| self.has_groups && self.groups(*peer) > 1).collect()
    }

    /// The largest message that goes whole where its envelope goes.
    pub(crate) fn small_max(&self) -> usize {
        self.small_max
    }

    /// All packets that were sent this way have counts below; 0 without several lanes.
    pub(crate) fn sent(&self, way: Way) -> u64 {
        self.several(way.peer).map_or(0, |several| several.sent(way.group))
    }

    /// The lanes of an endpoint that has several.
    fn several(&self, peer: Peer) -> Option<&Several<T::Lane>> {
        self.entries.get(peer.0 as usize)?.several.as_deref().filter(|several| !several.is_empty())
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

    /// The lane to `peer`, if it is active; the first one of several.
    pub fn lane(&self, peer: Peer) -> Option<&T::Lane> {
        let entry = self.entries.get(peer.0 as usize)?;
        let several = entry.several.as_deref().filter(|_| entry.state == State::Active);
        entry.lane.as_deref().or_else(|| several?.first())
    }

    /// How many lanes to `peer` are open.
    pub fn lane_count(&self, peer: Peer) -> usize {
        let Some(entry) = self.entries.get(peer.0 as usize) else { return 0 };
        let several = entry.several.as_deref().filter(|_| entry.state == State::Active);
        several.map_or(0, Several::count) + usize::from(entry.lane.is_some())
    }

    /// All lanes that are open, or drained, and the transport.
    pub fn lanes(&mut self) -> (&mut T, impl Iterator<Item = (Peer, &mut T::Lane)>) {
        let entries = self.entries.iter_mut().enumerate();
        let lanes = entries.flat_map(|(i, e)| {
            let several = e.several.as_deref_mut().into_iter().flat_map(Several::iter_mut);
            e.lane
                .as_deref_mut()
                .into_iter()
                .chain(e.draining.as_deref_mut())
                .chain(several)
                .map(move |lane| (Peer(i as u32), lane))
        });
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
        let entry = entry(&mut self.entries, peer);
        if let Some(lane) = &mut entry.draining {
            return self.transport.try_control(lane, header, &[]);
        }
        match entry.several_in(State::Draining) {
            Some(several) => {
                several.send(0, (header, 0), Room::LastWords, |lane, h| self.transport.try_control(lane, h, &[]))
            }
            None => Outcome::Lost,
        }
    }

    /// Sends an acknowledgement of what has come over several lanes, before anything that waits.
    pub(crate) fn try_acknowledge(&mut self, way: Way, header: &Header) -> Outcome {
        match entry(&mut self.entries, way.peer).several_in(State::Active) {
            Some(several) => {
                let send = |lane: &mut T::Lane, h: &Header| self.transport.try_control(lane, h, &[]);
                several.send(way.group, (header, 0), Room::Acknowledgement, send)
            }
            // A lane of its own never fills a window.
            None => self.try_control(way, header, &[]),
        }
    }

    /// `peer` has seen packets, as `RECEIVED` says. False if it can't have.
    pub(crate) fn acknowledged(&mut self, peer: Peer, received: &Header) -> bool {
        let several = &mut entry(&mut self.entries, peer).several;
        several.as_deref_mut().is_some_and(|several| several.acknowledge(received.source as usize, received.context))
    }

    /// A lane that was drained is empty in both directions.
    pub(crate) fn suspend(&mut self, peer: Peer) {
        let entry = entry(&mut self.entries, peer);
        if entry.state != State::Draining {
            return;
        }
        entry.state = State::Suspended;
        let several = entry.several.as_deref_mut().into_iter().flat_map(Several::close);
        for lane in entry.draining.take().map(|lane| *lane).into_iter().chain(several) {
            self.transport.close_lane(peer, lane);
        }
    }

    /// No lane to `peer` is opened from now on, if there is none yet: as if it had been suspended.
    pub(crate) fn hold(&mut self, peer: Peer) {
        let entry = entry(&mut self.entries, peer);
        if entry.state == State::Idle {
            entry.state = State::Suspended;
        }
    }

    /// A lane to a suspended `peer` may be opened again: by the next packet to it.
    pub(crate) fn unhold(&mut self, peer: Peer) {
        let entry = entry(&mut self.entries, peer);
        if entry.state == State::Suspended {
            entry.state = State::Idle;
        }
    }

    /// How many endpoints are suspended.
    pub(crate) fn suspended(&self) -> usize {
        self.entries.iter().filter(|entry| entry.state == State::Suspended).count()
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

    /// The one lane to send to `peer` now, and the transport. `Err` also if there are several.
    #[inline(always)]
    fn only(&mut self, peer: Peer) -> Result<(&mut T, &mut T::Lane), Outcome> {
        match self.entries.get_mut(peer.0 as usize) {
            Some(Entry { lane: Some(lane), .. }) => Ok((&mut self.transport, lane)),
            _ => Err(Outcome::Again),
        }
    }

    /// The lane to `peer`, the first one of several, and the transport: for what is equal for all of them.
    #[inline(always)]
    fn open(&mut self, peer: Peer) -> Result<(&mut T, &mut T::Lane), Outcome> {
        let has_lane = self.entries.get(peer.0 as usize).is_some_and(|entry| entry.lane.is_some());
        if has_lane { self.only(peer) } else { self.open_first(peer) }
    }

    #[cold]
    fn open_first(&mut self, peer: Peer) -> Result<(&mut T, &mut T::Lane), Outcome> {
        if entry(&mut self.entries, peer).several_in(State::Active).is_none() {
            return Err(self.without_lane(peer));
        }
        let first = entry(&mut self.entries, peer).several_in(State::Active).and_then(Several::first_mut);
        first.map(|lane| (&mut self.transport, lane)).ok_or(Outcome::Again)
    }

    /// Sends a packet over one of several lanes, with its number.
    #[cold]
    fn send_numbered(
        &mut self,
        Way { peer, group }: Way,
        (header, bytes): (&Header, usize),
        mut send: impl FnMut(&mut T, &mut T::Lane, &Header) -> Outcome,
    ) -> Outcome {
        match entry(&mut self.entries, peer).several_in(State::Active) {
            Some(several) => {
                several.send(group, (header, bytes), Room::Ordinary, |lane, h| send(&mut self.transport, lane, h))
            }
            None => self.without_lane(peer),
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
        let caps = self.open(peer).ok().map(|(transport, lane)| transport.caps(lane))?;
        // Over several lanes packets overtake each other.
        let push_max = if self.several(peer).is_none() { caps.push_max } else { 0 };
        Some(Caps { push_max, ..caps })
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
    pub fn try_control(&mut self, way: Way, header: &Header, body: &[u8]) -> Outcome {
        match self.only(way.peer) {
            Ok((transport, lane)) => transport.try_control(lane, header, body),
            Err(_) => {
                let sent = (header, body.len());
                self.send_numbered(way, sent, |transport, lane, h| transport.try_control(lane, h, body))
            }
        }
    }

    /// See [`Transport::try_bcopy`].
    #[inline]
    pub fn try_bcopy(&mut self, way: Way, header: &Header, body: &[u8], source: &T::Source) -> Outcome {
        match self.only(way.peer) {
            Ok((transport, lane)) => transport.try_bcopy(lane, header, body, source),
            Err(_) => {
                let sent = (header, body.len() + source.len());
                self.send_numbered(way, sent, |transport, lane, h| transport.try_bcopy(lane, h, body, source))
            }
        }
    }

    /// See [`Transport::try_zcopy`].
    #[inline]
    pub fn try_zcopy(
        &mut self,
        way: Way,
        header: &Header,
        body: &[u8],
        source: &T::Source,
        (from, len): (usize, usize),
    ) -> Outcome {
        match self.only(way.peer) {
            Ok((transport, lane)) => transport.try_zcopy(lane, header, body, source, from, len),
            Err(_) => {
                let sent = (header, body.len() + len);
                self.send_numbered(way, sent, |transport, lane, h| {
                    transport.try_zcopy(lane, h, body, source, from, len)
                })
            }
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

    /// Reaches registered memory of a peer over a lane, of several in the group over each in turn; `Again` while there is none.
    pub(crate) fn access(&mut self, way: Way, mut access: impl FnMut(&mut T, &mut T::Lane) -> Access) -> Access {
        let Way { peer, group } = way;
        if let Ok((transport, lane)) = self.only(peer) {
            return access(transport, lane);
        }
        match entry(&mut self.entries, peer).several_in(State::Active) {
            Some(several) => several.access(group, |lane| access(&mut self.transport, lane)),
            None => self.access_without_lane(peer),
        }
    }

    #[cold]
    fn access_without_lane(&mut self, peer: Peer) -> Access {
        if self.without_lane(peer) == Outcome::Lost { Access::Lost } else { Access::Again }
    }

    /// Whether all accesses to `peer` so far are visible there, over whatever lane they went.
    pub(crate) fn flush(&mut self, peer: Peer) -> Access {
        if let Ok((transport, lane)) = self.only(peer) {
            return transport.flush(lane);
        }
        match entry(&mut self.entries, peer).several_in(State::Active) {
            Some(several) => several.flush(|lane| self.transport.flush(lane)),
            None => self.access_without_lane(peer),
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
            if self.incoming.is_due()
                && let Some(packet) = self.next_due()
            {
                return Some(Arrival::Packet(packet));
            }
            return Some(match self.transport.poll()? {
                Event::Packet(packet) if packet.header().number.is_none() => Arrival::Packet(packet),
                Event::Packet(packet) => match self.arrange(packet) {
                    Some(packet) => Arrival::Packet(packet),
                    None => continue,
                },
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
            Event::Opened(peer, lanes) => {
                let entry = entry(&mut self.entries, peer);
                if entry.state == State::Lost {
                    return None;
                }
                entry.state = State::Active;
                let mut lanes = lanes.into_iter();
                match lanes.len() {
                    1 => entry.lane = lanes.next().map(Box::new),
                    _ => {
                        let several = entry.several.get_or_insert_with(|| Box::new(Several::new()));
                        several.open(lanes, &self.plan);
                        self.has_groups |= several.groups() > 1;
                    }
                }
                Some(Arrival::Opened(peer))
            }
            Event::LaneLost(peer, number) => {
                let several = &mut entry(&mut self.entries, peer).several;
                match several.as_deref_mut().is_some_and(|several| several.lose(number)) {
                    true => None,
                    false => self.change(Event::Lost(peer)),
                }
            }
            Event::Wanted(peer) => {
                self.connect(peer);
                None
            }
            Event::Lost(peer) => {
                self.forget_arrivals(peer);
                let entry = entry(&mut self.entries, peer);
                (entry.lane, entry.draining, entry.several) = (None, None, None);
                let before = std::mem::replace(&mut entry.state, State::Lost);
                (before != State::Lost).then_some(Arrival::Lost(peer))
            }
            Event::Suspend(peers) => Some(Arrival::Suspend(peers)),
            Event::Resume(peers) => Some(Arrival::Resume(peers)),
            Event::Revoked(context) => Some(Arrival::Revoked(context)),
            Event::Packet(_) | Event::Landed { .. } | Event::Sent(_) | Event::Accessed(..) => None,
        }
    }
}

/// The entry of `peer`.
fn entry<L>(entries: &mut Vec<Entry<L>>, peer: Peer) -> &mut Entry<L> {
    let at = peer.0 as usize;
    if entries.len() <= at {
        entries.resize_with(at + 1, || Entry { state: State::Idle, lane: None, draining: None, several: None });
    }
    &mut entries[at]
}
