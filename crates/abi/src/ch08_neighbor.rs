//! Neighbourhood collectives: blocking, non-blocking, persistent (MPI-5.0, 8.6-8.8).

use crate::api::{api, collectives};
use crate::collective::{Listed, Near, Part, Typed};
use crate::kinds::*;
use mpi::coll::api::{plan_neighbor_allgather, plan_neighbor_alltoall};

collectives! {
    with cs;

    /// Gather from the neighbours
    MPI_Neighbor_allgather, MPI_Neighbor_allgather_c;
    MPI_Ineighbor_allgather, MPI_Ineighbor_allgather_c;
    MPI_Neighbor_allgather_init, MPI_Neighbor_allgather_init_c => (
        sendbuf: SendBuf, sendcount: MaybeCount, sendtype: MaybeType, recvbuf: RecvBuf, recvcount: MaybeCount,
        recvtype: MaybeType, comm: Comm
    ) on comm {
        let near = Near::of(&comm)?;
        let send = Part::new(cs, sendbuf.cast_mut(), sendcount, sendtype)?;
        let recv = Part::new(cs, recvbuf, recvcount, recvtype)?;
    } plan plan_neighbor_allgather(cs, &comm, near.neighbors(), send.buffer(), recv.blocks());

    /// Gather of varying counts from the neighbours
    MPI_Neighbor_allgatherv, MPI_Neighbor_allgatherv_c;
    MPI_Ineighbor_allgatherv, MPI_Ineighbor_allgatherv_c;
    MPI_Neighbor_allgatherv_init, MPI_Neighbor_allgatherv_init_c => (
        sendbuf: SendBuf, sendcount: MaybeCount, sendtype: MaybeType, recvbuf: RecvBuf, recvcounts: CountArray,
        displs: DisplArray, recvtype: MaybeType, comm: Comm
    ) on comm {
        let near = Near::of(&comm)?;
        let send = Part::new(cs, sendbuf.cast_mut(), sendcount, sendtype)?;
        let recv = Listed::new(cs, recvbuf, recvcounts, displs, recvtype, near.indegree())?;
    } plan plan_neighbor_allgather(cs, &comm, near.neighbors(), send.buffer(), recv.blocks());

    /// Exchange with the neighbours
    MPI_Neighbor_alltoall, MPI_Neighbor_alltoall_c;
    MPI_Ineighbor_alltoall, MPI_Ineighbor_alltoall_c;
    MPI_Neighbor_alltoall_init, MPI_Neighbor_alltoall_init_c => (
        sendbuf: SendBuf, sendcount: MaybeCount, sendtype: MaybeType, recvbuf: RecvBuf, recvcount: MaybeCount,
        recvtype: MaybeType, comm: Comm
    ) on comm {
        let near = Near::of(&comm)?;
        let send = Part::new(cs, sendbuf.cast_mut(), sendcount, sendtype)?;
        let recv = Part::new(cs, recvbuf, recvcount, recvtype)?;
    } plan plan_neighbor_alltoall(cs, &comm, near.neighbors(), send.blocks(), recv.blocks());

    /// Exchange of varying counts with the neighbours
    MPI_Neighbor_alltoallv, MPI_Neighbor_alltoallv_c;
    MPI_Ineighbor_alltoallv, MPI_Ineighbor_alltoallv_c;
    MPI_Neighbor_alltoallv_init, MPI_Neighbor_alltoallv_init_c => (
        sendbuf: SendBuf, sendcounts: CountArray, sdispls: DisplArray, sendtype: MaybeType, recvbuf: RecvBuf,
        recvcounts: CountArray, rdispls: DisplArray, recvtype: MaybeType, comm: Comm
    ) on comm {
        let near = Near::of(&comm)?;
        let send = Listed::new(cs, sendbuf.cast_mut(), sendcounts, sdispls, sendtype, near.outdegree())?;
        let recv = Listed::new(cs, recvbuf, recvcounts, rdispls, recvtype, near.indegree())?;
    } plan plan_neighbor_alltoall(cs, &comm, near.neighbors(), send.blocks(), recv.blocks());

    /// Exchange of varying counts and datatypes with the neighbours
    MPI_Neighbor_alltoallw, MPI_Neighbor_alltoallw_c;
    MPI_Ineighbor_alltoallw, MPI_Ineighbor_alltoallw_c;
    MPI_Neighbor_alltoallw_init, MPI_Neighbor_alltoallw_init_c => (
        sendbuf: SendBuf, sendcounts: CountArray, sdispls: AintArray, sendtypes: TypeArray, recvbuf: RecvBuf,
        recvcounts: CountArray, rdispls: AintArray, recvtypes: TypeArray, comm: Comm
    ) on comm {
        let near = Near::of(&comm)?;
        let (to, from) = (near.outdegree(), near.indegree());
        let send = Typed::new(cs, sendbuf.cast_mut(), sendcounts, Ints::Wide(sdispls), sendtypes, to)?;
        let recv = Typed::new(cs, recvbuf, recvcounts, Ints::Wide(rdispls), recvtypes, from)?;
    } plan plan_neighbor_alltoall(cs, &comm, near.neighbors(), send.blocks(), recv.blocks());
}
