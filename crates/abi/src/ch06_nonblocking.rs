//! Non-blocking collectives (MPI-5.0, 6.12).

use crate::api::api;
use crate::kinds::*;

api! {
    /// Starts a gather to all
    MPI_Iallgather, MPI_Iallgather_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcount: Count, recvtype: Type,
        comm: Comm, request: OutRequest
    ) on comm later

    /// Starts a gather of varying counts to all
    MPI_Iallgatherv, MPI_Iallgatherv_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcounts: CountArray,
        displs: DisplArray, recvtype: Type, comm: Comm, request: OutRequest
    ) on comm later

    /// Starts a reduction to all
    MPI_Iallreduce, MPI_Iallreduce_c => (
        sendbuf: SendBuf, recvbuf: RecvBuf, count: Count, datatype: Type, op: Op, comm: Comm, request: OutRequest
    ) on comm later

    /// Starts an all-to-all exchange
    MPI_Ialltoall, MPI_Ialltoall_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcount: Count, recvtype: Type,
        comm: Comm, request: OutRequest
    ) on comm later

    /// Starts an all-to-all exchange of varying counts
    MPI_Ialltoallv, MPI_Ialltoallv_c => (
        sendbuf: SendBuf, sendcounts: CountArray, sdispls: DisplArray, sendtype: Type, recvbuf: RecvBuf,
        recvcounts: CountArray, rdispls: DisplArray, recvtype: Type, comm: Comm, request: OutRequest
    ) on comm later

    /// Starts an all-to-all exchange of varying counts and datatypes
    MPI_Ialltoallw, MPI_Ialltoallw_c => (
        sendbuf: SendBuf, sendcounts: CountArray, sdispls: DisplArray, sendtypes: TypeArray, recvbuf: RecvBuf,
        recvcounts: CountArray, rdispls: DisplArray, recvtypes: TypeArray, comm: Comm, request: OutRequest
    ) on comm later

    /// Starts a barrier
    MPI_Ibarrier => (comm: Comm, request: OutRequest) on comm later

    /// Starts a broadcast from the root
    MPI_Ibcast, MPI_Ibcast_c => (
        buffer: RecvBuf, count: Count, datatype: Type, root: Root, comm: Comm, request: OutRequest
    ) on comm later

    /// Starts an exclusive prefix reduction
    MPI_Iexscan, MPI_Iexscan_c => (
        sendbuf: SendBuf, recvbuf: RecvBuf, count: Count, datatype: Type, op: Op, comm: Comm, request: OutRequest
    ) on comm later

    /// Starts a gather to the root
    MPI_Igather, MPI_Igather_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcount: Count, recvtype: Type,
        root: Root, comm: Comm, request: OutRequest
    ) on comm later

    /// Starts a gather of varying counts to the root
    MPI_Igatherv, MPI_Igatherv_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcounts: CountArray,
        displs: DisplArray, recvtype: Type, root: Root, comm: Comm, request: OutRequest
    ) on comm later

    /// Starts a reduction to the root
    MPI_Ireduce, MPI_Ireduce_c => (
        sendbuf: SendBuf, recvbuf: RecvBuf, count: Count, datatype: Type, op: Op, root: Root, comm: Comm,
        request: OutRequest
    ) on comm later

    /// Starts a reduction, scattered in blocks of varying size
    MPI_Ireduce_scatter, MPI_Ireduce_scatter_c => (
        sendbuf: SendBuf, recvbuf: RecvBuf, recvcounts: CountArray, datatype: Type, op: Op, comm: Comm,
        request: OutRequest
    ) on comm later

    /// Starts a reduction, scattered in equal blocks
    MPI_Ireduce_scatter_block, MPI_Ireduce_scatter_block_c => (
        sendbuf: SendBuf, recvbuf: RecvBuf, recvcount: Count, datatype: Type, op: Op, comm: Comm,
        request: OutRequest
    ) on comm later

    /// Starts an inclusive prefix reduction
    MPI_Iscan, MPI_Iscan_c => (
        sendbuf: SendBuf, recvbuf: RecvBuf, count: Count, datatype: Type, op: Op, comm: Comm, request: OutRequest
    ) on comm later

    /// Starts a scatter from the root
    MPI_Iscatter, MPI_Iscatter_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcount: Count, recvtype: Type,
        root: Root, comm: Comm, request: OutRequest
    ) on comm later

    /// Starts a scatter of varying counts from the root
    MPI_Iscatterv, MPI_Iscatterv_c => (
        sendbuf: SendBuf, sendcounts: CountArray, displs: DisplArray, sendtype: Type, recvbuf: RecvBuf,
        recvcount: Count, recvtype: Type, root: Root, comm: Comm, request: OutRequest
    ) on comm later
}
