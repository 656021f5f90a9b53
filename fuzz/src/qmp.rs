//! QEMU's monitor protocol: however the bytes are cut, they give the same messages up to the first error, and no more of them than there are lines.

use crate::input::Input;
use migrate::qmp::{Decoder, Message};

/// Plays one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let piece = 1 + input.below(40);
    let bytes = input.rest();
    let whole = decode(bytes, bytes.len().max(1));
    let cut = decode(bytes, piece);
    assert_eq!(whole, cut);
    assert!(whole.0.len() <= bytes.iter().filter(|byte| **byte == b'\n').count());
}

/// The messages before the first error, and that error.
fn decode(bytes: &[u8], piece: usize) -> (Vec<Message>, Option<String>) {
    let (mut decoder, mut messages) = (Decoder::default(), Vec::new());
    for part in bytes.chunks(piece) {
        decoder.on_bytes(part);
        loop {
            match decoder.poll_message() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(why) => return (messages, Some(why)),
            }
        }
    }
    (messages, None)
}
