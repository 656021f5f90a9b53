//! Buffers for buffered sends (MPI-5.0, 3.6).

use crate::api::api;
use crate::chosen::{BSEND_OVERHEAD, Chosen};
use crate::convert::Abi;
use crate::kinds::*;
use core::ffi::c_void;
use mpi::p2p::buffered;

api! {
    with cs;

    /// Attaches the process's buffer for buffered sends
    MPI_Buffer_attach, MPI_Buffer_attach_c => (buffer: Addr, size: Count) on none {
        buffered::attach(cs, None, Chosen::address(buffer.addr()), size, BSEND_OVERHEAD)
    }

    /// Detaches the process's buffer after all its messages have left
    MPI_Buffer_detach, MPI_Buffer_detach_c => (buffer_addr: OutAddr, size: OutCount) on none {
        let (address, bytes) = buffered::detach(cs, None)?;
        *buffer_addr = Chosen::c_address(address) as *mut c_void;
        size.set(bytes as i64);
        Ok(())
    }

    /// Waits until all messages have left the process's buffer
    MPI_Buffer_flush => () on none { buffered::flush(cs, None) }

    /// Starts to wait until all messages have left the process's buffer
    MPI_Buffer_iflush => (request: OutRequest) on none {
        request.set(CRequest::of(buffered::iflush(cs, None)?));
        Ok(())
    }

    /// Attaches a communicator's buffer for buffered sends
    MPI_Comm_attach_buffer, MPI_Comm_attach_buffer_c => (comm: Comm, buffer: Addr, size: Count) on comm {
        buffered::attach(cs, Some(&comm.owner), Chosen::address(buffer.addr()), size, BSEND_OVERHEAD)
    }

    /// Detaches a communicator's buffer after all its messages have left
    MPI_Comm_detach_buffer, MPI_Comm_detach_buffer_c => (
        comm: Comm, buffer_addr: OutAddr, size: OutCount
    ) on comm {
        let (address, bytes) = buffered::detach(cs, Some(&comm.owner))?;
        *buffer_addr = Chosen::c_address(address) as *mut c_void;
        size.set(bytes as i64);
        Ok(())
    }

    /// Waits until all messages have left a communicator's buffer
    MPI_Comm_flush_buffer => (comm: Comm) on comm { buffered::flush(cs, Some(&comm.owner)) }

    /// Starts to wait until all messages have left a communicator's buffer
    MPI_Comm_iflush_buffer => (comm: Comm, request: OutRequest) on comm {
        request.set(CRequest::of(buffered::iflush(cs, Some(&comm.owner))?));
        Ok(())
    }

    /// Attaches a session's buffer for buffered sends
    MPI_Session_attach_buffer, MPI_Session_attach_buffer_c => (
        session: Session, buffer: Addr, size: Count
    ) on session { buffered::attach(cs, Some(&session.owner), Chosen::address(buffer.addr()), size, BSEND_OVERHEAD) }

    /// Detaches a session's buffer after all its messages have left
    MPI_Session_detach_buffer, MPI_Session_detach_buffer_c => (
        session: Session, buffer_addr: OutAddr, size: OutCount
    ) on session {
        let (address, bytes) = buffered::detach(cs, Some(&session.owner))?;
        *buffer_addr = Chosen::c_address(address) as *mut c_void;
        size.set(bytes as i64);
        Ok(())
    }

    /// Waits until all messages have left a session's buffer
    MPI_Session_flush_buffer => (session: Session) on session { buffered::flush(cs, Some(&session.owner)) }

    /// Starts to wait until all messages have left a session's buffer
    MPI_Session_iflush_buffer => (session: Session, request: OutRequest) on session {
        request.set(CRequest::of(buffered::iflush(cs, Some(&session.owner))?));
        Ok(())
    }
}
