//! Partitioned communication (MPI-5.0, chapter 4).

use crate::api::api;
use crate::kinds::*;

api! {
    with cs;

    /// Whether a partition has arrived
    MPI_Parrived => (request: Request, partition: Int, flag: OutFlag) on none unimplemented

    /// Marks a partition as ready
    MPI_Pready => (partition: Int, request: Request) on none unimplemented

    /// Marks the listed partitions as ready
    MPI_Pready_list => (length: Int, array_of_partitions: IntArray, request: Request) on none unimplemented

    /// Marks a range of partitions as ready
    MPI_Pready_range => (partition_low: Int, partition_high: Int, request: Request) on none unimplemented

    /// Creates a partitioned receive
    MPI_Precv_init, MPI_Precv_init_c => (
        buf: RecvBuf, partitions: Int, count: BigCount, datatype: AnyType, dest: Dest, tag: RecvTag, comm: Comm,
        info: Info, request: OutRequest
    ) on comm unimplemented

    /// Creates a partitioned send
    MPI_Psend_init, MPI_Psend_init_c => (
        buf: SendBuf, partitions: Int, count: BigCount, datatype: AnyType, dest: Dest, tag: SendTag, comm: Comm,
        info: Info, request: OutRequest
    ) on comm unimplemented
}
