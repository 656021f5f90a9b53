//! Probe and matched receive (MPI-5.0, 3.8).

use crate::api::api;
use crate::kinds::*;

api! {
    /// Looks for a message and takes it out of matching, without waiting
    MPI_Improbe => (
        source: Source, tag: RecvTag, comm: Comm, flag: OutFlag, message: OutMessage, status: OutStatus
    ) on comm later

    /// Starts to receive a matched message
    MPI_Imrecv, MPI_Imrecv_c => (
        buf: RecvBuf, count: Count, datatype: Type, message: InOutMessage, request: InOutRequest
    ) on none later

    /// Looks for a message without waiting
    MPI_Iprobe => (source: Source, tag: RecvTag, comm: Comm, flag: OutFlag, status: OutStatus) on comm later

    /// Waits for a message and takes it out of matching
    MPI_Mprobe => (source: Source, tag: RecvTag, comm: Comm, message: OutMessage, status: OutStatus) on comm later

    /// Receives a matched message
    MPI_Mrecv, MPI_Mrecv_c => (
        buf: RecvBuf, count: Count, datatype: Type, message: InOutMessage, status: OutStatus
    ) on none later

    /// Waits for a message without receiving it
    MPI_Probe => (source: Source, tag: RecvTag, comm: Comm, status: OutStatus) on comm later
}
