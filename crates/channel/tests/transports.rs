//! The engine over real channels: several ranks in one process, an agent played by
//! the test. Each set of channels runs in a process of its own, because settings are read once.

mod agent;

use agent::{Rank, run_job};
use base::Class;
use channel::buffer::{Layout, RecvBuf, SendBuf};
use channel::memory::Exposed;
use channel::transports;
use channel::wait;
use protocol::engine::one_sided::AccessId;
use protocol::engine::{Address, Completion, Mode, OpId};
use protocol::matching::{Envelope, Pattern};
use protocol::memory::{Atomic, Change, KEY_BYTES, Key};
use std::net::SocketAddr;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

const CONTEXT: u64 = 64;
const INNER: &str = "FERRULE_TEST_INNER";

fn start_send(rank: &mut Rank, to: u32, tag: i32, mode: Mode, source: SendBuf) -> Option<OpId> {
    let envelope = Envelope { context: CONTEXT, source: rank.me(), tag };
    rank.engine.post_send(Address { peer: base::Peer(to), envelope }, mode, source).unwrap()
}

fn start_recv(rank: &mut Rank, from: u32, tag: i32, sink: RecvBuf) -> OpId {
    let pattern = Pattern { context: CONTEXT, source: Some(from), tag: Some(tag) };
    rank.engine.post_recv(pattern, Some(base::Peer(from)), sink)
}

fn from(bytes: &[u8]) -> SendBuf {
    // SAFETY: every test waits for its operations before its buffers end.
    unsafe { SendBuf::contiguous(bytes.as_ptr(), bytes.len()) }
}

fn into(bytes: &mut [u8]) -> RecvBuf {
    // SAFETY: as above, and nobody looks before.
    unsafe { RecvBuf::contiguous(bytes.as_mut_ptr(), bytes.len()) }
}

/// Waits as the product does: poll, then sleep.
fn finish(rank: &mut Rank, op: OpId) -> Completion {
    let Rank { engine, waiting, .. } = rank;
    let mut idle = 0;
    loop {
        if let Some(completion) = engine.take(op) {
            return completion;
        }
        idle = if engine.progress() { 0 } else { idle + 1 };
        if idle > 200 {
            waiting.arm(engine);
            if !engine.progress() && !engine.is_complete(op) {
                wait::sleep(waiting.sleep_set().fd(), waiting.sleep_limit(engine));
            }
            waiting.disarm(engine.endpoints());
            idle = 0;
        }
    }
}

fn finish_all(rank: &mut Rank, ops: impl IntoIterator<Item = OpId>) {
    for op in ops {
        assert_eq!(finish(rank, op).error, None);
    }
}

/// Bytes that depend on who sends what.
fn bytes(seed: u32, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

const SIZES: &[usize] = &[0, 1, 7, 8, 100, 4096, 16384, 16385, 32768, 32769, 65536, 65537, 262_136, 262_145, 3_000_001];

fn every_size_goes_and_comes_back(rank: &mut Rank) {
    let me = rank.me();
    for (i, len) in SIZES.iter().enumerate() {
        for mode in [Mode::Standard, Mode::Synchronous] {
            let tag = i as i32;
            if me == 0 {
                let data = bytes(tag as u32, *len);
                let op = start_send(rank, 1, tag, mode, from(&data));
                finish_all(rank, op);
                let mut back = vec![0; *len];
                let op = start_recv(rank, 1, tag, into(&mut back));
                assert_eq!(finish(rank, op).length, *len as u64);
                assert!(back == data, "{len} bytes came back changed");
            } else if me == 1 {
                let mut data = vec![0; *len + 10];
                let op = start_recv(rank, 0, tag, into(&mut data));
                assert_eq!(finish(rank, op).length, *len as u64);
                let op = start_send(rank, 0, tag, mode, from(&data[..*len]));
                finish_all(rank, op);
            }
        }
    }
}

fn unexpected_messages_keep_their_order(rank: &mut Rank) {
    const COUNT: u32 = 500;
    let size = |i: u32| if i.is_multiple_of(50) { 100_000 } else { (i as usize * 37) % 3000 };
    match rank.me() {
        0 => {
            let all: Vec<Vec<u8>> = (0..COUNT).map(|i| bytes(i, size(i))).collect();
            let ops: Vec<OpId> = all.iter().filter_map(|d| start_send(rank, 1, 7, Mode::Standard, from(d))).collect();
            finish_all(rank, ops);
        }
        1 => {
            // Long enough for the lane to fill up.
            std::thread::sleep(Duration::from_millis(50));
            for i in 0..COUNT {
                let mut data = vec![0; size(i)];
                let op = start_recv(rank, 0, 7, into(&mut data));
                assert_eq!(finish(rank, op).length, size(i) as u64);
                assert!(data == bytes(i, size(i)), "message {i}");
            }
        }
        _ => {}
    }
}

fn everybody_sends_to_everybody(rank: &mut Rank) {
    const LEN: usize = 700_000;
    let (me, size) = (rank.me(), rank.size());
    let out: Vec<Vec<u8>> = (0..size).map(|to| bytes(me * 100 + to, LEN + to as usize)).collect();
    let mut inbound: Vec<Vec<u8>> = (0..size).map(|_| vec![0; LEN + me as usize]).collect();
    let mut ops: Vec<OpId> =
        inbound.iter_mut().enumerate().map(|(i, room)| start_recv(rank, i as u32, 8, into(room))).collect();
    ops.extend((0..size).filter_map(|to| start_send(rank, to, 8, Mode::Standard, from(&out[to as usize]))));
    finish_all(rank, ops);
    for (i, got) in inbound.iter().enumerate() {
        assert!(*got == bytes(i as u32 * 100 + me, LEN + me as usize), "from {i}");
    }
}

fn longer_messages_are_cut(rank: &mut Rank) {
    for (tag, len) in [(1, 1000), (2, 400_000)] {
        let data = bytes(9, len);
        match rank.me() {
            0 => {
                let op = start_send(rank, 1, tag, Mode::Standard, from(&data));
                finish_all(rank, op);
            }
            1 => {
                let mut room = vec![0; len / 2];
                let op = start_recv(rank, 0, tag, into(&mut room));
                assert_eq!(finish(rank, op).error.map(|e| e.class), Some(Class::ERR_TRUNCATE));
                assert!(room == data[..len / 2]);
            }
            _ => {}
        }
    }
}

/// Every second byte of memory.
#[derive(Debug)]
struct EverySecond;

// SAFETY: touches bytes 0, 2, 4, … of the message's memory only.
unsafe impl Layout for EverySecond {
    unsafe fn pack(&self, base: *const u8, from: usize, dst: *mut u8, len: usize) {
        // SAFETY: promised by the caller.
        (0..len).for_each(|i| unsafe { *dst.add(i) = *base.add(2 * (from + i)) });
    }
    unsafe fn unpack(&self, base: *mut u8, at: usize, src: *const u8, len: usize) {
        // SAFETY: promised by the caller.
        (0..len).for_each(|i| unsafe { *base.add(2 * (at + i)) = *src.add(i) });
    }
}

fn spread_buffers_are_gathered(rank: &mut Rank) {
    for (tag, len) in [(11, 900), (12, 600_001)] {
        match rank.me() {
            0 => {
                let data = bytes(4, 2 * len);
                // SAFETY: `data` has two bytes for each of the layout.
                let source = unsafe { SendBuf::spread(data.as_ptr(), len, Rc::new(EverySecond)) };
                let op = start_send(rank, 1, tag, Mode::Standard, source);
                finish_all(rank, op);
            }
            1 => {
                let mut room = vec![0; 2 * len];
                // SAFETY: as above.
                let sink = unsafe { RecvBuf::spread(room.as_mut_ptr(), len, Rc::new(EverySecond)) };
                let op = start_recv(rank, 0, tag, sink);
                assert_eq!(finish(rank, op).length, len as u64);
                let sent = bytes(4, 2 * len);
                assert!((0..2 * len).all(|i| room[i] == if i % 2 == 0 { sent[i] } else { 0 }));
            }
            _ => {}
        }
    }
}

/// Rank 0 suspends its endpoint of rank 1 with messages of all protocols under way in both directions, and resumes it.
fn endpoints_are_suspended_and_resumed(rank: &mut Rank) {
    suspend_and_resume(rank, |_, _| {});
}

/// The same, with something that rank 0 does meanwhile.
fn suspend_and_resume(rank: &mut Rank, mut meanwhile: impl FnMut(&mut Rank, u32)) {
    const LENS: [usize; 5] = [8, 5000, 40_000, 300_000, 3_000_000];
    let me = rank.me();
    if me > 1 {
        return;
    }
    for round in 0..6 {
        let out: Vec<Vec<u8>> = LENS.iter().map(|len| bytes(me * 10 + round, *len)).collect();
        let mut inbound: Vec<Vec<u8>> = LENS.iter().map(|len| vec![0; *len]).collect();
        let mut ops: Vec<OpId> =
            out.iter().filter_map(|data| start_send(rank, 1 - me, 60, Mode::Standard, from(data))).collect();
        let (early, late) = inbound.split_at_mut(2);
        ops.extend(early.iter_mut().map(|room| start_recv(rank, 1 - me, 60, into(room))));
        if me == 0 {
            let peer = base::Peer(1);
            rank.engine.suspend(peer);
            while !rank.engine.is_suspended(peer) {
                rank.engine.progress();
                std::thread::yield_now();
            }
            meanwhile(rank, round);
            rank.engine.resume(peer);
        }
        ops.extend(late.iter_mut().map(|room| start_recv(rank, 1 - me, 60, into(room))));
        finish_all(rank, ops);
        for (len, got) in LENS.iter().zip(&inbound) {
            assert!(*got == bytes((1 - me) * 10 + round, *len), "round {round}, {len} bytes");
        }
    }
}

/// Rank 1 goes on at another address each time: at first its host's, then 127.0.0.2, 127.0.0.3, …
fn a_suspended_rank_goes_on_at_another_address(rank: &mut Rank) {
    let peer = base::Peer(1);
    let mut port = 0;
    suspend_and_resume(rank, |rank, round| {
        let net = rank.engine.endpoints().transport().net().expect("TCP is allowed");
        let (listening, connected) = net.addresses_of(peer);
        port = listening[0].port();
        if round > 0 {
            let before = SocketAddr::from(([127, 0, 0, 1 + round as u8], port));
            assert!(
                !connected.is_empty() && connected.iter().all(|at| *at == before),
                "{connected:?} in round {round}"
            );
        }
        let next = SocketAddr::from(([127, 0, 0, 2 + round as u8], port));
        rank.engine.endpoints().transport().moves(peer, vec![next]);
    });
}

/// Everybody writes into everybody's memory, counts there, and reads it again: by the lane or by packets.
fn memory_is_reached_everywhere(rank: &mut Rank) {
    const PART: usize = 150_000;
    let (me, size) = (rank.me(), rank.size());
    let mut memory = vec![0u64; 1 + size as usize * PART / 8];
    let whole = 8 * memory.len();
    // SAFETY: it is deregistered below, and looked at in between only when nobody writes.
    let key = rank.engine.register(unsafe { Exposed::new(memory.as_mut_ptr().cast(), whole) });
    let mut keys = vec![[0; KEY_BYTES]; size as usize];
    let own = key.encode();
    let mut ops: Vec<OpId> =
        keys.iter_mut().enumerate().map(|(i, k)| start_recv(rank, i as u32, 70, into(k))).collect();
    ops.extend((0..size).filter_map(|to| start_send(rank, to, 70, Mode::Standard, from(&own))));
    finish_all(rank, ops);
    let add = Atomic { change: Change::Add(1), width: 8 };
    for (to, key) in keys.iter().enumerate() {
        let (peer, key) = (base::Peer(to as u32), Key::decode(key));
        let data = bytes(me * 16 + to as u32, PART);
        let mut back = vec![0; PART];
        let at = 8 + u64::from(me) * PART as u64;
        let ids = [rank.engine.post_put(peer, &key, at, from(&data)), rank.engine.post_atomic(peer, &key, 0, add)];
        let flush = rank.engine.post_flush(peer);
        finish_access(rank, flush).unwrap();
        assert!(ids.iter().all(|id| rank.engine.is_access_complete(*id)));
        let [put, counted] = ids.map(|id| finish_access(rank, id).unwrap());
        assert!(put == 0 && counted < u64::from(size), "{put} {counted}");
        let get = rank.engine.post_get(peer, &key, at, into(&mut back));
        finish_access(rank, get).unwrap();
        assert!(back == data, "rank {me} read something else from {to}");
        let stale = Key { nonce: key.nonce ^ 1, ..key };
        let refused = rank.engine.post_put(peer, &stale, at, from(&[0; 8]));
        assert_eq!(finish_access(rank, refused).map_err(|e| e.class), Err(Class::ERR_RMA_RANGE));
    }
    barrier(rank);
    assert!(rank.engine.deregister(&key));
    assert_eq!(memory[0], u64::from(size));
    for other in 0..size {
        let place = 1 + other as usize * PART / 8;
        let got: Vec<u8> = memory[place..place + PART / 8].iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert!(got == bytes(other * 16 + me, PART), "what {other} has put");
    }
}

fn finish_access(rank: &mut Rank, id: AccessId) -> base::Result<u64> {
    loop {
        if let Some(outcome) = rank.engine.take_access(id) {
            return outcome;
        }
        if !rank.engine.progress() {
            std::thread::yield_now();
        }
    }
}

/// Everybody tells rank 0, rank 0 tells everybody.
fn barrier(rank: &mut Rank) {
    let (me, size) = (rank.me(), rank.size());
    let peers: Vec<u32> = if me == 0 { (1..size).collect() } else { vec![0] };
    for receives in if me == 0 { [true, false] } else { [false, true] } {
        for peer in &peers {
            let op = match receives {
                true => Some(start_recv(rank, *peer, 90, into(&mut []))),
                false => start_send(rank, *peer, 90, Mode::Standard, from(&[])),
            };
            finish_all(rank, op);
        }
    }
}

fn conformance(rank: &mut Rank) {
    let cases: &[fn(&mut Rank)] = &[
        every_size_goes_and_comes_back,
        unexpected_messages_keep_their_order,
        everybody_sends_to_everybody,
        longer_messages_are_cut,
        spread_buffers_are_gathered,
        endpoints_are_suspended_and_resumed,
        memory_is_reached_everywhere,
    ];
    for case in cases {
        case(rank);
        barrier(rank);
    }
}

/// Rank 1 vanishes; the others' receives from it end with an error, also a wildcard, and they go on without it.
fn a_dead_rank_fails_its_peers(rank: &mut Rank) {
    barrier(rank);
    if rank.me() == 1 {
        return;
    }
    let mut room = [0u8; 8];
    let op = start_recv(rank, 1, 50, into(&mut room));
    assert_eq!(finish(rank, op).error.map(|e| e.class), Some(Class::ERR_PROC_ABORTED));
    let other = 2 - rank.me();
    let op = start_send(rank, other, 51, Mode::Standard, from(&[1; 8]));
    let received = start_recv(rank, other, 51, into(&mut room));
    finish_all(rank, op);
    finish_all(rank, [received]);
    assert_eq!(room, [1; 8]);
}

fn channel_of(rank: &mut Rank, peer: u32) -> &'static str {
    transports::why(rank.engine.endpoints(), base::Peer(peer)).channel
}

fn channel_to_next(rank: &mut Rank) -> &'static str {
    let next = (rank.me() + 1) % rank.size();
    channel_of(rank, next)
}

/// Runs the test named `test` again in a process with these settings.
fn again(test: &str, settings: &[(&str, &str)]) {
    let exe = std::env::current_exe().unwrap();
    let mut child = Command::new(exe);
    child.args(["--exact", test, "--nocapture"]).env(INNER, "1").envs(settings.iter().copied());
    let output = child.output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "with {settings:?}:\n{text}");
}

fn is_inner() -> bool {
    std::env::var_os(INNER).is_some()
}

#[test]
fn shared_memory() {
    if !is_inner() {
        again("shared_memory", &[("FERRULE_CHANNELS", "shm")]);
        return again("shared_memory", &[("FERRULE_CHANNELS", "shm"), ("FERRULE_SINGLE_COPY", "off")]);
    }
    run_job(&[0, 0, 0], |rank, end| {
        conformance(rank);
        assert_eq!(channel_to_next(rank), "shm");
        end.clean();
    });
}

#[test]
fn tcp() {
    if !is_inner() {
        again("tcp", &[("FERRULE_CHANNELS", "tcp")]);
        // Small sizes and buffers: every path of a full socket. (With less than one segment of room the kernel takes 0.2 s a piece.)
        let tiny = [("FERRULE_TCP_EAGER_MAX", "256"), ("FERRULE_TCP_PACKET_MAX", "5000")];
        let small = [("FERRULE_TCP_SEND_BUFFER", "8192"), ("FERRULE_TCP_RECEIVE_BUFFER", "65536")];
        let lanes = [("FERRULE_LANES", "3")];
        again("tcp", &[&[("FERRULE_CHANNELS", "tcp")], &lanes[..]].concat());
        again("tcp", &[&[("FERRULE_CHANNELS", "tcp")], &lanes[..], &tiny[..], &small[..]].concat());
        return again("tcp", &[&[("FERRULE_CHANNELS", "tcp")], &tiny[..], &small[..]].concat());
    }
    run_job(&[0, 0, 0], |rank, end| {
        conformance(rank);
        assert_eq!(channel_to_next(rank), "tcp");
        let lanes = std::env::var("FERRULE_LANES").map_or(1, |count| count.parse().unwrap());
        let next = base::Peer((rank.me() + 1) % rank.size());
        assert_eq!(rank.engine.endpoints().lane_count(next), lanes);
        end.clean();
    });
}

#[test]
fn tcp_at_another_address() {
    if !is_inner() {
        again("tcp_at_another_address", &[("FERRULE_CHANNELS", "tcp")]);
        let lanes = [("FERRULE_CHANNELS", "tcp"), ("FERRULE_LANES", "3")];
        return again("tcp_at_another_address", &lanes);
    }
    run_job(&[0, 0], |rank, end| {
        a_suspended_rank_goes_on_at_another_address(rank);
        barrier(rank);
        end.clean();
    });
}

#[test]
fn two_nodes_of_two() {
    if !is_inner() {
        return again("two_nodes_of_two", &[]);
    }
    run_job(&[0, 0, 1, 1], |rank, end| {
        conformance(rank);
        let me = rank.me();
        assert_eq!(channel_of(rank, me ^ 1), "shm");
        assert_eq!(channel_of(rank, me ^ 2), "tcp");
        end.clean();
    });
}

/// Runs `test` again on nodes that share a file of 8 MiB as VMs share a region; each rank gets so many bytes of it.
fn again_in_region(test: &str, bytes: u64, channels: &str) {
    let path = std::env::temp_dir().join(format!("ferrule-fabric-{test}-{bytes}-{}", std::process::id()));
    std::fs::File::create(&path).unwrap().set_len(8 << 20).unwrap();
    let region = format!("{bytes}:{}", path.display());
    again(test, &[("FERRULE_CHANNELS", channels), ("FERRULE_TEST_REGION", &region)]);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn two_vms_of_two() {
    if !is_inner() {
        // All cells; some; none, and rings of a page. Only with TCP there is a doorbell.
        again_in_region("two_vms_of_two", 1 << 20, "auto");
        again_in_region("two_vms_of_two", 100 << 10, "shm,ivshmem");
        return again_in_region("two_vms_of_two", 16 << 10, "shm,ivshmem");
    }
    run_job(&[0, 1, 0, 1], |rank, end| {
        conformance(rank);
        let me = rank.me();
        assert_eq!(channel_of(rank, me ^ 1), "ivshmem");
        assert_eq!(channel_of(rank, me ^ 2), "shm");
        end.clean();
    });
}

#[test]
fn death_over_a_region() {
    if !is_inner() {
        return again_in_region("death_over_a_region", 512 << 10, "ivshmem");
    }
    run_job(&[0, 1], |rank, end| {
        barrier(rank);
        if rank.me() == 0 {
            let op = start_recv(rank, 1, 50, into(&mut [0; 8]));
            assert_eq!(finish(rank, op).error.map(|e| e.class), Some(Class::ERR_PROC_ABORTED));
            end.clean();
        }
    });
}

#[test]
fn death_over_shared_memory() {
    if !is_inner() {
        return again("death_over_shared_memory", &[("FERRULE_CHANNELS", "shm")]);
    }
    run_job(&[0, 0, 0], |rank, end| {
        a_dead_rank_fails_its_peers(rank);
        if rank.me() != 1 {
            end.clean();
        }
    });
}

#[test]
fn death_over_tcp() {
    if !is_inner() {
        again("death_over_tcp", &[("FERRULE_CHANNELS", "tcp")]);
        return again("death_over_tcp", &[("FERRULE_CHANNELS", "tcp"), ("FERRULE_LANES", "3")]);
    }
    run_job(&[0, 0, 0], |rank, end| {
        a_dead_rank_fails_its_peers(rank);
        if rank.me() != 1 {
            end.clean();
        }
    });
}

#[test]
fn many_ranks_over_tcp() {
    if !is_inner() {
        return again("many_ranks_over_tcp", &[("FERRULE_CHANNELS", "tcp")]);
    }
    run_job(&[0; 9], |rank, end| {
        everybody_sends_to_everybody(rank);
        barrier(rank);
        end.clean();
    });
}

#[test]
fn one_rank_alone() {
    run_job(&[0], |rank, end| {
        everybody_sends_to_everybody(rank);
        end.clean();
    });
}
