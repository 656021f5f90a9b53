//! Probe and matched receive (MPI-5.0, 3.8).

use crate::api::api;
use crate::kinds::*;
use crate::message::check;
use base::ensure;
use mpi::handle::Handle;
use mpi::p2p::{probe, receive};

api! {
    with cs;

    /// Looks for a message and takes it out of matching, without waiting
    MPI_Improbe => (
        source: Source, tag: RecvTag, comm: Comm, flag: OutFlag, message: OutMessage, status: OutStatus
    ) on comm {
        let found = probe::improbe(cs, source, tag, &comm)?;
        flag.set_flag(found.is_some());
        if let Some((handle, found)) = found {
            message.set(CMessage::of(handle));
            status.set(&found);
        }
        Ok(())
    }

    /// Starts to receive a matched message
    MPI_Imrecv, MPI_Imrecv_c => (
        buf: RecvBuf, count: Count, datatype: MaybeType, message: InOutMessage, request: InOutRequest
    ) on none {
        let datatype = datatype.check_for(cs, count)?;
        check(buf, count, &datatype)?;
        let handle = message.value().known();
        ensure!(handle != Handle::NONE, ERR_REQUEST, "MPI_MESSAGE_NULL can't be received");
        message.set(CMessage::null());
        request.set(CRequest::of(receive::imrecv(cs, handle, buf, count, &datatype)?));
        Ok(())
    }

    /// Looks for a message without waiting
    MPI_Iprobe => (source: Source, tag: RecvTag, comm: Comm, flag: OutFlag, status: OutStatus) on comm {
        let found = probe::iprobe(cs, source, tag, &comm)?;
        flag.set_flag(found.is_some());
        if let Some(found) = found {
            status.set(&found);
        }
        Ok(())
    }

    /// Waits for a message and takes it out of matching
    MPI_Mprobe => (source: Source, tag: RecvTag, comm: Comm, message: OutMessage, status: OutStatus) on comm {
        let (handle, found) = probe::mprobe(cs, source, tag, &comm)?;
        message.set(CMessage::of(handle));
        status.set(&found);
        Ok(())
    }

    /// Receives a matched message
    MPI_Mrecv, MPI_Mrecv_c => (
        buf: RecvBuf, count: Count, datatype: MaybeType, message: InOutMessage, status: OutStatus
    ) on none {
        let datatype = datatype.check_for(cs, count)?;
        check(buf, count, &datatype)?;
        let handle = message.value().known();
        ensure!(handle != Handle::NONE, ERR_REQUEST, "MPI_MESSAGE_NULL can't be received");
        message.set(CMessage::null());
        receive::mrecv(cs, handle, buf, count, &datatype, &mut { status })
    }

    /// Waits for a message without receiving it
    MPI_Probe => (source: Source, tag: RecvTag, comm: Comm, status: OutStatus) on comm {
        status.set(&probe::probe(cs, source, tag, &comm)?);
        Ok(())
    }
}
