//! Reduction operations (MPI-5.0, 6.9).

use crate::api::api;
use crate::kinds::*;

api! {
    /// Whether an operation commutes
    MPI_Op_commutative => (op: Op, commute: OutFlag) on none later

    /// Creates a reduction operation from a user's function
    MPI_Op_create, MPI_Op_create_c => (user_fn: FnUser, commute: Flag, op: OutOp) on none later

    /// Frees a reduction operation
    MPI_Op_free => (op: InOutOp) on none later

    /// Combines two local buffers
    MPI_Reduce_local, MPI_Reduce_local_c => (
        inbuf: SendBuf, inoutbuf: RecvBuf, count: Count, datatype: Type, op: Op
    ) on none later
}
