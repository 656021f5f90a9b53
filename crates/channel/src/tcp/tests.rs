//! Several [`Net`]s in one thread, over loopback; and callers who are no peers.

use super::hello::{ANSWER_BYTES, CHALLENGE_BYTES, HELLO_BYTES, PROOF_BYTES, Terms, Verdict};
use super::security::Security;
use super::*;
use base::WorldRank;
use base::ids::{JobId, ProcId};
use protocol::kind::Kind;
use protocol::order::Number;
use protocol::processes::Processes;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

const KEY: [u8; 16] = [3; 16];

pub(super) fn id(me: u32) -> Identity {
    id_in(4711, me)
}

fn id_in(job: u64, me: u32) -> Identity {
    let processes = Processes::shared(ProcId { job: JobId(job), rank: WorldRank(me) }, 8);
    Identity {
        processes,
        key: KEY,
        format: 1,
        security: Security::None,
        ids: Default::default(),
        others: Default::default(),
    }
}

/// The only link with a peer.
pub(super) fn link(peer: u32) -> LinkId {
    LinkId { peer: Peer(peer), number: 0 }
}

impl Net {
    pub(super) fn dial_first(&mut self, peer: Peer, addresses: Vec<SocketAddr>) -> u32 {
        self.dial_link(link(peer.0), addresses)
    }
}

pub(super) fn net(me: u32) -> Net {
    protected(me, Security::None)
}

/// A process whose connections are protected.
pub(super) fn protected(me: u32, security: Security) -> Net {
    Net::open(Identity { security, ..id(me) }, Arc::new(Epoll::new().unwrap()), true).unwrap()
}

pub(super) fn at(net: &Net) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, net.addresses()[0].port()))
}

pub(super) fn eager(tag: i32) -> Header {
    Header { kind: Kind::EAGER, number: Number::NONE, source: 0, tag, token: 0, context: 1 }
}

/// A copy of a packet's payload, which is all there.
pub(super) fn taken(net: &mut Net, packet: &NetPacket) -> Box<[u8]> {
    let mut bytes = vec![0; packet.len];
    // SAFETY: `bytes` is not touched meanwhile.
    let sink = unsafe { RecvBuf::contiguous(bytes.as_mut_ptr(), bytes.len()) };
    assert_eq!(net.deliver(packet, 0, (&sink, 0, packet.len), false), Delivery::Complete);
    net.release(packet);
    bytes.into_boxed_slice()
}

/// Polls all until `done`; packets are noted as (receiver, sender, tag, bytes).
pub(super) type Got = Vec<(u32, u32, i32, Box<[u8]>)>;

pub(super) fn run(nets: &mut [Net], got: &mut Got, mut done: impl FnMut(&mut [Net], &Got) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done(nets, got) {
        assert!(Instant::now() < deadline, "nothing happens any more: {got:?}");
        for net in &mut *nets {
            match net.poll() {
                Some(NetEvent::Packet(packet)) => {
                    let bytes = taken(net, &packet);
                    got.push((net.id.me().rank.0, packet.peer.0, packet.header.tag, bytes));
                }
                Some(NetEvent::Lost(peer, why)) => {
                    got.push((net.id.me().rank.0, peer.0, i32::MIN, why.into_bytes().into()));
                }
                _ => {}
            }
        }
    }
}

fn lost(got: &Got, me: u32, peer: u32) -> Option<String> {
    let found = got.iter().find(|g| (g.0, g.1, g.2) == (me, peer, i32::MIN))?;
    Some(String::from_utf8_lossy(&found.3).into_owned())
}

#[test]
fn both_dial_at_once_and_one_connection_stays() {
    for _ in 0..20 {
        let mut nets = [net(1), net(2)];
        let (a, b) = (at(&nets[0]), at(&nets[1]));
        let slots = [nets[0].dial_first(Peer(2), vec![b]), nets[1].dial_first(Peer(1), vec![a])];
        let mut sent = [false; 2];
        let mut got = Vec::new();
        run(&mut nets, &mut got, |nets, got| {
            for i in 0..2 {
                sent[i] = sent[i] || nets[i].send(slots[i], &eager(i as i32), b"hello", None) == Outcome::Done;
            }
            got.len() == 2
        });
        assert_eq!((nets[0].open.len(), nets[1].open.len()), (1, 1));
        assert_eq!((nets[0].handshakes, nets[1].handshakes), (0, 0));
        assert_eq!((nets[0].timed, nets[1].timed), (0, 0));
        nets[0].close();
        let mut got = Vec::new();
        run(&mut nets, &mut got, |nets, _| nets[1].open.is_empty());
        assert!(got.is_empty(), "a goodbye is no loss: {got:?}");
        assert_eq!(nets[1].send(slots[1], &eager(0), b"", None), Outcome::Lost);
    }
}

#[test]
fn the_higher_rank_gets_through_when_the_lower_cannot_dial() {
    let mut nets = [net(1), net(2)];
    let a = at(&nets[0]);
    let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    nets[0].dial_first(Peer(2), vec![nowhere]);
    let slot = nets[1].dial_first(Peer(1), vec![nowhere, a]);
    let mut got = Vec::new();
    run(&mut nets, &mut got, |nets, _| nets[1].send(slot, &eager(5), b"x", None) == Outcome::Done);
    run(&mut nets, &mut got, |_, got| got.len() == 1);
    assert_eq!((nets[0].open.len(), nets[1].open.len()), (1, 1));
    assert_eq!((nets[0].timed, nets[1].timed), (0, 0));
}

#[test]
fn the_higher_rank_waits_while_a_proof_of_the_lower_is_out() {
    let mut nets = [net(1), net(2)];
    let a = at(&nets[0]);
    // It plays rank 2 up to the proof, and then says nothing.
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let slot = nets[0].dial_first(Peer(2), vec![listener.local_addr().unwrap()]);
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let hello = answer::<HELLO_BYTES>(&mut nets, &mut stream).unwrap();
    stream.write_all(&hello::challenge(&id(2), &hello, &[4; 16])).unwrap();
    assert!(answer::<PROOF_BYTES>(&mut nets, &mut stream).is_some());
    let theirs = nets[1].dial_first(Peer(1), vec![a]);
    let mut got = Vec::new();
    run(&mut nets, &mut got, |nets, _| nets[0].slots[slot as usize].parked.is_some());
    assert_eq!((nets[0].open.len(), nets[1].open.len()), (0, 0));
    drop((stream, listener));
    run(&mut nets, &mut got, |nets, _| nets[1].send(theirs, &eager(5), b"x", None) == Outcome::Done);
    run(&mut nets, &mut got, |_, got| got.len() == 1);
    assert_eq!((nets[0].open.len(), nets[1].open.len()), (1, 1));
    assert_eq!((nets[0].timed, nets[1].timed), (0, 0));
}

#[test]
fn many_connections_are_served_by_epoll() {
    let mut nets: Vec<Net> = (0..8).map(net).collect();
    let hub = at(&nets[0]);
    let slots: Vec<u32> = (1..8).map(|i| nets[i].dial_first(Peer(0), vec![hub])).collect();
    let mut sent = [0; 7];
    let mut got = Vec::new();
    run(&mut nets, &mut got, |nets, got| {
        for (i, slot) in slots.iter().enumerate() {
            if sent[i] < 50 && nets[i + 1].send(*slot, &eager(sent[i]), &[i as u8; 16], None) == Outcome::Done {
                sent[i] += 1;
            }
        }
        got.len() == 350
    });
    for i in 1..8 {
        let tags: Vec<i32> = got.iter().filter(|g| g.1 == i).map(|g| g.2).collect();
        assert_eq!(tags, (0..50).collect::<Vec<i32>>());
    }
}

#[test]
fn packets_that_are_already_read_are_not_forgotten() {
    let mut nets: Vec<Net> = (0..8).map(net).collect();
    let hub = at(&nets[0]);
    let slots: Vec<u32> = (1..8).map(|i| nets[i].dial_first(Peer(0), vec![hub])).collect();
    let mut got = Vec::new();
    run(&mut nets, &mut got, |nets, _| nets[0].open.len() == 7 && (1..8).all(|i| nets[i].open.len() == 1));
    // All is in the kernel before the first look, so that one read brings many packets.
    for tag in 0..100 {
        for (i, slot) in slots.iter().enumerate() {
            assert_eq!(nets[i + 1].send(*slot, &eager(tag), &[1; 16], None), Outcome::Done);
        }
    }
    run(&mut nets, &mut got, |_, got| got.len() == 700);
}

#[test]
fn an_unreachable_peer_is_lost_and_its_addresses_named() {
    let mut nets = [net(1)];
    let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let slot = nets[0].dial_first(Peer(2), vec![nowhere]);
    let mut got = Vec::new();
    run(&mut nets, &mut got, |nets, _| {
        let dial = nets[0].slots[slot as usize].dial.as_ref().unwrap();
        dial.describe().contains("refused")
    });
    // As if the time were over.
    nets[0].give_up(slot);
    run(&mut nets, &mut got, |_, got| !got.is_empty());
    let why = lost(&got, 1, 2).unwrap();
    assert!(why.contains("127.0.0.1:1") && why.contains("refused"), "{why}");
    assert_eq!(nets[0].send(slot, &eager(0), b"", None), Outcome::Lost);
}

#[test]
fn a_peer_that_vanishes_is_lost_after_its_last_packet() {
    let mut nets = vec![net(1), net(2)];
    let b = at(&nets[1]);
    let slot = nets[0].dial_first(Peer(2), vec![b]);
    let mut got = Vec::new();
    run(&mut nets, &mut got, |nets, _| nets[0].send(slot, &eager(9), b"last", None) == Outcome::Done);
    let a = at(&nets[0]);
    nets[1].dial_first(Peer(1), vec![a]);
    nets.remove(0);
    run(&mut nets, &mut got, |_, got| lost(got, 2, 1).is_some());
    assert_eq!(&*got[0].3, b"last");
    assert_eq!(got.len(), 2);
}

#[test]
fn peers_with_other_security_tell_each_other() {
    for (a, b) in
        [(Security::None, Security::Encrypt), (Security::Encrypt, Security::Mac), (Security::Mac, Security::None)]
    {
        let mut nets = [protected(1, a), protected(2, b)];
        let at = at(&nets[1]);
        let slot = nets[0].dial_first(Peer(2), vec![at]);
        let mut got = Vec::new();
        run(&mut nets, &mut got, |_, got| !got.is_empty());
        assert_eq!(lost(&got, 1, 2).unwrap(), format!("its FERRULE_TCP_SECURITY is {b}, ours is {a}"));
        assert_eq!(nets[0].send(slot, &eager(0), b"", None), Outcome::Lost);
        let told = Stranger::Security { theirs: a, ours: b };
        assert!(nets[1].strangers_logged.contains(&std::mem::discriminant(&told)), "the listener says so, too");
        assert_eq!(nets.each_ref().map(|net| net.open.len()), [0, 0]);
    }
}

/// A connected stranger with time-outs, so that no test hangs.
pub(super) fn call(net: &Net) -> TcpStream {
    let stream = TcpStream::connect(at(net)).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    stream
}

/// Polls `net` until the stranger has an answer of `N` bytes, or None when it was hung up on.
pub(super) fn answer<const N: usize>(nets: &mut [Net], stranger: &mut TcpStream) -> Option<[u8; N]> {
    let mut out = [0; N];
    let mut have = 0;
    for _ in 0..200 {
        for net in &mut *nets {
            for _ in 0..ATTEND_EVERY {
                assert!(net.poll().is_none());
            }
        }
        match stranger.read(&mut out[have..]) {
            Ok(0) => return None,
            Ok(n) => have += n,
            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock) => {}
            Err(_) => return None,
        }
        if have == N {
            return Some(out);
        }
    }
    panic!("neither answer nor end");
}

#[test]
fn strangers_are_turned_away_and_the_job_goes_on() {
    let mut nets = [net(1), net(2)];
    let before = base::counters::PACKETS_REJECTED.value();
    let good = hello::hello(&id(3), link(1), &[1; 16]);
    let other_job = hello::hello(&id_in(1, 3), link(1), &[1; 16]);
    let misdirected = hello::hello(&id(3), link(2), &[1; 16]);
    let mut old = good;
    old[8] += 1;
    let garbage = [0x55; HELLO_BYTES];
    let other_settings = hello::hello(&Identity { format: 2, ..id(3) }, link(1), &[1; 16]);
    for bytes in [&garbage, &other_job, &misdirected, &old, &other_settings] {
        let mut stranger = call(&nets[0]);
        stranger.write_all(bytes).unwrap();
        assert_eq!(answer::<CHALLENGE_BYTES>(&mut nets, &mut stranger), None);
    }
    // One that doesn't know the key gets a challenge, and nothing for its answer.
    let mut stranger = call(&nets[0]);
    stranger.write_all(&good).unwrap();
    assert!(answer::<CHALLENGE_BYTES>(&mut nets, &mut stranger).is_some());
    stranger.write_all(&[9; PROOF_BYTES]).unwrap();
    assert_eq!(answer::<ANSWER_BYTES>(&mut nets, &mut stranger), None);
    assert!(base::counters::PACKETS_REJECTED.value() >= before + 6);
    // The peers still find each other.
    let b = at(&nets[1]);
    let slot = nets[0].dial_first(Peer(2), vec![b]);
    let mut got = Vec::new();
    run(&mut nets, &mut got, |nets, _| nets[0].send(slot, &eager(1), b"x", None) == Outcome::Done);
    run(&mut nets, &mut got, |_, got| got.len() == 1);
}

#[test]
fn a_recorded_handshake_is_worthless() {
    let mut nets = [net(1), net(2)];
    let (hello, dialler) = (hello::hello(&id(3), link(1), &[1; 16]), id(3));
    let mut first = call(&nets[0]);
    first.write_all(&hello).unwrap();
    let challenge = answer::<CHALLENGE_BYTES>(&mut nets, &mut first).unwrap();
    let nonce = hello::check_challenge(&dialler, &hello, &challenge).unwrap();
    let proof = hello::proof(&dialler, &hello, &nonce, Terms { connection: 1, received: 0 });
    first.write_all(&proof).unwrap();
    let verdict = answer::<ANSWER_BYTES>(&mut nets, &mut first).unwrap();
    assert_eq!(hello::check_answer(&dialler, &hello, &nonce, &verdict).unwrap().0, Verdict::Accepted);
    let mut replay = call(&nets[1]);
    replay.write_all(&hello).unwrap();
    assert_eq!(answer::<CHALLENGE_BYTES>(&mut nets, &mut replay), None, "it was meant for another rank");
    let mut nets = [net(1)];
    let mut replay = call(&nets[0]);
    replay.write_all(&hello).unwrap();
    assert!(answer::<CHALLENGE_BYTES>(&mut nets, &mut replay).is_some());
    replay.write_all(&proof).unwrap();
    assert_eq!(answer::<ANSWER_BYTES>(&mut nets, &mut replay), None);
}

#[test]
fn a_dialler_does_not_prove_itself_to_a_stranger() {
    let mut nets = [net(1)];
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    nets[0].dial_first(Peer(2), vec![listener.local_addr().unwrap()]);
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(answer::<HELLO_BYTES>(&mut nets, &mut stream).is_some());
    stream.write_all(&[1; CHALLENGE_BYTES]).unwrap();
    assert_eq!(answer::<1>(&mut nets, &mut stream), None);
}

#[test]
fn truncated_hellos_and_crowds_pass() {
    let mut nets = [net(1), net(2)];
    let mut crowd: Vec<TcpStream> = (0..40).map(|_| call(&nets[0])).collect();
    for (i, stranger) in crowd.iter_mut().enumerate() {
        stranger.write_all(&hello::hello(&id(3), link(1), &[1; 16])[..i % HELLO_BYTES]).unwrap();
    }
    crowd.truncate(20);
    let b = at(&nets[0]);
    let slot = nets[1].dial_first(Peer(1), vec![b]);
    let mut got = Vec::new();
    run(&mut nets, &mut got, |nets, _| nets[1].send(slot, &eager(1), b"x", None) == Outcome::Done);
    run(&mut nets, &mut got, |_, got| got.len() == 1);
    assert_eq!(nets[0].open.len(), 1);
}

#[test]
fn closing_delivers_what_was_sent() {
    let bytes = vec![5u8; 30_000];
    let (tell, told) = std::sync::mpsc::channel();
    let receiver = std::thread::spawn(move || {
        let mut nets = [net(2)];
        tell.send(at(&nets[0])).unwrap();
        let mut got = Vec::new();
        run(&mut nets, &mut got, |_, got| !got.is_empty());
        std::thread::sleep(Duration::from_millis(20));
        run(&mut nets, &mut got, |nets, _| nets[0].open.is_empty());
        got
    });
    let mut nets = [net(1)];
    let slot = nets[0].dial_first(Peer(2), vec![told.recv().unwrap()]);
    // SAFETY: `bytes` lives on.
    let source = unsafe { SendBuf::contiguous(bytes.as_ptr(), bytes.len()) };
    let send = |nets: &mut [Net]| nets[0].send(slot, &eager(0), &[], Some((&source, 0, 30_000)));
    run(&mut nets, &mut Vec::new(), |nets, _| send(nets) == Outcome::Done);
    let mut sent = 1;
    while send(&mut nets) == Outcome::Done {
        sent += 1;
    }
    nets[0].close();
    let got = receiver.join().unwrap();
    assert_eq!(got.len(), sent);
    assert!(got.iter().all(|g| *g.3 == bytes));
}
