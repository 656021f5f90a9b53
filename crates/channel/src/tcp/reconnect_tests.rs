//! Connections that are cut at random moments, by a relay between the two processes: what it holds when it cuts is lost, although both kernels have
//! acknowledged it.

use super::hello::{ANSWER_BYTES, CHALLENGE_BYTES, HELLO_BYTES, PROOF_BYTES, Stranger, Terms};
use super::security::Security;
use super::tests::{answer, at, call, eager, id, link, net, protected, run, taken};
use super::*;
use protocol::kind::Kind;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// What a relay does to its connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    /// Ends them.
    Cut,
    /// Changes the next bytes of each.
    Harm,
    /// Changes some of all bytes that come after the introduction, from now on.
    HarmAll,
}

/// Forwards connections to a process, and harms all of them on demand.
struct Relay {
    at: SocketAddr,
    acts: Sender<Act>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// One direction of a relayed connection.
struct Pipe {
    from: TcpStream,
    to: TcpStream,
    bytes: Vec<u8>,
    /// Bytes that have come.
    seen: usize,
    /// The next ones are to be changed.
    harm: bool,
}

impl Pipe {
    /// Moves some bytes; false at the end.
    fn step(&mut self, harm_all: bool) -> bool {
        let mut room = [0; 20_000];
        if self.bytes.len() < 60_000 {
            match self.from.read(&mut room) {
                Ok(0) if self.bytes.is_empty() => return false,
                Ok(n) => {
                    if std::mem::take(&mut self.harm) || harm_all && self.seen >= INTRODUCED {
                        room[n / 2] ^= 4;
                    }
                    self.seen += n;
                    self.bytes.extend_from_slice(&room[..n]);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return false,
            }
        }
        match self.to.write(&self.bytes) {
            Ok(n) => drop(self.bytes.drain(..n)),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
        true
    }
}

/// What each side has sent when records begin; both send less than that before the other side has answered.
const INTRODUCED: usize = HELLO_BYTES + PROOF_BYTES;

impl Relay {
    fn to(target: SocketAddr) -> Relay {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (at, end) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let (acts, demanded) = channel();
        let ends = Arc::clone(&end);
        let thread = std::thread::spawn(move || forward(&listener, target, &demanded, &ends));
        Relay { at, acts, end, thread: Some(thread) }
    }

    fn act(&self, act: Act) {
        self.acts.send(act).unwrap();
    }
}

fn forward(listener: &TcpListener, target: SocketAddr, acts: &Receiver<Act>, end: &AtomicBool) {
    let (mut pairs, mut harm_all): (Vec<[Pipe; 2]>, _) = (Vec::new(), false);
    while !end.load(Ordering::Relaxed) {
        if let Ok((near, _)) = listener.accept()
            && let Ok(far) = TcpStream::connect(target)
        {
            for stream in [&near, &far] {
                stream.set_nonblocking(true).unwrap();
                stream.set_nodelay(true).unwrap();
            }
            let pipe = |from: &TcpStream, to: &TcpStream| Pipe {
                from: from.try_clone().unwrap(),
                to: to.try_clone().unwrap(),
                bytes: Vec::new(),
                seen: 0,
                harm: false,
            };
            pairs.push([pipe(&near, &far), pipe(&far, &near)]);
        }
        pairs.retain_mut(|[a, b]| a.step(harm_all) && b.step(harm_all));
        match acts.try_recv() {
            Ok(Act::Cut) => {
                for pair in pairs.drain(..) {
                    let _ = pair[0].from.shutdown(Shutdown::Both);
                    let _ = pair[0].to.shutdown(Shutdown::Both);
                }
            }
            Ok(Act::Harm) => pairs.iter_mut().flatten().for_each(|pipe| pipe.harm = true),
            Ok(Act::HarmAll) => harm_all = true,
            Err(_) => {}
        }
        std::thread::yield_now();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A generator of moments and sizes (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

/// The bytes of message `n` of process `me`.
fn message(me: usize, n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + n * 13 + me * 101 + (i >> 8)) as u8).collect()
}

/// Sizes of messages, the same on both sides: many small, some of several kibibytes, some that are held.
fn length(n: usize) -> usize {
    match n % 23 {
        0 => 300_000 + n % 1000,
        3 => 1_000_000,
        5 | 11 => 60_000 - n % 77,
        7 | 19 => 5000 + n % 100,
        _ => n % 200,
    }
}

/// One process: what it has sent and got.
struct Side {
    me: usize,
    slot: u32,
    sent: usize,
    got: usize,
    /// Sources of `Posted` packets.
    held: Vec<(Token, Vec<u8>)>,
    landing: Vec<u8>,
}

impl Side {
    /// Sends what there is room for; small messages as `Eager`, large ones as `Data`.
    fn send(&mut self, net: &mut Net) {
        let len = length(self.sent);
        let bytes = message(self.me, self.sent, len);
        // SAFETY: `bytes` goes to `held` if the packet is `Posted`, without moving.
        let source = unsafe { SendBuf::contiguous(bytes.as_ptr(), len) };
        let kind = if len > 65536 { Kind::DATA } else { Kind::EAGER };
        let header = Header { kind, tag: self.sent as i32, ..eager(0) };
        let body: &[u8] = if kind == Kind::DATA { &[9; 8] } else { &[] };
        match net.send(self.slot, &header, body, Some((&source, 0, len))) {
            Outcome::Done => self.sent += 1,
            Outcome::Posted(token) => {
                self.held.push((token, bytes));
                self.sent += 1;
            }
            Outcome::Again => {}
            Outcome::Lost => panic!("{} has lost its peer", self.me),
        }
    }

    fn receive(&mut self, net: &mut Net) {
        match net.poll() {
            None => {}
            Some(NetEvent::Packet(packet)) if packet.header.tag % 3 == 0 && net.gather(&packet) => {}
            Some(NetEvent::Packet(packet)) if packet.header.kind == Kind::DATA => {
                self.landing = vec![0; packet.len - 8];
                // SAFETY: `landing` is not touched before the packet has landed.
                let sink = unsafe { RecvBuf::contiguous(self.landing.as_mut_ptr(), self.landing.len()) };
                let delivery = net.deliver(&packet, 8, (&sink, 0, packet.len - 8), true);
                net.release(&packet);
                if delivery == Delivery::Complete {
                    let bytes = std::mem::take(&mut self.landing);
                    self.check(packet.header.tag, &bytes);
                }
            }
            Some(NetEvent::Packet(packet)) => {
                let bytes = taken(net, &packet);
                self.check(packet.header.tag, &bytes);
            }
            Some(NetEvent::Landed { header, .. }) => {
                let bytes = std::mem::take(&mut self.landing);
                self.check(header.tag, &bytes);
            }
            Some(NetEvent::Gathered { header, payload, .. }) => self.check(header.tag, &payload[8..]),
            Some(NetEvent::Sent(token)) => {
                let (oldest, mut bytes) = self.held.remove(0);
                assert_eq!(oldest, token, "sources end in the order of their packets");
                // Whatever is read of it from now on would be found out.
                bytes.fill(0xee);
            }
            Some(NetEvent::Lost(peer, why)) => panic!("{} has lost {}: {why}", self.me, peer.0),
        }
    }

    fn check(&mut self, tag: i32, bytes: &[u8]) {
        assert_eq!(tag as usize, self.got, "packets of {} are lost, doubled or reordered", 1 - self.me);
        assert!(bytes == message(1 - self.me, self.got, length(self.got)), "packet {tag} is damaged");
        self.got += 1;
    }
}

/// Records that are rejected at least when connections are harmed.
const REJECTED_MIN: u64 = 10;

/// Times that connections are cut or harmed, at most, before a message has arrived at each end. A pair gives up after 10 harmed connections one after another.
const ACTS_MAX: usize = 4;

/// Messages that each process sends at least.
const MESSAGES_MIN: usize = 50;

/// Two processes that send to each other while their connection is cut, or harmed, so many times.
fn cut_under_traffic(seed: u64, (act, cuts): (Act, usize), both_dial: bool, security: Security) {
    let mut nets = [0, 1].map(|me| protected(me, security));
    let (a, b) = (Relay::to(at(&nets[0])), Relay::to(at(&nets[1])));
    let mut random = Random(seed);
    let first = nets[0].dial_first(Peer(1), vec![b.at]);
    let second = if both_dial { nets[1].dial_first(Peer(0), vec![a.at]) } else { u32::MAX };
    let mut sides =
        [first, second].map(|slot| Side { me: 0, slot, sent: 0, got: 0, held: Vec::new(), landing: Vec::new() });
    sides[1].me = 1;
    let (mut done, mut steps) = (0, random.below(500));
    let (mut got_before, mut acts) = ([0, 0], 0);
    let before = base::counters::RECONNECTIONS.value();
    let rejected = base::counters::RECORDS_REJECTED.value();
    // Harm that is done to an introduction rejects no record.
    let is_enough = |done| {
        done >= cuts && (act != Act::Harm || base::counters::RECORDS_REJECTED.value() >= rejected + REJECTED_MIN)
    };
    let deadline = Instant::now() + Duration::from_secs(120);
    // How far the traffic gets between two cuts depends on what else the machine does.
    while !is_enough(done)
        || sides.iter().any(|s| s.sent < MESSAGES_MIN || s.got < sides[1 - s.me].sent || !s.held.is_empty())
    {
        assert!(Instant::now() < deadline, "seed {seed}: {done} cuts, {:?}", sides.each_ref().map(|s| (s.sent, s.got)));
        for (side, net) in sides.iter_mut().zip(&mut nets) {
            side.receive(net);
            if side.slot == u32::MAX && net.is_connected(Peer(0)) {
                side.slot = net.dial_first(Peer(0), Vec::new());
            }
            if side.slot != u32::MAX && (!is_enough(done) || side.sent < MESSAGES_MIN) {
                side.send(net);
            }
        }
        let got = sides.each_ref().map(|side| side.got);
        if (0..2).all(|i| got[i] > got_before[i]) {
            (got_before, acts) = (got, 0);
        }
        if !is_enough(done) && acts < ACTS_MAX && steps == 0 && nets.iter().any(|net| !net.open.is_empty()) {
            a.act(act);
            b.act(act);
            done += 1;
            acts += 1;
            steps = random.below(400);
        }
        steps = steps.saturating_sub(1);
    }
    assert!(base::counters::RECONNECTIONS.value() > before + cuts as u64 / 4, "most cuts must have hit something");
    assert_eq!(nets.each_ref().map(|net| net.timed), [0, 0]);
}

#[test]
fn nothing_is_lost_doubled_or_reordered_by_200_cuts_when_both_can_dial() {
    cut_under_traffic(0x9e37_79b9, (Act::Cut, 200), true, Security::None);
}

#[test]
fn nothing_is_lost_doubled_or_reordered_when_one_side_can_dial() {
    cut_under_traffic(0x1234_5678, (Act::Cut, 60), false, Security::None);
}

#[test]
fn nothing_is_lost_doubled_or_reordered_by_cuts_of_protected_connections() {
    cut_under_traffic(0x3141_5926, (Act::Cut, 60), true, Security::Mac);
    cut_under_traffic(0x2718_2818, (Act::Cut, 60), false, Security::Encrypt);
}

#[test]
fn what_is_changed_on_its_way_is_never_taken() {
    for (seed, security, both_dial) in [(0x1414_2135, Security::Mac, false), (0x1732_0508, Security::Encrypt, true)] {
        cut_under_traffic(seed, (Act::Harm, 30), both_dial, security);
    }
}

#[test]
fn a_peer_behind_somebody_who_changes_everything_is_lost() {
    for security in [Security::Mac, Security::Encrypt] {
        let mut nets = [protected(1, security), protected(2, security)];
        let relay = Relay::to(at(&nets[1]));
        relay.act(Act::HarmAll);
        let slot = nets[0].dial_first(Peer(2), vec![relay.at]);
        let (mut got, mut is_sent) = (Vec::new(), false);
        run(&mut nets, &mut got, |nets, got| {
            is_sent = is_sent || nets[0].send(slot, &eager(9), b"hello", None) == Outcome::Done;
            !got.is_empty()
        });
        let why = String::from_utf8_lossy(&got[0].3).into_owned();
        assert_eq!((got[0].2, got.len()), (i32::MIN, 1), "nothing gets through");
        assert!(
            why.contains("changed, left out or repeated") && why.contains("11 connections one after another"),
            "{why}"
        );
    }
}

#[test]
fn a_peer_whose_address_refuses_is_lost() {
    let mut nets = vec![net(1), net(2)];
    let b = at(&nets[1]);
    let slot = nets[0].dial_first(Peer(2), vec![b]);
    let mut got = Vec::new();
    run(&mut nets, &mut got, |nets, _| nets[0].send(slot, &eager(9), b"x", None) == Outcome::Done);
    run(&mut nets, &mut got, |_, got| got.len() == 1);
    nets.pop();
    run(&mut nets, &mut got, |_, got| got.len() == 2);
    let why = String::from_utf8_lossy(&got[1].3).into_owned();
    assert!(why.contains("refused") && why.contains("FERRULE_TCP_REFUSED_TIMEOUT_MS"), "{why}");
    assert_eq!(nets[0].send(slot, &eager(9), b"x", None), Outcome::Lost);
    assert_eq!(nets[0].timed, 0);
}

#[test]
fn a_dead_peer_is_lost_without_waiting_for_it() {
    let mut nets = vec![net(1), net(2)];
    let b = at(&nets[1]);
    nets[0].dial_first(Peer(2), vec![b]);
    let mut got = Vec::new();
    run(&mut nets, &mut got, |nets, _| nets.iter().all(|net| net.open.len() == 1));
    nets.pop();
    run(&mut nets, &mut got, |nets, _| nets[0].wants_news());
    assert!(nets[0].peer_gone(Peer(2)), "nothing of it is left to be read");
    assert_eq!((nets[0].timed, nets[0].handshakes, got.len()), (0, 0, 0));
}

/// A caller who knows the key of the job, in the place of process 3.
fn call_with(nets: &mut [Net], terms: Terms) -> Option<[u8; ANSWER_BYTES]> {
    let mut stream = call(&nets[0]);
    let dialler = id(3);
    let hello: [u8; HELLO_BYTES] = hello::hello(&dialler, link(1), &[1; 16]);
    stream.write_all(&hello).unwrap();
    let challenge = answer::<CHALLENGE_BYTES>(nets, &mut stream).unwrap();
    let nonce = hello::check_challenge(&dialler, &hello, &challenge).unwrap();
    stream.write_all(&hello::proof(&dialler, &hello, &nonce, terms)).unwrap();
    answer::<ANSWER_BYTES>(nets, &mut stream)
}

#[test]
fn wrong_numbers_and_positions_are_turned_away() {
    let mut nets = [net(1), net(3)];
    let b = at(&nets[0]);
    let slot = nets[1].dial_first(Peer(1), vec![b]);
    let mut got = Vec::new();
    run(&mut nets, &mut got, |nets, _| nets[1].send(slot, &eager(9), b"x", None) == Outcome::Done);
    run(&mut nets, &mut got, |_, got| got.len() == 1);
    nets[0].slots[0].opened = 5;
    // The last one is only late, as when both dial.
    for (connection, received) in [(4, 0), (6, 1), (6, u64::MAX), (5, 0)] {
        assert_eq!(call_with(&mut nets, Terms { connection, received }), None, "{connection}, {received}");
    }
    for stranger in [Stranger::Stale, Stranger::Position] {
        assert!(nets[0].strangers_logged.contains(&std::mem::discriminant(&stranger)), "{stranger} is logged");
    }
    assert!(nets[0].is_connected(Peer(3)), "the true one stays");
    run(&mut nets, &mut got, |nets, _| nets[1].send(slot, &eager(9), b"y", None) == Outcome::Done);
    run(&mut nets, &mut got, |_, got| got.len() == 2);
}

#[test]
fn closing_mends_what_is_cut() {
    for seed in 0..8 {
        let mut receiver = net(1);
        let relay = Relay::to(at(&receiver));
        let (target, acts) = (relay.at, relay.acts.clone());
        let sender = std::thread::spawn(move || {
            let mut nets = [net(2)];
            let slot = nets[0].dial_first(Peer(1), vec![target]);
            let mut sent = 0;
            run(&mut nets, &mut Vec::new(), |nets, _| {
                sent += usize::from(nets[0].send(slot, &eager(sent as i32), &[5; 60], None) == Outcome::Done);
                sent == 3000
            });
            if seed % 2 == 0 {
                acts.send(Act::Cut).unwrap();
            }
            let _ = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(seed));
                let _ = acts.send(Act::Cut);
            });
            nets[0].close();
        });
        let mut got = Vec::new();
        run(std::slice::from_mut(&mut receiver), &mut got, |_, got| got.len() == 3000);
        assert!(got.iter().enumerate().all(|(i, g)| g.2 == i as i32));
        receiver.close();
        sender.join().unwrap();
    }
}

#[test]
fn sources_are_over_when_the_peer_says_goodbye() {
    let mut nets = [net(1), net(2)];
    let b = at(&nets[1]);
    let slot = nets[0].dial_first(Peer(2), vec![b]);
    run(&mut nets, &mut Vec::new(), |nets, _| nets.iter().all(|net| net.open.len() == 1));
    let bytes = vec![3; 70_000];
    let mut posted = Vec::new();
    while posted.len() < 2 {
        // SAFETY: `bytes` lives longer than the processes use it.
        let source = unsafe { SendBuf::contiguous(bytes.as_ptr(), bytes.len()) };
        let header = Header { kind: Kind::DATA, ..eager(0) };
        let Outcome::Posted(token) = nets[0].send(slot, &header, &[9; 8], Some((&source, 0, bytes.len()))) else {
            panic!("the source of a large packet is in use until the peer has it")
        };
        posted.push(token);
    }
    assert!(nets[0].is_flushed(), "the kernel has room for so much");
    // It drops what comes, acknowledges it and says goodbye, all of which the other one sees at once.
    nets[1].close();
    let mut over = Vec::new();
    while !nets[0].open.is_empty() || over.len() < posted.len() {
        match nets[0].poll() {
            Some(NetEvent::Sent(token)) => over.push(token),
            Some(other) => panic!("{other:?}"),
            None => {}
        }
    }
    assert_eq!(over, posted);
}

#[test]
fn whoever_listens_at_a_new_address_must_know_the_key() {
    let spy = Identity { key: [8; 16], ..id(2) };
    let mut nets = [net(1), net(2), Net::open(spy, Arc::new(Epoll::new().unwrap()), true).unwrap()];
    let (a, b, elsewhere) = (at(&nets[0]), at(&nets[1]), at(&nets[2]));
    let slot = nets[0].dial_first(Peer(2), vec![b]);
    nets[1].dial_first(Peer(1), vec![a]);
    let mut got = Vec::new();
    run(&mut nets, &mut got, |nets, _| nets[0].send(slot, &eager(1), b"x", None) == Outcome::Done);
    run(&mut nets, &mut got, |_, got| got.len() == 1);
    nets[0].move_to(Peer(2), &[elsewhere]);
    assert_eq!(nets[0].send(slot, &eager(2), b"x", None), Outcome::Again, "there is no connection yet");
    // The true one calls, and is taken when the other has failed.
    run(&mut nets, &mut got, |nets, _| nets[0].send(slot, &eager(2), b"x", None) == Outcome::Done);
    run(&mut nets, &mut got, |_, got| got.len() == 2);
    assert_eq!((got[1].2, nets[1].open.len(), nets[2].open.len()), (2, 1, 0));
}
