//! A TCP connection against a peer that writes anything in any pieces. What the connection shows must be what a reader of
//! the whole stream would see, and payloads must go where they belong and nowhere else.

use crate::input::Input;
use channel::buffer::RecvBuf;
use channel::tcp::conn::{Conn, Polled, Sizes};
use channel::tcp::frame::{self, FRAME_BYTES, Front};
use protocol::kind::Kind;
use protocol::order::Number;
use protocol::transport::{Delivery, Token};
use protocol::wire::Header;
use std::io::Write;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

const SIZES: Sizes = Sizes { eager_max: 300, packet_max: 6000, write_max: 1000, replay_max: 4000 };
/// Bytes of the stream; fits a socket's buffer, so one thread can play both sides.
const STREAM_MAX: usize = 60_000;

/// Plays one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (step, lands) = (1 + input.below(5000), input.byte());
    let stream = compose(&mut input);
    let (mut far, near) = UnixStream::pair().expect("a socket pair");
    near.set_nonblocking(true).expect("a socket");
    let mut conn = Conn::new(TcpStream::from(OwnedFd::from(near)), SIZES, Token(0));
    let (expected, certain) = expected(&stream);
    let mut reader = Reader { expected, seen: 0, sink: None, is_gathering: false, lands };
    for part in stream.chunks(step) {
        if far.write_all(part).is_err() || !reader.poll(&mut conn) {
            break;
        }
    }
    drop(far);
    let ended = !reader.poll(&mut conn);
    assert!(ended, "a closed stream is not at its end");
    assert!(reader.seen >= certain, "{} packets of {certain} were seen", reader.seen);
}

/// A stream of frames, some of them wrong.
fn compose(input: &mut Input<'_>) -> Vec<u8> {
    let (mut stream, mut sequence) = (Vec::new(), 0);
    while !input.is_empty() && stream.len() < STREAM_MAX / 2 {
        let kind = [Kind::EAGER, Kind::DATA, Kind::DATA, Kind::REQUEST_TO_SEND, Kind::GOODBYE][input.below(5)];
        if input.byte() > 250 {
            let received = [0, 0, 0, 32, u64::MAX][input.below(5)];
            stream.extend_from_slice(&frame::acknowledgement(received, sequence));
            sequence += 1;
            continue;
        }
        let header = Header {
            kind,
            number: Number::from_bytes([input.byte(), input.byte(), input.byte()]),
            source: 1,
            tag: input.byte().into(),
            token: input.word(),
            context: 9,
        };
        let len = match input.byte() {
            n @ 0..128 => usize::from(n),
            _ => input.below(SIZES.packet_max + 100),
        };
        let mut front = frame::encode(&header, len, sequence);
        if input.byte() == 0xff {
            front[input.below(FRAME_BYTES)] ^= input.byte();
        }
        stream.extend_from_slice(&front);
        let seed = input.byte();
        stream.extend((0..len).map(|i| (i as u8).wrapping_mul(seed) ^ (i >> 8) as u8));
        sequence += 1;
    }
    let cut = input.below(8);
    stream.truncate(stream.len().min(STREAM_MAX) - cut.min(stream.len()));
    stream
}

/// The packets that the stream holds up to its first mistake, whole ones only; of `Data` also one whose end is missing.
/// And how many of them must be seen: what follows a goodbye, a packet too large for its kind, or an acknowledgement of
/// what may not have been sent, may be.
fn expected(mut stream: &[u8]) -> (Vec<(Header, Vec<u8>, bool)>, usize) {
    let (mut packets, mut certain) = (Vec::new(), None);
    for sequence in 0.. {
        let Some((front, rest)) = stream.split_first_chunk::<FRAME_BYTES>() else { break };
        let (header, len) = match frame::decode(front, sequence, SIZES.packet_max) {
            Ok(Front::Packet(header, len)) => (header, len),
            Ok(Front::Acknowledgement(received)) => {
                if received > 0 {
                    certain.get_or_insert(packets.len());
                }
                stream = rest;
                continue;
            }
            Err(_) => break,
        };
        let present = len.min(rest.len());
        let data = header.kind.info().lands;
        if present < len && (!data || present < 8) {
            break;
        }
        if header.kind == Kind::GOODBYE || (!data && len > SIZES.eager_max) {
            certain.get_or_insert(packets.len());
        }
        if header.kind != Kind::GOODBYE {
            packets.push((header, rest[..present].to_vec(), present == len));
        }
        stream = &rest[present..];
    }
    let all = packets.len();
    (packets, certain.unwrap_or(all))
}

struct Reader {
    expected: Vec<(Header, Vec<u8>, bool)>,
    seen: usize,
    /// Where the landing payload goes.
    sink: Option<Box<[u8]>>,
    /// A payload is gathered.
    is_gathering: bool,
    /// Which packets may land, which are dropped or gathered.
    lands: u8,
}

impl Reader {
    /// Takes what is there. False at the end of the stream.
    fn poll(&mut self, conn: &mut Conn) -> bool {
        loop {
            match conn.poll() {
                Polled::Packet(header, len) => self.on_packet(conn, header, len),
                Polled::Landed(header, len) => {
                    let sink = self.sink.take().expect("something is landing");
                    self.check(header, 8, &sink[..len]);
                }
                Polled::Gathered(header, payload) => {
                    assert!(std::mem::take(&mut self.is_gathering), "nothing was to be gathered");
                    self.check(header, 0, &payload);
                }
                Polled::Nothing => return true,
                Polled::Sent(token) => panic!("{token:?} was never posted"),
                Polled::Ended(_) => {
                    // The sender left in the middle of a payload.
                    self.seen += usize::from(self.sink.take().is_some() || self.is_gathering);
                    return false;
                }
            }
        }
    }

    fn on_packet(&mut self, conn: &mut Conn, header: Header, len: usize) {
        assert!(self.seen < self.expected.len(), "a packet that was never sent: {header:?}");
        assert!(len <= SIZES.packet_max && self.sink.is_none() && !self.is_gathering);
        let may_land = self.lands >> (self.seen % 8) & 1 == 1;
        match header.kind {
            Kind::DATA | Kind::PUSHED if len >= 8 && may_land => {
                assert_eq!(conn.body::<8>().as_ref(), self.expected[self.seen].1.first_chunk());
                let mut sink = vec![0; len - 8].into_boxed_slice();
                // SAFETY: the sink lives until the connection has reported `Landed` or its end.
                let room = unsafe { RecvBuf::contiguous(sink.as_mut_ptr(), sink.len()) };
                let delivery = conn.deliver(header, 8, (&room, 0, len - 8), true);
                conn.release();
                match delivery {
                    Delivery::Complete => self.check(header, 8, &sink),
                    Delivery::Landing => self.sink = Some(sink),
                }
            }
            Kind::PUSHED if conn.gather(header) => self.is_gathering = true,
            Kind::DATA => {
                conn.release();
                self.seen += 1;
            }
            _ => {
                let mut copy = vec![0; len];
                // SAFETY: the room lives on, and is not touched meanwhile.
                let room = unsafe { RecvBuf::contiguous(copy.as_mut_ptr(), len) };
                assert_eq!(conn.deliver(header, 0, (&room, 0, len), false), Delivery::Complete);
                conn.release();
                self.check(header, 0, &copy);
            }
        }
    }

    fn check(&mut self, header: Header, skip: usize, payload: &[u8]) {
        let (sent, bytes, whole) = &self.expected[self.seen];
        assert!(*whole, "half a packet is reported as whole");
        assert_eq!((header, payload), (*sent, &bytes[skip..]));
        self.seen += 1;
    }
}
