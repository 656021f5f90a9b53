//! Polling all that is not shared memory, and how often: the own queue, sockets, the node agent, the dead.

use super::{AnyPacket, Change, Lane, Transports};
use crate::finder::Found;
use crate::self_::SelfPacket;
use crate::shm::{ShmEvent, ShmHub};
use crate::tcp::NetEvent;
use base::log;
use protocol::transport::Event;

/// Polls between two looks at the node agent.
const CONTROL_EVERY: u32 = 1024;
/// The same while endpoint addresses are awaited.
const CONTROL_EVERY_RESOLVING: u32 = 8;
/// Polls in a row that only shared memory may serve.
pub(super) const SHM_STREAK: u32 = 64;
/// Polls between two polls of the sockets when only shared memory has traffic.
const NET_EVERY_MAX: u32 = 16;
/// The same when there is no connection at all.
const NET_EVERY_UNUSED: u32 = 64;

impl Transports {
    /// Whether this poll is an `every`-th one; a power of two, because a division here would be felt.
    #[inline]
    fn is_turn(&self, every: u32) -> bool {
        debug_assert!(every.is_power_of_two());
        self.tick & (every - 1) == 0
    }

    #[inline(never)]
    pub(super) fn poll_slowly(&mut self) -> Option<Event<AnyPacket, Lane>> {
        if let Some(packet) = self.own.poll() {
            return Some(Event::Packet(AnyPacket::Own(self.me, packet)));
        }
        if self.unpublished.is_some() {
            self.publish_if_due();
        }
        let waiting = self.finder.is_waiting()
            || self.net.as_ref().is_some_and(|net| net.wants_news())
            || self.ucx.as_ref().is_some_and(|ucx| ucx.wants_news());
        let every = if waiting { CONTROL_EVERY_RESOLVING } else { CONTROL_EVERY };
        if self.is_turn(every) {
            self.poll_control();
        }
        // Every other time when it is the turn of those behind it, too.
        if self.tick % (2 * SHM_STREAK) != SHM_STREAK
            && let Some(hub) = &mut self.region
            && let Some(event) = hub.poll()
        {
            match event {
                ShmEvent::Packet(packet) => return Some(Event::Packet(AnyPacket::Region(packet))),
                ShmEvent::Lost(peer) => self.lose(peer),
            }
        }
        if self.tick.is_multiple_of(SHM_STREAK)
            && let Some(hub) = &mut self.hub
            && let Some(event) = hub.poll()
        {
            match event {
                ShmEvent::Packet(packet) => return Some(Event::Packet(AnyPacket::Shm(packet))),
                ShmEvent::Lost(peer) => self.lose(peer),
            }
        }
        // Before we sleep everything is looked at: nobody wakes us for what a connection has already read.
        if (self.armed > 0 || self.is_turn(self.net_every))
            && let Some(event) = self.poll_net()
        {
            return Some(event);
        }
        if self.ucx.is_some()
            && (self.armed > 0 || self.is_turn(self.ucx_every))
            && let Some(event) = self.poll_ucx()
        {
            return Some(event);
        }
        if let Some(peer) = self.hub.as_mut().and_then(ShmHub::take_peer_without_lane) {
            return Some(Event::Wanted(peer));
        }
        // What a dead peer had sent is read first, from its ring or, later, from a socket.
        if let Some(&peer) = self.gone.front()
            && self.hubs().all(|hub| hub.is_drained(peer))
        {
            self.gone.pop_front();
            let is_read = self.net.as_mut().is_none_or(|net| net.peer_gone(peer));
            if self.ucx.as_mut().is_none_or(|ucx| ucx.peer_gone(peer)) && is_read {
                self.lose(peer);
            }
        }
        self.changes.pop_front().map(|change| match change {
            Change::Opened(peer, lanes) => Event::Opened(peer, lanes),
            Change::Lost(peer) => Event::Lost(peer),
            Change::Suspend(peers) => Event::Suspend(peers),
            Change::Resume(peers) => Event::Resume(peers),
            Change::Revoked(context) => Event::Revoked(context),
        })
    }

    /// Looks at the sockets, and decides how soon to look again: at every poll while they have traffic or are all there is.
    fn poll_net(&mut self) -> Option<Event<AnyPacket, Lane>> {
        let net = self.net.as_mut()?;
        let found = net.poll();
        let idle = match found {
            Some(_) => false,
            None if !net.is_active() => {
                self.net_every = NET_EVERY_UNUSED;
                return None;
            }
            None => self.hub.iter().chain(self.region.as_deref()).any(|hub| hub.is_active()),
        };
        self.net_every = if idle { (self.net_every * 2).min(NET_EVERY_MAX) } else { 1 };
        match found? {
            NetEvent::Packet(packet) => Some(Event::Packet(AnyPacket::Net(packet))),
            NetEvent::Landed { peer, header, len } => Some(Event::Landed { peer, header, len }),
            NetEvent::Gathered { peer, header, payload } => {
                Some(Event::Packet(AnyPacket::Own(peer, SelfPacket { header, payload })))
            }
            NetEvent::Sent(token) => Some(Event::Sent(token)),
            NetEvent::Lost(peer, why) => {
                let name = self.processes.borrow().name(peer);
                log!(Warn, "lost the connection to {name} on {}: {why}", self.host(peer));
                self.lose(peer);
                None
            }
        }
    }

    /// Hears what the node agent tells.
    pub(super) fn poll_control(&mut self) {
        while let Some(found) = self.finder.poll() {
            match found {
                Found::Address(peer, address, fds, far) => self.open_lane(peer, &address, fds, &far),
                Found::Gone(peer) => self.gone.push_back(peer),
                Found::Epoch(order) => self.on_order(order),
                Found::Revoked(context) => self.changes.push_back(Change::Revoked(context)),
            }
        }
    }
}
