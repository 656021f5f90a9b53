//! Streams in records: any pieces, any room of the kernel, any harm.

use super::*;
use crate::tcp::security::Security;
use proptest::prelude::*;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

fn seals(security: Security, dialled: bool) -> Seals {
    Seals::new(security, b"secret", dialled)
}

/// A stream whose other end is in the test's hands.
fn half(security: Security, dialled: bool) -> (Stream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    (Stream::sealed(TcpStream::from(OwnedFd::from(ours)), seals(security, dialled)), theirs)
}

fn send(stream: &mut Stream, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the piece is a slice.
    unsafe { stream.send(&[Piece::new(bytes.as_ptr(), bytes.len())]) }
}

/// What comes, into two pieces of so many bytes.
fn receive(stream: &mut Stream, (first, second): (usize, usize)) -> io::Result<Vec<u8>> {
    let mut room = vec![0u8; first + second];
    let at = room.as_mut_ptr();
    // SAFETY: both pieces are parts of `room`.
    let got = unsafe { stream.receive(&[Piece::new(at, first), Piece::new(at.add(first), second)]) }?;
    room.truncate(got);
    Ok(room)
}

/// The records of these messages.
fn records(security: Security, all: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (mut stream, mut far) = half(security, true);
    let mut record = |data: &Vec<u8>| {
        assert_eq!(send(&mut stream, data).unwrap(), data.len());
        let mut record = vec![0; data.len() + AROUND_BYTES];
        far.read_exact(&mut record).unwrap();
        record
    };
    all.iter().map(&mut record).collect()
}

/// All that a reader gets of a stream that comes in such parts, and whether it has found something wrong.
fn read(security: Security, stream: &[u8], step: usize, room: (usize, usize)) -> (Vec<u8>, bool) {
    let (mut reader, mut far) = half(security, false);
    let mut got = Vec::new();
    for part in stream.chunks(step) {
        far.write_all(part).unwrap();
        loop {
            match receive(&mut reader, room) {
                Ok(bytes) => got.extend(bytes),
                Err(error) if is_not_genuine(&error) => return (got, true),
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    break;
                }
            }
        }
    }
    (got, false)
}

const BOTH: [Security; 2] = [Security::Mac, Security::Encrypt];

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_split_gives_the_same_bytes(
        lens in prop::collection::vec(1usize..9000, 1..8),
        step in 1usize..20_000,
        room in (1usize..5000, 0usize..5000),
        encrypts: bool,
    ) {
        let security = BOTH[usize::from(encrypts)];
        let all: Vec<Vec<u8>> = lens.iter().enumerate().map(|(n, len)| vec![n as u8; *len]).collect();
        let stream = records(security, &all).concat();
        prop_assert_eq!(read(security, &stream, step, room), (all.concat(), false));
    }

    /// Whatever is done to the stream, what is read is a beginning of what was sent.
    #[test]
    fn harm_is_never_read(
        harm in 0usize..5, which in 0usize..4, at: prop::sample::Index, bit in 0u8..8, step in 1usize..900, encrypts: bool,
    ) {
        let security = BOTH[usize::from(encrypts)];
        let all: Vec<Vec<u8>> = (0..5u8).map(|n| vec![n; 20 + 150 * usize::from(n)]).collect();
        let mut sealed = records(security, &all);
        match harm {
            0 => {
                let at = at.index(sealed[which].len());
                sealed[which][at] ^= 1 << bit;
            }
            1 => drop(sealed.remove(which)),
            2 => sealed.insert(which, sealed[which].clone()),
            3 => sealed.swap(which, which + 1),
            _ => {
                let cut = at.index(sealed[which].len());
                drop(sealed[which].drain(cut..=cut));
            }
        }
        let (got, is_found) = read(security, &sealed.concat(), step, (700, 0));
        let whole = all.concat();
        prop_assert!(whole.starts_with(&got), "{} bytes, which were not sent", got.len());
        // A header that says too much may only make the reader wait.
        prop_assert!(is_found || got.len() < whole.len() && matches!(harm, 0 | 4));
    }
}

#[test]
fn at_most_one_record_waits_for_the_kernel() {
    for security in BOTH {
        let (mut stream, mut far) = half(security, true);
        let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i >> 4) as u8).collect();
        let mut taken = 0;
        while !stream.has_unsent() {
            taken += send(&mut stream, &bytes[taken..]).unwrap();
        }
        assert_eq!(send(&mut stream, &bytes[taken..]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(stream.flush().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let mut raw = vec![0; 40_000];
        let (mut reader, mut onward) = half(security, false);
        let mut got = Vec::new();
        while got.len() < bytes.len() {
            far.set_nonblocking(true).unwrap();
            if let Ok(n) = far.read(&mut raw) {
                onward.write_all(&raw[..n]).unwrap();
            }
            while let Ok(more) = receive(&mut reader, (RECORD_MAX, 1)) {
                got.extend(more);
            }
            if stream.flush().is_ok() && taken < bytes.len() {
                taken += send(&mut stream, &bytes[taken..]).unwrap();
            }
        }
        assert!(got == bytes && !stream.has_unsent());
    }
}

#[test]
fn the_end_is_seen_after_the_last_whole_record() {
    let record = records(Security::Encrypt, &[vec![5; 300], vec![6; 300]]).concat();
    let (mut reader, mut far) = half(Security::Encrypt, false);
    far.write_all(&record[..record.len() - 1]).unwrap();
    drop(far);
    assert_eq!(receive(&mut reader, (400, 0)).unwrap(), [5; 300]);
    assert_eq!(receive(&mut reader, (400, 0)).unwrap(), [0; 0]);
}
