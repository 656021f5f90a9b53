//! Messages between agents, encrypted and authenticated: ChaCha20-Poly1305 (RFC 8439), with a key of its own for each link and direction.
//!
//! ```text
//! frame          length (u32) │ body
//! sealed frame   length (u32) │ body, encrypted │ tag (16 bytes)          length counts both
//! ```
//! Both keys come from the job key and the handshake's two nonces (BLAKE3, key derivation mode), so the handshake needs no
//! further message. The n-th frame of a direction is sealed with nonce n, and the tag covers its length. So a frame
//! that was changed, left out, repeated or moved doesn't open, and neither does any frame after it.
//!
//! Who learns the job key can open what was recorded: there is no Diffie-Hellman exchange.

use super::frame::HEADER;
use super::handshake::{ANSWER, CHALLENGE, Key};
use base::{Result, ensure, fail};
use chacha20poly1305::aead::{AeadInOut, KeyInit};
use chacha20poly1305::{ChaCha20Poly1305, Nonce, Tag};

/// Bytes that a sealed frame is longer.
pub const TAG: usize = 16;

const DOWN: &str = "ferrule 2026 control link, parent to child";
const UP: &str = "ferrule 2026 control link, child to parent";

/// One direction of a link: its key, and how many frames have gone through.
struct Direction {
    cipher: ChaCha20Poly1305,
    count: u64,
}

impl Direction {
    fn new(purpose: &str, secret: &[u8]) -> Direction {
        let key = blake3::derive_key(purpose, secret);
        Direction { cipher: ChaCha20Poly1305::new(&key.into()), count: 0 }
    }

    fn next_nonce(&mut self) -> Nonce {
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&self.count.to_le_bytes());
        self.count += 1;
        nonce.into()
    }
}

/// Seals and opens the frames of one link.
pub struct Seals {
    outgoing: Direction,
    /// None after a frame that did not open.
    incoming: Option<Direction>,
}

impl Seals {
    /// Those of the parent, which has challenged with `nonce` and checked the `answer`.
    pub(super) fn of_parent(key: Key, nonce: [u8; 16], answer: &[u8; ANSWER]) -> Seals {
        let secret = secret(key, &nonce, answer);
        Seals { outgoing: Direction::new(DOWN, &secret), incoming: Some(Direction::new(UP, &secret)) }
    }

    /// Those of the child, which has given that `answer`.
    pub(super) fn of_child(key: Key, challenge: &[u8; CHALLENGE], answer: &[u8; ANSWER]) -> Seals {
        let secret = secret(key, &challenge[8..], answer);
        Seals { outgoing: Direction::new(UP, &secret), incoming: Some(Direction::new(DOWN, &secret)) }
    }

    /// Appends the next frame to go, sealed.
    pub fn seal(&mut self, frame: &[u8], out: &mut Vec<u8>) {
        let length = (frame.len() - HEADER + TAG) as u32;
        let header = length.to_le_bytes();
        out.reserve(frame.len() + TAG);
        out.extend_from_slice(&header);
        let start = out.len();
        out.extend_from_slice(&frame[HEADER..]);
        let nonce = self.outgoing.next_nonce();
        let body = (&mut out[start..]).into();
        let tag = self.outgoing.cipher.encrypt_inout_detached(&nonce, &header, body);
        out.extend_from_slice(&tag.expect("a frame is far below the cipher's limit of 256 GiB"));
    }

    /// Opens the body of the next frame that has come. After an error nothing opens any more.
    pub fn open(&mut self, body: &mut Vec<u8>) -> Result {
        let Some(direction) = &mut self.incoming else { fail!(ERR_OTHER, "a message before this one was not genuine") };
        let nonce = direction.next_nonce();
        let opened = open_with(&direction.cipher, &nonce, body);
        if opened.is_err() {
            body.clear();
            self.incoming = None;
        }
        opened
    }
}

fn open_with(cipher: &ChaCha20Poly1305, nonce: &Nonce, body: &mut Vec<u8>) -> Result {
    ensure!(body.len() > TAG, ERR_OTHER, "a message is too short to be sealed");
    let (header, end) = ((body.len() as u32).to_le_bytes(), body.len() - TAG);
    let (text, tag) = body.split_at_mut(end);
    let Ok(tag) = Tag::try_from(&*tag) else { fail!(ERR_OTHER, "a message is too short to be sealed") };
    let genuine = cipher.decrypt_inout_detached(nonce, &header, text.into(), &tag).is_ok();
    ensure!(genuine, ERR_OTHER, "a message was changed, left out or repeated on its way");
    body.truncate(end);
    Ok(())
}

/// What both sides know and nobody else does: the key, the parent's nonce, the child's node and nonce.
fn secret(key: Key, nonce: &[u8], answer: &[u8; ANSWER]) -> Vec<u8> {
    [&key.0, nonce, &answer[8..28]].concat()
}

#[cfg(test)]
mod tests {
    use super::super::frame::{Splitter, TREE_LIMIT};
    use super::super::handshake;
    use super::*;

    fn pair() -> (Seals, Seals) {
        let key = Key([7; 16]);
        let challenge = handshake::challenge([1; 16]);
        let answer = handshake::answer(key, &challenge, 3, [2; 16]);
        (Seals::of_parent(key, [1; 16], &answer), Seals::of_child(key, &challenge, &answer))
    }

    fn frame(body: &[u8]) -> Vec<u8> {
        [&(body.len() as u32).to_le_bytes(), body].concat()
    }

    fn sealed(seals: &mut Seals, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        seals.seal(&frame(body), &mut out);
        out
    }

    /// What a reader makes of a stream of sealed frames, up to the first error.
    fn read(seals: &mut Seals, stream: &[u8]) -> (Vec<Vec<u8>>, Option<&'static str>) {
        let (mut splitter, mut seen) = (Splitter::default(), Vec::new());
        splitter.feed(stream);
        loop {
            match splitter.next_frame(TREE_LIMIT).map(|body| body.map(<[u8]>::to_vec)) {
                Ok(None) => return (seen, None),
                Err(e) => return (seen, Some(e.origin)),
                Ok(Some(mut body)) => match seals.open(&mut body) {
                    Ok(()) => seen.push(body),
                    Err(e) => return (seen, Some(e.origin)),
                },
            }
        }
    }

    #[test]
    fn both_directions_carry_what_was_said_and_nothing_readable() {
        let (mut parent, mut child) = pair();
        let words: [&[u8]; 3] = [b"TOKEN=very-secret", b"x", &[b'y'; 70_000]];
        let down: Vec<u8> = words.iter().flat_map(|w| sealed(&mut parent, w)).collect();
        assert!(!down.windows(6).any(|w| w == b"secret" || w == b"yyyyyy"));
        assert_eq!(read(&mut child, &down), (words.map(<[u8]>::to_vec).to_vec(), None));
        let up = sealed(&mut child, b"x");
        assert_ne!(up, sealed(&mut pair().0, b"x"), "each direction has its own key");
        assert_eq!(read(&mut parent, &up).0, [b"x"]);
    }

    #[test]
    fn the_first_frame_that_is_not_genuine_is_the_last() {
        let said = |n: u8| [n; 40];
        let all: Vec<Vec<u8>> = {
            let mut parent = pair().0;
            (0..3).map(|n| sealed(&mut parent, &said(n))).collect()
        };
        let changed = |at: usize| {
            let mut frame = all[1].clone();
            frame[at] ^= 1;
            frame
        };
        let mut streams: Vec<Vec<u8>> =
            (HEADER..all[1].len()).map(|at| [&all[0][..], &changed(at), &all[2]].concat()).collect();
        streams.push([&all[0][..], &all[0], &all[1]].concat());
        streams.push([&all[0][..], &all[2], &all[1]].concat());
        streams.push([&all[0][..], &all[2]].concat());
        for stream in &streams {
            let (seen, error) = read(&mut pair().1, stream);
            assert_eq!(seen, [said(0)]);
            assert!(error.is_some_and(|e| e.contains("changed, left out or repeated")));
        }
        // A changed length moves the frame's end.
        let (seen, _) = read(&mut pair().1, &[&all[0][..], &changed(0), &all[2]].concat());
        assert_eq!(seen, [said(0)]);
        let mut child = pair().1;
        assert!(child.open(&mut changed(HEADER)[HEADER..].to_vec()).is_err());
        assert!(child.open(&mut all[0][HEADER..].to_vec()).is_err(), "nothing opens after an error");
    }

    #[test]
    fn another_key_or_another_handshake_opens_nothing() {
        let challenge = handshake::challenge([1; 16]);
        let answer = |key| handshake::answer(key, &challenge, 3, [2; 16]);
        let (right, wrong) = (Key([7; 16]), Key([8; 16]));
        let said = sealed(&mut pair().0, b"hello");
        assert!(read(&mut Seals::of_child(wrong, &challenge, &answer(wrong)), &said).1.is_some());
        let other = handshake::challenge([9; 16]);
        assert!(read(&mut Seals::of_child(right, &other, &answer(right)), &said).1.is_some());
        assert_eq!(read(&mut Seals::of_child(right, &challenge, &answer(right)), &said).0, [b"hello"]);
    }
}
