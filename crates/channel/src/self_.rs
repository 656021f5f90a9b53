//! The lane of a process to itself: a queue of packets in private memory; large messages are copied once, by `pull`.

use crate::buffer::{RecvBuf, SendBuf};
use protocol::transport::{Caps, Outcome};
use protocol::wire::Header;
use std::collections::VecDeque;

/// Bytes that may wait in the queue.
const QUEUE_BYTES: usize = 1 << 20;

/// What this lane can do.
pub const CAPS: Caps =
    Caps { packet_max: 64 << 10, piece_min: 64 << 10, eager_max: 16 << 10, fragments_max: 0, push_max: 0, pull_min: 0 };

/// A packet from this process to itself.
#[derive(Debug)]
pub struct SelfPacket {
    /// What it is.
    pub header: Header,
    /// Body and data.
    pub payload: Box<[u8]>,
}

/// The queue.
#[derive(Debug, Default)]
pub struct SelfLane {
    queue: VecDeque<SelfPacket>,
    bytes: usize,
}

impl SelfLane {
    /// Queues a packet of `header`, `body` and bytes of a source: where from and how many.
    pub fn try_send(&mut self, header: &Header, body: &[u8], source: Option<(&SendBuf, usize, usize)>) -> Outcome {
        if self.bytes > QUEUE_BYTES {
            return Outcome::Again;
        }
        let len = source.map_or(0, |(_, _, len)| len);
        let mut payload = Vec::with_capacity(body.len() + len);
        payload.extend_from_slice(body);
        payload.resize(body.len() + len, 0);
        if let Some((source, from, len)) = source {
            // SAFETY: `len` bytes were just added behind the body.
            unsafe { source.copy_out(from, payload.as_mut_ptr().add(body.len()), len) };
        }
        self.bytes += payload.len();
        self.queue.push_back(SelfPacket { header: *header, payload: payload.into_boxed_slice() });
        Outcome::Done
    }

    /// Whether packets wait.
    pub fn has_packets(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The next packet.
    #[inline]
    pub fn poll(&mut self) -> Option<SelfPacket> {
        let packet = self.queue.pop_front()?;
        self.bytes -= packet.payload.len();
        Some(packet)
    }

    /// Copies `len` bytes at `address`, which a packet of this lane named, to the start of `sink`.
    pub fn pull(&self, address: u64, sink: &RecvBuf, len: usize) -> bool {
        if len > sink.len() {
            return false;
        }
        let from = std::ptr::with_exposed_provenance::<u8>(address as usize);
        // SAFETY: the address and length come from a send of this very process that is not complete yet, so its buffer
        // is readable (contract of `SendBuf`); packets of this lane can be written by nobody else.
        unsafe { sink.copy_in(0, from, len) };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::kind::Kind;
    use protocol::order::Number;

    #[test]
    fn packets_come_back_in_order() {
        let header = |tag| Header { kind: Kind::EAGER, number: Number::NONE, source: 0, tag, token: 0, context: 0 };
        let data = [1u8, 2, 3, 4];
        // SAFETY: the array outlives the buffer.
        let source = unsafe { SendBuf::contiguous(data.as_ptr(), 4) };
        let mut lane = SelfLane::default();
        assert_eq!(lane.try_send(&header(1), b"x", Some((&source, 1, 2))), Outcome::Done);
        assert_eq!(lane.try_send(&header(2), b"", None), Outcome::Done);
        let first = lane.poll().unwrap();
        assert_eq!((first.header.tag, &*first.payload), (1, b"x\x02\x03".as_slice()));
        assert_eq!(lane.poll().unwrap().header.tag, 2);
        assert!(lane.poll().is_none());
        assert_eq!(lane.bytes, 0);
    }

    #[test]
    fn a_full_queue_says_so() {
        let header = Header { kind: Kind::EAGER, number: Number::NONE, source: 0, tag: 0, token: 0, context: 0 };
        let mut lane = SelfLane::default();
        let body = vec![0; QUEUE_BYTES + 1];
        assert_eq!(lane.try_send(&header, &body, None), Outcome::Done);
        assert_eq!(lane.try_send(&header, b"", None), Outcome::Again);
        lane.poll();
        assert_eq!(lane.try_send(&header, b"", None), Outcome::Done);
    }
}
