//! Records of a protected connection: whatever is done to the stream, what is read is a beginning of what was sent.

use crate::input::Input;
use channel::tcp::record::{AROUND_BYTES, HEADER_BYTES, RECORD_MAX, Seals};
use channel::tcp::security::Security;
use channel::tcp::stream::{Stream, is_not_genuine};
use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use sys::sock::Piece;

/// Bytes of the stream; fits a socket's buffer, so one thread can play both sides.
const STREAM_MAX: usize = 60_000;

/// Plays one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let security = [Security::Mac, Security::Encrypt][input.below(2)];
    let mut sender = Seals::new(security, b"secret", true);
    let (mut said, mut records) = (Vec::new(), Vec::new());
    for n in 0..1 + input.below(6) {
        let body = vec![n as u8; 1 + input.below(3000)];
        let mut record = [&[0; HEADER_BYTES], &body[..]].concat();
        sender.seal(&mut record);
        assert_eq!(record.len(), body.len() + AROUND_BYTES);
        said.extend(body);
        records.push(record);
    }
    let honest = input.byte() > 200;
    let mut stream = if honest { records.concat() } else { harmed(&mut input, records) };
    stream.truncate(STREAM_MAX);
    let (step, room) = (1 + input.below(4000), 1 + input.below(4000));
    let got = read(Seals::new(security, b"secret", false), &stream, step, room);
    assert!(said.starts_with(&got), "{} bytes that were not sent", got.len());
    assert!(!honest || got == said, "{} of {} bytes", got.len(), said.len());
}

/// What a reader gets of the stream, up to the first record that isn't genuine.
fn read(seals: Seals, stream: &[u8], step: usize, room: usize) -> Vec<u8> {
    let (mut far, near) = UnixStream::pair().expect("a socket pair");
    near.set_nonblocking(true).expect("a socket");
    let mut reader = Stream::sealed(TcpStream::from(OwnedFd::from(near)), seals);
    let (mut got, mut place) = (Vec::new(), vec![0; room]);
    for part in stream.chunks(step) {
        far.write_all(part).expect("the reader has room");
        loop {
            let (first, second) = place.split_at_mut(room / 2);
            let pieces = [first, second].map(|part| Piece::new(part.as_mut_ptr(), part.len()));
            // SAFETY: both pieces are parts of `place`, to which no reference is in use.
            match unsafe { reader.receive(&pieces) } {
                Ok(n) => got.extend_from_slice(&place[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    assert!(is_not_genuine(&error), "{error}");
                    return got;
                }
            }
            assert!(got.len() <= stream.len() && stream.len() < RECORD_MAX);
        }
    }
    got
}

/// The stream, with records and bytes changed, left out, repeated or moved.
fn harmed(input: &mut Input<'_>, mut records: Vec<Vec<u8>>) -> Vec<u8> {
    for _ in 0..input.below(4) {
        let (a, b) = (input.below(records.len()), input.below(records.len()));
        match input.byte() % 4 {
            0 => records.swap(a, b),
            1 => records[a] = records[b].clone(),
            2 => records[a].truncate(b),
            _ => records[a].extend_from_slice(input.bytes(20)),
        }
    }
    let mut stream = records.concat();
    for _ in 0..input.below(4) {
        let at = input.below(stream.len().max(1));
        if let Some(byte) = stream.get_mut(at) {
            *byte ^= input.byte();
        }
    }
    stream
}
