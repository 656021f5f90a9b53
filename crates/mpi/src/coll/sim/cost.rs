//! What planning and interpreting costs when messages are free: `cargo test --release -p mpi coll::sim::cost -- --ignored --nocapture`.
//! `COLLECTIVE='allreduce 2' ROUNDS=1000` selects, `AGAIN=1` leaves the planning out: the difference of two runs under callgrind is exact.

use super::super::args::{BlockBuffer, Buffer, ReduceArgs};
use super::super::comm_view::CommView;
use super::super::{allreduce, alltoall, barrier, bcast};
use super::*;
use crate::op;

struct Free<'a>(&'a Objects);

impl Wire for Free<'_> {
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

    unsafe fn send_items(&mut self, _: Via, _: u32, _: *const u8, _: usize, _: u32) -> Result<bool> {
        Ok(true)
    }

    unsafe fn recv_items(&mut self, _: Via, _: u32, _: *mut u8, _: usize, _: u32) -> Result<bool> {
        Ok(false)
    }

    unsafe fn perform(&mut self, step: &Step) -> Result {
        let mut inside = crate::cs::enter_test();
        let reduce = |Reduction { op, datatype }: &Reduction, input, inout, count| {
            // SAFETY: handed on from the caller.
            unsafe { op.apply(inside.section(), input, inout, count, datatype) };
        };
        // SAFETY: handed on from the caller.
        unsafe { self.0.perform(step, reduce) };
        Ok(())
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

fn time(name: &str, mut build: impl FnMut(&mut Builder) -> Result) {
    let setting = |name, default: &str| std::env::var(name).unwrap_or(default.into());
    let rounds: u32 = setting("ROUNDS", "1000000").parse().unwrap();
    if !name.contains(&setting("COLLECTIVE", "")) {
        return;
    }
    let (mut b, mut cursor) = (Builder::default(), Cursor::<bool>::default());
    let again = setting("AGAIN", "") == "1";
    if again {
        build(&mut b).unwrap();
    }
    let start = std::time::Instant::now();
    for _ in 0..rounds {
        if !again {
            b.reset();
            build(&mut b).unwrap();
        }
        cursor.rewind(b.schedule());
        // SAFETY: the buffers of the caller live on.
        unsafe { cursor.advance::<true, _>(b.schedule(), &mut Free(b.objects())) };
    }
    println!("{name}: {:.1} ns", start.elapsed().as_nanos() as f64 / f64::from(rounds));
}

#[test]
#[ignore = "a measurement"]
fn bookkeeping() {
    let (mut from, mut into) = ([1u64; 16], [1u64; 16]);
    let (from, into) = (from.as_mut_ptr().cast::<u8>(), into.as_mut_ptr().cast::<u8>());
    let datatype = datatype::predefined(datatype::Name::MPI_DOUBLE);
    let op = op::predefined(op::Predefined::Sum);
    let buffer = |ptr| Buffer { ptr, count: 1, datatype };
    for n in [2, 4, 16] {
        let view = std::hint::black_box(CommView::new(1, n));
        time(&format!("barrier {n}"), |b| barrier::build(b, &view));
        time(&format!("bcast {n}"), |b| bcast::build(b, &view, buffer(from), 0));
        let args = ReduceArgs { send: from, recv: into, count: 1, datatype, op };
        time(&format!("allreduce {n}"), |b| allreduce::build(b, &view, args));
        time(&format!("alltoall {n}"), |b| {
            alltoall::build(b, &view, Some(BlockBuffer::Even(buffer(from))), BlockBuffer::Even(buffer(into)))
        });
    }
}
