//! Framing of packets on a stream: length, sequence number, packet header, payload. Pure functions.
//!
//! ```text
//! | payload length: u32 | sequence: u32 | header: 24 bytes | payload |
//! ```
//! Little-endian. The sequence number counts the frames of one direction; it costs nothing and turns a framing bug or a
//! corrupted stream into an error instead of into garbage.
//!
//! An *acknowledgement* is a frame without payload, of a kind that only this transport knows: instead of a header it has zeros and, in the last
//! eight bytes, how many bytes of the other direction the sender's process has received.

use protocol::wire::{HEADER_BYTES, Header};

/// Bytes in front of the payload.
pub const FRAME_BYTES: usize = 8 + HEADER_BYTES;

/// The kind of an acknowledgement; the highest bit of kinds belongs to the lanes.
const ACKNOWLEDGEMENT: u8 = 0x80;

/// What the front of a frame says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Front {
    /// A packet, and the length of its payload.
    Packet(Header, usize),
    /// So much was received.
    Acknowledgement(u64),
}

/// Why a frame can't be right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Corrupt {
    /// The payload is longer than any that the peer may send.
    Oversized(u32),
    /// Frames are missing or the stream is garbage.
    Sequence {
        /// What should have come.
        expected: u32,
        /// What came.
        found: u32,
    },
    /// The header is of no known kind.
    Kind(u8),
    /// More is acknowledged than was sent.
    Acknowledgement,
}

impl std::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Corrupt::Oversized(len) => write!(f, "a packet of {len} bytes, more than may be sent"),
            Corrupt::Sequence { expected, found } => write!(f, "packet number {found} where {expected} is due"),
            Corrupt::Kind(kind) => write!(f, "a packet of unknown kind {kind}"),
            Corrupt::Acknowledgement => write!(f, "an acknowledgement of more than was sent"),
        }
    }
}

/// The bytes in front of a payload of `len` bytes.
#[inline]
pub fn encode(header: &Header, len: usize, sequence: u32) -> [u8; FRAME_BYTES] {
    let mut out = [0; FRAME_BYTES];
    out[..4].copy_from_slice(&(len as u32).to_le_bytes());
    out[4..8].copy_from_slice(&sequence.to_le_bytes());
    out[8..].copy_from_slice(&header.encode());
    out
}

/// The frame that acknowledges `received` bytes.
pub fn acknowledgement(received: u64, sequence: u32) -> [u8; FRAME_BYTES] {
    let mut out = [0; FRAME_BYTES];
    out[4..8].copy_from_slice(&sequence.to_le_bytes());
    out[8] = ACKNOWLEDGEMENT;
    out[FRAME_BYTES - 8..].copy_from_slice(&received.to_le_bytes());
    out
}

/// Reads the front of a frame, whose payload is at most `payload_max` bytes long.
#[inline]
pub fn decode(bytes: &[u8; FRAME_BYTES], sequence: u32, payload_max: usize) -> Result<Front, Corrupt> {
    let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    let (len, found) = (word(0), word(4));
    if found != sequence {
        return Err(Corrupt::Sequence { expected: sequence, found });
    }
    if len as usize > payload_max {
        return Err(Corrupt::Oversized(len));
    }
    match Header::decode(&std::array::from_fn(|i| bytes[8 + i])) {
        Some(header) => Ok(Front::Packet(header, len as usize)),
        None if bytes[8] == ACKNOWLEDGEMENT && len == 0 => {
            let received = u64::from(word(FRAME_BYTES - 8)) | u64::from(word(FRAME_BYTES - 4)) << 32;
            Ok(Front::Acknowledgement(received))
        }
        None => Err(Corrupt::Kind(bytes[8])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::kind::Kind;
    use protocol::order::Number;

    #[test]
    fn frames_are_checked() {
        let header = Header { kind: Kind::DATA, number: Number::NONE, source: 1, tag: -2, token: 3, context: 4 };
        let bytes = encode(&header, 100, 7);
        assert_eq!(decode(&bytes, 7, 100), Ok(Front::Packet(header, 100)));
        assert_eq!(decode(&bytes, 8, 100), Err(Corrupt::Sequence { expected: 8, found: 7 }));
        assert_eq!(decode(&bytes, 7, 99), Err(Corrupt::Oversized(100)));
        let mut wrong = bytes;
        wrong[8] = 0;
        assert_eq!(decode(&wrong, 7, 100), Err(Corrupt::Kind(0)));
        let received = 0x1234_5678_9abc;
        let mut bytes = acknowledgement(received, 3);
        assert_eq!(decode(&bytes, 3, 0), Ok(Front::Acknowledgement(received)));
        bytes[0] = 1;
        assert_eq!(decode(&bytes, 3, 100), Err(Corrupt::Kind(ACKNOWLEDGEMENT)), "it has no payload");
    }
}
