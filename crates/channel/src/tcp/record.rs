//! Records: what a protected connection carries instead of the bare stream. AES-128-GCM (NIST SP 800-38D), a key for each connection and direction. No I/O.
//!
//! ```text
//! length: u32 │ data │ tag: 16 bytes          length counts data and tag
//! ```
//! With `encrypt` the data is encrypted and the tag covers data and length; with `mac` the data is as it was, and the tag covers the same.
//! Keys come from the secret of the introduction, both its nonces and all that its hello says (BLAKE3, key derivation mode). The n-th record of a
//! direction is sealed with nonce n, so a record that was changed, left out, repeated or moved doesn't open, and neither does any record after it.
//! After [`RECORDS_PER_KEY`] records the next key is derived from the last one, so that no key protects more than 128 GiB.

use super::security::Security;
use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes128Gcm, KeyInit, Nonce, Tag};

/// Bytes in front of a record's data.
pub const HEADER_BYTES: usize = 4;
/// Bytes behind it.
pub const TAG_BYTES: usize = 16;
/// Bytes that a record is longer than its data.
pub const AROUND_BYTES: usize = HEADER_BYTES + TAG_BYTES;
/// The largest record.
pub const RECORD_MAX: usize = 128 << 10;

/// Records after which both sides take the next key.
const RECORDS_PER_KEY: u64 = 1 << 20;

const FROM_DIALLER: &str = "ferrule 2026 connection of ranks, dialler to listener";
const FROM_LISTENER: &str = "ferrule 2026 connection of ranks, listener to dialler";
const NEXT: &str = "ferrule 2026 connection of ranks, next key";

/// A record that its sender has not made, or not as the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotGenuine;

impl std::fmt::Display for NotGenuine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a record was changed, left out or repeated on its way")
    }
}

impl std::error::Error for NotGenuine {}

/// One direction: its key, and how many records it has protected.
struct Direction {
    cipher: Aes128Gcm,
    /// The cipher's key is its first half.
    key: [u8; 32],
    count: u64,
}

impl Direction {
    fn new(key: [u8; 32]) -> Direction {
        Direction { cipher: Aes128Gcm::new(key.first_chunk::<16>().expect("it is longer").into()), key, count: 0 }
    }

    fn next_nonce(&mut self) -> [u8; 12] {
        if self.count == RECORDS_PER_KEY {
            *self = Direction::new(blake3::derive_key(NEXT, &self.key));
        }
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&self.count.to_le_bytes());
        self.count += 1;
        nonce
    }
}

/// Seals and opens the records of one connection.
pub struct Seals {
    encrypts: bool,
    outgoing: Direction,
    /// None after a record that did not open.
    incoming: Option<Direction>,
}

impl Seals {
    /// Those of one side, which has dialled or not; `secret` is what only the two sides know.
    pub fn new(security: Security, secret: &[u8], dialled: bool) -> Seals {
        let [ours, theirs] = if dialled { [FROM_DIALLER, FROM_LISTENER] } else { [FROM_LISTENER, FROM_DIALLER] };
        Seals {
            encrypts: security == Security::Encrypt,
            outgoing: Direction::new(blake3::derive_key(ours, secret)),
            incoming: Some(Direction::new(blake3::derive_key(theirs, secret))),
        }
    }

    /// Makes a record of `record`, which has room for the header, and then the data.
    pub fn seal(&mut self, record: &mut Vec<u8>) {
        debug_assert!((AROUND_BYTES..=RECORD_MAX).contains(&(record.len() + TAG_BYTES)));
        let length = (record.len() - HEADER_BYTES + TAG_BYTES) as u32;
        record[..HEADER_BYTES].copy_from_slice(&length.to_le_bytes());
        let (nonce, cipher) = (self.outgoing.next_nonce(), &self.outgoing.cipher);
        let shown = if self.encrypts { HEADER_BYTES } else { record.len() };
        let (shown, hidden) = record.split_at_mut(shown);
        let tag = cipher.encrypt_inout_detached(&Nonce::from(nonce), shown, hidden.into());
        record.extend_from_slice(&tag.expect("a record is far below the cipher's limit of 64 GiB"));
    }

    /// Opens a whole record in place; its data is between header and tag. After an error nothing opens any more.
    pub fn open(&mut self, record: &mut [u8]) -> Result<(), NotGenuine> {
        let direction = self.incoming.as_mut().ok_or(NotGenuine)?;
        let (nonce, cipher) = (direction.next_nonce(), &direction.cipher);
        let (text, tag) = record.split_last_chunk_mut::<TAG_BYTES>().ok_or(NotGenuine)?;
        let shown = if self.encrypts { HEADER_BYTES } else { text.len() };
        let (shown, hidden) = text.split_at_mut_checked(shown).ok_or(NotGenuine)?;
        let opened = cipher.decrypt_inout_detached(&Nonce::from(nonce), shown, hidden.into(), &Tag::from(*tag));
        opened.map_err(|_| {
            self.incoming = None;
            NotGenuine
        })
    }
}

/// Bytes of the record at the front of `bytes`, once its header is there.
pub fn length(bytes: &[u8]) -> Result<Option<usize>, NotGenuine> {
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let all = (u32::from_le_bytes(*header) as usize).saturating_add(HEADER_BYTES);
    if (AROUND_BYTES + 1..=RECORD_MAX).contains(&all) { Ok(Some(all)) } else { Err(NotGenuine) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(security: Security) -> [Seals; 2] {
        [true, false].map(|dialled| Seals::new(security, b"secret", dialled))
    }

    fn sealed(seals: &mut Seals, data: &[u8]) -> Vec<u8> {
        let mut record = [&[0; HEADER_BYTES], data].concat();
        seals.seal(&mut record);
        assert_eq!(length(&record), Ok(Some(record.len())));
        record
    }

    fn opened(seals: &mut Seals, mut record: Vec<u8>) -> Result<Vec<u8>, NotGenuine> {
        seals.open(&mut record)?;
        Ok(record[HEADER_BYTES..record.len() - TAG_BYTES].to_vec())
    }

    #[test]
    fn records_open_in_order_only() {
        for security in [Security::Mac, Security::Encrypt] {
            let [mut a, mut b] = pair(security);
            let records: Vec<Vec<u8>> = [b"one", b"two", b"six"].iter().map(|data| sealed(&mut a, *data)).collect();
            let is_readable = records[0].windows(3).any(|w| w == b"one");
            assert_eq!(is_readable, security == Security::Mac);
            assert_eq!(opened(&mut b, records[0].clone()).unwrap(), b"one");
            assert_eq!(opened(&mut b, records[2].clone()), Err(NotGenuine), "one is missing");
            assert_eq!(opened(&mut b, records[1].clone()), Err(NotGenuine), "nothing opens any more");
            let mut b = pair(security).into_iter().nth(1).unwrap();
            opened(&mut b, records[0].clone()).unwrap();
            assert_eq!(opened(&mut b, records[0].clone()), Err(NotGenuine), "repeated");
            let answer = sealed(&mut b, b"one");
            assert_ne!(answer, records[0], "each direction has its own key");
            assert_eq!(opened(&mut a, answer).unwrap(), b"one");
        }
    }

    #[test]
    fn no_byte_can_be_changed() {
        for security in [Security::Mac, Security::Encrypt] {
            let record = sealed(&mut pair(security)[0], &[7; 40]);
            for at in 0..record.len() {
                let mut wrong = record.clone();
                wrong[at] ^= 0x10;
                assert_eq!(opened(&mut pair(security)[1], wrong), Err(NotGenuine), "byte {at}");
            }
        }
    }

    #[test]
    fn another_secret_or_mode_opens_nothing() {
        for other in [Seals::new(Security::Mac, b"secret", false), Seals::new(Security::Encrypt, b"other", false)] {
            let mut other = other;
            assert_eq!(opened(&mut other, sealed(&mut pair(Security::Encrypt)[0], b"hello")), Err(NotGenuine));
        }
    }

    #[test]
    fn lengths_are_bounded() {
        let of = |length: u32| super::length(&length.to_le_bytes());
        assert_eq!(super::length(&[1, 0, 0]), Ok(None));
        assert_eq!(of(TAG_BYTES as u32), Err(NotGenuine), "an empty record is never sent");
        assert_eq!(of(TAG_BYTES as u32 + 1), Ok(Some(AROUND_BYTES + 1)));
        assert_eq!(of((RECORD_MAX - HEADER_BYTES) as u32), Ok(Some(RECORD_MAX)));
        assert_eq!(of((RECORD_MAX - HEADER_BYTES) as u32 + 1), Err(NotGenuine));
        assert_eq!(of(u32::MAX), Err(NotGenuine));
    }

    #[test]
    fn both_sides_take_the_next_key_together() {
        let [mut a, mut b] = pair(Security::Encrypt);
        let first = sealed(&mut a, b"x");
        opened(&mut b, first.clone()).unwrap();
        for seals in [&mut a.outgoing, b.incoming.as_mut().unwrap()] {
            seals.count = RECORDS_PER_KEY;
        }
        let next = sealed(&mut a, b"x");
        assert_eq!((a.outgoing.count, next == first), (1, false), "counted from 0 under another key");
        assert_eq!(opened(&mut b, next).unwrap(), b"x");
    }
}
