//! Bytes of this transport's messages. Pure functions.
//!
//! ```text
//! front: | kind: u8 | body: u8 | 0: u16 | sequence: u32 | token: u64 | packet header: 24 bytes | body | 0 … 64 bytes
//! hello: | magic | version | UCX minor | lane | 0 | format | job | from | to | rank ids | generation | length | address | MAC | sample: 16 KiB |
//! ```
//! Little-endian. A *token* names one direction of a link. Both ends compute it from the job key; so whoever doesn't know the key can't name one.
//! A hello proves by its MAC (BLAKE3 under a key that is derived from the job's) that its sender belongs to the job, and by its sample, which the MAC covers, that the
//! lane carries data unharmed.

use base::WorldRank;
use base::ids::{JobId, ProcId};
use protocol::control::handshake::same;
use protocol::kind::BODY_MAX;
use protocol::lanes::LANES_MAX;
use protocol::wire::{HEADER_BYTES, Header, WIRE_VERSION};
use std::fmt;

/// Bytes before the body.
pub const FRONT_BYTES: usize = 16 + HEADER_BYTES;
/// Longest front with its body.
pub const FRONT_MAX: usize = FRONT_BYTES + BODY_MAX;
/// Bytes of data that a hello brings, so that a lane is tried with what it is for.
pub const SAMPLE_BYTES: usize = 16 * 1024;
/// Longest worker address that is accepted.
const ADDRESS_MAX: usize = 32 * 1024;

const MAGIC: [u8; 8] = *b"ferrucx\n";
const FIXED_BYTES: usize = 80;
const MAC_BYTES: usize = 32;

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A packet of the engine; `sequence` counts those of its direction.
    Packet,
    /// `sequence` packets of the direction have been consumed.
    Acknowledgement,
    /// Opens a direction.
    Hello,
    /// The direction is open.
    Ready,
    /// The last of a direction; `sequence` as of a packet.
    Close,
    /// Asks for the remote key of a registration, named by the data.
    KeyWanted,
    /// The answer to that.
    Key,
}

const KINDS: [Kind; 7] =
    [Kind::Packet, Kind::Acknowledgement, Kind::Hello, Kind::Ready, Kind::Close, Kind::KeyWanted, Kind::Key];

/// What stands before the data of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Front {
    /// What it is.
    pub kind: Kind,
    /// See [`Kind`].
    pub sequence: u32,
    /// The direction that it belongs to.
    pub token: u64,
    /// The packet's header.
    pub header: Option<Header>,
    body: [u8; BODY_MAX],
    body_len: u8,
}

impl Front {
    /// The front of a message that is no packet.
    pub fn control(kind: Kind, token: u64, sequence: u32) -> Front {
        Front { kind, sequence, token, header: None, body: [0; BODY_MAX], body_len: 0 }
    }

    /// The packet's body.
    pub fn body(&self) -> &[u8] {
        &self.body[..usize::from(self.body_len)]
    }

    /// Reads a front; `None` if it is none.
    pub fn decode(bytes: &[u8]) -> Option<Front> {
        let (fixed, rest) = bytes.split_first_chunk::<16>()?;
        let kind = *KINDS.get(usize::from(fixed[0]))?;
        let sequence = u32::from_le_bytes(std::array::from_fn(|i| fixed[4 + i]));
        let token = u64::from_le_bytes(std::array::from_fn(|i| fixed[8 + i]));
        let mut front = Front::control(kind, token, sequence);
        if kind == Kind::Packet {
            let (header, body) = rest.split_first_chunk::<HEADER_BYTES>()?;
            front.header = Some(Header::decode(header)?);
            front.body.get_mut(..body.len())?.copy_from_slice(body);
            front.body_len = fixed[1];
            return (body.len() == usize::from(fixed[1])).then_some(front);
        }
        rest.is_empty().then_some(front)
    }

    /// The bytes of a front without a packet.
    pub fn encode(&self) -> [u8; 16] {
        fixed(self.kind, 0, self.sequence, self.token)
    }
}

fn fixed(kind: Kind, body: usize, sequence: u32, token: u64) -> [u8; 16] {
    let mut out = [0; 16];
    out[0] = KINDS.iter().position(|other| *other == kind).unwrap_or_default() as u8;
    out[1] = body as u8;
    out[4..8].copy_from_slice(&sequence.to_le_bytes());
    out[8..].copy_from_slice(&token.to_le_bytes());
    out
}

/// The front of a packet with its body, and how long it is.
pub fn packet(header: &Header, body: &[u8], sequence: u32, token: u64) -> ([u8; FRONT_MAX], usize) {
    let mut out = [0; FRONT_MAX];
    out[..16].copy_from_slice(&fixed(Kind::Packet, body.len(), sequence, token));
    out[16..FRONT_BYTES].copy_from_slice(&header.encode());
    out[FRONT_BYTES..FRONT_BYTES + body.len()].copy_from_slice(body);
    (out, FRONT_BYTES + body.len())
}

/// Opens a direction of a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The minor version of the sender's UCX.
    pub ucx_minor: u8,
    /// The number of the lane among those of the pair.
    pub lane: u8,
    /// Stands for settings that are equal on all ranks.
    pub format: u32,
    /// Who opens it.
    pub from: ProcId,
    /// To whom.
    pub to: WorldRank,
    /// The random identities of both processes.
    pub rank_ids: [u128; 2],
    /// How often the sender has opened it, from 1.
    pub generation: u64,
    /// The sender's worker.
    pub address: Vec<u8>,
}

/// Why a hello is not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stranger {
    /// It is no hello.
    Garbage,
    /// Of another version of Ferrule.
    Version,
    /// Its sender doesn't know the job key, or the data were changed on their way.
    Proof,
    /// It belongs to another job.
    Job,
    /// It is for another process.
    Misdirected,
    /// Its settings change what travels.
    Settings,
    /// Its UCX has another minor version.
    Ucx(u8),
    /// It was seen before.
    Stale,
}

impl fmt::Display for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stranger::Garbage => "it is no hello of ferrule",
            Stranger::Version => "it has another version of ferrule",
            Stranger::Proof => "it does not know the job key, or the data were changed on their way",
            Stranger::Job => "it belongs to another job",
            Stranger::Misdirected => "it wants another process",
            Stranger::Settings => "its FERRULE_UCX_PACKET_MAX, FERRULE_LANES or FERRULE_LANE_POLICY is not ours",
            Stranger::Ucx(minor) => return write!(f, "its UCX is 1.{minor}"),
            Stranger::Stale => "it was seen before",
        })
    }
}

/// The key of this transport's proofs, from the job's.
pub fn transport_key(job_key: &[u8; 16]) -> [u8; 32] {
    blake3::derive_key("ferrule 2026 ucx transport", job_key)
}

/// The token of the direction that a hello opens.
pub fn token(key: &[u8; 32], rank_ids: [u128; 2], lane: u8, generation: u64) -> u64 {
    let mut text = [0; 41];
    text[..16].copy_from_slice(&rank_ids[0].to_le_bytes());
    text[16..32].copy_from_slice(&rank_ids[1].to_le_bytes());
    text[32] = lane;
    text[33..].copy_from_slice(&generation.to_le_bytes());
    let hash = blake3::keyed_hash(key, &text);
    u64::from_le_bytes(std::array::from_fn(|i| hash.as_bytes()[i]))
}

impl Hello {
    /// The bytes, with proof and sample.
    pub fn encode(&self, key: &[u8; 32]) -> Vec<u8> {
        let mut out = Vec::with_capacity(FIXED_BYTES + self.address.len() + MAC_BYTES + SAMPLE_BYTES);
        out.extend(MAGIC);
        out.extend([WIRE_VERSION, self.ucx_minor, self.lane, 0]);
        out.extend(self.format.to_le_bytes());
        out.extend(self.from.job.0.to_le_bytes());
        out.extend(self.from.rank.0.to_le_bytes());
        out.extend(self.to.0.to_le_bytes());
        out.extend(self.rank_ids[0].to_le_bytes());
        out.extend(self.rank_ids[1].to_le_bytes());
        out.extend(self.generation.to_le_bytes());
        out.extend((self.address.len() as u64).to_le_bytes());
        out.extend(&self.address);
        let proof = out.len();
        out.extend([0; MAC_BYTES]);
        let mut sample = [0; SAMPLE_BYTES];
        blake3::Hasher::new_keyed(key).update(&out[..proof]).finalize_xof().fill(&mut sample);
        out.extend(sample);
        let mac = mac(key, &out, proof);
        out[proof..proof + MAC_BYTES].copy_from_slice(&mac);
        out
    }

    /// Reads a hello whose proof is right.
    pub fn decode(key: &[u8; 32], bytes: &[u8]) -> Result<Hello, Stranger> {
        if bytes.len() < FIXED_BYTES || bytes[..8] != MAGIC {
            return Err(Stranger::Garbage);
        }
        if bytes[8] != WIRE_VERSION {
            return Err(Stranger::Version);
        }
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let id = |at: usize| u128::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let len = usize::try_from(long(FIXED_BYTES - 8)).ok().filter(|len| *len <= ADDRESS_MAX);
        let len = len.filter(|len| bytes.len() == FIXED_BYTES + len + MAC_BYTES + SAMPLE_BYTES);
        let proof = FIXED_BYTES + len.ok_or(Stranger::Garbage)?;
        if usize::from(bytes[10]) >= LANES_MAX {
            return Err(Stranger::Garbage);
        }
        if !same(&mac(key, bytes, proof), &bytes[proof..proof + MAC_BYTES]) {
            return Err(Stranger::Proof);
        }
        Ok(Hello {
            ucx_minor: bytes[9],
            lane: bytes[10],
            format: word(12),
            from: ProcId { job: JobId(long(16)), rank: WorldRank(word(24)) },
            to: WorldRank(word(28)),
            rank_ids: [id(32), id(48)],
            generation: long(64),
            address: bytes[FIXED_BYTES..proof].to_vec(),
        })
    }
}

/// The proof over everything but its own place.
fn mac(key: &[u8; 32], bytes: &[u8], proof: usize) -> [u8; MAC_BYTES] {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(&bytes[..proof]).update(&bytes[proof + MAC_BYTES..]);
    *hasher.finalize().as_bytes()
}

/// What [`Kind::Key`] says of a registration, before the packed key; nothing follows if there is no such registration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyFacts {
    /// Number and nonce of the registration.
    pub name: (u32, u64),
    /// Where it begins in its owner's memory.
    pub address: u64,
    /// Its bytes.
    pub len: u64,
}

/// Bytes of [`KeyFacts`].
pub const KEY_FACTS_BYTES: usize = 28;

impl KeyFacts {
    /// The bytes.
    pub fn encode(&self) -> [u8; KEY_FACTS_BYTES] {
        let mut out = [0; KEY_FACTS_BYTES];
        out[..4].copy_from_slice(&self.name.0.to_le_bytes());
        for (word, at) in [self.name.1, self.address, self.len].iter().zip([4, 12, 20]) {
            out[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// The facts, and the packed key behind them.
    pub fn decode(bytes: &[u8]) -> Option<(KeyFacts, &[u8])> {
        let (fixed, packed) = bytes.split_first_chunk::<KEY_FACTS_BYTES>()?;
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| fixed[at + i]));
        let number = u32::from_le_bytes(std::array::from_fn(|i| fixed[i]));
        Some((KeyFacts { name: (number, long(4)), address: long(12), len: long(20) }, packed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use protocol::order::Number;

    const KEY: [u8; 32] = [7; 32];

    fn hello() -> Hello {
        Hello {
            ucx_minor: 13,
            lane: 2,
            format: 99,
            from: ProcId { job: JobId(5), rank: WorldRank(1) },
            to: WorldRank(2),
            rank_ids: [1 << 100, 3],
            generation: 4,
            address: (0..200).collect(),
        }
    }

    #[test]
    fn hellos_are_read_back_and_prove_the_key() {
        let bytes = hello().encode(&KEY);
        assert_eq!(Hello::decode(&KEY, &bytes), Ok(hello()));
        assert_eq!(Hello::decode(&[8; 32], &bytes), Err(Stranger::Proof));
        let of = |at: usize| {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            Hello::decode(&KEY, &changed).unwrap_err()
        };
        assert_eq!(
            [of(0), of(8), of(9), of(64)],
            [Stranger::Garbage, Stranger::Version, Stranger::Proof, Stranger::Proof]
        );
        assert_eq!([of(bytes.len() - 1), of(FIXED_BYTES + 3)], [Stranger::Proof, Stranger::Proof]);
        assert_eq!(Hello::decode(&KEY, &bytes[..bytes.len() - 1]), Err(Stranger::Garbage));
    }

    #[test]
    fn each_direction_lane_and_generation_has_a_token_of_its_own() {
        let all = [([1, 2], 0, 1), ([2, 1], 0, 1), ([1, 2], 1, 1), ([1, 2], 0, 2)];
        let tokens: std::collections::HashSet<u64> = all.map(|(ids, lane, round)| token(&KEY, ids, lane, round)).into();
        assert_eq!(tokens.len(), 4);
    }

    #[test]
    fn fronts_are_read_back() {
        let header =
            Header { kind: protocol::kind::Kind::DATA, number: Number::NONE, source: 1, tag: 2, token: 3, context: 4 };
        let (bytes, len) = packet(&header, b"12345678", 77, 88);
        let front = Front::decode(&bytes[..len]).unwrap();
        assert_eq!((front.header, front.body(), front.sequence, front.token), (Some(header), &b"12345678"[..], 77, 88));
        assert_eq!(Front::decode(&bytes[..len - 1]), None);
        for kind in KINDS.into_iter().skip(1) {
            let front = Front::control(kind, 5, 6);
            assert_eq!(Front::decode(&front.encode()), Some(front));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            Front::decode(&bytes);
            KeyFacts::decode(&bytes);
            prop_assert!(Hello::decode(&KEY, &bytes).is_err());
        }
    }
}
