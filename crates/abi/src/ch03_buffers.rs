//! Buffers for buffered sends (MPI-5.0, 3.6).

use crate::api::api;
use crate::kinds::*;

api! {
    /// Attaches the process's buffer for buffered sends
    MPI_Buffer_attach, MPI_Buffer_attach_c => (buffer: Addr, size: Count) on none later

    /// Detaches the process's buffer after all its messages have left
    MPI_Buffer_detach, MPI_Buffer_detach_c => (buffer_addr: OutAddr, size: OutCount) on none later

    /// Waits until all messages have left the process's buffer
    MPI_Buffer_flush => () on none later

    /// Starts to wait until all messages have left the process's buffer
    MPI_Buffer_iflush => (request: OutRequest) on none later

    /// Attaches a communicator's buffer for buffered sends
    MPI_Comm_attach_buffer, MPI_Comm_attach_buffer_c => (comm: Comm, buffer: Addr, size: Count) on comm later

    /// Detaches a communicator's buffer after all its messages have left
    MPI_Comm_detach_buffer, MPI_Comm_detach_buffer_c => (
        comm: Comm, buffer_addr: OutAddr, size: OutCount
    ) on comm later

    /// Waits until all messages have left a communicator's buffer
    MPI_Comm_flush_buffer => (comm: Comm) on comm later

    /// Starts to wait until all messages have left a communicator's buffer
    MPI_Comm_iflush_buffer => (comm: Comm, request: OutRequest) on comm later

    /// Attaches a session's buffer for buffered sends
    MPI_Session_attach_buffer, MPI_Session_attach_buffer_c => (
        session: Session, buffer: Addr, size: Count
    ) on session later

    /// Detaches a session's buffer after all its messages have left
    MPI_Session_detach_buffer, MPI_Session_detach_buffer_c => (
        session: Session, buffer_addr: OutAddr, size: OutCount
    ) on session later

    /// Waits until all messages have left a session's buffer
    MPI_Session_flush_buffer => (session: Session) on session later

    /// Starts to wait until all messages have left a session's buffer
    MPI_Session_iflush_buffer => (session: Session, request: OutRequest) on session later
}
