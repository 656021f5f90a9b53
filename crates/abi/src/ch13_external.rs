//! Generalized requests and statuses (MPI-5.0, chapter 13).

use crate::api::api;
use crate::kinds::*;
use base::{Result, ensure};
use core::mem::transmute;
use mpi::datatype::Datatype;
use mpi::request::generalized;
use mpi::status::Status;

/// `MPI_Status_set_elements`.
pub fn set_elements(status: Out<Status>, datatype: &Datatype, count: i64) -> Result {
    ensure!(count >= 0, ERR_COUNT, "negative count");
    let bytes = datatype.bytes_of_elements(count as usize).filter(|&bytes| bytes <= isize::MAX as usize);
    let Some(bytes) = bytes else { base::fail!(ERR_COUNT, "count is too large for a status") };
    // SAFETY: nothing else of this call touches the status.
    unsafe { status.as_mut() }.set_bytes(bytes as u64);
    Ok(())
}

api! {
    /// Completes a generalized request
    MPI_Grequest_complete => (request: Request) on none { generalized::complete(request.0) }

    /// Starts a generalized request
    MPI_Grequest_start => (
        query_fn: FnGrequestQuery, free_fn: FnGrequestFree, cancel_fn: FnGrequestCancel, extra_state: Addr,
        request: OutRequest
    ) on none {
        let handle = generalized::start(
            transmute::<Function, Option<generalized::QueryFn>>(query_fn),
            transmute::<Function, Option<generalized::FreeFn>>(free_fn),
            transmute::<Function, Option<generalized::CancelFn>>(cancel_fn),
            extra_state,
        );
        request.set(CRequest(handle));
        Ok(())
    }

    /// Marks a status as cancelled
    MPI_Status_set_cancelled => (status: InOutStatus, flag: Flag) on none {
        status.as_mut().set_cancelled(flag);
        Ok(())
    }

    /// Sets the number of basic elements of a status
    MPI_Status_set_elements, MPI_Status_set_elements_c => (
        status: InOutStatus, datatype: AnyType, count: Count
    ) on none { set_elements(status, &datatype, count as i64) }

    /// Sets the error field of a status
    MPI_Status_set_error => (status: InOutStatus, error: Int) on none {
        status.as_mut().error = error;
        Ok(())
    }

    /// Sets the source field of a status
    MPI_Status_set_source => (status: InOutStatus, source: Int) on none {
        status.as_mut().source = source;
        Ok(())
    }

    /// Sets the tag field of a status
    MPI_Status_set_tag => (status: InOutStatus, tag: Int) on none {
        status.as_mut().tag = tag;
        Ok(())
    }
}
