//! Generalized requests and statuses (MPI-5.0, chapter 13).

use crate::api::api;
use crate::chosen::{Chosen, SUCCESS};
use crate::convert::Abi;
use crate::kinds::*;
use crate::status::CStatus;
use base::{Error, Result, ensure};
use core::ffi::{c_int, c_void};
use core::mem::transmute;
use mpi::cs::Section;
use mpi::datatype::Datatype;
use mpi::request::generalized::{self, Callbacks};
use mpi::status::Status;

/// `MPI_Grequest_query_function`.
type QueryFn = unsafe extern "C" fn(*mut c_void, *mut CStatus) -> c_int;
/// `MPI_Grequest_free_function`.
type FreeFn = unsafe extern "C" fn(*mut c_void) -> c_int;
/// `MPI_Grequest_cancel_function`.
type CancelFn = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

/// What the program gave to `MPI_Grequest_start`: functions that may be called with the state as long as the request lives.
struct Functions {
    query: Option<QueryFn>,
    free: Option<FreeFn>,
    cancel: Option<CancelFn>,
    state: *mut c_void,
}

fn check(code: c_int) -> Result {
    if code == SUCCESS {
        Ok(())
    } else {
        Err(Error::new(Chosen::class(code), "a generalized request's callback failed"))
    }
}

impl Callbacks for Functions {
    fn query(&self, _cs: &mut Section) -> (Result, Status) {
        let mut status = CStatus::empty();
        // SAFETY: by the contract of `MPI_Grequest_start`.
        let queried = self.query.map_or(Ok(()), |f| check(unsafe { f(self.state, &mut status) }));
        (queried, status.known())
    }

    fn free(&self, _cs: &mut Section) -> Result {
        // SAFETY: as in `query`.
        self.free.map_or(Ok(()), |f| check(unsafe { f(self.state) }))
    }

    fn cancel(&self, _cs: &mut Section, complete: bool) -> Result {
        // SAFETY: as in `query`.
        self.cancel.map_or(Ok(()), |f| check(unsafe { f(self.state, c_int::from(complete)) }))
    }
}

/// `MPI_Status_set_elements`.
pub fn set_elements(status: Out<CStatus>, datatype: &Datatype, count: i64) -> Result {
    ensure!(count >= 0, ERR_COUNT, "negative count");
    let bytes = datatype.bytes_of_elements(count as usize).filter(|&bytes| bytes <= isize::MAX as usize);
    let Some(bytes) = bytes else { base::fail!(ERR_COUNT, "count is too large for a status") };
    // SAFETY: nothing else of this call touches the status.
    unsafe { status.as_mut() }.set_bytes(bytes as u64);
    Ok(())
}

api! {
    with cs;

    /// Completes a generalized request
    MPI_Grequest_complete => (request: Request) on none { generalized::complete(cs, request.known()) }

    /// Starts a generalized request
    MPI_Grequest_start => (
        query_fn: FnGrequestQuery, free_fn: FnGrequestFree, cancel_fn: FnGrequestCancel, extra_state: Addr,
        request: OutRequest
    ) on none {
        let functions = Functions {
            query: transmute::<Function, Option<QueryFn>>(query_fn),
            free: transmute::<Function, Option<FreeFn>>(free_fn),
            cancel: transmute::<Function, Option<CancelFn>>(cancel_fn),
            state: extra_state,
        };
        request.set(CRequest::of(generalized::start(cs, Box::new(functions))));
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
