//! What planning and interpreting costs when messages are free: `cargo test --release -p mpi coll::sim::cost -- --ignored --nocapture`.
//! `COLLECTIVE='allreduce 2' ROUNDS=1000` selects, `AGAIN=1` leaves the planning out: the difference of two runs under callgrind is exact.

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

    unsafe fn reduce(
        &mut self,
        Reduction { op, datatype }: &Reduction,
        input: *const u8,
        inout: *mut u8,
        count: usize,
    ) {
        // SAFETY: handed on from the caller.
        unsafe { op.apply(input, inout, count, datatype, 0) };
    }

    fn is_done(transfer: bool) -> bool {
        transfer
    }

    fn test(&mut self, _: bool) -> Option<Result> {
        Some(Ok(()))
    }

    fn wait(&mut self, _: bool, _: usize) -> Option<Result> {
        Some(Ok(()))
    }
}

fn time(name: &str, mut build: impl FnMut(&mut Program) -> Result) {
    let setting = |name, default: &str| std::env::var(name).unwrap_or(default.into());
    let rounds: u32 = setting("ROUNDS", "1000000").parse().unwrap();
    if !name.contains(&setting("COLLECTIVE", "")) {
        return;
    }
    let (mut p, mut cursor) = (Program::default(), Cursor::<bool>::default());
    let again = setting("AGAIN", "") == "1";
    if again {
        build(&mut p).unwrap();
    }
    let start = std::time::Instant::now();
    for _ in 0..rounds {
        if !again {
            p.reset();
            build(&mut p).unwrap();
        }
        cursor.rewind(&p);
        // SAFETY: the buffers of the caller live on.
        unsafe { cursor.advance::<true, _>(&p, &mut Free) };
    }
    println!("{name}: {:.1} ns", start.elapsed().as_nanos() as f64 / f64::from(rounds));
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
