//! Neighbourhood collectives (MPI-5.0, 8.6-8.8).

use crate::api::api;
use crate::kinds::*;

api! {
    /// Starts a gather from the neighbours
    MPI_Ineighbor_allgather, MPI_Ineighbor_allgather_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcount: Count, recvtype: Type,
        comm: Comm, request: OutRequest
    ) on comm later

    /// Starts a gather of varying counts from the neighbours
    MPI_Ineighbor_allgatherv, MPI_Ineighbor_allgatherv_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcounts: CountArray,
        displs: DisplArray, recvtype: Type, comm: Comm, request: OutRequest
    ) on comm later

    /// Starts an exchange with the neighbours
    MPI_Ineighbor_alltoall, MPI_Ineighbor_alltoall_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcount: Count, recvtype: Type,
        comm: Comm, request: OutRequest
    ) on comm later

    /// Starts an exchange of varying counts with the neighbours
    MPI_Ineighbor_alltoallv, MPI_Ineighbor_alltoallv_c => (
        sendbuf: SendBuf, sendcounts: CountArray, sdispls: DisplArray, sendtype: Type, recvbuf: RecvBuf,
        recvcounts: CountArray, rdispls: DisplArray, recvtype: Type, comm: Comm, request: OutRequest
    ) on comm later

    /// Starts an exchange of varying counts and datatypes with the neighbours
    MPI_Ineighbor_alltoallw, MPI_Ineighbor_alltoallw_c => (
        sendbuf: SendBuf, sendcounts: CountArray, sdispls: AintArray, sendtypes: TypeArray, recvbuf: RecvBuf,
        recvcounts: CountArray, rdispls: AintArray, recvtypes: TypeArray, comm: Comm, request: OutRequest
    ) on comm later

    /// Gather from the neighbours
    MPI_Neighbor_allgather, MPI_Neighbor_allgather_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcount: Count, recvtype: Type,
        comm: Comm
    ) on comm later

    /// Creates a persistent gather from the neighbours
    MPI_Neighbor_allgather_init, MPI_Neighbor_allgather_init_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcount: Count, recvtype: Type,
        comm: Comm, info: Info, request: OutRequest
    ) on comm later

    /// Gather of varying counts from the neighbours
    MPI_Neighbor_allgatherv, MPI_Neighbor_allgatherv_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcounts: CountArray,
        displs: DisplArray, recvtype: Type, comm: Comm
    ) on comm later

    /// Creates a persistent gather of varying counts from the neighbours
    MPI_Neighbor_allgatherv_init, MPI_Neighbor_allgatherv_init_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcounts: CountArray,
        displs: DisplArray, recvtype: Type, comm: Comm, info: Info, request: OutRequest
    ) on comm later

    /// Exchange with the neighbours
    MPI_Neighbor_alltoall, MPI_Neighbor_alltoall_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcount: Count, recvtype: Type,
        comm: Comm
    ) on comm later

    /// Creates a persistent exchange with the neighbours
    MPI_Neighbor_alltoall_init, MPI_Neighbor_alltoall_init_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, recvbuf: RecvBuf, recvcount: Count, recvtype: Type,
        comm: Comm, info: Info, request: OutRequest
    ) on comm later

    /// Exchange of varying counts with the neighbours
    MPI_Neighbor_alltoallv, MPI_Neighbor_alltoallv_c => (
        sendbuf: SendBuf, sendcounts: CountArray, sdispls: DisplArray, sendtype: Type, recvbuf: RecvBuf,
        recvcounts: CountArray, rdispls: DisplArray, recvtype: Type, comm: Comm
    ) on comm later

    /// Creates a persistent exchange of varying counts with the neighbours
    MPI_Neighbor_alltoallv_init, MPI_Neighbor_alltoallv_init_c => (
        sendbuf: SendBuf, sendcounts: CountArray, sdispls: DisplArray, sendtype: Type, recvbuf: RecvBuf,
        recvcounts: CountArray, rdispls: DisplArray, recvtype: Type, comm: Comm, info: Info, request: OutRequest
    ) on comm later

    /// Exchange of varying counts and datatypes with the neighbours
    MPI_Neighbor_alltoallw, MPI_Neighbor_alltoallw_c => (
        sendbuf: SendBuf, sendcounts: CountArray, sdispls: AintArray, sendtypes: TypeArray, recvbuf: RecvBuf,
        recvcounts: CountArray, rdispls: AintArray, recvtypes: TypeArray, comm: Comm
    ) on comm later

    /// Creates a persistent exchange of varying counts and datatypes with the neighbours
    MPI_Neighbor_alltoallw_init, MPI_Neighbor_alltoallw_init_c => (
        sendbuf: SendBuf, sendcounts: CountArray, sdispls: AintArray, sendtypes: TypeArray, recvbuf: RecvBuf,
        recvcounts: CountArray, rdispls: AintArray, recvtypes: TypeArray, comm: Comm, info: Info,
        request: OutRequest
    ) on comm later
}
