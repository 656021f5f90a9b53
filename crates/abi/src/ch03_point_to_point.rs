//! Point-to-point communication: sends and receives (MPI-5.0, 3.2, 3.4, 3.7, 3.10).

use crate::api::api;
use crate::kinds::*;
use crate::message::{check, incoming, outgoing};
use mpi::p2p::combined::{self, Replace};
use mpi::p2p::receive;
use mpi::p2p::send::{self, SendMode};

api! {
    with cs;

    /// Buffered send
    MPI_Bsend, MPI_Bsend_c => (
        buf: SendBuf, count: Count, datatype: MaybeType, dest: Dest, tag: SendTag, comm: Comm
    ) on comm {
        let datatype = datatype.check_for(cs, count)?;
        let m = outgoing(buf, count, &datatype, dest, tag, &comm)?;
        send::send(cs, SendMode::Buffered, &m)
    }

    /// Starts a buffered send
    MPI_Ibsend, MPI_Ibsend_c => (
        buf: SendBuf, count: Count, datatype: MaybeType, dest: Dest, tag: SendTag, comm: Comm, request: OutRequest
    ) on comm {
        let datatype = datatype.check_for(cs, count)?;
        let m = outgoing(buf, count, &datatype, dest, tag, &comm)?;
        request.set(CRequest::of(send::isend(cs, SendMode::Buffered, &m)?));
        Ok(())
    }

    /// Starts a receive
    MPI_Irecv, MPI_Irecv_c => (
        buf: RecvBuf, count: Count, datatype: MaybeType, source: Source, tag: RecvTag, comm: Comm, request: OutRequest
    ) fast irecv on comm {
        let datatype = datatype.check_for(cs, count)?;
        let m = incoming(buf, count, &datatype, source, tag, &comm)?;
        request.set(CRequest::of(receive::irecv(cs, &m)?));
        Ok(())
    }

    /// Starts a ready send
    MPI_Irsend, MPI_Irsend_c => (
        buf: SendBuf, count: Count, datatype: MaybeType, dest: Dest, tag: SendTag, comm: Comm, request: OutRequest
    ) on comm {
        let datatype = datatype.check_for(cs, count)?;
        let m = outgoing(buf, count, &datatype, dest, tag, &comm)?;
        request.set(CRequest::of(send::isend(cs, SendMode::Ready, &m)?));
        Ok(())
    }

    /// Starts a standard-mode send
    MPI_Isend, MPI_Isend_c => (
        buf: SendBuf, count: Count, datatype: MaybeType, dest: Dest, tag: SendTag, comm: Comm, request: OutRequest
    ) fast isend on comm {
        let datatype = datatype.check_for(cs, count)?;
        let m = outgoing(buf, count, &datatype, dest, tag, &comm)?;
        request.set(CRequest::of(send::isend(cs, SendMode::Standard, &m)?));
        Ok(())
    }

    /// Starts a send and a receive
    MPI_Isendrecv, MPI_Isendrecv_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: MaybeType, dest: Dest, sendtag: SendTag, recvbuf: RecvBuf,
        recvcount: Count, recvtype: MaybeType, source: Source, recvtag: RecvTag, comm: Comm, request: OutRequest
    ) on comm {
        let (sendtype, recvtype) = (sendtype.check_for(cs, sendcount)?, recvtype.check_for(cs, recvcount)?);
        let out = outgoing(sendbuf, sendcount, &sendtype, dest, sendtag, &comm)?;
        let inc = incoming(recvbuf, recvcount, &recvtype, source, recvtag, &comm)?;
        request.set(CRequest::of(combined::isendrecv(cs, &out, &inc)?));
        Ok(())
    }

    /// Starts a send and a receive through one buffer
    MPI_Isendrecv_replace, MPI_Isendrecv_replace_c => (
        buf: RecvBuf, count: Count, datatype: MaybeType, dest: Dest, sendtag: SendTag, source: Source, recvtag: RecvTag,
        comm: Comm, request: OutRequest
    ) on comm {
        let datatype = datatype.check_for(cs, count)?;
        check(buf, count, &datatype)?;
        let both = Replace { buf, count, datatype: &datatype, dest, sendtag, source, recvtag, comm: &comm };
        request.set(CRequest::of(combined::isendrecv_replace(cs, &both)?));
        Ok(())
    }

    /// Starts a synchronous send
    MPI_Issend, MPI_Issend_c => (
        buf: SendBuf, count: Count, datatype: MaybeType, dest: Dest, tag: SendTag, comm: Comm, request: OutRequest
    ) on comm {
        let datatype = datatype.check_for(cs, count)?;
        let m = outgoing(buf, count, &datatype, dest, tag, &comm)?;
        request.set(CRequest::of(send::isend(cs, SendMode::Synchronous, &m)?));
        Ok(())
    }

    /// Receives a message
    MPI_Recv, MPI_Recv_c => (
        buf: RecvBuf, count: Count, datatype: MaybeType, source: Source, tag: RecvTag, comm: Comm, status: OutStatus
    ) fast recv on comm {
        let datatype = datatype.check_for(cs, count)?;
        let m = incoming(buf, count, &datatype, source, tag, &comm)?;
        receive::recv(cs, &m, &mut { status })
    }

    /// Ready send
    MPI_Rsend, MPI_Rsend_c => (
        buf: SendBuf, count: Count, datatype: MaybeType, dest: Dest, tag: SendTag, comm: Comm
    ) on comm {
        let datatype = datatype.check_for(cs, count)?;
        let m = outgoing(buf, count, &datatype, dest, tag, &comm)?;
        send::send(cs, SendMode::Ready, &m)
    }

    /// Standard-mode send
    MPI_Send, MPI_Send_c => (
        buf: SendBuf, count: Count, datatype: MaybeType, dest: Dest, tag: SendTag, comm: Comm
    ) fast send on comm {
        let datatype = datatype.check_for(cs, count)?;
        let m = outgoing(buf, count, &datatype, dest, tag, &comm)?;
        send::send(cs, SendMode::Standard, &m)
    }

    /// Sends and receives at once
    MPI_Sendrecv, MPI_Sendrecv_c => (
        sendbuf: SendBuf, sendcount: Count, sendtype: MaybeType, dest: Dest, sendtag: SendTag, recvbuf: RecvBuf,
        recvcount: Count, recvtype: MaybeType, source: Source, recvtag: RecvTag, comm: Comm, status: OutStatus
    ) on comm {
        let (sendtype, recvtype) = (sendtype.check_for(cs, sendcount)?, recvtype.check_for(cs, recvcount)?);
        let out = outgoing(sendbuf, sendcount, &sendtype, dest, sendtag, &comm)?;
        let inc = incoming(recvbuf, recvcount, &recvtype, source, recvtag, &comm)?;
        combined::sendrecv(cs, &out, &inc, &mut { status })
    }

    /// Sends and receives at once through one buffer
    MPI_Sendrecv_replace, MPI_Sendrecv_replace_c => (
        buf: RecvBuf, count: Count, datatype: MaybeType, dest: Dest, sendtag: SendTag, source: Source, recvtag: RecvTag,
        comm: Comm, status: OutStatus
    ) on comm {
        let datatype = datatype.check_for(cs, count)?;
        check(buf, count, &datatype)?;
        let both = Replace { buf, count, datatype: &datatype, dest, sendtag, source, recvtag, comm: &comm };
        combined::sendrecv_replace(cs, &both, &mut { status })
    }

    /// Synchronous send
    MPI_Ssend, MPI_Ssend_c => (
        buf: SendBuf, count: Count, datatype: MaybeType, dest: Dest, tag: SendTag, comm: Comm
    ) on comm {
        let datatype = datatype.check_for(cs, count)?;
        let m = outgoing(buf, count, &datatype, dest, tag, &comm)?;
        send::send(cs, SendMode::Synchronous, &m)
    }
}
