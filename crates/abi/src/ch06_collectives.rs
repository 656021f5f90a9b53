//! Collectives: blocking, non-blocking, persistent (MPI-5.0, 6.3-6.13).

use crate::api::{api, collectives};
use crate::collective::{Listed, Part, Typed, counts, is_idle, listed, part, reduction, typed};
use crate::kinds::*;
use mpi::coll::api::*;
use mpi::coll::is_in_place;

collectives! {
    with cs;

    /// Barrier
    MPI_Barrier;
    MPI_Ibarrier;
    MPI_Barrier_init => (
        comm: Comm
    ) on comm {} plan plan_barrier(cs, &comm);

    /// Broadcast from the root
    MPI_Bcast, MPI_Bcast_c;
    MPI_Ibcast, MPI_Ibcast_c;
    MPI_Bcast_init, MPI_Bcast_init_c => (
        buffer: RecvBuf, count: MaybeCount, datatype: MaybeType, root: Root, comm: Comm
    ) on comm {
        let data = part(cs, !is_idle(&comm, root), buffer, count, datatype)?.unwrap_or_else(Part::nothing);
    } plan plan_bcast(cs, &comm, data.buffer(), root);

    /// Gather to the root
    MPI_Gather, MPI_Gather_c;
    MPI_Igather, MPI_Igather_c;
    MPI_Gather_init, MPI_Gather_init_c => (
        sendbuf: SendBuf, sendcount: MaybeCount, sendtype: MaybeType, recvbuf: RecvBuf, recvcount: MaybeCount,
        recvtype: MaybeType, root: Root, comm: Comm
    ) on comm {
        let send = part(cs, has_data(&comm, root) && !is_in_place(sendbuf), sendbuf, sendcount, sendtype)?;
        let recv = part(cs, is_root(&comm, root), recvbuf, recvcount, recvtype)?;
        let (send, recv) = (send.as_ref().map(Part::buffer), recv.as_ref().map(Part::blocks));
    } plan plan_gather(cs, &comm, send, recv, root, true);

    /// Gather of varying counts to the root
    MPI_Gatherv, MPI_Gatherv_c;
    MPI_Igatherv, MPI_Igatherv_c;
    MPI_Gatherv_init, MPI_Gatherv_init_c => (
        sendbuf: SendBuf, sendcount: MaybeCount, sendtype: MaybeType, recvbuf: RecvBuf, recvcounts: CountArray,
        displs: DisplArray, recvtype: MaybeType, root: Root, comm: Comm
    ) on comm {
        let send = part(cs, has_data(&comm, root) && !is_in_place(sendbuf), sendbuf, sendcount, sendtype)?;
        let recv = listed(cs, is_root(&comm, root), recvbuf, recvcounts, displs, recvtype, comm.peer_size() as usize)?;
        let (send, recv) = (send.as_ref().map(Part::buffer), recv.as_ref().map(Listed::blocks));
    } plan plan_gather(cs, &comm, send, recv, root, false);

    /// Scatter from the root
    MPI_Scatter, MPI_Scatter_c;
    MPI_Iscatter, MPI_Iscatter_c;
    MPI_Scatter_init, MPI_Scatter_init_c => (
        sendbuf: SendBuf, sendcount: MaybeCount, sendtype: MaybeType, recvbuf: RecvBuf, recvcount: MaybeCount,
        recvtype: MaybeType, root: Root, comm: Comm
    ) on comm {
        let send = part(cs, is_root(&comm, root), sendbuf, sendcount, sendtype)?;
        let recv = part(cs, has_data(&comm, root) && !is_in_place(recvbuf), recvbuf, recvcount, recvtype)?;
        let (send, recv) = (send.as_ref().map(Part::blocks), recv.as_ref().map(Part::buffer));
    } plan plan_scatter(cs, &comm, send, recv, root, true);

    /// Scatter of varying counts from the root
    MPI_Scatterv, MPI_Scatterv_c;
    MPI_Iscatterv, MPI_Iscatterv_c;
    MPI_Scatterv_init, MPI_Scatterv_init_c => (
        sendbuf: SendBuf, sendcounts: CountArray, displs: DisplArray, sendtype: MaybeType, recvbuf: RecvBuf,
        recvcount: MaybeCount, recvtype: MaybeType, root: Root, comm: Comm
    ) on comm {
        let send = listed(cs, is_root(&comm, root), sendbuf, sendcounts, displs, sendtype, comm.peer_size() as usize)?;
        let recv = part(cs, has_data(&comm, root) && !is_in_place(recvbuf), recvbuf, recvcount, recvtype)?;
        let (send, recv) = (send.as_ref().map(Listed::blocks), recv.as_ref().map(Part::buffer));
    } plan plan_scatter(cs, &comm, send, recv, root, false);

    /// Gather to all
    MPI_Allgather, MPI_Allgather_c;
    MPI_Iallgather, MPI_Iallgather_c;
    MPI_Allgather_init, MPI_Allgather_init_c => (
        sendbuf: SendBuf, sendcount: MaybeCount, sendtype: MaybeType, recvbuf: RecvBuf, recvcount: MaybeCount,
        recvtype: MaybeType, comm: Comm
    ) on comm {
        let send = part(cs, !is_in_place(sendbuf), sendbuf, sendcount, sendtype)?;
        let recv = Part::new(cs, recvbuf, recvcount, recvtype)?;
    } plan plan_allgather(cs, &comm, send.as_ref().map(Part::buffer), recv.blocks());

    /// Gather of varying counts to all
    MPI_Allgatherv, MPI_Allgatherv_c;
    MPI_Iallgatherv, MPI_Iallgatherv_c;
    MPI_Allgatherv_init, MPI_Allgatherv_init_c => (
        sendbuf: SendBuf, sendcount: MaybeCount, sendtype: MaybeType, recvbuf: RecvBuf, recvcounts: CountArray,
        displs: DisplArray, recvtype: MaybeType, comm: Comm
    ) on comm {
        let send = part(cs, !is_in_place(sendbuf), sendbuf, sendcount, sendtype)?;
        let recv = Listed::new(cs, recvbuf, recvcounts, displs, recvtype, comm.peer_size() as usize)?;
    } plan plan_allgather(cs, &comm, send.as_ref().map(Part::buffer), recv.blocks());

    /// All-to-all exchange
    MPI_Alltoall, MPI_Alltoall_c;
    MPI_Ialltoall, MPI_Ialltoall_c;
    MPI_Alltoall_init, MPI_Alltoall_init_c => (
        sendbuf: SendBuf, sendcount: MaybeCount, sendtype: MaybeType, recvbuf: RecvBuf, recvcount: MaybeCount,
        recvtype: MaybeType, comm: Comm
    ) on comm {
        let send = part(cs, !is_in_place(sendbuf), sendbuf, sendcount, sendtype)?;
        let recv = Part::new(cs, recvbuf, recvcount, recvtype)?;
    } plan plan_alltoall(cs, &comm, send.as_ref().map(Part::blocks), recv.blocks());

    /// All-to-all exchange of varying counts
    MPI_Alltoallv, MPI_Alltoallv_c;
    MPI_Ialltoallv, MPI_Ialltoallv_c;
    MPI_Alltoallv_init, MPI_Alltoallv_init_c => (
        sendbuf: SendBuf, sendcounts: CountArray, sdispls: DisplArray, sendtype: MaybeType, recvbuf: RecvBuf,
        recvcounts: CountArray, rdispls: DisplArray, recvtype: MaybeType, comm: Comm
    ) on comm {
        let n = comm.peer_size() as usize;
        let send = listed(cs, !is_in_place(sendbuf), sendbuf, sendcounts, sdispls, sendtype, n)?;
        let recv = Listed::new(cs, recvbuf, recvcounts, rdispls, recvtype, n)?;
    } plan plan_alltoall(cs, &comm, send.as_ref().map(Listed::blocks), recv.blocks());

    /// All-to-all exchange of varying counts and datatypes
    MPI_Alltoallw, MPI_Alltoallw_c;
    MPI_Ialltoallw, MPI_Ialltoallw_c;
    MPI_Alltoallw_init, MPI_Alltoallw_init_c => (
        sendbuf: SendBuf, sendcounts: CountArray, sdispls: DisplArray, sendtypes: TypeArray, recvbuf: RecvBuf,
        recvcounts: CountArray, rdispls: DisplArray, recvtypes: TypeArray, comm: Comm
    ) on comm {
        let n = comm.peer_size() as usize;
        let send = typed(cs, !is_in_place(sendbuf), sendbuf, sendcounts, sdispls, sendtypes, n)?;
        let recv = Typed::new(cs, recvbuf, recvcounts, rdispls, recvtypes, n)?;
    } plan plan_alltoall(cs, &comm, send.as_ref().map(Typed::blocks), recv.blocks());

    /// Reduction to the root
    MPI_Reduce, MPI_Reduce_c;
    MPI_Ireduce, MPI_Ireduce_c;
    MPI_Reduce_init, MPI_Reduce_init_c => (
        sendbuf: SendBuf, recvbuf: RecvBuf, count: Count, datatype: Type, op: Op, root: Root, comm: Comm
    ) on comm {
        let args = reduction(sendbuf, recvbuf, count, &datatype, &op);
    } plan plan_reduce(cs, &comm, args, root);

    /// Reduction to all
    MPI_Allreduce, MPI_Allreduce_c;
    MPI_Iallreduce, MPI_Iallreduce_c;
    MPI_Allreduce_init, MPI_Allreduce_init_c => (
        sendbuf: SendBuf, recvbuf: RecvBuf, count: Count, datatype: Type, op: Op, comm: Comm
    ) on comm {
        let args = reduction(sendbuf, recvbuf, count, &datatype, &op);
    } plan plan_allreduce(cs, &comm, args);

    /// Inclusive prefix reduction
    MPI_Scan, MPI_Scan_c;
    MPI_Iscan, MPI_Iscan_c;
    MPI_Scan_init, MPI_Scan_init_c => (
        sendbuf: SendBuf, recvbuf: RecvBuf, count: Count, datatype: Type, op: Op, comm: Comm
    ) on comm {
        let args = reduction(sendbuf, recvbuf, count, &datatype, &op);
    } plan plan_scan(cs, &comm, args);

    /// Exclusive prefix reduction
    MPI_Exscan, MPI_Exscan_c;
    MPI_Iexscan, MPI_Iexscan_c;
    MPI_Exscan_init, MPI_Exscan_init_c => (
        sendbuf: SendBuf, recvbuf: RecvBuf, count: Count, datatype: Type, op: Op, comm: Comm
    ) on comm {
        let args = reduction(sendbuf, recvbuf, count, &datatype, &op);
    } plan plan_exscan(cs, &comm, args);

    /// Reduction, scattered in equal blocks
    MPI_Reduce_scatter_block, MPI_Reduce_scatter_block_c;
    MPI_Ireduce_scatter_block, MPI_Ireduce_scatter_block_c;
    MPI_Reduce_scatter_block_init, MPI_Reduce_scatter_block_init_c => (
        sendbuf: SendBuf, recvbuf: RecvBuf, recvcount: Count, datatype: Type, op: Op, comm: Comm
    ) on comm {
        let args = reduction(sendbuf, recvbuf, recvcount, &datatype, &op);
    } plan plan_reduce_scatter_block(cs, &comm, args);

    /// Reduction, scattered in blocks of varying size
    MPI_Reduce_scatter, MPI_Reduce_scatter_c;
    MPI_Ireduce_scatter, MPI_Ireduce_scatter_c;
    MPI_Reduce_scatter_init, MPI_Reduce_scatter_init_c => (
        sendbuf: SendBuf, recvbuf: RecvBuf, recvcounts: CountArray, datatype: Type, op: Op, comm: Comm
    ) on comm {
        let args = reduction(sendbuf, recvbuf, 0, &datatype, &op);
        let each = counts(recvcounts, comm.size() as usize)?;
    } plan plan_reduce_scatter(cs, &comm, args, each);
}
