//! Pack and unpack (MPI-5.0, 5.2, 5.3).

use crate::api::api;
use crate::chosen::Chosen;
use crate::convert::Abi;
use crate::kinds::*;
use base::{Result, ensure};
use mpi::datatype;

/// The one external data representation.
fn external32(datarep: &[u8]) -> Result {
    ensure!(datarep == b"external32", ERR_ARG, "the data representation is not external32");
    Ok(())
}

api! {
    with cs;

    /// Packs data into a buffer
    MPI_Pack, MPI_Pack_c => (
        inbuf: SendBuf, incount: Count, datatype: Type, outbuf: RecvBuf, outsize: Count, position: InOutCount,
        comm: Comm
    ) on comm {
        let (at, room, bytes) = (position.value(), outsize as i64, datatype.bytes(incount)?);
        ensure!(at >= 0 && at <= room && bytes as i64 <= room - at, ERR_TRUNCATE, "the buffer is too small");
        datatype::pack(&datatype, inbuf, incount, 0, outbuf.offset(at as isize), bytes);
        position.try_set(at + bytes as i64)
    }

    /// Packs data into a buffer in the external32 format
    MPI_Pack_external, MPI_Pack_external_c => (
        datarep: Text, inbuf: SendBuf, incount: Count, datatype: Type, outbuf: RecvBuf, outsize: ByteDispl,
        position: InOutByteDispl
    ) on none {
        external32(datarep)?;
        let (at, room) = (position.value(), outsize);
        ensure!(at >= 0 && at <= room, ERR_ARG, "position is outside of the buffer");
        let outbuf = outbuf.offset(at as isize);
        let bytes = datatype::pack_external(&datatype, inbuf, incount, outbuf, (room - at) as usize)?;
        position.set(at + bytes as i64);
        Ok(())
    }

    /// Upper bound of the packed size in the external32 format
    MPI_Pack_external_size, MPI_Pack_external_size_c => (
        datarep: Text, incount: Count, datatype: AnyType, size: OutByteDispl
    ) on none {
        external32(datarep)?;
        size.set(datatype::pack_external_size(&datatype, incount).map_or(i64::from(Chosen::UNDEFINED), |bytes| bytes as i64));
        Ok(())
    }

    /// Upper bound of the packed size
    MPI_Pack_size, MPI_Pack_size_c => (incount: Count, datatype: AnyType, comm: Comm, size: OutCount) on comm {
        size.set(datatype.bytes(incount).map_or(i64::from(Chosen::UNDEFINED), |bytes| bytes as i64));
        Ok(())
    }

    /// Unpacks data from a buffer
    MPI_Unpack, MPI_Unpack_c => (
        inbuf: SendBuf, insize: Count, position: InOutCount, outbuf: RecvBuf, outcount: Count, datatype: Type,
        comm: Comm
    ) on comm {
        let (at, room, bytes) = (position.value(), insize as i64, datatype.bytes(outcount)?);
        ensure!(at >= 0 && at <= room && bytes as i64 <= room - at, ERR_TRUNCATE, "the buffer has too little");
        datatype::unpack(&datatype, outbuf, outcount, 0, inbuf.offset(at as isize), bytes);
        position.try_set(at + bytes as i64)
    }

    /// Unpacks data in the external32 format from a buffer
    MPI_Unpack_external, MPI_Unpack_external_c => (
        datarep: TextArray, inbuf: SendBuf, insize: ByteDispl, position: InOutByteDispl, outbuf: RecvBuf,
        outcount: Count, datatype: Type
    ) on none {
        external32(datarep)?;
        let (at, room) = (position.value(), insize);
        ensure!(at >= 0 && at <= room, ERR_ARG, "position is outside of the buffer");
        let inbuf = inbuf.offset(at as isize);
        let bytes = datatype::unpack_external(&datatype, outbuf, outcount, inbuf, (room - at) as usize)?;
        position.set(at + bytes as i64);
        Ok(())
    }
}
