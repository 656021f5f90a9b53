//! Point-to-point communication: sends and receives (MPI-5.0, 3.2, 3.4, 3.7, 3.10).

use crate::api::api;
use crate::kinds::*;

api! {
    /// Buffered send
    MPI_Bsend, MPI_Bsend_c => (
        buf: SendBuf, count: Count, datatype: Type, dest: Dest, tag: SendTag, comm: Comm
    ) on comm later

    /// Starts a buffered send
    MPI_Ibsend, MPI_Ibsend_c => (
        buf: SendBuf, count: Count, datatype: Type, dest: Dest, tag: SendTag, comm: Comm, request: OutRequest
    ) on comm later

    /// Starts a receive
    MPI_Irecv, MPI_Irecv_c => (
        buf: RecvBuf, count: Count, datatype: Type, source: Source, tag: RecvTag, comm: Comm, request: OutRequest
    ) on comm later

    /// Starts a ready send
    MPI_Irsend, MPI_Irsend_c => (
        buf: SendBuf, count: Count, datatype: Type, dest: Dest, tag: SendTag, comm: Comm, request: OutRequest
    ) on comm later

    /// Starts a standard-mode send
    MPI_Isend, MPI_Isend_c => (
        buf: SendBuf, count: Count, datatype: Type, dest: Dest, tag: SendTag, comm: Comm, request: OutRequest
    ) on comm later

    /// Starts a send and a receive
    MPI_Isendrecv, MPI_Isendrecv_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, dest: Dest, sendtag: SendTag, recvbuf: RecvBuf,
        recvcount: Count, recvtype: Type, source: Source, recvtag: RecvTag, comm: Comm, request: OutRequest
    ) on comm later

    /// Starts a send and a receive through one buffer
    MPI_Isendrecv_replace, MPI_Isendrecv_replace_c => (
        buf: RecvBuf, count: Count, datatype: Type, dest: Dest, sendtag: SendTag, source: Source, recvtag: RecvTag,
        comm: Comm, request: OutRequest
    ) on comm later

    /// Starts a synchronous send
    MPI_Issend, MPI_Issend_c => (
        buf: SendBuf, count: Count, datatype: Type, dest: Dest, tag: SendTag, comm: Comm, request: OutRequest
    ) on comm later

    /// Receives a message
    MPI_Recv, MPI_Recv_c => (
        buf: RecvBuf, count: Count, datatype: Type, source: Source, tag: RecvTag, comm: Comm, status: OutStatus
    ) on comm later

    /// Ready send
    MPI_Rsend, MPI_Rsend_c => (
        buf: SendBuf, count: Count, datatype: Type, dest: Dest, tag: SendTag, comm: Comm
    ) on comm later

    /// Standard-mode send
    MPI_Send, MPI_Send_c => (
        buf: SendBuf, count: Count, datatype: Type, dest: Dest, tag: SendTag, comm: Comm
    ) on comm later

    /// Creates a persistent standard-mode send
    MPI_Send_init, MPI_Send_init_c => (
        buf: SendBuf, count: Count, datatype: Type, dest: Dest, tag: SendTag, comm: Comm, request: OutRequest
    ) on comm later

    /// Sends and receives at once
    MPI_Sendrecv, MPI_Sendrecv_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: Type, dest: Dest, sendtag: SendTag, recvbuf: RecvBuf,
        recvcount: Count, recvtype: Type, source: Source, recvtag: RecvTag, comm: Comm, status: OutStatus
    ) on comm later

    /// Sends and receives at once through one buffer
    MPI_Sendrecv_replace, MPI_Sendrecv_replace_c => (
        buf: RecvBuf, count: Count, datatype: Type, dest: Dest, sendtag: SendTag, source: Source, recvtag: RecvTag,
        comm: Comm, status: OutStatus
    ) on comm later

    /// Synchronous send
    MPI_Ssend, MPI_Ssend_c => (
        buf: SendBuf, count: Count, datatype: Type, dest: Dest, tag: SendTag, comm: Comm
    ) on comm later
}
