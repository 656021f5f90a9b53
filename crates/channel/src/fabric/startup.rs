//! What the fabric does for the exchange of endpoints ([`crate::exchange`]): waiting for an event, and opening all lanes at once.

use super::{ChannelFabric, FabricPacket, Lane};
use crate::bootstrap::EndpointAddress;
use crate::shared_cpu;
use crate::wait::{self, Idle};
use base::{Peer, Result, ensure, fail, log};
use protocol::control::exchange::{Entry, Id};
use protocol::fabric::{Event, Fabric, Packet};
use std::time::{Duration, Instant};

/// How long the higher rank of a pair waits for the lower one's call before it calls itself: perhaps only it can.
const PATIENCE: Duration = Duration::from_secs(1);

impl ChannelFabric {
    /// What this process has registered; none in a job of one rank.
    pub(crate) fn address(&self) -> Option<&EndpointAddress> {
        self.address.as_deref()
    }

    /// Ids for the other ranks, ascending; empty if there are none.
    pub(crate) fn own_ids(&mut self) -> Vec<Id> {
        let size = self.job().size;
        let Some(net) = &mut self.net else { return Vec::new() };
        let ids = &net.ids().own;
        (0..size).filter_map(|rank| ids.get(&Peer(rank)).copied()).collect()
    }

    /// Notes what an exchange has told.
    pub(crate) fn learn(&mut self, entries: Vec<Entry>) -> Result {
        let size = self.job().size;
        ensure!(
            entries.iter().all(|e| e.peer.0 < size),
            ERR_OTHER,
            "an exchange of endpoints names an impossible rank"
        );
        if !entries.is_empty() {
            self.directory.resize(size as usize, None);
        }
        for entry in entries {
            if let (Some(net), Some(id)) = (&mut self.net, entry.id) {
                net.ids().theirs.insert(entry.peer, id);
            }
            self.directory[entry.peer.0 as usize] = Some(Box::new(entry.address));
        }
        Ok(())
    }

    /// The next event; after a poll in vain waits a little, as the waiter says, but doesn't sleep when `moves` says that there is
    /// something to do. An error once the node agent is gone.
    pub(crate) fn next_event(
        &mut self,
        idle_polls: &mut u64,
        mut moves: impl FnMut(&mut ChannelFabric) -> Result<bool>,
    ) -> Result<Option<Event<FabricPacket>>> {
        if let Some(event) = self.poll() {
            *idle_polls = 0;
            return Ok(Some(event));
        }
        ensure!(!self.control_lost, ERR_OTHER, "the node agent is gone");
        *idle_polls += 1;
        match self.waiter.idle(*idle_polls) {
            Idle::Spin => std::hint::spin_loop(),
            Idle::Yield => sys::wake::yield_cpu(),
            Idle::Nap => shared_cpu::nap(),
            Idle::Sleep => {
                self.arm();
                let found = self.poll();
                if found.is_none() && !moves(self)? {
                    wait::sleep(Some(self.epoll.fd()), self.sleep_limit());
                }
                self.disarm();
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Waits until the kernel has everything that was sent.
    pub(crate) fn flush_all(&mut self) -> Result {
        let mut idle_polls = 0;
        while self.net.as_ref().is_some_and(|net| !net.is_flushed()) {
            let flushed = |fabric: &mut ChannelFabric| Ok(fabric.net.as_ref().is_none_or(|net| net.is_flushed()));
            match self.next_event(&mut idle_polls, flushed)? {
                Some(Event::Packet(packet)) => self.refuse(packet)?,
                Some(Event::Lost(peer)) => return self.lost(peer),
                _ => {}
            }
        }
        Ok(())
    }

    fn refuse(&mut self, packet: FabricPacket) -> Result {
        let peer = packet.peer();
        self.release(packet);
        log!(Error, "rank {} sent a message before all were ready", peer.0);
        fail!(ERR_INTERN, "a message came before the exchange of endpoints was over")
    }

    fn lost(&self, peer: Peer) -> Result {
        log!(Error, "rank {} on {} can't be connected", peer.0, self.host(peer));
        fail!(ERR_PROC_ABORTED, "a rank was lost while all were being connected")
    }

    /// Opens the lanes to all ranks. Over the network the lower rank of a pair calls.
    pub(crate) fn connect_all(&mut self) -> Result {
        let size = self.job().size;
        let since = Instant::now();
        let (mut idle_polls, mut missing) = (0, (0..size).map(Peer).collect::<Vec<_>>());
        loop {
            let patient = since.elapsed() < PATIENCE;
            for peer in missing.iter().copied() {
                self.open_lane(peer, patient);
            }
            missing.retain(|peer| !self.is_open(*peer));
            if missing.is_empty() {
                return Ok(());
            }
            let opened = |fabric: &mut ChannelFabric| Ok(missing.iter().any(|peer| fabric.may_open(*peer)));
            match self.next_event(&mut idle_polls, opened)? {
                Some(Event::Packet(packet)) => self.refuse(packet)?,
                Some(Event::Lost(peer)) => return self.lost(peer),
                _ => {}
            }
        }
    }

    fn open_lane(&mut self, peer: Peer, patient: bool) {
        if !matches!(self.lane(peer), Lane::Unresolved) {
            return;
        }
        if self.may_be_near(peer) || self.me < peer || !patient {
            return self.resolve(peer);
        }
        if let Some(net) = self.net.as_mut().filter(|net| net.is_connected(peer)) {
            let slot = net.dial(peer, Vec::new());
            *self.lane(peer) = Lane::Net(slot);
        }
    }

    /// Whether a lane that was missing is open, or can be taken over from a peer who called.
    fn may_open(&self, peer: Peer) -> bool {
        self.is_open(peer) || self.net.as_ref().is_some_and(|net| net.is_connected(peer))
    }

    fn is_open(&self, peer: Peer) -> bool {
        match &self.lanes[peer.0 as usize] {
            Lane::Own | Lane::Shm(_) | Lane::Lost => true,
            Lane::Net(_) => self.net.as_ref().is_some_and(|net| net.is_connected(peer)),
            Lane::Unresolved | Lane::Resolving => false,
        }
    }

    /// Lanes to other ranks that are open.
    pub(crate) fn open_lanes_count(&self) -> u64 {
        let open = |rank: &u32| matches!(self.lanes[*rank as usize], Lane::Shm(_) | Lane::Net(_));
        (0..self.job().size).filter(|rank| open(rank) && self.is_open(Peer(*rank))).count() as u64
    }
}
