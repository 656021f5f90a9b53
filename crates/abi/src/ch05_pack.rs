//! Pack and unpack (MPI-5.0, 5.2, 5.3).

use crate::api::api;
use crate::kinds::*;

api! {
    /// Packs data into a buffer
    MPI_Pack, MPI_Pack_c => (
        inbuf: SendBuf, incount: Count, datatype: Type, outbuf: RecvBuf, outsize: Count, position: InOutCount,
        comm: Comm
    ) on comm later

    /// Packs data into a buffer in the external32 format
    MPI_Pack_external, MPI_Pack_external_c => (
        datarep: Text, inbuf: SendBuf, incount: Count, datatype: Type, outbuf: RecvBuf, outsize: ByteDispl,
        position: InOutByteDispl
    ) on none later

    /// Upper bound of the packed size in the external32 format
    MPI_Pack_external_size, MPI_Pack_external_size_c => (
        datarep: Text, incount: Count, datatype: AnyType, size: OutByteDispl
    ) on none later

    /// Upper bound of the packed size
    MPI_Pack_size, MPI_Pack_size_c => (incount: Count, datatype: AnyType, comm: Comm, size: OutCount) on comm later

    /// Unpacks data from a buffer
    MPI_Unpack, MPI_Unpack_c => (
        inbuf: SendBuf, insize: Count, position: InOutCount, outbuf: RecvBuf, outcount: Count, datatype: Type,
        comm: Comm
    ) on comm later

    /// Unpacks data in the external32 format from a buffer
    MPI_Unpack_external, MPI_Unpack_external_c => (
        datarep: TextArray, inbuf: SendBuf, insize: ByteDispl, position: InOutByteDispl, outbuf: RecvBuf,
        outcount: Count, datatype: Type
    ) on none later
}
