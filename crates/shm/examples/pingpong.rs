//! Raw speed of the ring between two processes: latency of small records, message rate, bandwidth of a two-copy stream.
//! `cargo run --release -p shm --example pingpong -- [ring KiB]`. Under callgrind, `-- solo` runs both ends in one process.

use shm::inbox::{Inbox, Polled};
use shm::layout::{CellCounts, Identity};
use shm::outbox::Outbox;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use sys::clock::now_ns;

const ME: Identity = Identity { nonce: 1, probe_address: 0, probe_value: 0 };

struct End {
    inbox: Inbox,
    outbox: Outbox,
}

impl End {
    #[inline]
    fn try_send(&mut self, tag: u64, payload: &[u8]) -> bool {
        let Some(room) = self.outbox.reserve(payload.len()).unwrap() else { return false };
        // SAFETY: as many bytes were reserved.
        unsafe { std::ptr::copy_nonoverlapping(payload.as_ptr(), room.payload, payload.len()) };
        let _ = self.outbox.publish(room, &[tag, 0, 0]);
        true
    }

    #[inline]
    fn send(&mut self, tag: u64, payload: &[u8]) {
        while !self.try_send(tag, payload) {
            std::hint::spin_loop();
        }
    }

    #[inline]
    fn receive(&mut self, into: &mut [u8]) -> u64 {
        loop {
            if let Some(Polled::Record(record)) = self.inbox.poll() {
                let len = record.len().min(into.len());
                // SAFETY: both sides have `len` bytes.
                unsafe { std::ptr::copy_nonoverlapping(record.payload(), into.as_mut_ptr(), len) };
                let tag = record.header()[0];
                let _ = self.inbox.release(&record);
                return tag;
            }
            std::hint::spin_loop();
        }
    }
}

/// Nanoseconds per round, best of `repeats`.
fn best(repeats: u32, rounds: u64, mut round: impl FnMut(u64)) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..repeats {
        let start = now_ns();
        (0..rounds).for_each(&mut round);
        least = least.min((now_ns() - start) as f64 / rounds as f64);
    }
    least
}

const SIZES: [usize; 4] = [8, 32, 256, 1024];
const REPEATS: u32 = 30;
const PINGS: u64 = 5_000;
const BURST: u64 = 50_000;
const STREAM: usize = 4 << 20;

/// The sending side, which also prints.
fn first(end: &mut End, chunk: usize) {
    let (data, mut into) = (vec![1u8; STREAM], vec![0u8; STREAM]);
    for size in SIZES {
        let ns = best(REPEATS, PINGS, |i| {
            end.send(i, &data[..size]);
            end.receive(&mut into);
        });
        println!("{size:>6} B one way {:.3} µs", ns / 2000.0);
    }
    let ns = best(REPEATS, BURST, |i| end.send(i, &data[..8]));
    end.receive(&mut into);
    println!("     8 B rate {:.1} M/s", 1000.0 / ns);
    let ns = best(REPEATS, 4, |_| data.chunks(chunk).for_each(|c| end.send(0, c)));
    end.receive(&mut into);
    println!("{chunk:>6} B chunks: {:.2} GB/s", STREAM as f64 / ns);
}

/// The answering side.
fn second(end: &mut End, chunk: usize) {
    let mut into = vec![0u8; STREAM];
    for size in SIZES {
        for _ in 0..u64::from(REPEATS) * PINGS {
            let tag = end.receive(&mut into);
            end.send(tag, &into[..size]);
        }
    }
    (0..u64::from(REPEATS) * BURST).for_each(|_| {
        end.receive(&mut into);
    });
    end.send(0, b"");
    for _ in 0..REPEATS * 4 {
        into.chunks_mut(chunk).for_each(|c| {
            end.receive(c);
        });
    }
    end.send(0, b"");
}

/// 10,000 messages through both ends in one process, for instruction counts.
fn solo(end: &mut End) {
    let mut into = [0u8; 8];
    for i in 0..10_000 {
        end.send(i, &[7; 8]);
        end.receive(&mut into);
    }
    println!("{into:?}");
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let kib = arguments.get(1).and_then(|a| a.parse::<usize>().ok()).unwrap_or(64);
    let inboxes = [(); 2].map(|()| Inbox::create(2, kib << 10, CellCounts::fixed(0), &ME).unwrap());
    let fds = [0, 1].map(|i| inboxes[i].fd().try_clone_to_owned().unwrap());
    let [mine, theirs] = inboxes;
    let open = |fd: &OwnedFd, sender| Outbox::open(fd.as_fd(), sender, 1).unwrap();
    if arguments.get(1).is_some_and(|a| a == "solo") {
        return solo(&mut End { outbox: open(&fds[0], 1), inbox: mine });
    }
    let to_them = open(&fds[1], 0);
    let chunk = to_them.payload_max();
    // SAFETY: both descriptors are open until the closure, which takes their owners along, is over.
    let keep = unsafe { [&theirs.fd(), &fds[0].as_fd()].map(|fd| BorrowedFd::borrow_raw(fd.as_raw_fd())) };
    sys::process::fork_run(&keep, move || {
        second(&mut End { outbox: open(&fds[0], 1), inbox: theirs }, chunk);
        0
    })
    .unwrap();
    first(&mut End { outbox: to_them, inbox: mine }, chunk);
}
