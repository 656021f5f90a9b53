//! Reduction operations (MPI-5.0, 6.9).

use crate::api::api;
use crate::callbacks::create_op;
use crate::kinds::*;
use crate::lookup;
use base::ensure;
use mpi::coll::{check_apart, is_in_place};
use mpi::op::OPS;

api! {
    with cs;

    /// Whether an operation commutes
    MPI_Op_commutative => (op: Op, commute: OutFlag) on none {
        commute.set_flag(op.is_commutative());
        Ok(())
    }

    /// Creates a reduction operation from a user's function
    MPI_Op_create, MPI_Op_create_c => (user_fn: FnUser, commute: Flag, op: OutOp) on none {
        // SAFETY: the program passes a function of the type that belongs to this width.
        let new = unsafe { create_op(user_fn, W::LARGE, commute) }?;
        op.set(COp::of(OPS.get(cs).enter(new)));
        Ok(())
    }

    /// Frees a reduction operation
    MPI_Op_free => (op: InOutOp) on none {
        let handle = op.value();
        ensure!(!lookup::op(cs, handle)?.is_predefined(), ERR_OP, "a predefined operation can't be freed");
        OPS.get(cs).release(handle.known());
        op.set(COp::null());
        Ok(())
    }

    /// Combines two local buffers
    MPI_Reduce_local, MPI_Reduce_local_c => (
        inbuf: SendBuf, inoutbuf: RecvBuf, count: Count, datatype: Type, op: Op
    ) on none {
        op.check(&datatype)?;
        let is_in_place = is_in_place(inbuf) || is_in_place(inoutbuf);
        ensure!(!is_in_place, ERR_BUFFER, "MPI_IN_PLACE is not allowed for this buffer");
        check_apart(inbuf, inoutbuf, datatype.bytes(count)?)?;
        if count > 0 {
            op.apply(cs, inbuf, inoutbuf, count, &datatype);
        }
        Ok(())
    }
}
