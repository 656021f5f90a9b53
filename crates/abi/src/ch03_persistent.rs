//! Persistent point-to-point requests (MPI-5.0, 3.9).

use crate::api::api;
use crate::kinds::*;

api! {
    /// Creates a persistent buffered send
    MPI_Bsend_init, MPI_Bsend_init_c => (
        buf: SendBuf, count: Count, datatype: Type, dest: Dest, tag: SendTag, comm: Comm, request: OutRequest
    ) on comm later

    /// Creates a persistent receive
    MPI_Recv_init, MPI_Recv_init_c => (
        buf: RecvBuf, count: Count, datatype: Type, source: Source, tag: RecvTag, comm: Comm, request: OutRequest
    ) on comm later

    /// Creates a persistent ready send
    MPI_Rsend_init, MPI_Rsend_init_c => (
        buf: SendBuf, count: Count, datatype: Type, dest: Dest, tag: SendTag, comm: Comm, request: OutRequest
    ) on comm later

    /// Creates a persistent synchronous send
    MPI_Ssend_init, MPI_Ssend_init_c => (
        buf: SendBuf, count: Count, datatype: Type, dest: Dest, tag: SendTag, comm: Comm, request: OutRequest
    ) on comm later
}
