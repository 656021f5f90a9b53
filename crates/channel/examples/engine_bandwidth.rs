//! Bandwidth of the message engine over the product's channels: rank 0 keeps a window of messages in flight to rank 1.
//!
//! `mpiexec -n 2 target/release/examples/engine_bandwidth [bytes] [rounds] [window]`

use base::Peer;
use channel::bootstrap::Bootstrap;
use channel::buffer::{RecvBuf, SendBuf};
use channel::opened::Opened;
use channel::transports::{self, Transports};
use protocol::engine::{Address, Engine, Mode, OpId};
use protocol::matching::{Envelope, Pattern};
use std::time::Instant;

const CONTEXT: u64 = 64;

fn post_send(engine: &mut Engine<Transports>, to: u32, data: &[u8]) -> Option<OpId> {
    let envelope = Envelope { context: CONTEXT, source: engine.endpoints().transport().me().0, tag: 1 };
    // SAFETY: `data` outlives the operation: the caller waits for it.
    let source = unsafe { SendBuf::contiguous(data.as_ptr(), data.len()) };
    engine.post_send(Address { peer: Peer(to), envelope }, Mode::Standard, source).expect("peer lives")
}

fn post_recv(engine: &mut Engine<Transports>, from: u32, data: &mut [u8]) -> OpId {
    let pattern = Pattern { context: CONTEXT, source: Some(from), tag: Some(1) };
    // SAFETY: `data` outlives the operation: the caller waits for it.
    let sink = unsafe { RecvBuf::contiguous(data.as_mut_ptr(), data.len()) };
    engine.post_recv(pattern, Some(Peer(from)), sink)
}

fn wait(engine: &mut Engine<Transports>, op: OpId) {
    while engine.take(op).is_none() {
        engine.progress();
    }
}

fn main() {
    let argument = |n: usize, default| std::env::args().nth(n).map_or(default, |a| a.parse().expect("a number"));
    let (bytes, rounds, window) = (argument(1, 1 << 20), argument(2, 50), argument(3, 16));
    let mut bootstrap = Bootstrap::from_environment().expect("started by mpiexec");
    bootstrap.initialized().expect("agent lives");
    let Opened { endpoints, bootstrap, .. } = channel::open(bootstrap).expect("channels open");
    let mut engine = Engine::new(endpoints);
    let me = engine.endpoints().transport().me().0;
    let (outbound, mut inbound) = (vec![7u8; bytes], vec![0u8; bytes]);
    let mut start = Instant::now();
    for round in 0..rounds + 2 {
        if round == 2 {
            start = Instant::now();
        }
        if me == 0 {
            let ops: Vec<_> = (0..window).filter_map(|_| post_send(&mut engine, 1, &outbound)).collect();
            ops.into_iter().for_each(|op| wait(&mut engine, op));
            let op = post_recv(&mut engine, 1, &mut inbound[..1]);
            wait(&mut engine, op);
        } else {
            let ops: Vec<_> = (0..window).map(|_| post_recv(&mut engine, 0, &mut inbound)).collect();
            ops.into_iter().for_each(|op| wait(&mut engine, op));
            if let Some(op) = post_send(&mut engine, 0, &outbound[..1]) {
                wait(&mut engine, op);
            }
        }
    }
    if me == 0 {
        let seconds = start.elapsed().as_secs_f64();
        let total = bytes as f64 * window as f64 * rounds as f64;
        println!("{bytes} bytes, window {window}: {:.2} GB/s", total / seconds / 1e9);
    }
    transports::close(engine.endpoints());
    bootstrap.borrow_mut().finalize().expect("agent lives");
}
