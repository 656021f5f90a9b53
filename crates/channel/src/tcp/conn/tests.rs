//! A connection against raw bytes: splits, truncations and nonsense.

use super::*;
use crate::buffer::SendBuf;
use crate::tcp::frame;
use crate::tcp::record::Seals;
use crate::tcp::security::Security;
use proptest::prelude::*;
use protocol::kind::Kind;
use protocol::order::Number;
use protocol::transport::{Delivery, Outcome};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

const SIZES: Sizes = Sizes { eager_max: 512, packet_max: 20_000, write_max: 1000, replay_max: 4000 };

/// A connection whose other end is in the test's hands.
fn conn() -> (Conn, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    (Conn::new(TcpStream::from(OwnedFd::from(ours)), SIZES, Token(0)), theirs)
}

fn header(kind: Kind, token: u32) -> Header {
    Header { kind, number: Number::NONE, source: 1, tag: 2, token, context: 3 }
}

fn bytes_of(seed: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(31) ^ seed) as u8).collect()
}

/// A copy of the shown packet, which is all there.
fn taken(conn: &mut Conn, header: Header, len: usize) -> Vec<u8> {
    let mut copy = vec![0; len];
    // SAFETY: `copy` is not touched meanwhile.
    let sink = unsafe { RecvBuf::contiguous(copy.as_mut_ptr(), len) };
    assert_eq!(conn.deliver(header, 0, (&sink, 0, len), false), Delivery::Complete);
    copy
}

/// What a test sends: is it `Data`, its length.
#[derive(Clone, Copy, Debug)]
struct Sent {
    data: bool,
    len: usize,
}

fn stream_of(all: &[Sent]) -> Vec<u8> {
    let mut out = Vec::new();
    for (i, sent) in all.iter().enumerate() {
        let kind = if sent.data { Kind::DATA } else { Kind::EAGER };
        let offset = if sent.data { 8 } else { 0 };
        out.extend_from_slice(&frame::encode(&header(kind, i as u32), offset + sent.len, i as u32));
        out.extend_from_slice(&[7; 8][..offset]);
        out.extend_from_slice(&bytes_of(i as u32, sent.len));
    }
    out
}

/// Takes packets as the engine would and gives their contents in order; None at the end of the stream.
fn take_one(conn: &mut Conn, all: &[Sent], room: &mut Vec<u8>) -> Option<(u32, Vec<u8>)> {
    loop {
        match conn.poll() {
            Polled::Nothing => return None,
            Polled::Sent(token) => panic!("sent {token:?}, of which nobody knows"),
            Polled::Gathered(header, payload) => {
                assert_eq!(payload[..8], [7; 8]);
                return Some((header.token, payload[8..].to_vec()));
            }
            Polled::Ended(end) => panic!("ended: {end:?}"),
            Polled::Landed(header, len) => {
                assert_eq!(len, room.len());
                return Some((header.token, std::mem::take(room)));
            }
            Polled::Packet(header, len) => {
                let sent = all[header.token as usize];
                let skip = if sent.data { 8 } else { 0 };
                assert_eq!(len, sent.len + skip);
                if sent.data && header.token % 2 == 1 && conn.gather(header) {
                    continue;
                }
                *room = vec![0; sent.len];
                // SAFETY: `room` is not touched until the packet has landed.
                let sink = unsafe { RecvBuf::contiguous(room.as_mut_ptr(), room.len()) };
                let delivery = conn.deliver(header, skip, (&sink, 0, sent.len), sent.data);
                conn.release();
                if delivery == Delivery::Complete {
                    return Some((header.token, std::mem::take(room)));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_split_of_the_stream_gives_the_same_packets(
        spec in prop::collection::vec((any::<bool>(), 0usize..16_000), 1..12),
        splits in prop::collection::vec(1usize..9000, 1..40),
    ) {
        let all: Vec<Sent> = spec
            .iter()
            .map(|(data, len)| Sent { data: *data, len: if *data { *len } else { len % 512 } })
            .collect();
        let stream = stream_of(&all);
        let (mut conn, mut peer) = conn();
        let (mut at, mut split, mut got, mut room) = (0, 0, Vec::new(), Vec::new());
        while at < stream.len() {
            let n = splits[split % splits.len()].min(stream.len() - at);
            peer.write_all(&stream[at..at + n]).unwrap();
            (at, split) = (at + n, split + 1);
            while let Some(packet) = take_one(&mut conn, &all, &mut room) {
                got.push(packet);
            }
        }
        prop_assert_eq!(got.len(), all.len());
        for (i, (token, bytes)) in got.iter().enumerate() {
            prop_assert_eq!(*token as usize, i);
            prop_assert_eq!(bytes, &bytes_of(i as u32, all[i].len));
        }
    }

    #[test]
    fn garbage_ends_the_connection_without_harm(noise in prop::collection::vec(any::<u8>(), 32..4096)) {
        let (mut conn, mut peer) = conn();
        peer.write_all(&noise).unwrap();
        drop(peer);
        for _ in 0..1000 {
            match conn.poll() {
                Polled::Packet(..) => conn.release(),
                Polled::Ended(_) => return Ok(()),
                _ => {}
            }
        }
        prop_assert!(false, "the connection never ended");
    }
}

#[test]
fn unwanted_and_cut_data_are_skipped() {
    let all = [Sent { data: true, len: 9000 }, Sent { data: true, len: 9000 }, Sent { data: false, len: 5 }];
    let (mut conn, mut peer) = conn();
    peer.write_all(&stream_of(&all)).unwrap();
    let Polled::Packet(_, 9008) = conn.poll() else { panic!() };
    conn.release();
    let Polled::Packet(header, 9008) = conn.poll() else { panic!() };
    let mut room = vec![0; 6000];
    // SAFETY: `room` is not touched until the packet has landed.
    let sink = unsafe { RecvBuf::contiguous(room.as_mut_ptr(), room.len()) };
    assert_eq!(conn.deliver(header, 8, (&sink, 0, 6000), true), Delivery::Landing);
    conn.release();
    let Polled::Landed(_, 6000) = conn.poll() else { panic!() };
    assert_eq!(room, bytes_of(1, 9000)[..6000]);
    let mut room = Vec::new();
    assert_eq!(take_one(&mut conn, &all, &mut room).unwrap(), (2, bytes_of(2, 5)));
}

#[test]
fn oversized_misnumbered_and_unknown_frames_break_the_connection() {
    let good = header(Kind::EAGER, 0);
    let mut unknown = frame::encode(&good, 0, 0);
    unknown[8] = 77;
    let cases: [&[u8]; 4] = [
        &frame::encode(&good, SIZES.eager_max + 1, 0),
        &frame::encode(&header(Kind::DATA, 0), SIZES.packet_max + 1, 0),
        &frame::encode(&good, 0, 1),
        &unknown,
    ];
    for bytes in cases {
        let (mut conn, mut peer) = conn();
        peer.write_all(bytes).unwrap();
        assert!(matches!(conn.poll(), Polled::Ended(End::Wrong(_))));
    }
}

#[test]
fn only_a_goodbye_makes_a_good_end() {
    let (mut conn, peer) = conn();
    drop(peer);
    assert!(matches!(conn.poll(), Polled::Ended(End::Broken(_))));
    let (mut conn, mut peer) = self::conn();
    peer.write_all(&frame::encode(&header(Kind::GOODBYE, 0), 0, 0)).unwrap();
    assert!(matches!(conn.poll(), Polled::Nothing));
    drop(peer);
    assert!(matches!(conn.poll(), Polled::Ended(End::Goodbye)));
}

/// Two connections with each other.
fn pair(sizes: Sizes) -> [Conn; 2] {
    protected_pair(sizes, Security::None)
}

fn protected_pair(sizes: Sizes, security: Security) -> [Conn; 2] {
    let (ours, theirs) = UnixStream::pair().unwrap();
    [(ours, true), (theirs, false)].map(|(stream, dialled)| {
        stream.set_nonblocking(true).unwrap();
        let stream = TcpStream::from(OwnedFd::from(stream));
        let stream = match security {
            Security::None => stream.into(),
            _ => Stream::sealed(stream, Seals::new(security, b"secret", dialled)),
        };
        Conn::new(stream, sizes, Token(70))
    })
}

fn a_full_kernel_keeps_order_and_contents(replay_max: usize) {
    for security in [Security::None, Security::Mac, Security::Encrypt] {
        full_kernel(replay_max, security);
    }
}

fn full_kernel(replay_max: usize, security: Security) {
    let sizes = Sizes { eager_max: 32 << 10, packet_max: 1 << 20, write_max: 10_000, replay_max };
    let [mut a, mut b] = protected_pair(sizes, security);
    let big = bytes_of(5, 900_000);
    // SAFETY: `big` lives on.
    let source = unsafe { SendBuf::contiguous(big.as_ptr(), big.len()) };
    let data = header(Kind::DATA, 9);
    let eager = header(Kind::EAGER, 1);
    let sent = a.send(&data, &[0; 8], Some((&source, 0, big.len())));
    assert_eq!(sent, Outcome::Posted(Token(70)), "its source is in use");
    assert_eq!(a.send(&eager, &[], Some((&source, 0, 100))), Outcome::Again, "nothing overtakes a started packet");
    let mut room = vec![0u8; big.len()];
    // SAFETY: `room` is read only after it has landed.
    let sink = unsafe { RecvBuf::contiguous(room.as_mut_ptr(), room.len()) };
    let (mut landed, mut over, mut small, mut got) = (false, false, 0, 0);
    for _ in 0..100_000 {
        a.flush();
        match a.poll() {
            Polled::Nothing => {}
            Polled::Sent(Token(70)) => over = true,
            other => panic!("{other:?}"),
        }
        if small < 50 && a.send(&eager, &[], Some((&source, 0, 30_000))) == Outcome::Done {
            small += 1;
        }
        match b.poll() {
            Polled::Packet(h, len) if h == data => {
                assert_eq!(b.body::<8>(), Some([0; 8]));
                assert_eq!(b.deliver(h, 8, (&sink, 0, len - 8), true), Delivery::Landing);
                b.release();
            }
            Polled::Packet(h, len) => {
                assert_eq!((h, len), (eager, 30_000));
                assert_eq!(taken(&mut b, h, len), big[..30_000]);
                b.release();
                got += 1;
            }
            Polled::Landed(h, len) => {
                assert_eq!((h, len), (data, big.len()));
                assert!(replay_max == 0 || !over, "it is kept until the peer has all of it");
                landed = true;
            }
            Polled::Nothing if got == 50 && over => break,
            Polled::Nothing => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(landed && over && got == 50, "landed: {landed}, over: {over}, {small} sent, {got} received");
    assert!(room == big);
}

#[test]
fn a_full_kernel_keeps_order_and_contents_with_reconnects() {
    a_full_kernel_keeps_order_and_contents(100_000);
}

#[test]
fn a_full_kernel_keeps_order_and_contents_without_reconnects() {
    a_full_kernel_keeps_order_and_contents(0);
}

#[test]
fn a_full_replay_buffer_pushes_back_until_the_peer_has_read() {
    let [mut a, mut b] = pair(SIZES);
    let eager = header(Kind::EAGER, 1);
    let bytes = bytes_of(1, 500);
    // SAFETY: `bytes` lives on.
    let source = unsafe { SendBuf::contiguous(bytes.as_ptr(), bytes.len()) };
    let fill =
        |a: &mut Conn| (0..100).take_while(|_| a.send(&eager, &[], Some((&source, 0, 500))) == Outcome::Done).count();
    assert_eq!(fill(&mut a), SIZES.replay_max / (500 + frame::FRAME_BYTES));
    assert!(matches!(a.poll(), Polled::Nothing) && !a.is_full(), "the kernel is not full");
    while let Polled::Packet(..) = b.poll() {
        b.release();
    }
    assert!(matches!(a.poll(), Polled::Nothing));
    assert!(fill(&mut a) > 0);
}

#[test]
fn a_held_packet_is_acknowledged_at_its_end_whatever_was_acknowledged_before() {
    // The regular acknowledgements come after 1000 bytes each, the last one just before the end.
    let sizes = Sizes { eager_max: 512, ..SIZES };
    for len in [1800, 2100, 2990, 3001] {
        let [mut a, mut b] = pair(sizes);
        let bytes = bytes_of(1, len);
        // SAFETY: `bytes` lives on.
        let source = unsafe { SendBuf::contiguous(bytes.as_ptr(), bytes.len()) };
        assert!(matches!(a.send(&header(Kind::DATA, 1), &[0; 8], Some((&source, 0, len))), Outcome::Posted(_)));
        let mut room = vec![0; len];
        // SAFETY: `room` is not touched meanwhile.
        let sink = unsafe { RecvBuf::contiguous(room.as_mut_ptr(), len) };
        loop {
            match b.poll() {
                Polled::Packet(h, _) => {
                    b.deliver(h, 8, (&sink, 0, len), true);
                    b.release();
                }
                Polled::Nothing => break,
                _ => {}
            }
        }
        assert!(matches!(a.poll(), Polled::Sent(_)), "{len} bytes");
    }
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_breaks_the_link() {
    let (mut conn, mut peer) = conn();
    peer.write_all(&frame::acknowledgement(0, 0)).unwrap();
    assert!(matches!(conn.poll(), Polled::Nothing));
    peer.write_all(&frame::acknowledgement(1, 1)).unwrap();
    assert!(matches!(conn.poll(), Polled::Ended(End::Wrong(_))));
}

#[test]
fn pieces_are_whole_segments() {
    const CASES: [(usize, usize, usize); 5] = [
        (524_288, 65_483, 523_864),
        (524_288, 1448, 521_280),
        (60_000, 1448, 59_368),
        (1000, 1448, 1000),
        (4096, 8948, 4096),
    ];
    for (most, segment, piece) in CASES {
        assert_eq!(super::send::whole_segments(most, segment), piece, "{most} bytes, segments of {segment}");
    }
}
