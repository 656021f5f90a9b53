//! Both ends of a connection between agents prove that they know the job key, without sending it.
//!
//! ```text
//! parent ─ MAGIC version nonce_p ─────────────────────────► child
//! parent ◄ MAGIC version node nonce_c mac(key, "c", …) ──── child
//! parent ─ mac(key, "p", …) ──────────────────────────────► child      then frames both ways
//! ```
//! The MAC is SipHash-2-4 (Aumasson, Bernstein 2012) with 128-bit key, run twice under different prefixes for 128 bits.
//! [`Handshake`] is either end without its connection: it takes bytes, and says what to send.

use super::sealed::Seals;
use base::{Result, ensure};

/// Opens each side's first message.
pub const MAGIC: [u8; 6] = *b"FERRUL";
/// Bytes of the parent's challenge.
pub const CHALLENGE: usize = 24;
/// Bytes of the child's answer.
pub const ANSWER: usize = 44;
/// Bytes of the parent's proof.
const PROOF: usize = 16;
/// Bytes of magic and version.
const OPENING: usize = 8;

/// The job's secret.
#[derive(Clone, Copy, PartialEq)]
pub struct Key(pub [u8; 16]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(secret)")
    }
}

impl Key {
    /// A key for one purpose, from which nothing can be learned about this one or those for others.
    pub fn derive(self, purpose: &[u8]) -> Key {
        Key(mac(self, b'd', purpose, &[]))
    }
}

/// One end of a handshake. Whoever drives it sends and receives: [`Handshake::take`] gets what has come, then [`Handshake::step`] says what is next.
pub struct Handshake {
    side: Side,
    /// The message that is coming, and how much of it is there.
    message: [u8; ANSWER],
    len: usize,
}

enum Side {
    /// Has sent the challenge.
    Parent { nonce: [u8; 16] },
    /// Waits for the challenge.
    Child { node: u32, nonce: [u8; 16] },
    /// Has answered.
    Answered { challenge: [u8; CHALLENGE], answer: [u8; ANSWER] },
}

/// What is next.
pub enum Step {
    /// More has to come.
    Wait,
    /// The child sends this, and goes on.
    Answer([u8; ANSWER]),
    /// The other end knows the key.
    Met(Met),
}

/// The end of a handshake.
pub struct Met {
    /// The child's number.
    pub node: u32,
    /// What this end still sends: a parent its proof, if it takes the child; a child nothing.
    pub last: Vec<u8>,
    /// Seal what follows.
    pub seals: Seals,
}

impl Handshake {
    /// The parent's end, which has sent [`challenge`] with this nonce.
    pub fn of_parent(nonce: [u8; 16]) -> Handshake {
        Handshake::new(Side::Parent { nonce })
    }

    /// The end of the child `node`, with a nonce of its own.
    pub fn of_child(node: u32, nonce: [u8; 16]) -> Handshake {
        Handshake::new(Side::Child { node, nonce })
    }

    fn new(side: Side) -> Handshake {
        Handshake { side, message: [0; ANSWER], len: 0 }
    }

    fn message_len(&self) -> usize {
        match self.side {
            Side::Parent { .. } => ANSWER,
            Side::Child { .. } => CHALLENGE,
            Side::Answered { .. } => PROOF,
        }
    }

    /// Bytes that the next message still lacks. More may follow that is not the handshake's.
    pub fn wants(&self) -> usize {
        self.message_len() - self.len
    }

    /// Whether the other end has said nothing at all.
    pub fn is_silent(&self) -> bool {
        self.len == 0 && !matches!(self.side, Side::Answered { .. })
    }

    /// Takes bytes that have come, up to [`Handshake::wants`]; how many.
    pub fn take(&mut self, bytes: &[u8]) -> usize {
        let n = self.wants().min(bytes.len());
        self.message[self.len..][..n].copy_from_slice(&bytes[..n]);
        self.len += n;
        n
    }

    /// The message, if it is complete.
    fn complete<const N: usize>(&self) -> Option<[u8; N]> {
        self.message[..self.len].first_chunk().copied()
    }

    /// Does what is possible with the bytes that have come. `key_of` gives the key of the child with a number, which it may only claim to be.
    pub fn step(&mut self, key_of: impl FnOnce(u32) -> Key) -> Result<Step> {
        match self.side {
            Side::Parent { nonce } => {
                self.check_opening()?;
                let Some(answer) = self.complete() else { return Ok(Step::Wait) };
                let node = claimed_node(&answer);
                let key = key_of(node);
                let last = check_answer(key, nonce, &answer)?.to_vec();
                Ok(Step::Met(Met { node, last, seals: Seals::of_parent(key, nonce, &answer) }))
            }
            Side::Child { node, nonce } => {
                self.check_opening()?;
                let Some(challenge) = self.complete() else { return Ok(Step::Wait) };
                let answer = answer(key_of(node), &challenge, node, nonce);
                *self = Handshake::new(Side::Answered { challenge, answer });
                Ok(Step::Answer(answer))
            }
            Side::Answered { challenge, answer } => {
                let Some(proof) = self.complete() else { return Ok(Step::Wait) };
                let node = claimed_node(&answer);
                let key = key_of(node);
                check_proof(key, &challenge, &answer, &proof)?;
                Ok(Step::Met(Met { node, last: Vec::new(), seals: Seals::of_child(key, &challenge, &answer) }))
            }
        }
    }

    /// Nobody who says something else from the first byte on is waited for.
    fn check_opening(&self) -> Result {
        let opening = challenge([0; 16]);
        let (magic, version) = (self.len.min(MAGIC.len()), self.len.min(OPENING));
        ensure!(self.message[..magic] == opening[..magic], ERR_OTHER, "it does not speak our protocol");
        ensure!(self.message[..version] == opening[..version], ERR_OTHER, "another version of ferrule");
        Ok(())
    }
}

/// The parent's first message.
pub fn challenge(nonce: [u8; 16]) -> [u8; CHALLENGE] {
    let mut out = [0; CHALLENGE];
    out[..6].copy_from_slice(&MAGIC);
    out[6..OPENING].copy_from_slice(&super::VERSION.to_le_bytes());
    out[OPENING..].copy_from_slice(&nonce);
    out
}

pub(super) fn answer(key: Key, challenge: &[u8; CHALLENGE], node: u32, nonce: [u8; 16]) -> [u8; ANSWER] {
    let mut out = [0; ANSWER];
    out[..OPENING].copy_from_slice(&challenge[..OPENING]);
    out[8..12].copy_from_slice(&node.to_le_bytes());
    out[12..28].copy_from_slice(&nonce);
    let proof = mac(key, b'c', &challenge[OPENING..], &out[8..28]);
    out[28..].copy_from_slice(&proof);
    out
}

fn claimed_node(answer: &[u8; ANSWER]) -> u32 {
    u32::from_le_bytes([answer[8], answer[9], answer[10], answer[11]])
}

/// The proof to send back.
fn check_answer(key: Key, nonce: [u8; 16], answer: &[u8; ANSWER]) -> Result<[u8; PROOF]> {
    let wanted = mac(key, b'c', &nonce, &answer[8..28]);
    ensure!(same(&wanted, &answer[28..]), ERR_OTHER, "the job key is wrong");
    Ok(mac(key, b'p', &nonce, &answer[8..28]))
}

fn check_proof(key: Key, challenge: &[u8; CHALLENGE], answer: &[u8; ANSWER], proof: &[u8; PROOF]) -> Result {
    let wanted = mac(key, b'p', &challenge[OPENING..], &answer[8..28]);
    ensure!(same(&wanted, proof), ERR_OTHER, "the listener does not know the job key");
    Ok(())
}

/// Compares in a time that does not depend on the contents.
pub fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |acc, (x, y)| acc | (x ^ y)) == 0
}

fn mac(key: Key, role: u8, a: &[u8], b: &[u8]) -> [u8; 16] {
    let mut out = [0; 16];
    for half in 0..2u8 {
        let text: Vec<u8> = [&[role, half], a, b].concat();
        out[usize::from(half) * 8..][..8].copy_from_slice(&siphash(key.0, &text).to_le_bytes());
    }
    out
}

/// SipHash-2-4 of `text` under `key`.
pub fn siphash(key: [u8; 16], text: &[u8]) -> u64 {
    let word = |bytes: &[u8]| {
        let mut raw = [0; 8];
        raw[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(raw)
    };
    let (k0, k1) = (word(&key[..8]), word(&key[8..]));
    let constants: [u64; 4] =
        [0x736f_6d65_7073_6575, 0x646f_7261_6e64_6f6d, 0x6c79_6765_6e65_7261, 0x7465_6462_7974_6573];
    let mut v = [constants[0] ^ k0, constants[1] ^ k1, constants[2] ^ k0, constants[3] ^ k1];
    let mut absorb = |m: u64| {
        v[3] ^= m;
        sip_rounds(&mut v, 2);
        v[0] ^= m;
    };
    let chunks = text.chunks_exact(8);
    let last = word(chunks.remainder()) | ((text.len() as u64) << 56);
    chunks.for_each(|c| absorb(word(c)));
    absorb(last);
    v[2] ^= 0xff;
    sip_rounds(&mut v, 4);
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn sip_rounds(v: &mut [u64; 4], n: u32) {
    for _ in 0..n {
        v[0] = v[0].wrapping_add(v[1]);
        v[2] = v[2].wrapping_add(v[3]);
        v[1] = v[1].rotate_left(13) ^ v[0];
        v[3] = v[3].rotate_left(16) ^ v[2];
        v[0] = v[0].rotate_left(32);
        v[2] = v[2].wrapping_add(v[1]);
        v[0] = v[0].wrapping_add(v[3]);
        v[1] = v[1].rotate_left(17) ^ v[2];
        v[3] = v[3].rotate_left(21) ^ v[0];
        v[2] = v[2].rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siphash_agrees_with_its_published_vectors() {
        let key: [u8; 16] = std::array::from_fn(|i| i as u8);
        let text: Vec<u8> = (0..15).collect();
        assert_eq!(siphash(key, &text), 0xa129_ca61_49be_45e5);
        assert_eq!(siphash(key, &[]), 0x726f_db47_dd0e_0e31);
    }

    /// What a parent and a child with these keys say to each other, in pieces of `piece` bytes; `harm` sees each message on its way.
    fn converse(keys: [Key; 2], piece: usize, harm: impl Fn(&mut [u8])) -> Result<(Met, Met)> {
        let (mut parent, mut child) = (Handshake::of_parent([1; 16]), Handshake::of_child(5, [2; 16]));
        let deliver = |to: &mut Handshake, message: &mut [u8], key| -> Result<Step> {
            assert!(matches!(to.step(|_| key)?, Step::Wait));
            harm(message);
            let mut step = Step::Wait;
            for piece in message.chunks(piece) {
                assert!(matches!(step, Step::Wait));
                assert_eq!(to.take(piece), piece.len());
                step = to.step(|_| key)?;
            }
            Ok(step)
        };
        let Step::Answer(mut answer) = deliver(&mut child, &mut challenge([1; 16]), keys[1])? else {
            panic!("an answer follows the challenge")
        };
        let Step::Met(parent) = deliver(&mut parent, &mut answer, keys[0])? else { panic!("nothing lacks") };
        let Step::Met(child) = deliver(&mut child, &mut parent.last.clone(), keys[1])? else { panic!("nothing lacks") };
        Ok((parent, child))
    }

    #[test]
    fn both_sides_accept_each_other_only_with_the_same_key() {
        let (key, wrong) = (Key([7; 16]), Key([8; 16]));
        for piece in [1, 7, 100] {
            let (mut parent, mut child) = converse([key, key], piece, |_| ()).unwrap();
            assert_eq!((parent.node, child.node, child.last.len()), (5, 5, 0));
            let mut sealed = Vec::new();
            parent.seals.seal(&[1, 0, 0, 0, 9], &mut sealed);
            let mut body = sealed.split_off(4);
            child.seals.open(&mut body).unwrap();
            assert_eq!(body, [9]);
        }
        assert!(converse([key, wrong], 100, |_| ()).is_err());
    }

    #[test]
    fn what_is_changed_on_its_way_is_refused() {
        let key = Key([7; 16]);
        for (len, at) in [CHALLENGE, ANSWER, PROOF].into_iter().flat_map(|len| (0..len).map(move |at| (len, at))) {
            let harm = |message: &mut [u8]| {
                if message.len() == len {
                    message[at] ^= 1
                }
            };
            assert!(converse([key, key], 100, harm).is_err(), "byte {at} of {len}");
        }
    }

    #[test]
    fn whoever_speaks_another_language_is_not_waited_for() {
        for mut end in [Handshake::of_parent([1; 16]), Handshake::of_child(1, [2; 16])] {
            assert!(end.is_silent() && end.wants() > MAGIC.len());
            end.take(b"FERGUS");
            assert!(!end.is_silent() && end.step(|_| Key([7; 16])).is_err());
        }
        let mut parent = Handshake::of_parent([1; 16]);
        assert_eq!(parent.take(&[MAGIC.as_slice(), &[0xff; 99]].concat()), ANSWER, "the rest is not the handshake's");
        assert!(parent.step(|_| Key([7; 16])).err().unwrap().origin.contains("version"));
    }
}
