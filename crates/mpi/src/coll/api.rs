//! Plans of all collectives on a communicator, for the C functions: one plan, three endings ([`run`](super::run),
//! [`start`](super::start), [`persist`](super::persist)).
//!
//! Arguments that have no meaning on this process are `None`; so is a buffer that is `MPI_IN_PLACE`
//! ([`Buffer::or_in_place`], [`or_in_place`]). [`is_root`] and [`has_data`] say what has a meaning where.

use super::args::{BlockBuffer, Buffer, ReduceArgs, is_in_place};
use super::ints::Ints;
use super::neighbor;
use super::reduce_scatter::Counts;
use super::schedule::{Call, Plan};
use super::{allgather, allreduce, alltoall, barrier, bcast, gather, reduce, reduce_scatter, scan, scatter};
use crate::comm::Comm;
use crate::status::{PROC_NULL, ROOT};
use crate::topo::Neighbors;
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

const NO_CALL: Call = Call {
    kind: 0,
    root: 0,
    buffers: [std::ptr::null(); 2],
    counts: [0; 2],
    types: [std::ptr::null(); 2],
    op: std::ptr::null(),
};

/// What plans for these arguments depend on.
#[inline]
fn reduction(kind: u8, root: i32, args: &ReduceArgs<'_>) -> Call {
    let (datatype, op) = (Rc::as_ptr(args.datatype), Rc::as_ptr(args.op));
    let buffers = [args.send, args.recv.cast_const()];
    Call { kind, root, buffers, counts: [args.count, 0], types: [datatype; 2], op }
}

/// `MPI_Barrier`.
#[inline]
pub fn plan_barrier(comm: &Rc<Comm>) -> Result<Plan> {
    Plan::recall(comm, NO_CALL, [None; 2], barrier::build)
}

/// `MPI_Bcast`.
#[inline]
pub fn plan_bcast(comm: &Rc<Comm>, data: Buffer<'_>, root: i32) -> Result<Plan> {
    let (buffers, types) = ([data.ptr.cast_const(); 2], [Rc::as_ptr(data.datatype); 2]);
    let call = Call { kind: 1, root, buffers, counts: [data.count, 0], types, ..NO_CALL };
    Plan::recall(comm, call, [Some(data.datatype), None], |p, site| bcast::build(p, site, data, root))
}

/// `MPI_Gather` (`even`), `MPI_Gatherv`.
pub fn plan_gather(
    comm: &Rc<Comm>,
    send: Option<Buffer<'_>>,
    recv: Option<BlockBuffer<'_>>,
    root: i32,
    even: bool,
) -> Result<Plan> {
    Plan::new(comm, PLANE, |p, site| gather::build(p, site, send, recv, root, even))
}

/// `MPI_Scatter` (`even`), `MPI_Scatterv`.
pub fn plan_scatter(
    comm: &Rc<Comm>,
    send: Option<BlockBuffer<'_>>,
    recv: Option<Buffer<'_>>,
    root: i32,
    even: bool,
) -> Result<Plan> {
    Plan::new(comm, PLANE, |p, site| scatter::build(p, site, send, recv, root, even))
}

/// `MPI_Allgather`, `MPI_Allgatherv`.
pub fn plan_allgather(comm: &Rc<Comm>, send: Option<Buffer<'_>>, recv: BlockBuffer<'_>) -> Result<Plan> {
    if let (Some(s), BlockBuffer::Even(r)) = (send, recv) {
        let (buffers, types) = ([s.ptr.cast_const(), r.ptr], [Rc::as_ptr(s.datatype), Rc::as_ptr(r.datatype)]);
        let call = Call { kind: 3, buffers, counts: [s.count, r.count], types, ..NO_CALL };
        let types = [Some(s.datatype), Some(r.datatype)];
        return Plan::recall(comm, call, types, |p, site| allgather::build(p, site, send, recv));
    }
    Plan::new(comm, PLANE, |p, site| allgather::build(p, site, send, recv))
}

/// `MPI_Alltoall`, `MPI_Alltoallv`, `MPI_Alltoallw`.
pub fn plan_alltoall(comm: &Rc<Comm>, send: Option<BlockBuffer<'_>>, recv: BlockBuffer<'_>) -> Result<Plan> {
    if let (Some(BlockBuffer::Even(s)), BlockBuffer::Even(r)) = (send, recv) {
        let (buffers, types) = ([s.ptr.cast_const(), r.ptr], [Rc::as_ptr(s.datatype), Rc::as_ptr(r.datatype)]);
        let call = Call { kind: 2, buffers, counts: [s.count, r.count], types, ..NO_CALL };
        let types = [Some(s.datatype), Some(r.datatype)];
        return Plan::recall(comm, call, types, |p, site| alltoall::build(p, site, send, recv));
    }
    Plan::new(comm, PLANE, |p, site| alltoall::build(p, site, send, recv))
}

/// `MPI_Reduce`.
pub fn plan_reduce(comm: &Rc<Comm>, args: ReduceArgs<'_>, root: i32) -> Result<Plan> {
    let (call, types) = (reduction(4, root, &args), [Some(args.datatype), None]);
    Plan::recall(comm, call, types, |p, site| reduce::build(p, site, args, root))
}

/// `MPI_Allreduce`.
#[inline]
pub fn plan_allreduce(comm: &Rc<Comm>, args: ReduceArgs<'_>) -> Result<Plan> {
    let (call, types) = (reduction(5, 0, &args), [Some(args.datatype), None]);
    Plan::recall(comm, call, types, |p, site| allreduce::build(p, site, args))
}

/// `MPI_Reduce_scatter_block`; the count of `args` is that of a block.
pub fn plan_reduce_scatter_block(comm: &Rc<Comm>, args: ReduceArgs<'_>) -> Result<Plan> {
    Plan::new(comm, PLANE, |p, site| reduce_scatter::build(p, site, args, Counts::Block(args.count)))
}

/// `MPI_Reduce_scatter`; the count of `args` is not used.
pub fn plan_reduce_scatter(comm: &Rc<Comm>, args: ReduceArgs<'_>, counts: Ints<'_>) -> Result<Plan> {
    Plan::new(comm, PLANE, |p, site| reduce_scatter::build(p, site, args, Counts::List(counts)))
}

/// `MPI_Scan`.
pub fn plan_scan(comm: &Rc<Comm>, args: ReduceArgs<'_>) -> Result<Plan> {
    Plan::new(comm, PLANE, |p, site| scan::build(p, site, args, false))
}

/// `MPI_Exscan`.
pub fn plan_exscan(comm: &Rc<Comm>, args: ReduceArgs<'_>) -> Result<Plan> {
    Plan::new(comm, PLANE, |p, site| scan::build(p, site, args, true))
}

/// `MPI_Neighbor_allgather`, `MPI_Neighbor_allgatherv`; `neighbors` is what [`crate::topo::neighbors`] says.
pub fn plan_neighbor_allgather(
    comm: &Rc<Comm>,
    neighbors: &Neighbors,
    send: Buffer<'_>,
    recv: BlockBuffer<'_>,
) -> Result<Plan> {
    Plan::new(comm, PLANE, |p, site| neighbor::allgather(p, site, neighbors, send, recv))
}

/// `MPI_Neighbor_alltoall`, `MPI_Neighbor_alltoallv`, `MPI_Neighbor_alltoallw`.
pub fn plan_neighbor_alltoall(
    comm: &Rc<Comm>,
    neighbors: &Neighbors,
    send: BlockBuffer<'_>,
    recv: BlockBuffer<'_>,
) -> Result<Plan> {
    Plan::new(comm, PLANE, |p, site| neighbor::alltoall(p, site, neighbors, send, recv))
}
