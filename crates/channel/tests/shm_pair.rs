//! Two processes, one lane each way: descriptors over a socket as from the node agent, packets, streams, single copy, sleeping.

use base::ids::{JobId, ProcId};
use base::{Peer, WorldRank};
use channel::buffer::{RecvBuf, SendBuf};
use channel::shm::{PeerFds, ShmEvent, ShmHub, ShmLane};
use protocol::kind::Kind;
use protocol::order::Number;
use protocol::processes::Processes;
use protocol::transport::Outcome;
use protocol::wire::Header;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

const CHILD: &str = "FERRULE_TEST_SHM_CHILD";
const BIG: usize = 3_000_000;

fn header(tag: i32, token: u32) -> Header {
    Header { kind: Kind::EAGER, number: Number::NONE, source: 0, tag, token, context: 5 }
}

/// What a byte of the big message is.
fn pattern(i: usize) -> u8 {
    (i % 251) as u8
}

/// Swaps endpoint addresses and descriptors with the other process.
fn connect(me: u32, socket: &UnixStream) -> (ShmHub, ShmLane) {
    let rank_id = u128::from(std::process::id()) << 64 | 77;
    let processes = Processes::shared(ProcId { job: JobId(1), rank: WorldRank(me) }, 2);
    let hub = ShmHub::create(&processes, vec![Peer(0), Peer(1)], rank_id, false).unwrap();
    let mut address = rank_id.to_le_bytes().to_vec();
    address.extend(sys::cma::own_pid().to_le_bytes());
    assert_eq!(sys::fdpass::send(socket.as_fd(), &address, &hub.descriptors(), true).unwrap(), 20);
    let (mut bytes, mut fds) = ([0u8; 20], Vec::<OwnedFd>::new());
    assert_eq!(sys::fdpass::recv(socket.as_fd(), &mut bytes, &mut fds, true).unwrap(), 20);
    let (id, pid) = bytes.split_at(16);
    let id = u128::from_le_bytes(id.try_into().unwrap());
    let pid = i32::from_le_bytes(pid.try_into().unwrap());
    let fds = PeerFds::from_vec(fds).unwrap();
    let lane = ShmLane::open(&hub, Peer(1 - me), id, Some(pid), fds).unwrap();
    (hub, lane)
}

/// Waits for the next packet and passes it on; sleeps between polls when `sleepy`.
fn next<T>(hub: &mut ShmHub, sleepy: bool, mut use_packet: impl FnMut(&Header, *const u8, usize) -> T) -> T {
    loop {
        let mut event = hub.poll();
        if event.is_none() && sleepy {
            hub.arm();
            event = hub.poll();
            if event.is_none() {
                assert!(sys::wake::sleep_until_readable(hub.bell(), Duration::from_secs(20)), "nobody rang");
            }
            hub.disarm();
        }
        match event {
            None => std::thread::yield_now(),
            Some(ShmEvent::Lost(peer)) => panic!("lost {peer:?}"),
            Some(ShmEvent::Packet(packet)) => {
                let mut bytes = vec![0; packet.len()];
                // SAFETY: the bytes outlive the buffer.
                let sink = unsafe { RecvBuf::contiguous(bytes.as_mut_ptr(), bytes.len()) };
                hub.deliver(&packet, 0, &sink, 0, bytes.len());
                let out = use_packet(&packet.header, bytes.as_ptr(), bytes.len());
                hub.release(&packet);
                return out;
            }
        }
    }
}

fn send(lane: &mut ShmLane, header: &Header, body: &[u8], source: &SendBuf, from: usize, len: usize) {
    while lane.try_send_from(header, body, source, from, len) == Outcome::Again {
        std::thread::yield_now();
    }
}

/// Echoes small packets, then offers its big buffer, then streams it.
fn child() {
    let stdin = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let (mut hub, mut lane) = connect(1, &UnixStream::from(stdin));
    for i in 0..2000 {
        let (h, bytes) = next(&mut hub, i >= 1000, |h, p, len| {
            // SAFETY: the payload is `len` bytes.
            (*h, unsafe { std::slice::from_raw_parts(p, len) }.to_vec())
        });
        // SAFETY: `bytes` outlives the call.
        let source = unsafe { SendBuf::contiguous(bytes.as_ptr(), bytes.len()) };
        send(&mut lane, &h, b"", &source, 0, bytes.len());
    }
    let big: Vec<u8> = (0..BIG).map(pattern).collect();
    // SAFETY: `big` lives until the other side has read it.
    let source = unsafe { SendBuf::contiguous(big.as_ptr(), BIG) };
    let address = (big.as_ptr().addr() as u64).to_le_bytes();
    while lane.try_send(&header(1, 0), &address) == Outcome::Again {}
    next(&mut hub, true, |_, _, _| ());
    let piece = lane.limits().packet_max - 8;
    for from in (0..BIG).step_by(piece) {
        send(&mut lane, &header(2, 0), &(from as u64).to_le_bytes(), &source, from, piece.min(BIG - from));
    }
    next(&mut hub, true, |_, _, _| ());
}

fn echo(hub: &mut ShmHub, lane: &mut ShmLane) {
    let data: Vec<u8> = (0..4000).map(pattern).collect();
    // SAFETY: `data` outlives the buffer.
    let source = unsafe { SendBuf::contiguous(data.as_ptr(), data.len()) };
    for i in 0..2000usize {
        let len = if i % 2 == 0 { i % 40 } else { i * 37 % 4000 };
        send(lane, &header(i as i32, 9), b"", &source, 0, len);
        next(hub, i % 3 == 0, |h, p, n| {
            assert_eq!((h.tag, h.token, n), (i as i32, 9, len));
            // SAFETY: the payload is `n` bytes.
            assert!(unsafe { std::slice::from_raw_parts(p, n) } == &data[..n]);
        });
    }
}

fn pull_and_stream(hub: &mut ShmHub, lane: &mut ShmLane) {
    let address = next(hub, false, |_, p, n| {
        assert_eq!(n, 8);
        // SAFETY: eight bytes.
        u64::from_le_bytes(unsafe { p.cast::<[u8; 8]>().read() })
    });
    let mut into = vec![0u8; BIG];
    // SAFETY: `into` outlives the buffer and is only read while nothing is delivered.
    let sink = unsafe { RecvBuf::contiguous(into.as_mut_ptr(), BIG) };
    match lane.single_copy().name() {
        Some(_) => {
            assert!(lane.pull(address, &sink, BIG));
            assert!(into.iter().enumerate().all(|(i, b)| *b == pattern(i)), "pulled");
        }
        None => println!("skipped: single copy is not possible here: {:?}", lane.single_copy().rejected()),
    }
    into.fill(0);
    assert_eq!(lane.try_send(&header(3, 0), b""), Outcome::Done);
    let mut got = 0;
    while got < BIG {
        got += next(hub, true, |h, p, n| {
            assert_eq!(h.tag, 2);
            // SAFETY: the packet is 8 bytes of offset and a piece of the message.
            unsafe {
                let at = u64::from_le_bytes(p.cast::<[u8; 8]>().read()) as usize;
                sink.copy_in(at, p.add(8), n - 8);
            }
            n - 8
        });
    }
    assert!(into.iter().enumerate().all(|(i, b)| *b == pattern(i)), "streamed");
    assert_eq!(lane.try_send(&header(4, 0), b""), Outcome::Done);
}

#[test]
fn two_processes_exchange() {
    if std::env::var_os(CHILD).is_some() {
        return child();
    }
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut other = Command::new(std::env::current_exe().unwrap())
        .args(["two_processes_exchange", "--exact", "--nocapture"])
        .env(CHILD, "1")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let (mut hub, mut lane) = connect(0, &ours);
    echo(&mut hub, &mut lane);
    pull_and_stream(&mut hub, &mut lane);
    assert!(other.wait().unwrap().success());
}

/// Two hubs of this process, and a lane from the second to the first.
fn pair_in_one_process() -> (ShmHub, ShmHub, ShmLane) {
    let [a, b] = [0, 1].map(|me| {
        let processes = Processes::shared(ProcId { job: JobId(1), rank: WorldRank(me) }, 2);
        ShmHub::create(&processes, vec![Peer(0), Peer(1)], 70 + u128::from(me), false).unwrap()
    });
    let fds = a.descriptors().iter().map(|fd| fd.try_clone_to_owned().unwrap()).collect();
    let lane = ShmLane::open(&b, Peer(0), 70, None, PeerFds::from_vec(fds).unwrap()).unwrap();
    (a, b, lane)
}

#[test]
fn pieces_that_follow_each_other_are_taken_together() {
    const PIECE: usize = 5000;
    let data: Vec<u8> = (0..8 * PIECE).map(pattern).collect();
    // SAFETY: `data` outlives the buffer.
    let source = unsafe { SendBuf::contiguous(data.as_ptr(), data.len()) };
    let (mut hub, _other, mut lane) = pair_in_one_process();
    let mut into = vec![0u8; data.len()];
    // SAFETY: `into` outlives the buffer and is only read while nothing is delivered.
    let sink = unsafe { RecvBuf::contiguous(into.as_mut_ptr(), into.len()) };
    let mut send_piece = |header: &Header, place: usize, len: usize| {
        let body = (place as u64).to_le_bytes();
        assert_eq!(lane.try_send_from(header, &body, &source, place, len), Outcome::Done);
    };
    let (mine, other) = (header(1, 9), header(1, 10));
    let skip = |hub: &mut ShmHub| next(hub, false, |h, _, len| (h.token, len));
    for (follows, taken, left) in [
        // Pieces behind the first one: token, place and length; how many bytes are taken; what is left.
        (vec![(9, 1, PIECE), (9, 2, PIECE), (9, 3, PIECE)], 3 * PIECE, vec![]),
        (vec![(9, 1, PIECE), (10, 2, PIECE), (9, 2, PIECE)], PIECE, vec![(10, PIECE + 8), (9, PIECE + 8)]),
        (vec![(9, 2, PIECE)], 0, vec![(9, PIECE + 8)]),
        (vec![(9, 1, 100)], 0, vec![(9, 108)]),
        (vec![(9, 1, PIECE), (9, 2, PIECE), (9, 3, PIECE), (9, 4, PIECE)], 3 * PIECE, vec![(9, PIECE + 8)]),
    ] {
        send_piece(&mine, 0, PIECE);
        for (token, place, len) in follows {
            send_piece(if token == 9 { &mine } else { &other }, place * PIECE, len);
        }
        assert_eq!(skip(&mut hub), (9, PIECE + 8));
        assert_eq!(hub.take_pieces(Peer(0), &mine, &sink, PIECE..4 * PIECE), 0, "from somebody else");
        assert_eq!(hub.take_pieces(Peer(1), &mine, &sink, PIECE..4 * PIECE), taken);
        for expected in left {
            assert_eq!(skip(&mut hub), expected);
        }
        assert!(hub.poll().is_none());
    }
    assert!(into[..PIECE].iter().all(|byte| *byte == 0) && into[PIECE..4 * PIECE] == data[PIECE..4 * PIECE]);
}
