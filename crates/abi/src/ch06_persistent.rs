//! Persistent collectives (MPI-5.0, 6.13).

use crate::api::api;
use crate::kinds::*;

api! {
    /// Creates a persistent gather to all
    MPI_Allgather_init, MPI_Allgather_init_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcount: Count, recvtype: Type,
        comm: Comm, info: Info, request: OutRequest
    ) on comm later

    /// Creates a persistent gather of varying counts to all
    MPI_Allgatherv_init, MPI_Allgatherv_init_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcounts: CountArray,
        displs: DisplArray, recvtype: Type, comm: Comm, info: Info, request: OutRequest
    ) on comm later

    /// Creates a persistent reduction to all
    MPI_Allreduce_init, MPI_Allreduce_init_c => (
        sendbuf: SendBuf, recvbuf: RecvBuf, count: Count, datatype: Type, op: Op, comm: Comm, info: Info,
        request: OutRequest
    ) on comm later

    /// Creates a persistent all-to-all exchange
    MPI_Alltoall_init, MPI_Alltoall_init_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcount: Count, recvtype: Type,
        comm: Comm, info: Info, request: OutRequest
    ) on comm later

    /// Creates a persistent all-to-all exchange of varying counts
    MPI_Alltoallv_init, MPI_Alltoallv_init_c => (
        sendbuf: SendBuf, sendcounts: CountArray, sdispls: DisplArray, sendtype: Type, recvbuf: RecvBuf,
        recvcounts: CountArray, rdispls: DisplArray, recvtype: Type, comm: Comm, info: Info, request: OutRequest
    ) on comm later

    /// Creates a persistent all-to-all exchange of varying counts and datatypes
    MPI_Alltoallw_init, MPI_Alltoallw_init_c => (
        sendbuf: SendBuf, sendcounts: CountArray, sdispls: DisplArray, sendtypes: TypeArray, recvbuf: RecvBuf,
        recvcounts: CountArray, rdispls: DisplArray, recvtypes: TypeArray, comm: Comm, info: Info,
        request: OutRequest
    ) on comm later

    /// Creates a persistent barrier
    MPI_Barrier_init => (comm: Comm, info: Info, request: OutRequest) on comm later

    /// Creates a persistent broadcast from the root
    MPI_Bcast_init, MPI_Bcast_init_c => (
        buffer: RecvBuf, count: Count, datatype: Type, root: Root, comm: Comm, info: Info, request: OutRequest
    ) on comm later

    /// Creates a persistent exclusive prefix reduction
    MPI_Exscan_init, MPI_Exscan_init_c => (
        sendbuf: SendBuf, recvbuf: RecvBuf, count: Count, datatype: Type, op: Op, comm: Comm, info: Info,
        request: OutRequest
    ) on comm later

    /// Creates a persistent gather to the root
    MPI_Gather_init, MPI_Gather_init_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcount: Count, recvtype: Type,
        root: Root, comm: Comm, info: Info, request: OutRequest
    ) on comm later

    /// Creates a persistent gather of varying counts to the root
    MPI_Gatherv_init, MPI_Gatherv_init_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcounts: CountArray,
        displs: DisplArray, recvtype: Type, root: Root, comm: Comm, info: Info, request: OutRequest
    ) on comm later

    /// Creates a persistent reduction to the root
    MPI_Reduce_init, MPI_Reduce_init_c => (
        sendbuf: SendBuf, recvbuf: RecvBuf, count: Count, datatype: Type, op: Op, root: Root, comm: Comm,
        info: Info, request: OutRequest
    ) on comm later

    /// Creates a persistent reduction, scattered in equal blocks
    MPI_Reduce_scatter_block_init, MPI_Reduce_scatter_block_init_c => (
        sendbuf: SendBuf, recvbuf: RecvBuf, recvcount: Count, datatype: Type, op: Op, comm: Comm, info: Info,
        request: OutRequest
    ) on comm later

    /// Creates a persistent reduction, scattered in blocks of varying size
    MPI_Reduce_scatter_init, MPI_Reduce_scatter_init_c => (
        sendbuf: SendBuf, recvbuf: RecvBuf, recvcounts: CountArray, datatype: Type, op: Op, comm: Comm, info: Info,
        request: OutRequest
    ) on comm later

    /// Creates a persistent inclusive prefix reduction
    MPI_Scan_init, MPI_Scan_init_c => (
        sendbuf: SendBuf, recvbuf: RecvBuf, count: Count, datatype: Type, op: Op, comm: Comm, info: Info,
        request: OutRequest
    ) on comm later

    /// Creates a persistent scatter from the root
    MPI_Scatter_init, MPI_Scatter_init_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcount: Count, recvtype: Type,
        root: Root, comm: Comm, info: Info, request: OutRequest
    ) on comm later

    /// Creates a persistent scatter of varying counts from the root
    MPI_Scatterv_init, MPI_Scatterv_init_c => (
        sendbuf: SendBuf, sendcounts: CountArray, displs: DisplArray, sendtype: Type, recvbuf: RecvBuf,
        recvcount: Count, recvtype: Type, root: Root, comm: Comm, info: Info, request: OutRequest
    ) on comm later
}
