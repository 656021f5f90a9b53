//! The packet header that travels on every lane, in shared memory as on sockets.
//!
//! 24 bytes, native layout of little-endian machines. A header is always copied out of the lane before it is looked at,
//! and [`Header::decode`] refuses unknown kinds.

use crate::kind::Kind;
use crate::matching::Envelope;
use crate::order::Number;

/// Bytes of an encoded [`Header`].
pub const HEADER_BYTES: usize = 24;

/// Version of this format; exchanged when a lane is opened.
pub const WIRE_VERSION: u8 = 9;

/// Identity of a message and of the operation that it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What the packet is.
    pub kind: Kind,
    /// Its place among the packets of its group of lanes, if the pair has several lanes.
    pub number: Number,
    /// Rank of the sender in the communicator of `context` (in its group, for an inter-communicator).
    pub source: u32,
    /// The message's tag.
    pub tag: i32,
    /// An operation of the side that `kind` names.
    pub token: u32,
    /// [`base::ContextId::plane`] of the communicator.
    pub context: u64,
}

impl Header {
    /// The bytes on the wire.
    #[inline(always)]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        let [first, second, third] = self.number.bytes();
        out[..4].copy_from_slice(&[self.kind.byte(), first, second, third]);
        out[4..8].copy_from_slice(&self.source.to_le_bytes());
        out[8..12].copy_from_slice(&self.tag.to_le_bytes());
        out[12..16].copy_from_slice(&self.token.to_le_bytes());
        out[16..24].copy_from_slice(&self.context.to_le_bytes());
        out
    }

    /// Reads a header; `None` if its kind is unknown.
    #[inline(always)]
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Some(Header {
            kind: Kind::from_byte(bytes[0])?,
            number: Number::from_bytes([bytes[1], bytes[2], bytes[3]]),
            source: word(4),
            tag: word(8) as i32,
            token: word(12),
            context: u64::from(word(16)) | (u64::from(word(20)) << 32),
        })
    }
}

/// The envelope of an eager message by its header in three words, `None` for other kinds, and for one that has a number, so perhaps not its turn: all
/// that the short path looks at.
#[inline(always)]
pub fn eager_envelope([first, second, context]: [u64; HEADER_BYTES / 8]) -> Option<Envelope> {
    let envelope = Envelope { context, source: (first >> 32) as u32, tag: second as i32 };
    (first as u32 == u32::from(Kind::EAGER.byte())).then_some(envelope)
}

/// Body of [`Kind::REQUEST_TO_SEND`] and [`Kind::EAGER_FIRST`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// Bytes of the message.
    pub length: u64,
    /// Where the message lies contiguously in the sender's memory; 0 if it doesn't. Of an
    /// `EAGER_FIRST`: when it was sent ([`crate::transport::Transport::now_ns`]).
    pub address: u64,
}

/// Body of [`Kind::CLEAR_TO_SEND`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The first bytes of the message that the receiver wants.
    pub length: u64,
    /// The receiver's operation, token of the `Data` packets, and above 32 bits the generation of this grant, their tag.
    pub receive: u64,
}

/// Bytes of an encoded [`Offer`] or [`Grant`].
pub const BODY_BYTES: usize = 16;

fn pair(a: u64, b: u64) -> [u8; BODY_BYTES] {
    let mut out = [0; BODY_BYTES];
    out[..8].copy_from_slice(&a.to_le_bytes());
    out[8..].copy_from_slice(&b.to_le_bytes());
    out
}

fn unpair(bytes: &[u8; BODY_BYTES]) -> (u64, u64) {
    let half = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    (half(0), half(8))
}

impl Offer {
    /// The bytes on the wire.
    pub fn encode(&self) -> [u8; BODY_BYTES] {
        pair(self.length, self.address)
    }
    /// Reads an offer; every value is possible.
    pub fn decode(bytes: &[u8; BODY_BYTES]) -> Offer {
        let (length, address) = unpair(bytes);
        Offer { length, address }
    }
}

impl Grant {
    /// The bytes on the wire.
    pub fn encode(&self) -> [u8; BODY_BYTES] {
        pair(self.length, self.receive)
    }
    /// Reads a grant; every value is possible.
    pub fn decode(bytes: &[u8; BODY_BYTES]) -> Grant {
        let (length, receive) = unpair(bytes);
        Grant { length, receive }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_the_wire() {
        let number = Number::of(0x0012_3456);
        let h = Header { kind: Kind::DATA, number, source: 7, tag: -5, token: 0xdead_beef, context: u64::MAX - 3 };
        assert_eq!(Header::decode(&h.encode()), Some(h));
        let mut bytes = h.encode();
        bytes[0] = 0;
        assert_eq!(Header::decode(&bytes), None);
    }

    #[test]
    fn only_eager_headers_without_a_number_tell_their_envelope_at_once() {
        for (kind, number) in [
            (Kind::EAGER, Number::NONE),
            (Kind::EAGER_SYNC, Number::NONE),
            (Kind::EAGER, Number::of(0)),
            (Kind::EAGER, Number::of(1 << 20)),
        ] {
            let h = Header { kind, number, source: 7, tag: -5, token: 9, context: u64::MAX - 3 };
            let words = std::array::from_fn(|i| u64::from_le_bytes(std::array::from_fn(|j| h.encode()[8 * i + j])));
            let envelope = Envelope { context: h.context, source: h.source, tag: h.tag };
            let is_shown = kind == Kind::EAGER && number.is_none();
            assert_eq!(eager_envelope(words), is_shown.then_some(envelope));
        }
    }

    #[test]
    fn bodies_survive_the_wire() {
        let o = Offer { length: 1 << 40, address: 0x7fff_0000_1234 };
        assert_eq!(Offer::decode(&o.encode()), o);
        let g = Grant { length: 3, receive: 9 };
        assert_eq!(Grant::decode(&g.encode()), g);
    }
}
