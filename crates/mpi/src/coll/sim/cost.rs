//! What planning and interpreting costs when messages are free: `cargo test --release -p mpi coll::sim::cost -- --ignored --nocapture`.

use super::super::args::{BlockBuffer, Buffer, ReduceArgs};
use super::super::site::Site;
use super::super::{allreduce, alltoall, barrier, bcast};
use super::*;
use crate::op;

struct Free;

impl Wire for Free {
    type Transfer = bool;
    const DONE: bool = true;

    unsafe fn send(&mut self, _: Via, _: u32, from: *const u8, _: usize) -> Result<bool> {
        std::hint::black_box(from);
        Ok(true)
    }

    unsafe fn recv(&mut self, _: Via, _: u32, into: *mut u8, _: usize) -> Result<bool> {
        std::hint::black_box(into);
        Ok(false)
    }

    unsafe fn send_items(&mut self, _: Via, _: u32, _: *const u8, _: usize, _: &Rc<Datatype>) -> Result<bool> {
        Ok(true)
    }

    unsafe fn recv_items(&mut self, _: Via, _: u32, _: *mut u8, _: usize, _: &Rc<Datatype>) -> Result<bool> {
        Ok(false)
    }

    fn is_done(transfer: bool) -> bool {
        transfer
    }

    fn test(&mut self, _: bool) -> Option<Result> {
        Some(Ok(()))
    }

    fn wait(&mut self, _: bool) -> Result {
        Ok(())
    }
}

fn time(name: &str, mut build: impl FnMut(&mut Program) -> Result) {
    const ROUNDS: u32 = 1_000_000;
    let (mut p, mut cursor) = (Program::default(), Cursor::<bool>::default());
    let start = std::time::Instant::now();
    for _ in 0..ROUNDS {
        build(&mut p).unwrap();
        cursor.rewind(&p);
        // SAFETY: the buffers of the caller live on.
        unsafe { cursor.advance::<true, _>(&p, &mut Free) };
        p.reset();
    }
    println!("{name}: {:.1} ns", start.elapsed().as_nanos() as f64 / f64::from(ROUNDS));
}

#[test]
#[ignore = "a measurement"]
fn bookkeeping() {
    let (mut a, mut b) = ([1u64; 16], [1u64; 16]);
    let (a, b) = (a.as_mut_ptr().cast::<u8>(), b.as_mut_ptr().cast::<u8>());
    let datatype = datatype::predefined(0x214).unwrap();
    let op = op::predefined(0x21).unwrap();
    let buffer = |ptr| Buffer { ptr, count: 1, datatype };
    for n in [2, 4, 16] {
        let site = std::hint::black_box(Site::new(1, n));
        time(&format!("barrier {n}"), |p| barrier::build(p, &site));
        time(&format!("bcast {n}"), |p| bcast::build(p, &site, buffer(a), 0));
        let args = ReduceArgs { send: a, recv: b, count: 1, datatype, op };
        time(&format!("allreduce {n}"), |p| allreduce::build(p, &site, args));
        time(&format!("alltoall {n}"), |p| {
            alltoall::build(p, &site, Some(BlockBuffer::Even(buffer(a))), BlockBuffer::Even(buffer(b)))
        });
    }
}
