//! Suspending an endpoint, and resuming it at another address: for a peer that moves.
//!
//! ```text
//! suspend ─► drain: sources in use are waited for ─► SUSPEND, the last packet ─► both SUSPEND and SUSPENDED of the peer ─► Suspended
//! ```
//! Both sides do the same: a peer that gets a `SUSPEND` suspends its endpoint, too. So when a lane is closed, everything that was sent over it has
//! arrived, in both directions. What the program sends meanwhile queues, and streams stop between two packets; they go on with the next lane.
//! Addresses that the peer had exposed are revoked: its messages are streamed.
//!
//! Whoever resumes tells the peer by `RESUME`, which resumes its own endpoint.

use super::flows::Queued;
use super::receiving::reject;
use super::sending::own;
use super::{Content, Engine, ReceiveState};
use crate::endpoint::{State, Way};
use crate::kind::{BODY_MAX, Kind};
use crate::order::Fence;
use crate::transport::{Outcome, Packet, Transport};
use crate::wire::Header;
use base::Peer;

/// How far an endpoint's suspension is.
#[derive(Clone, Copy, Default)]
pub(super) struct Suspension {
    /// Groups of lanes behind which `SUSPEND` comes: for each but the first one a packet `AFTER` has left.
    fenced: u8,
    /// `SUSPEND` has left.
    said: bool,
    /// The peer's `SUSPEND` has come.
    heard: bool,
    /// `SUSPENDED` has left.
    answered: bool,
    /// The peer's `SUSPENDED` has come.
    acknowledged: bool,
    /// The endpoint is resumed when it is suspended.
    then_resume: bool,
}

impl<T: Transport> Engine<T> {
    /// Starts to suspend the endpoint of `peer`; [`Engine::is_suspended`] tells when it is done.
    pub fn suspend(&mut self, peer: Peer) {
        if !matches!(self.endpoints.state(peer), State::Suspended | State::Lost) {
            self.suspensions.entry(peer).or_default();
        }
    }

    /// Whether the endpoint of `peer` is suspended. A peer that is lost is not.
    pub fn is_suspended(&self, peer: Peer) -> bool {
        self.endpoints.state(peer) == State::Suspended
    }

    /// Opens a lane to `peer` again, and has the peer do the same.
    pub fn resume(&mut self, peer: Peer) {
        if self.endpoints.resume(peer) {
            let packet = Queued::Control(own(Kind::RESUME, 0), [0; BODY_MAX], 0);
            let now_ns = self.endpoints.transport().now_ns();
            self.flows.of(Way::first(peer)).push_first(packet, now_ns);
        }
    }

    /// `SUSPEND`: the peer has sent everything.
    pub(super) fn on_suspend(&mut self, packet: T::Packet, _: &Header) {
        let peer = self.take_peer(packet);
        self.suspensions.entry(peer).or_default().heard = true;
    }

    /// `SUSPENDED`: everything that was sent to the peer has arrived.
    pub(super) fn on_suspended(&mut self, packet: T::Packet, _: &Header) {
        let peer = self.take_peer(packet);
        if let Some(suspension) = self.suspensions.get_mut(&peer) {
            suspension.acknowledged = suspension.said;
        }
    }

    /// `RESUME`: the peer can be reached again.
    pub(super) fn on_resume(&mut self, packet: T::Packet, _: &Header) {
        let peer = self.take_peer(packet);
        self.advance_suspensions();
        self.endpoints.resume(peer);
    }

    /// `RECEIVED`: the peer, which has one lane to here, has seen so many packets that came over several.
    pub(super) fn on_received(&mut self, packet: T::Packet, header: &Header) {
        let peer = self.take_peer(packet);
        if !self.endpoints.acknowledged(peer, header) {
            reject(peer, header);
        }
    }

    /// [`crate::transport::Event::Suspend`]. Also peers with whom nothing was said yet are held, so that no lane to them is opened.
    #[cold]
    pub fn suspend_all(&mut self, peers: &[Peer]) {
        for &peer in peers {
            self.endpoints.hold(peer);
            if !matches!(self.endpoints.state(peer), State::Suspended | State::Lost) {
                self.suspensions.entry(peer).or_default().then_resume = false;
            }
        }
        self.tells_settled = true;
        self.advance_suspensions();
    }

    /// [`crate::transport::Event::Resume`].
    #[cold]
    pub fn resume_all(&mut self, peers: &[Peer]) {
        self.advance_suspensions();
        for peer in peers {
            match self.suspensions.get_mut(peer) {
                Some(suspension) => suspension.then_resume = true,
                None => self.endpoints.unhold(*peer),
            }
        }
        self.tells_settled = true;
        self.advance_suspensions();
    }

    /// Whether no endpoint is being suspended now. A peer may begin it yet.
    pub fn is_settled(&self) -> bool {
        self.suspensions.is_empty()
    }

    fn take_peer(&mut self, packet: T::Packet) -> Peer {
        let peer = packet.peer();
        self.endpoints.transport().release(packet);
        peer
    }

    /// Moves all suspensions on. True if anything moved.
    pub(super) fn advance_suspensions(&mut self) -> bool {
        let peers: Vec<Peer> = self.suspensions.keys().copied().collect();
        let mut moved = false;
        for peer in peers {
            moved |= self.advance_suspension(peer);
        }
        self.tell_if_settled();
        moved
    }

    fn advance_suspension(&mut self, peer: Peer) -> bool {
        match self.endpoints.state(peer) {
            State::Idle => self.endpoints.connect(peer),
            State::Connecting => {}
            State::Active => {
                self.endpoints.drain(peer);
                return true;
            }
            State::Draining => return self.finish_draining(peer),
            // The peer has said `SUSPEND` over a lane of its own while this end had none, and waits for its answer.
            State::Suspended if self.suspensions.get(&peer).is_some_and(|suspension| suspension.heard) => {
                return self.endpoints.resume(peer);
            }
            State::Suspended | State::Lost => drop(self.suspensions.remove(&peer)),
        }
        false
    }

    fn tell_if_settled(&mut self) {
        if self.tells_settled && self.suspensions.is_empty() {
            self.tells_settled = false;
            let suspended = self.endpoints.suspended();
            self.endpoints.transport().settled(suspended);
        }
    }

    /// Says the last words over a lane that is drained, and closes it when the peer has said its own.
    fn finish_draining(&mut self, peer: Peer) -> bool {
        let Some(mut suspension) = self.suspensions.get(&peer).copied() else { return false };
        let mut moved = false;
        if !suspension.said && !self.uses_sources_of(peer) && !self.uses_memory_for(peer) {
            moved |= self.fence_all_groups(peer, &mut suspension);
            suspension.said = usize::from(suspension.fenced) + 1 >= self.endpoints.groups(peer)
                && self.endpoints.try_last(peer, &own(Kind::SUSPEND, 0)) == Outcome::Done;
            moved |= suspension.said;
        }
        if suspension.heard && !suspension.answered {
            suspension.answered = self.endpoints.try_last(peer, &own(Kind::SUSPENDED, 0)) == Outcome::Done;
            moved |= suspension.answered;
        }
        if suspension.said && suspension.acknowledged && suspension.answered {
            self.suspensions.remove(&peer);
            self.revoke_addresses(peer);
            self.endpoints.suspend(peer);
            if suspension.then_resume {
                // The peer may have been told to resume before it was asked to suspend, and is to be told again.
                self.resume(peer);
            }
            return true;
        }
        self.suspensions.insert(peer, suspension);
        moved
    }

    /// What has been sent over any group of lanes comes before `SUSPEND`. True if anything has left.
    fn fence_all_groups(&mut self, peer: Peer, suspension: &mut Suspension) -> bool {
        let before = suspension.fenced;
        while usize::from(suspension.fenced) + 1 < self.endpoints.groups(peer) {
            let group = suspension.fenced + 1;
            let fence = Fence { group, count: self.endpoints.sent(Way { peer, group }) };
            if self.endpoints.try_last(peer, &fence.on(own(Kind::AFTER, 0))) != Outcome::Done {
                break;
            }
            suspension.fenced = group;
        }
        suspension.fenced > before
    }

    /// What the peer has exposed can't be pulled from where it will be.
    fn revoke_addresses(&mut self, peer: Peer) {
        for (_, message) in self.unexpected.iter_mut().filter(|(_, m)| m.peer == peer) {
            if let Content::Offered(offered) = &mut message.content {
                offered.is_revoked = true;
            }
        }
        for (_, receive) in self.receives.iter_mut() {
            if let ReceiveState::Streaming(stream) = &mut receive.state
                && stream.peer == peer
            {
                stream.revoke();
            }
        }
        if let Some(flow) = self.flows.get(Way::first(peer)) {
            flow.fetches.iter_mut().for_each(|fetch| fetch.offered.is_revoked = true);
        }
    }
}
