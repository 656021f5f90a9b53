//! Polling all that is not shared memory, and how often: the own queue, sockets, the node agent, the dead.

use super::{ChannelFabric, FabricPacket, Lane};
use crate::bootstrap::Event as Told;
use crate::shm::{ShmEvent, ShmHub};
use crate::tcp::NetEvent;
use base::log;
use protocol::fabric::Event;

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

impl ChannelFabric {
    /// Whether this poll is an `every`-th one; a power of two, because a division here would be felt.
    #[inline]
    fn is_turn(&self, every: u32) -> bool {
        debug_assert!(every.is_power_of_two());
        self.tick & (every - 1) == 0
    }

    #[inline(never)]
    pub(super) fn poll_slowly(&mut self) -> Option<Event<FabricPacket>> {
        if let Some(packet) = self.own.poll() {
            return Some(Event::Packet(FabricPacket::Own(self.me, packet)));
        }
        let waiting = self.resolving > 0 || self.net.as_ref().is_some_and(|net| net.wants_news());
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
                ShmEvent::Packet(packet) => return Some(Event::Packet(FabricPacket::Region(packet))),
                ShmEvent::Lost(peer) => self.lose(peer),
            }
        }
        if self.tick.is_multiple_of(SHM_STREAK)
            && let Some(hub) = &mut self.hub
            && let Some(event) = hub.poll()
        {
            match event {
                ShmEvent::Packet(packet) => return Some(Event::Packet(FabricPacket::Shm(packet))),
                ShmEvent::Lost(peer) => self.lose(peer),
            }
        }
        // Before we sleep everything is looked at: nobody wakes us for what a connection has already read.
        if (self.armed > 0 || self.is_turn(self.net_every))
            && let Some(event) = self.poll_net()
        {
            return Some(event);
        }
        if let Some(peer) = self.hub.as_mut().and_then(ShmHub::take_stranger)
            && matches!(self.lane(peer), Lane::Unresolved)
        {
            self.resolve(peer);
        }
        // What a dead peer had sent is read first, from its ring or, later, from a socket.
        if let Some(&peer) = self.gone.front()
            && self.hubs().all(|hub| hub.is_drained(peer))
        {
            self.gone.pop_front();
            if self.net.as_mut().is_none_or(|net| net.peer_gone(peer)) {
                self.lose(peer);
            }
        }
        self.events.pop_front().map(Event::Lost)
    }

    /// Looks at the sockets, and decides how soon to look again: at every poll while they have traffic or are all there is.
    fn poll_net(&mut self) -> Option<Event<FabricPacket>> {
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
            NetEvent::Packet(packet) => Some(Event::Packet(FabricPacket::Net(packet))),
            NetEvent::Landed { peer, header, len } => Some(Event::Landed { peer, header, len }),
            NetEvent::Lost(peer, why) => {
                if !matches!(self.lane(peer), Lane::Lost) {
                    log!(Warn, "lost the connection to rank {} on {}: {why}", peer.0, self.host(peer));
                }
                self.lose(peer);
                None
            }
        }
    }

    fn poll_control(&mut self) {
        if self.control_lost {
            return;
        }
        loop {
            match self.bootstrap.poll() {
                Ok(None) => return,
                Ok(Some(Told::Address { peer, address, fds, far })) if peer.0 < self.lanes.len() as u32 => {
                    self.connect(peer, &address, fds, &far);
                }
                Ok(Some(Told::PeerGone { peer, host, why })) if peer.0 < self.lanes.len() as u32 => {
                    log!(Warn, "rank {} on {host} is gone: {why}", peer.0);
                    self.gone.push_back(peer);
                }
                Ok(Some(Told::Dump)) => self.dump_requested = true,
                Ok(Some(_)) => {}
                Err(error) => {
                    log!(Error, "no word from the node agent any more: {}", error.origin);
                    self.control_lost = true;
                }
            }
        }
    }
}
