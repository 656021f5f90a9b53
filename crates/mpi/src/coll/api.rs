//! Plans of all collectives on a communicator, for the C functions: one plan, three endings ([`run`](super::run),
//! [`start`](super::start), [`persist`](super::persist)).
//!
//! Arguments that have no meaning on this process are `None`; so is a buffer that is `MPI_IN_PLACE`
//! ([`Buffer::or_in_place`], [`or_in_place`]). [`is_root`] and [`has_data`] say what has a meaning where.

use super::args::{BlockBuffer, Buffer, ReduceArgs, is_in_place};
use super::builder::Builder;
use super::call::{Call, Kind, Operand};
use super::comm_view::CommView;
use super::ints::Ints;
use super::neighbor;
use super::neighbor::Neighbors;
use super::plan::Plan;
use super::reduce_scatter::Counts;
use super::{allgather, allreduce, alltoall, barrier, bcast, gather, reduce, reduce_scatter, scan, scatter};
use crate::comm::Comm;
use crate::cs::Section;
use crate::status::{PROC_NULL, ROOT};
use base::Result;
use base::ids::Plane;
use std::rc::Rc;

const PLANE: Plane = Plane::Collective;

/// `None` if the buffer at `ptr` is `MPI_IN_PLACE`.
pub fn or_in_place<'a>(ptr: *const u8, buffer: BlockBuffer<'a>) -> Option<BlockBuffer<'a>> {
    (!is_in_place(ptr)).then_some(buffer)
}

/// Whether this process is the root: the arguments of the root have a meaning.
pub fn is_root(comm: &Comm, root: i32) -> bool {
    if comm.is_inter() { root == ROOT } else { root == comm.rank }
}

/// Whether the arguments that every process gives (the block of a gather or scatter, the operand of a reduction) have a
/// meaning on this process.
pub fn has_data(comm: &Comm, root: i32) -> bool {
    !comm.is_inter() || (root != ROOT && root != PROC_NULL)
}

/// The plan for `call`, or one that isn't remembered.
#[inline]
fn plan(
    cs: &Section,
    comm: &Rc<Comm>,
    call: Option<Call<'_>>,
    build: impl FnOnce(&mut Builder, &CommView<'_>) -> Result,
) -> Result<Plan> {
    match call {
        Some(call) => Plan::recall(cs, comm, call, build),
        None => Plan::new(cs, comm, PLANE, build),
    }
}

/// `MPI_Barrier`.
#[inline]
pub fn plan_barrier(cs: &Section, comm: &Rc<Comm>) -> Result<Plan> {
    Plan::recall(cs, comm, Call::new(Kind::Barrier, 0, [Operand::NONE; 2]), barrier::build)
}

/// `MPI_Bcast`.
#[inline]
pub fn plan_bcast(cs: &Section, comm: &Rc<Comm>, data: Buffer<'_>, root: i32) -> Result<Plan> {
    let call = Call::new(Kind::Bcast, root, [Operand::buffer(Some(data)), Operand::NONE]);
    Plan::recall(cs, comm, call, |b, view| bcast::build(b, view, data, root))
}

/// `MPI_Gather` (`even`), `MPI_Gatherv`.
pub fn plan_gather(
    cs: &Section,
    comm: &Rc<Comm>,
    send: Option<Buffer<'_>>,
    recv: Option<BlockBuffer<'_>>,
    root: i32,
    even: bool,
) -> Result<Plan> {
    let kind = if even { Kind::Gather } else { Kind::Gatherv };
    let call = Operand::blocks(recv).map(|recv| Call::new(kind, root, [Operand::buffer(send), recv]));
    plan(cs, comm, call, |b, view| gather::build(b, view, send, recv, root, even))
}

/// `MPI_Scatter` (`even`), `MPI_Scatterv`.
pub fn plan_scatter(
    cs: &Section,
    comm: &Rc<Comm>,
    send: Option<BlockBuffer<'_>>,
    recv: Option<Buffer<'_>>,
    root: i32,
    even: bool,
) -> Result<Plan> {
    let kind = if even { Kind::Scatter } else { Kind::Scatterv };
    let call = Operand::blocks(send).map(|send| Call::new(kind, root, [send, Operand::buffer(recv)]));
    plan(cs, comm, call, |b, view| scatter::build(b, view, send, recv, root, even))
}

/// `MPI_Allgather`, `MPI_Allgatherv`.
pub fn plan_allgather(cs: &Section, comm: &Rc<Comm>, send: Option<Buffer<'_>>, recv: BlockBuffer<'_>) -> Result<Plan> {
    let call = Operand::blocks(Some(recv)).map(|recv| Call::new(Kind::Allgather, 0, [Operand::buffer(send), recv]));
    plan(cs, comm, call, |b, view| allgather::build(b, view, send, recv))
}

/// `MPI_Alltoall`, `MPI_Alltoallv`, `MPI_Alltoallw`.
pub fn plan_alltoall(
    cs: &Section,
    comm: &Rc<Comm>,
    send: Option<BlockBuffer<'_>>,
    recv: BlockBuffer<'_>,
) -> Result<Plan> {
    let operands = Operand::blocks(send).zip(Operand::blocks(Some(recv)));
    let call = operands.map(|(send, recv)| Call::new(Kind::Alltoall, 0, [send, recv]));
    plan(cs, comm, call, |b, view| alltoall::build(b, view, send, recv))
}

/// `MPI_Reduce`.
pub fn plan_reduce(cs: &Section, comm: &Rc<Comm>, args: ReduceArgs<'_>, root: i32) -> Result<Plan> {
    Plan::recall(cs, comm, Call::reduction(Kind::Reduce, root, &args), |b, view| reduce::build(b, view, args, root))
}

/// `MPI_Allreduce`.
#[inline]
pub fn plan_allreduce(cs: &Section, comm: &Rc<Comm>, args: ReduceArgs<'_>) -> Result<Plan> {
    Plan::recall(cs, comm, Call::reduction(Kind::Allreduce, 0, &args), |b, view| allreduce::build(b, view, args))
}

/// `MPI_Reduce_scatter_block`; the count of `args` is that of a block.
pub fn plan_reduce_scatter_block(cs: &Section, comm: &Rc<Comm>, args: ReduceArgs<'_>) -> Result<Plan> {
    let call = Call::reduction(Kind::ReduceScatterBlock, 0, &args);
    Plan::recall(cs, comm, call, |b, view| reduce_scatter::build(b, view, args, Counts::Block(args.count)))
}

/// `MPI_Reduce_scatter`; the count of `args` is not used.
pub fn plan_reduce_scatter(cs: &Section, comm: &Rc<Comm>, args: ReduceArgs<'_>, counts: Ints<'_>) -> Result<Plan> {
    let call = Call::reduction(Kind::ReduceScatter, 0, &args).with_counts(counts);
    plan(cs, comm, call, |b, view| reduce_scatter::build(b, view, args, Counts::List(counts)))
}

/// `MPI_Scan`.
pub fn plan_scan(cs: &Section, comm: &Rc<Comm>, args: ReduceArgs<'_>) -> Result<Plan> {
    Plan::recall(cs, comm, Call::reduction(Kind::Scan, 0, &args), |b, view| scan::build(b, view, args, false))
}

/// `MPI_Exscan`.
pub fn plan_exscan(cs: &Section, comm: &Rc<Comm>, args: ReduceArgs<'_>) -> Result<Plan> {
    Plan::recall(cs, comm, Call::reduction(Kind::Exscan, 0, &args), |b, view| scan::build(b, view, args, true))
}

/// `MPI_Neighbor_allgather`, `MPI_Neighbor_allgatherv`; `neighbors` is what [`crate::topo::neighbors`] says.
pub fn plan_neighbor_allgather(
    cs: &Section,
    comm: &Rc<Comm>,
    neighbors: &Neighbors,
    send: Buffer<'_>,
    recv: BlockBuffer<'_>,
) -> Result<Plan> {
    Plan::new(cs, comm, PLANE, |b, view| neighbor::allgather(b, view, neighbors, send, recv))
}

/// `MPI_Neighbor_alltoall`, `MPI_Neighbor_alltoallv`, `MPI_Neighbor_alltoallw`.
pub fn plan_neighbor_alltoall(
    cs: &Section,
    comm: &Rc<Comm>,
    neighbors: &Neighbors,
    send: BlockBuffer<'_>,
    recv: BlockBuffer<'_>,
) -> Result<Plan> {
    Plan::new(cs, comm, PLANE, |b, view| neighbor::alltoall(b, view, neighbors, send, recv))
}
