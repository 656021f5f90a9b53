//! Both ends of a connection between agents prove that they know the job key, without sending it.
//!
//! ```text
//! parent ─ MAGIC version nonce_p ─────────────────────────► child
//! parent ◄ MAGIC version node nonce_c mac(key, "c", …) ──── child
//! parent ─ mac(key, "p", …) ──────────────────────────────► child      then frames both ways
//! ```
//! The MAC is SipHash-2-4 (Aumasson, Bernstein 2012) with 128-bit key, run twice under different prefixes for 128 bits.

use base::{Result, ensure};

/// Opens each side's first message.
pub const MAGIC: [u8; 6] = *b"FERRUL";
/// Bytes of the parent's challenge.
pub const CHALLENGE: usize = 24;
/// Bytes of the child's answer.
pub const ANSWER: usize = 44;
/// Bytes of the parent's proof.
pub const PROOF: usize = 16;

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

/// The parent's first message.
pub fn challenge(nonce: [u8; 16]) -> [u8; CHALLENGE] {
    let mut out = [0; CHALLENGE];
    out[..6].copy_from_slice(&MAGIC);
    out[6..8].copy_from_slice(&super::VERSION.to_le_bytes());
    out[8..].copy_from_slice(&nonce);
    out
}

/// The child's answer to `challenge`, made with its own `nonce`.
pub fn answer(key: Key, challenge: &[u8; CHALLENGE], node: u32, nonce: [u8; 16]) -> Result<[u8; ANSWER]> {
    check_opening(challenge)?;
    let mut out = [0; ANSWER];
    out[..8].copy_from_slice(&challenge[..8]);
    out[8..12].copy_from_slice(&node.to_le_bytes());
    out[12..28].copy_from_slice(&nonce);
    let proof = mac(key, b'c', &challenge[8..], &out[8..28]);
    out[28..].copy_from_slice(&proof);
    Ok(out)
}

/// The node index that an answer claims.
pub fn claimed_node(answer: &[u8; ANSWER]) -> u32 {
    u32::from_le_bytes([answer[8], answer[9], answer[10], answer[11]])
}

/// The parent checks the `answer`; gives the child's node index and the proof to send back.
pub fn check_answer(key: Key, nonce: [u8; 16], answer: &[u8; ANSWER]) -> Result<(u32, [u8; PROOF])> {
    check_opening(answer)?;
    let wanted = mac(key, b'c', &nonce, &answer[8..28]);
    ensure!(same(&wanted, &answer[28..]), ERR_OTHER, "the job key is wrong");
    Ok((claimed_node(answer), mac(key, b'p', &nonce, &answer[8..28])))
}

/// The child checks the parent's `proof` against its own `answer`.
pub fn check_proof(key: Key, challenge: &[u8; CHALLENGE], answer: &[u8; ANSWER], proof: &[u8; PROOF]) -> Result {
    let wanted = mac(key, b'p', &challenge[8..], &answer[8..28]);
    ensure!(same(&wanted, proof), ERR_OTHER, "the listener does not know the job key");
    Ok(())
}

fn check_opening(bytes: &[u8]) -> Result {
    ensure!(bytes[..6] == MAGIC, ERR_OTHER, "not a ferrule agent");
    ensure!(bytes[6..8] == super::VERSION.to_le_bytes(), ERR_OTHER, "another version of ferrule");
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

    #[test]
    fn both_sides_accept_each_other_only_with_the_same_key() {
        let (key, wrong) = (Key([7; 16]), Key([8; 16]));
        let challenge = challenge([1; 16]);
        let answer = answer(key, &challenge, 5, [2; 16]).unwrap();
        let (node, proof) = check_answer(key, [1; 16], &answer).unwrap();
        assert_eq!(node, 5);
        check_proof(key, &challenge, &answer, &proof).unwrap();
        assert!(check_answer(wrong, [1; 16], &answer).is_err());
        assert!(check_proof(wrong, &challenge, &answer, &proof).is_err());
        assert!(check_answer(key, [3; 16], &answer).is_err());
        let mut other_node = answer;
        other_node[8] ^= 1;
        assert!(check_answer(key, [1; 16], &other_node).is_err());
    }
}
