//! Connections with peers whose endpoints are suspended: closed, and made anew afterwards, perhaps elsewhere (docs/design/0044).
//!
//! ```text
//! rest ─► the end of a connection is nothing to mend ─► close ─► wake ─► dialled, or called, as on the first day
//! ```
//! Nothing is under way in either direction when a link rests, so both sides forget it: the next one begins at position 0. The numbers of connections go on,
//! so that a late proof is known as late.

use super::health::Health;
use super::slot::State;
use super::{Net, TOKEN_LISTENER, intro};
use base::Peer;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use sys::epoll::Interest;

impl Net {
    /// From now on the links with these peers may end.
    pub fn rest(&mut self, peers: &[Peer]) {
        self.set_resting(peers, true);
    }

    /// The links with these peers are needed again.
    pub fn wake(&mut self, peers: &[Peer]) {
        self.set_resting(peers, false);
    }

    fn set_resting(&mut self, peers: &[Peer], is_resting: bool) {
        for index in peers.iter().flat_map(|peer| self.slots_of(*peer)).collect::<Vec<_>>() {
            self.slots[index as usize].is_resting = is_resting;
        }
    }

    /// Closes the connections with these peers.
    pub fn close_resting(&mut self, peers: &[Peer]) {
        for index in peers.iter().flat_map(|peer| self.slots_of(*peer)).collect::<Vec<_>>() {
            self.put_down(index);
        }
    }

    /// Forgets a link of a suspended endpoint, and where its peer is.
    pub(super) fn put_down(&mut self, index: u32) {
        // One that has said goodbye, or is lost, stays so.
        self.take_link(index);
        self.abandon(index);
        self.full.retain(|slot| *slot != index);
        if self.current == Some(index) {
            self.current = None;
        }
        let slot = &mut self.slots[index as usize];
        if let State::Idle = slot.state {
            slot.addresses.clear();
            (slot.known, slot.is_moving, slot.harmed) = (None, false, (0, 0));
            (slot.rails, slot.home, slot.health) = (Vec::new(), 0, Health::default());
        }
    }

    /// Listens no more: whoever calls is turned away by the kernel.
    pub fn stop_listening(&mut self) {
        if let Some(listener) = self.listener.take() {
            let _ = self.epoll.remove(listener.as_fd());
        }
        (self.paused_until, self.addresses) = (None, Vec::new());
    }

    /// Listens again, at the addresses that this host has now.
    pub fn listen_again(&mut self, with_loopback: bool) -> std::io::Result<&[SocketAddr]> {
        let (listener, addresses) = intro::listen(self.id.me().rank.0, with_loopback)?;
        self.epoll.add(listener.as_fd(), TOKEN_LISTENER, Interest::READ)?;
        (self.listener, self.addresses) = (Some(listener), addresses);
        self.nics = super::rails::nics();
        Ok(&self.addresses)
    }
}
