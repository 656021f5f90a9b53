//! Where single copy begins to beat the ring: one way time of a message by both, warm and with rotating (cold) buffers.
//! `FERRULE_RING_BYTES=… FERRULE_SINGLE_COPY=… cargo run --release -p channel --example thresholds`

use base::ids::{JobId, ProcId};
use base::{Peer, WorldRank};
use channel::buffer::{RecvBuf, SendBuf};
use channel::shm::{PeerFds, ShmEvent, ShmHub, ShmLane, ShmPacket};
use protocol::kind::Kind;
use protocol::order::Number;
use protocol::processes::Processes;
use protocol::transport::Outcome;
use protocol::wire::Header;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use sys::clock::now_ns;

const AREA: usize = 64 << 20;
const HEADER: Header = Header { kind: Kind::EAGER, number: Number::NONE, source: 0, tag: 0, token: 0, context: 4 };

struct End {
    hub: ShmHub,
    lane: ShmLane,
    out: Vec<u8>,
    into: Vec<u8>,
}

impl End {
    fn connect(me: u32, socket: &UnixStream) -> End {
        let rank_id = u128::from(me) + 100;
        let processes = Processes::shared(ProcId { job: JobId(1), rank: WorldRank(me) }, 2);
        let hub = ShmHub::create(&processes, vec![Peer(0), Peer(1)], rank_id, false).unwrap();
        let pid = sys::cma::own_pid().to_le_bytes();
        sys::fdpass::send(socket.as_fd(), &pid, &hub.descriptors(), true).unwrap();
        let (mut pid, mut fds) = ([0u8; 4], Vec::<OwnedFd>::new());
        sys::fdpass::recv(socket.as_fd(), &mut pid, &mut fds, true).unwrap();
        let fds = PeerFds::from_vec(fds).unwrap();
        let their_id = u128::from(1 - me) + 100;
        let lane = ShmLane::open(&hub, Peer(1 - me), their_id, Some(i32::from_le_bytes(pid)), fds).unwrap();
        End { hub, lane, out: vec![me as u8; AREA], into: vec![1; AREA] }
    }

    fn send(&mut self, body: &[u8], source: &SendBuf, from: usize, len: usize) {
        while self.lane.try_send_from(&HEADER, body, source, from, len) == Outcome::Again {
            std::hint::spin_loop();
        }
    }

    fn next(&mut self, mut take: impl FnMut(&ShmHub, &ShmPacket)) {
        loop {
            if let Some(ShmEvent::Packet(packet)) = self.hub.poll() {
                take(&self.hub, &packet);
                return self.hub.release(&packet);
            }
            std::hint::spin_loop();
        }
    }

    fn put(&mut self, at: usize, len: usize, pull: bool) {
        // SAFETY: the area outlives the call.
        let source = unsafe { SendBuf::contiguous(self.out.as_ptr().add(at), len) };
        if pull {
            let address = self.out.as_ptr().addr() as u64 + at as u64;
            self.send(&address.to_le_bytes(), &SendBuf::empty(), 0, 0);
            return self.next(|_, _| ());
        }
        let piece = self.lane.limits().packet_max - 8;
        for from in (0..len).step_by(piece) {
            self.send(&(from as u64).to_le_bytes(), &source, from, piece.min(len - from));
        }
    }

    fn get(&mut self, at: usize, len: usize, pull: bool) {
        // SAFETY: the area outlives the call.
        let sink = unsafe { RecvBuf::contiguous(self.into.as_mut_ptr().add(at), len) };
        if pull {
            let mut address = 0;
            self.next(|_, packet| address = packet.body().map_or(0, u64::from_le_bytes));
            assert!(self.lane.pull(address, &sink, len));
            return self.send(&[], &SendBuf::empty(), 0, 0);
        }
        let mut got = 0;
        while got < len {
            self.next(|hub, packet| {
                let at = packet.body().map_or(0, u64::from_le_bytes) as usize;
                hub.deliver(packet, 8, &sink, at, packet.len() - 8);
                got += packet.len() - 8;
            });
        }
    }

    /// Nanoseconds one way, best of several; only the first process's figure counts.
    fn exchange(&mut self, first: bool, len: usize, pull: bool, cold: bool) -> f64 {
        let rounds = ((8 << 20) / len).clamp(6, 400);
        let mut least = f64::INFINITY;
        let mut at = 0;
        for _ in 0..8 {
            let start = now_ns();
            for _ in 0..rounds {
                if first {
                    self.put(at, len, pull);
                    self.get(at, len, pull);
                } else {
                    self.get(at, len, pull);
                    self.put(at, len, pull);
                }
                if cold {
                    at = (at + len + 4096) % (AREA - len);
                }
            }
            least = least.min((now_ns() - start) as f64 / (2 * rounds) as f64);
        }
        least
    }

    fn run(&mut self, first: bool) {
        let can_pull = self.lane.single_copy().name().is_some();
        for shift in 11..=22 {
            let len = 1usize << shift;
            let mut row = format!("{len:>8} B");
            for (name, pull, cold) in
                [("ring", false, false), ("pull", true, false), ("ring cold", false, true), ("pull cold", true, true)]
            {
                if pull && !can_pull {
                    continue;
                }
                let ns = self.exchange(first, len, pull, cold);
                row += &format!("  {name} {:>8.2} µs {:>5.1} GB/s", ns / 1000.0, len as f64 / ns);
            }
            if first {
                println!("{row}");
            }
        }
    }
}

fn main() {
    let (mine, theirs) = UnixStream::pair().unwrap();
    sys::process::fork_run(&[theirs.as_fd()], || {
        End::connect(1, &theirs).run(false);
        0
    })
    .unwrap();
    let mut end = End::connect(0, &mine);
    println!("single copy: {:?}, ring {} B", end.lane.single_copy().name(), channel::shm::RING_BYTES.value());
    end.run(true);
}
