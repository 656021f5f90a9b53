//! Packets: sending, what is shown to the engine, payloads that land.

use super::link::{Link, State};
use super::wire::{self, Front, Kind};
use super::{Current, Operation, UCX_ZERO_COPY_MIN, UcxEvent, UcxNet, UcxPacket};
use crate::buffer::{RecvBuf, SendBuf};
use ::ucx::{Payload, Progress, Status};
use protocol::transport::{Delivery, Outcome, Token};
use protocol::wire::Header;

impl UcxNet {
    /// Sends a packet over a link.
    #[inline]
    pub fn send(
        &mut self,
        index: u32,
        header: &Header,
        body: &[u8],
        bytes: Option<(&SendBuf, usize, usize)>,
    ) -> Outcome {
        let link = &mut self.links[index as usize];
        if !link.is_sendable() {
            return without_room(link);
        }
        let Some(endpoint) = link.endpoint.filter(|_| link.window.has_room()) else { return Outcome::Again };
        let (front, front_len) = wire::packet(header, body, link.window.next(), link.own_token);
        let front = &front[..front_len];
        let len = bytes.map_or(0, |(_, _, len)| len);
        let rail = link.worker;
        if header.kind.info().lands
            && len as u64 >= UCX_ZERO_COPY_MIN.value()
            && let Some((source, from, len)) = bytes
            && let Some(place) = source.as_contiguous(from)
        {
            let tag = self.tag();
            let worker = &mut self.rails[rail].worker;
            // SAFETY: the source is in use until `Sent`, or until the peer is lost, which is told when the operation is over.
            let sent = unsafe { worker.send_from(endpoint, front, (place, len), true, tag) };
            return self.on_posted(index, sent, tag, len);
        }
        let sent = self.rails[rail].worker.send(endpoint, front, |data| {
            if let Some((source, from, len)) = bytes {
                data.reserve(len);
                // SAFETY: there is room for `len` bytes, and all of them are written.
                unsafe {
                    source.copy_out(from, data.as_mut_ptr(), len);
                    data.set_len(len);
                }
            }
        });
        match sent {
            Ok(()) => {
                self.link(index).window.note_sent(len);
                Outcome::Done
            }
            Err(status) => self.on_refused(index, status),
        }
    }

    fn on_posted(&mut self, index: u32, sent: Result<Progress, Status>, tag: u64, len: usize) -> Outcome {
        match sent {
            Ok(progress) => {
                let link = self.link(index);
                link.window.note_sent(len);
                if progress == Progress::Done {
                    return Outcome::Done;
                }
                link.posted += 1;
                self.operations.insert(tag, (index, Operation::Send));
                Outcome::Posted(Token(tag))
            }
            Err(status) => self.on_refused(index, status),
        }
    }

    #[cold]
    fn on_refused(&mut self, index: u32, status: Status) -> Outcome {
        self.on_failed(index, status.to_string());
        Outcome::Again
    }

    /// Sends a message without a place in the order. A link that can't takes notice by its failure.
    pub(super) fn send_control(&mut self, index: u32, front: Front, data: &[u8]) {
        let Some(endpoint) = self.link(index).endpoint else { return };
        let sent = self.worker_of(index).send(endpoint, &front.encode(), |place| place.extend_from_slice(data));
        if let Err(status) = sent {
            self.on_failed(index, status.to_string());
        }
    }

    /// Copies the first bytes of the packet that was shown.
    pub fn body<const N: usize>(&self, _: &UcxPacket) -> Option<[u8; N]> {
        let current = self.current.as_ref()?;
        if let Some(body) = current.front.body().first_chunk::<N>() {
            return Some(*body);
        }
        let data = self.data(current).unwrap_or_default();
        let mut bytes = current.front.body().iter().chain(data).copied();
        let mut out = [0; N];
        for byte in &mut out {
            *byte = bytes.next()?;
        }
        Some(out)
    }

    /// The data of the packet that was shown, if they are here.
    fn data<'a>(&'a self, current: &'a Current) -> Option<&'a [u8]> {
        let rail = self.links[current.link as usize].worker;
        current.payload.as_ref().and_then(|payload| self.rails[rail].worker.bytes(payload))
    }

    /// Moves bytes of the packet that was shown to their place.
    pub fn deliver(
        &mut self,
        packet: &UcxPacket,
        skip: usize,
        (sink, at, len): (&RecvBuf, usize, usize),
        may_land: bool,
    ) -> Delivery {
        let Some(current) = &self.current else { return Delivery::Complete };
        if let Some(data) = self.data(current) {
            let body = current.front.body();
            let of_body = body.get(skip..).unwrap_or_default();
            let of_body = &of_body[..of_body.len().min(len)];
            let data = data.get(skip.saturating_sub(body.len())..).unwrap_or_default();
            let data = &data[..data.len().min(len - of_body.len())];
            // SAFETY: both are slices of what has arrived.
            unsafe {
                sink.copy_in(at, of_body.as_ptr(), of_body.len());
                sink.copy_in(at + of_body.len(), data.as_ptr(), data.len());
            }
            return Delivery::Complete;
        }
        let index = current.link;
        if !may_land || skip != current.front.body().len() {
            self.fail(index, "it offers data of a packet that has to bring them");
            return Delivery::Complete;
        }
        self.land(index, packet.header, (sink, at, len));
        Delivery::Landing
    }

    /// Has the data of the packet that was shown brought to their place.
    fn land(&mut self, index: u32, header: Header, (sink, at, len): (&RecvBuf, usize, usize)) {
        let Some(payload) = self.current.as_mut().and_then(|current| current.payload.take()) else { return };
        let whole = payload.len();
        let direct = sink.as_contiguous(at).filter(|_| whole == len && at + len <= sink.len());
        let mut by_way_of = direct.is_none().then(|| (vec![0; whole], sink.clone(), at));
        let place = match (&mut by_way_of, direct) {
            (Some((bytes, ..)), _) => bytes.as_mut_ptr(),
            (None, place) => place.unwrap_or(std::ptr::null_mut()),
        };
        let tag = self.tag();
        // SAFETY: the sink is the engine's until `Landed`, or until the peer is lost, which is told when the operation is over; bytes of our own
        // belong to the operation.
        let progress = unsafe { self.worker_of(index).receive(payload, place, tag) };
        let link = self.link(index);
        link.is_landing = true;
        match progress {
            Ok(Progress::Done) => self.on_landed(index, header, len, by_way_of),
            Ok(Progress::Posted) => {
                link.posted += 1;
                self.operations.insert(tag, (index, Operation::Land { header, len, by_way_of }));
            }
            Err(status) => {
                link.is_landing = false;
                self.on_failed(index, status.to_string());
            }
        }
    }

    pub(super) fn on_landed(
        &mut self,
        index: u32,
        header: Header,
        len: usize,
        by_way_of: Option<(Vec<u8>, RecvBuf, usize)>,
    ) {
        if let Some((bytes, sink, at)) = by_way_of {
            // SAFETY: the bytes have arrived.
            unsafe { sink.copy_in(at, bytes.as_ptr(), bytes.len().min(len)) };
        }
        let link = self.link(index);
        link.is_landing = false;
        let peer = link.peer;
        self.events.push_back(UcxEvent::Landed { peer, header, len });
        self.consumed(index, len);
        self.queue(index);
    }

    /// Gives the packet that was shown back.
    pub fn release(&mut self) {
        let Some(Current { link, payload, .. }) = self.current.take() else { return };
        // One that lands is consumed when it has landed.
        if let Some(payload) = payload {
            let len = payload.len();
            self.worker_of(link).release(payload);
            self.consumed(link, len);
        }
    }

    fn consumed(&mut self, index: u32, len: usize) {
        if let Some(count) = self.link(index).order.consumed(len) {
            self.acknowledge(index, count);
        }
    }

    pub(super) fn acknowledge(&mut self, index: u32, count: u32) {
        let token = self.link(index).their_token;
        self.send_control(index, Front::control(Kind::Acknowledgement, token, count), &[]);
    }

    /// Gives back what has arrived and is not shown any more.
    pub(super) fn drop_payloads(&mut self, index: u32, payloads: Vec<Payload>) {
        let worker = self.worker_of(index);
        payloads.into_iter().for_each(|payload| worker.release(payload));
    }
}

/// Why nothing can be sent over a link.
#[cold]
fn without_room(link: &Link) -> Outcome {
    match link.state {
        State::Lost | State::Finished => Outcome::Lost,
        State::Active if link.is_left => Outcome::Lost,
        _ => Outcome::Again,
    }
}
