//! Persistent point-to-point requests (MPI-5.0, 3.9).

use crate::api::api;
use crate::kinds::*;
use crate::message::{incoming, outgoing};
use mpi::p2p::persistent;
use mpi::p2p::send::SendMode;

api! {
    with cs;

    /// Creates a persistent buffered send
    MPI_Bsend_init, MPI_Bsend_init_c => (
        buf: SendBuf, count: Count, datatype: MaybeType, dest: Dest, tag: SendTag, comm: Comm, request: OutRequest
    ) on comm {
        let datatype = datatype.check_for(cs, count)?;
        let m = outgoing(buf, count, &datatype, dest, tag, &comm)?;
        request.set(CRequest::of(persistent::send_init(cs, SendMode::Buffered, &m)?));
        Ok(())
    }

    /// Creates a persistent receive
    MPI_Recv_init, MPI_Recv_init_c => (
        buf: RecvBuf, count: Count, datatype: MaybeType, source: Source, tag: RecvTag, comm: Comm, request: OutRequest
    ) on comm {
        let datatype = datatype.check_for(cs, count)?;
        let m = incoming(buf, count, &datatype, source, tag, &comm)?;
        request.set(CRequest::of(persistent::recv_init(cs, &m)?));
        Ok(())
    }

    /// Creates a persistent ready send
    MPI_Rsend_init, MPI_Rsend_init_c => (
        buf: SendBuf, count: Count, datatype: MaybeType, dest: Dest, tag: SendTag, comm: Comm, request: OutRequest
    ) on comm {
        let datatype = datatype.check_for(cs, count)?;
        let m = outgoing(buf, count, &datatype, dest, tag, &comm)?;
        request.set(CRequest::of(persistent::send_init(cs, SendMode::Ready, &m)?));
        Ok(())
    }

    /// Creates a persistent standard-mode send
    MPI_Send_init, MPI_Send_init_c => (
        buf: SendBuf, count: Count, datatype: MaybeType, dest: Dest, tag: SendTag, comm: Comm, request: OutRequest
    ) on comm {
        let datatype = datatype.check_for(cs, count)?;
        let m = outgoing(buf, count, &datatype, dest, tag, &comm)?;
        request.set(CRequest::of(persistent::send_init(cs, SendMode::Standard, &m)?));
        Ok(())
    }

    /// Creates a persistent synchronous send
    MPI_Ssend_init, MPI_Ssend_init_c => (
        buf: SendBuf, count: Count, datatype: MaybeType, dest: Dest, tag: SendTag, comm: Comm, request: OutRequest
    ) on comm {
        let datatype = datatype.check_for(cs, count)?;
        let m = outgoing(buf, count, &datatype, dest, tag, &comm)?;
        request.set(CRequest::of(persistent::send_init(cs, SendMode::Synchronous, &m)?));
        Ok(())
    }
}
