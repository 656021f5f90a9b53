//! Ping-pong of the message engine over the product's channels, without MPI on top: what the protocol layer costs.
//!
//! `mpiexec -n 2 target/release/examples/engine_pingpong [bytes] [rounds]`

use base::Peer;
use channel::bootstrap::Bootstrap;
use channel::buffer::{RecvBuf, SendBuf};
use channel::opened::Opened;
use channel::transports::Transports;
use protocol::engine::{Address, Engine, Mode};
use protocol::matching::{Envelope, Pattern};
use std::time::Instant;

const CONTEXT: u64 = 64;

fn send(engine: &mut Engine<Transports>, me: u32, to: u32, data: &[u8]) {
    let envelope = Envelope { context: CONTEXT, source: me, tag: 1 };
    // SAFETY: `data` outlives the loop below, which ends with the operation.
    let source = unsafe { SendBuf::contiguous(data.as_ptr(), data.len()) };
    let started = engine.post_send(Address { peer: Peer(to), envelope }, Mode::Standard, source).expect("peer lives");
    if let Some(op) = started {
        while engine.take(op).is_none() {
            engine.progress();
        }
    }
}

fn recv(engine: &mut Engine<Transports>, from: u32, data: &mut [u8]) {
    let pattern = Pattern { context: CONTEXT, source: Some(from), tag: Some(1) };
    // SAFETY: `data` outlives the loop below, which ends with the operation.
    let sink = unsafe { RecvBuf::contiguous(data.as_mut_ptr(), data.len()) };
    let op = engine.post_recv(pattern, Some(Peer(from)), sink);
    while !engine.is_complete(op) {
        engine.progress();
    }
    engine.take(op);
}

fn main() {
    let argument = |n: usize, default| std::env::args().nth(n).map_or(default, |a| a.parse().expect("a number"));
    let (bytes, rounds) = (argument(1, 8), argument(2, 100_000));
    let mut bootstrap = Bootstrap::from_environment().expect("started by mpiexec");
    bootstrap.initialized().expect("agent lives");
    let Opened { endpoints, bootstrap, .. } = channel::open(bootstrap).expect("channels open");
    let mut engine = Engine::new(endpoints);
    let me = engine.endpoints().transport().me().0;
    let (mut inbound, outbound) = (vec![0u8; bytes], vec![1u8; bytes]);
    let mut start = Instant::now();
    for round in 0..rounds + 1000 {
        if round == 1000 {
            start = Instant::now();
        }
        if me == 0 {
            send(&mut engine, 0, 1, &outbound);
            recv(&mut engine, 1, &mut inbound);
        } else {
            recv(&mut engine, 0, &mut inbound);
            send(&mut engine, 1, 0, &outbound);
        }
    }
    if me == 0 {
        let us = start.elapsed().as_secs_f64() * 1e6 / (2 * rounds) as f64;
        println!("{bytes} bytes: {us:.3} us one way, {:.2} GB/s", bytes as f64 / us / 1e3);
    }
    bootstrap.borrow_mut().finalize().expect("agent lives");
}
