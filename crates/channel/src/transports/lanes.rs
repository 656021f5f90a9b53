//! What the engine asks for: each call goes to the transport of the lane, or to where the packet lies.

use super::poll::SHM_STREAK;
use super::{AnyPacket, Change, Lane, Transports};
use crate::buffer::{RecvBuf, SendBuf};
use crate::memory::{self, Exposed};
use crate::self_::{self, SelfPacket};
use crate::shm::ShmEvent;
use crate::unexpected::UnexpectedBuffers;
use base::Peer;
use protocol::matching::Found;
use protocol::memory::{Atomic, Key, Verbs};
use protocol::transport::{Access, Caps, Delivery, Event, Outcome, Packet, Transport};
use protocol::wire::Header;
use shm::inbox::Record;
use std::ops::Range;

/// Bytes of a source: it, where they begin, and how many.
type Bytes<'a> = (&'a SendBuf, usize, usize);

impl Transports {
    /// Sends a packet over a lane.
    #[inline(always)]
    fn send(&mut self, lane: &mut Lane, header: &Header, body: &[u8], bytes: Option<Bytes<'_>>) -> Outcome {
        match (lane, bytes) {
            (Lane::Shm(lane), Some((source, from, len))) => lane.try_send_from(header, body, source, from, len),
            (Lane::Shm(lane), None) => lane.try_send(header, body),
            (Lane::Net(slot), bytes) => match &mut self.net {
                Some(net) => net.send(*slot, header, body, bytes),
                None => Outcome::Lost,
            },
            (Lane::Ucx(link), bytes) => match &mut self.ucx {
                Some(ucx) => ucx.send(*link, header, body, bytes),
                None => Outcome::Lost,
            },
            (Lane::Own, bytes) => self.own.try_send(header, body, bytes),
        }
    }

    /// Tells `peer` what was learnt about its messages, if that is new.
    fn advise(&mut self, lane: &mut Lane) {
        if let (Lane::Shm(lane), Some(hub)) = (lane, &mut self.hub)
            && let Some(advice) = lane.new_advice()
        {
            hub.advise(lane.peer(), advice);
        }
    }
}

impl Transport for Transports {
    type Lane = Lane;
    type Source = SendBuf;
    type Sink = RecvBuf;
    type Region = Exposed;
    type Packet = AnyPacket;
    type Eager = Record;
    type Pool = UnexpectedBuffers;

    fn connect(&mut self, peer: Peer) {
        if peer == self.me {
            return self.changes.push_back(Change::Opened(peer, vec![Lane::Own]));
        }
        if let Some(lane) = self.parked.remove(&peer) {
            return self.changes.push_back(Change::Opened(peer, vec![*lane]));
        }
        if self.open_where_it_is(peer) {
            return;
        }
        // Who was in the exchange and is reached without descriptors: nobody must be asked.
        let known = if self.may_be_near(peer) { None } else { self.finder.known(peer) };
        match known {
            Some(address) => self.open_lane(peer, &address, Vec::new(), ""),
            None if self.finder.ask(peer) => {}
            None => self.lose(peer),
        }
    }

    fn close_lane(&mut self, peer: Peer, lane: Lane) {
        // A ring goes on where it was: its positions are known to both sides only as long as its inbox is the same.
        if matches!(lane, Lane::Shm(_)) {
            self.parked.insert(peer, Box::new(lane));
        } else if let (Lane::Ucx(link), Some(ucx)) = (lane, &mut self.ucx) {
            ucx.close_link(link);
        }
    }

    fn settled(&mut self, suspended: usize) {
        self.on_settled(suspended);
    }

    #[inline]
    fn caps(&self, lane: &Lane) -> Caps {
        match lane {
            Lane::Shm(lane) => lane.limits(),
            Lane::Net(_) => self.net.as_ref().map_or(self_::CAPS, |net| net.limits()),
            Lane::Ucx(_) => self.ucx.as_ref().map_or(self_::CAPS, |ucx| ucx.limits()),
            Lane::Own => self_::CAPS,
        }
    }

    #[inline(always)]
    fn try_short(lane: &mut Lane, header: &Header, source: &SendBuf) -> bool {
        match lane {
            Lane::Shm(lane) => lane.send_now(header, source),
            Lane::Own | Lane::Net(_) | Lane::Ucx(_) => false,
        }
    }

    #[inline]
    fn try_control(&mut self, lane: &mut Lane, header: &Header, body: &[u8]) -> Outcome {
        self.send(lane, header, body, None)
    }

    #[inline]
    fn try_bcopy(&mut self, lane: &mut Lane, header: &Header, body: &[u8], source: &SendBuf) -> Outcome {
        self.send(lane, header, body, Some((source, 0, source.len())))
    }

    #[inline]
    fn try_zcopy(
        &mut self,
        lane: &mut Lane,
        header: &Header,
        body: &[u8],
        source: &SendBuf,
        from: usize,
        len: usize,
    ) -> Outcome {
        self.send(lane, header, body, Some((source, from, len)))
    }

    #[inline]
    fn expose(&mut self, _: &mut Lane, source: &SendBuf) -> u64 {
        source.as_contiguous(0).map_or(0, |at| at.expose_provenance() as u64)
    }

    fn register(&mut self, region: Exposed) -> Key {
        self.registered.register(region)
    }

    fn deregister(&mut self, key: &Key) -> bool {
        let is_known = self.registered.deregister(key);
        if let Some(ucx) = self.ucx.as_mut().filter(|_| is_known) {
            ucx.forget(key.number);
        }
        is_known
    }

    fn registered(&self, number: u32, nonce: u64) -> Option<Exposed> {
        self.registered.find(number, nonce)
    }

    fn verbs(&self, lane: &Lane) -> Verbs {
        super::verbs_of(lane)
    }

    fn put(&mut self, lane: &mut Lane, key: &Key, at: u64, source: &SendBuf) -> Access {
        match lane {
            Lane::Own => self.registered.put(key, at, source),
            Lane::Shm(lane) => memory::put(lane.single_copy_mut(), key, at, source),
            Lane::Ucx(link) => self.ucx.as_mut().map_or(Access::Lost, |ucx| ucx.put(*link, key, at, source)),
            Lane::Net(_) => Access::Unable,
        }
    }

    fn get(&mut self, lane: &mut Lane, key: &Key, at: u64, sink: &RecvBuf) -> Access {
        match lane {
            Lane::Own => self.registered.get(key, at, sink),
            Lane::Shm(lane) => memory::get(lane.single_copy_mut(), key, at, sink),
            Lane::Ucx(link) => self.ucx.as_mut().map_or(Access::Lost, |ucx| ucx.get(*link, key, at, sink)),
            Lane::Net(_) => Access::Unable,
        }
    }

    fn atomic(&mut self, lane: &mut Lane, key: &Key, at: u64, atomic: &Atomic) -> Access {
        match lane {
            Lane::Own => self.registered.atomic(key, at, atomic),
            Lane::Shm(_) | Lane::Net(_) | Lane::Ucx(_) => Access::Unable,
        }
    }

    fn flush(&mut self, lane: &mut Lane) -> Access {
        match (lane, &mut self.ucx) {
            (Lane::Ucx(link), Some(ucx)) => ucx.flush(*link),
            _ => Access::Done(0),
        }
    }

    fn pull(&mut self, lane: &mut Lane, address: u64, sink: &RecvBuf, len: usize) -> bool {
        match lane {
            Lane::Shm(shm) => {
                let done = shm.pull(address, sink, len);
                self.advise(lane);
                done
            }
            Lane::Own => self.own.pull(address, sink, len),
            Lane::Net(_) | Lane::Ucx(_) => false,
        }
    }

    fn prefers_stream(&self, lane: &Lane, len: usize) -> bool {
        matches!(lane, Lane::Shm(lane) if lane.prefers_stream(len))
    }

    fn note_streamed(&mut self, lane: &mut Lane, len: usize, since_ns: u64) {
        if let Lane::Shm(shm) = lane {
            shm.note_streamed(len, since_ns);
            self.advise(lane);
        }
    }

    fn peer_pulls(&self, lane: &Lane, len: usize) -> bool {
        matches!(lane, Lane::Shm(lane) if lane.peer_pulls(len))
    }

    fn now_ns(&self) -> u64 {
        sys::clock::now_ns()
    }

    #[inline(always)]
    fn next_eager(&mut self) -> Option<(Found, Record)> {
        // The other transports get their turn from `poll`.
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

    fn take_pieces(&mut self, peer: Peer, header: &Header, sink: &RecvBuf, place: Range<usize>) -> usize {
        self.hub.as_mut().map_or(0, |hub| hub.take_pieces(peer, header, sink, place))
    }

    #[inline]
    fn poll(&mut self) -> Option<Event<AnyPacket, Lane>> {
        self.tick = self.tick.wrapping_add(1);
        if !self.tick.is_multiple_of(SHM_STREAK)
            && let Some(hub) = &mut self.hub
            && let Some(event) = hub.poll()
        {
            match event {
                ShmEvent::Packet(packet) => return Some(Event::Packet(AnyPacket::Shm(packet))),
                ShmEvent::Lost(peer) => self.lose(peer),
            }
        }
        self.poll_slowly()
    }

    fn detach(&mut self, packet: AnyPacket) -> AnyPacket {
        let (peer, header) = (packet.peer(), packet.header());
        let mut payload = vec![0; packet.len()].into_boxed_slice();
        // SAFETY: `payload` is only touched by `deliver` while the sink lives.
        let sink = unsafe { RecvBuf::contiguous(payload.as_mut_ptr(), payload.len()) };
        self.deliver(&packet, 0, &sink, 0, payload.len(), false);
        self.release(packet);
        AnyPacket::Own(peer, SelfPacket { header, payload })
    }

    #[inline]
    fn body<const N: usize>(&mut self, packet: &AnyPacket) -> Option<[u8; N]> {
        match packet {
            AnyPacket::Shm(packet) | AnyPacket::Region(packet) => packet.body(),
            AnyPacket::Own(_, packet) => packet.payload.first_chunk::<N>().copied(),
            AnyPacket::Net(packet) => self.net.as_mut()?.body(packet),
            AnyPacket::Ucx(packet) => self.ucx.as_mut()?.body(packet),
        }
    }

    #[inline]
    fn deliver(
        &mut self,
        packet: &AnyPacket,
        skip: usize,
        sink: &RecvBuf,
        at: usize,
        len: usize,
        may_land: bool,
    ) -> Delivery {
        match packet {
            AnyPacket::Shm(packet) => {
                if let Some(hub) = &self.hub {
                    hub.deliver(packet, skip, sink, at, len);
                }
            }
            AnyPacket::Region(packet) => {
                if let Some(hub) = &self.region {
                    hub.deliver(packet, skip, sink, at, len);
                }
            }
            AnyPacket::Own(_, packet) => {
                let payload = packet.payload.get(skip..).unwrap_or_default();
                // SAFETY: the range is cut to the payload, which is valid until the packet is released.
                unsafe { sink.copy_in(at, payload.as_ptr(), len.min(payload.len())) };
            }
            AnyPacket::Net(packet) => {
                if let Some(net) = &mut self.net {
                    return net.deliver(packet, skip, (sink, at, len), may_land);
                }
            }
            AnyPacket::Ucx(packet) => {
                if let Some(ucx) = &mut self.ucx {
                    return ucx.deliver(packet, skip, (sink, at, len), may_land);
                }
            }
        }
        Delivery::Complete
    }

    fn hold(&mut self, packet: AnyPacket) -> Option<AnyPacket> {
        let is_held = match &packet {
            AnyPacket::Shm(packet) => self.hub.as_mut().is_some_and(|hub| hub.hold(packet)),
            AnyPacket::Region(packet) => self.region.as_mut().is_some_and(|hub| hub.hold(packet)),
            AnyPacket::Own(..) | AnyPacket::Net(_) | AnyPacket::Ucx(_) => false,
        };
        (!is_held).then_some(packet)
    }

    fn gather(&mut self, packet: AnyPacket) -> Option<AnyPacket> {
        let is_gathered = match &packet {
            AnyPacket::Net(packet) => self.net.as_mut().is_some_and(|net| net.gather(packet)),
            AnyPacket::Own(..) | AnyPacket::Shm(_) | AnyPacket::Region(_) | AnyPacket::Ucx(_) => false,
        };
        (!is_gathered).then_some(packet)
    }

    fn resume(&mut self, peer: Peer) {
        self.hubs().for_each(|hub| hub.resume(peer));
    }

    #[inline]
    fn release(&mut self, packet: AnyPacket) {
        match packet {
            AnyPacket::Shm(packet) => {
                if let Some(hub) = &mut self.hub {
                    hub.release(&packet);
                }
            }
            AnyPacket::Region(packet) => {
                if let Some(hub) = &mut self.region {
                    hub.release(&packet);
                }
            }
            AnyPacket::Own(..) => {}
            AnyPacket::Net(packet) => {
                if let Some(net) = &mut self.net {
                    net.release(&packet);
                }
            }
            AnyPacket::Ucx(_) => {
                if let Some(ucx) = &mut self.ucx {
                    ucx.release();
                }
            }
        }
    }
}
