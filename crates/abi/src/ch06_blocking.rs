//! Blocking collectives (MPI-5.0, 6.3-6.11).

use crate::api::api;
use crate::kinds::*;

api! {
    /// Gather to all
    MPI_Allgather, MPI_Allgather_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcount: Count, recvtype: Type,
        comm: Comm
    ) on comm later

    /// Gather of varying counts to all
    MPI_Allgatherv, MPI_Allgatherv_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcounts: CountArray,
        displs: DisplArray, recvtype: Type, comm: Comm
    ) on comm later

    /// Reduction to all
    MPI_Allreduce, MPI_Allreduce_c => (
        sendbuf: SendBuf, recvbuf: RecvBuf, count: Count, datatype: Type, op: Op, comm: Comm
    ) on comm later

    /// All-to-all exchange
    MPI_Alltoall, MPI_Alltoall_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcount: Count, recvtype: Type,
        comm: Comm
    ) on comm later

    /// All-to-all exchange of varying counts
    MPI_Alltoallv, MPI_Alltoallv_c => (
        sendbuf: SendBuf, sendcounts: CountArray, sdispls: DisplArray, sendtype: Type, recvbuf: RecvBuf,
        recvcounts: CountArray, rdispls: DisplArray, recvtype: Type, comm: Comm
    ) on comm later

    /// All-to-all exchange of varying counts and datatypes
    MPI_Alltoallw, MPI_Alltoallw_c => (
        sendbuf: SendBuf, sendcounts: CountArray, sdispls: DisplArray, sendtypes: TypeArray, recvbuf: RecvBuf,
        recvcounts: CountArray, rdispls: DisplArray, recvtypes: TypeArray, comm: Comm
    ) on comm later

    /// Barrier
    MPI_Barrier => (comm: Comm) on comm later

    /// Broadcast from the root
    MPI_Bcast, MPI_Bcast_c => (buffer: RecvBuf, count: Count, datatype: Type, root: Root, comm: Comm) on comm later

    /// Exclusive prefix reduction
    MPI_Exscan, MPI_Exscan_c => (
        sendbuf: SendBuf, recvbuf: RecvBuf, count: Count, datatype: Type, op: Op, comm: Comm
    ) on comm later

    /// Gather to the root
    MPI_Gather, MPI_Gather_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcount: Count, recvtype: Type,
        root: Root, comm: Comm
    ) on comm later

    /// Gather of varying counts to the root
    MPI_Gatherv, MPI_Gatherv_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcounts: CountArray,
        displs: DisplArray, recvtype: Type, root: Root, comm: Comm
    ) on comm later

    /// Reduction to the root
    MPI_Reduce, MPI_Reduce_c => (
        sendbuf: SendBuf, recvbuf: RecvBuf, count: Count, datatype: Type, op: Op, root: Root, comm: Comm
    ) on comm later

    /// Reduction, scattered in blocks of varying size
    MPI_Reduce_scatter, MPI_Reduce_scatter_c => (
        sendbuf: SendBuf, recvbuf: RecvBuf, recvcounts: CountArray, datatype: Type, op: Op, comm: Comm
    ) on comm later

    /// Reduction, scattered in equal blocks
    MPI_Reduce_scatter_block, MPI_Reduce_scatter_block_c => (
        sendbuf: SendBuf, recvbuf: RecvBuf, recvcount: Count, datatype: Type, op: Op, comm: Comm
    ) on comm later

    /// Inclusive prefix reduction
    MPI_Scan, MPI_Scan_c => (
        sendbuf: SendBuf, recvbuf: RecvBuf, count: Count, datatype: Type, op: Op, comm: Comm
    ) on comm later

    /// Scatter from the root
    MPI_Scatter, MPI_Scatter_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcount: Count, recvtype: Type,
        root: Root, comm: Comm
    ) on comm later

    /// Scatter of varying counts from the root
    MPI_Scatterv, MPI_Scatterv_c => (
        sendbuf: SendBuf, sendcounts: CountArray, displs: DisplArray, sendtype: Type, recvbuf: RecvBuf,
        recvcount: Count, recvtype: Type, root: Root, comm: Comm
    ) on comm later
}
