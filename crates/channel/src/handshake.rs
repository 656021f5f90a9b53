//! Drives one end of a handshake (`protocol::control::handshake`) over a stream of bytes.

use protocol::control::handshake::{Handshake, Key, Met, Step};
use std::io::{Error, ErrorKind, Read, Result, Write};

/// Longest message of a handshake.
const MESSAGE_MAX: usize = protocol::control::handshake::ANSWER;

/// Reads what has come and answers, until both ends have met, or until `input` would block. Nothing is read that follows the handshake. An other end that doesn't
/// know the key is [`ErrorKind::PermissionDenied`].
pub fn drive(
    mut input: impl Read,
    mut output: impl Write,
    handshake: &mut Handshake,
    key_of: impl Fn(u32) -> Key,
) -> Result<Option<Met>> {
    loop {
        match handshake.step(&key_of).map_err(|e| Error::new(ErrorKind::PermissionDenied, e.origin))? {
            Step::Met(met) => return Ok(Some(met)),
            Step::Answer(answer) => output.write_all(&answer)?,
            Step::Wait => {
                let mut bytes = [0; MESSAGE_MAX];
                match input.read(&mut bytes[..handshake.wants()]) {
                    Ok(0) => return Err(Error::other("it hung up")),
                    Ok(n) => _ = handshake.take(&bytes[..n]),
                    Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(e) => return Err(e),
                }
            }
        }
    }
}
