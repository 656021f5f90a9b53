//! What the engine calls: each call goes to the lane of the peer, or to where the packet lies.

use super::poll::SHM_STREAK;
use super::{ChannelFabric, FabricPacket, Lane};
use crate::buffer::{RecvBuf, SendBuf};
use crate::kept::Kept;
use crate::self_;
use crate::shm::ShmEvent;
use base::Peer;
use protocol::fabric::{Delivery, Event, Fabric, Limits, Outcome};
use protocol::matching::Found;
use protocol::wire::Header;
use shm::inbox::Record;

impl Fabric for ChannelFabric {
    type Source = SendBuf;
    type Sink = RecvBuf;
    type Packet = FabricPacket;
    type Eager = Record;
    type Kept = Kept;

    fn me(&self) -> Peer {
        self.me
    }

    #[inline]
    fn limits(&mut self, peer: Peer) -> Option<Limits> {
        match self.lane(peer) {
            Lane::Shm(lane) => Some(lane.limits()),
            Lane::Net(_) => self.net.as_ref().map(|net| net.limits()),
            Lane::Own | Lane::Lost => Some(self_::LIMITS),
            Lane::Unresolved => {
                self.resolve(peer);
                None
            }
            Lane::Resolving => None,
        }
    }

    #[inline]
    fn try_send(&mut self, peer: Peer, header: &Header, body: &[u8]) -> Outcome {
        match self.lane(peer) {
            Lane::Shm(lane) => lane.try_send(header, body),
            Lane::Net(slot) => {
                let slot = *slot;
                self.net.as_mut().map_or(Outcome::Lost, |net| net.send(slot, header, body, None))
            }
            Lane::Own => self.own.try_send(header, body, None),
            Lane::Unresolved => {
                self.resolve(peer);
                Outcome::Again
            }
            Lane::Resolving => Outcome::Again,
            Lane::Lost => Outcome::Lost,
        }
    }

    #[inline]
    fn try_send_from(
        &mut self,
        peer: Peer,
        header: &Header,
        body: &[u8],
        source: &SendBuf,
        from: usize,
        len: usize,
    ) -> Outcome {
        match self.lane(peer) {
            Lane::Shm(lane) => lane.try_send_from(header, body, source, from, len),
            Lane::Net(slot) => {
                let slot = *slot;
                let net = self.net.as_mut();
                net.map_or(Outcome::Lost, |net| net.send(slot, header, body, Some((source, from, len))))
            }
            Lane::Own => self.own.try_send(header, body, Some((source, from, len))),
            Lane::Unresolved => {
                self.resolve(peer);
                Outcome::Again
            }
            Lane::Resolving => Outcome::Again,
            Lane::Lost => Outcome::Lost,
        }
    }

    #[inline(always)]
    fn send_now(&mut self, peer: Peer, header: &Header, source: &SendBuf) -> bool {
        match self.lanes.get_mut(peer.0 as usize) {
            Some(Lane::Shm(lane)) => lane.send_now(header, source),
            _ => false,
        }
    }

    fn note_sent(&mut self, peer: Peer, context: u64, len: usize) {
        self.count(peer, context, len);
    }

    #[inline(always)]
    fn next_eager(&mut self) -> Option<(Found, Record)> {
        // The other channels get their turn from `poll`.
        if self.tick % SHM_STREAK == SHM_STREAK - 1 {
            return None;
        }
        self.hub.as_mut()?.next_eager()
    }

    #[inline(always)]
    fn take_eager(&mut self, record: Record, sink: &RecvBuf) {
        self.tick = self.tick.wrapping_add(1);
        if let Some(hub) = &mut self.hub {
            hub.take_eager(&record, sink);
        }
    }

    #[inline]
    fn source_len(&self, source: &SendBuf) -> usize {
        source.len()
    }

    #[inline]
    fn sink_len(sink: &RecvBuf) -> usize {
        sink.len()
    }

    #[inline]
    fn expose(&self, source: &SendBuf) -> u64 {
        source.as_contiguous(0).map_or(0, |at| at.expose_provenance() as u64)
    }

    fn pull(&mut self, peer: Peer, address: u64, sink: &RecvBuf, len: usize) -> bool {
        if matches!(self.lane(peer), Lane::Unresolved) {
            self.resolve(peer);
        }
        match self.lane(peer) {
            Lane::Shm(lane) => {
                let done = lane.pull(address, sink, len);
                self.advise(peer);
                done
            }
            Lane::Own => self.own.pull(address, sink, len),
            _ => false,
        }
    }

    fn peer_pulls(&mut self, peer: Peer, len: usize) -> bool {
        match self.lane(peer) {
            Lane::Shm(lane) => lane.peer_pulls(len),
            _ => false,
        }
    }

    fn prefers_stream(&mut self, peer: Peer, len: usize) -> bool {
        match self.lane(peer) {
            Lane::Shm(lane) => lane.prefers_stream(len),
            _ => false,
        }
    }

    fn note_streamed(&mut self, peer: Peer, len: usize, since_ns: u64) {
        if self.waiter.crowded() {
            return;
        }
        match self.lane(peer) {
            Lane::Shm(lane) => {
                lane.note_streamed(len, since_ns);
                self.advise(peer);
            }
            // Its messages could perhaps be pulled.
            Lane::Unresolved => self.resolve(peer),
            _ => {}
        }
    }

    fn now_ns(&self) -> u64 {
        sys::clock::now_ns()
    }

    #[inline]
    fn poll(&mut self) -> Option<Event<FabricPacket>> {
        self.tick = self.tick.wrapping_add(1);
        if !self.tick.is_multiple_of(SHM_STREAK)
            && let Some(hub) = &mut self.hub
            && let Some(event) = hub.poll()
        {
            match event {
                ShmEvent::Packet(packet) => return Some(Event::Packet(FabricPacket::Shm(packet))),
                ShmEvent::Lost(peer) => self.lose(peer),
            }
        }
        self.poll_slowly()
    }

    #[inline]
    fn body<const N: usize>(&mut self, packet: &FabricPacket) -> Option<[u8; N]> {
        match packet {
            FabricPacket::Shm(packet) | FabricPacket::Region(packet) => packet.body(),
            FabricPacket::Own(_, packet) => packet.payload.first_chunk::<N>().copied(),
            FabricPacket::Net(packet) => self.net.as_mut()?.body(packet),
        }
    }

    #[inline]
    fn deliver(
        &mut self,
        packet: &FabricPacket,
        skip: usize,
        sink: &RecvBuf,
        at: usize,
        len: usize,
        may_land: bool,
    ) -> Delivery {
        let (payload, present) = match packet {
            FabricPacket::Shm(packet) => {
                if let Some(hub) = &self.hub {
                    hub.deliver(packet, skip, sink, at, len);
                }
                return Delivery::Complete;
            }
            FabricPacket::Region(packet) => {
                if let Some(hub) = &self.region {
                    hub.deliver(packet, skip, sink, at, len);
                }
                return Delivery::Complete;
            }
            FabricPacket::Own(_, packet) => (packet.payload.as_ptr(), packet.payload.len()),
            FabricPacket::Net(packet) => {
                let net = self.net.as_mut();
                return net.map_or(Delivery::Complete, |net| net.deliver(packet, skip, (sink, at, len), may_land));
            }
        };
        let skip = skip.min(present);
        // SAFETY: the range is cut to the payload, which is valid until the packet is released.
        unsafe { sink.copy_in(at, payload.add(skip), len.min(present - skip)) };
        Delivery::Complete
    }

    fn stash(&mut self, kind: &FabricPacket, skip: usize, kept: &mut Kept) {
        match kind {
            FabricPacket::Shm(packet) | FabricPacket::Region(packet) => {
                let from_region = matches!(kind, FabricPacket::Region(_));
                let hub = if from_region { self.region.as_deref() } else { self.hub.as_ref() };
                let Some(hub) = hub else { return };
                kept.append(&self.pool, packet.len().saturating_sub(skip), |at, piece| {
                    hub.deliver(packet, skip + at, piece, 0, piece.len());
                });
            }
            FabricPacket::Own(_, packet) => {
                kept.append_slice(&self.pool, packet.payload.get(skip..).unwrap_or_default());
            }
            FabricPacket::Net(packet) => {
                if let Some(net) = &mut self.net {
                    net.stash(packet, skip, |bytes| kept.append_slice(&self.pool, bytes));
                }
            }
        }
    }

    fn kept_len(kept: &Kept) -> usize {
        kept.len()
    }

    fn unstash(&mut self, kept: &Kept, len: usize, sink: &RecvBuf) {
        kept.copy_to(len, sink);
    }

    fn hold(&mut self, packet: FabricPacket) -> Option<FabricPacket> {
        let is_held = match &packet {
            FabricPacket::Shm(packet) => self.hub.as_mut().is_some_and(|hub| hub.hold(packet)),
            FabricPacket::Region(packet) => self.region.as_mut().is_some_and(|hub| hub.hold(packet)),
            FabricPacket::Own(..) | FabricPacket::Net(_) => false,
        };
        (!is_held).then_some(packet)
    }

    fn resume(&mut self, peer: Peer) {
        self.hub.iter_mut().chain(self.region.as_deref_mut()).for_each(|hub| hub.resume(peer));
    }

    #[inline]
    fn release(&mut self, packet: FabricPacket) {
        match packet {
            FabricPacket::Shm(packet) => {
                if let Some(hub) = &mut self.hub {
                    hub.release(&packet);
                }
            }
            FabricPacket::Region(packet) => {
                if let Some(hub) = &mut self.region {
                    hub.release(&packet);
                }
            }
            FabricPacket::Own(..) => {}
            FabricPacket::Net(packet) => {
                if let Some(net) = &mut self.net {
                    net.release(&packet);
                }
            }
        }
    }
}
