//! Completion of requests, persistent starts, cancel, status queries (MPI-5.0, 3.7, 3.8.4, 3.9).

use crate::api::api;
use crate::chosen::Chosen;
use crate::convert::Abi;
use crate::kinds::*;
use crate::status::CStatus;
use base::{Class, Error, Result, ensure};
use core::ffi::c_int;
use mpi::handle::Handle;
use mpi::request;
use mpi::request::complete::{self, Holder};

api! {
    with cs;

    /// Marks a pending operation for cancellation
    MPI_Cancel => (request: InOutRequest) on none { request::cancel(cs, live(&request.value())?) }

    /// Number of top-level elements received
    MPI_Get_count, MPI_Get_count_c => (status: InStatus, datatype: AnyType, count: OutCount) on none {
        let (bytes, size) = (status.known().bytes, datatype.size() as u64);
        let whole = if size == 0 { (bytes == 0).then_some(0) } else { (bytes % size == 0).then(|| bytes / size) };
        count.set(whole.map_or(i64::from(Chosen::UNDEFINED), |n| n as i64));
        Ok(())
    }

    /// Frees a request; its operation still completes
    MPI_Request_free => (request: InOutRequest) on none {
        request::free(cs, live(&request.value())?)?;
        request.set(CRequest::null());
        Ok(())
    }

    /// Whether an operation is complete, without freeing the request
    MPI_Request_get_status => (request: Request, flag: OutFlag, status: OutStatus) on none {
        let complete = complete::get_status(cs, &request, &mut { status })?;
        flag.set_flag(complete);
        Ok(())
    }

    /// Whether all operations are complete, without freeing the requests
    MPI_Request_get_status_all => (
        count: Length, array_of_requests: RequestArray, flag: OutFlag, array_of_statuses: OutStatusArray
    ) on none {
        let places = places(array_of_requests.cast_mut(), count)?;
        flag.set_flag(complete::get_status_all(cs, places, statuses(array_of_statuses, count))?);
        Ok(())
    }

    /// Whether any operation is complete, without freeing its request
    MPI_Request_get_status_any => (
        count: Length, array_of_requests: RequestArray, indx: OutInt, flag: OutFlag, status: OutStatus
    ) on none {
        let places = places(array_of_requests.cast_mut(), count)?;
        let found = complete::get_status_any(cs, places, &mut { status })?;
        flag.set_flag(found.is_some());
        indx.set(index(found.flatten()));
        Ok(())
    }

    /// Which operations are complete, without freeing the requests
    MPI_Request_get_status_some => (
        incount: Length, array_of_requests: RequestArray, outcount: OutInt, array_of_indices: OutIntArray,
        array_of_statuses: OutStatusArray
    ) on none {
        let places = places(array_of_requests.cast_mut(), incount)?;
        let indices = slice_mut(array_of_indices, incount);
        outcount.set(index(complete::get_status_some(cs, places, indices, statuses(array_of_statuses, incount))?));
        Ok(())
    }

    /// Starts a persistent operation
    MPI_Start => (request: InOutRequest) on none { request::start(cs, live(&request.value())?) }

    /// Starts several persistent operations
    MPI_Startall => (count: Length, array_of_requests: InOutRequestArray) on none {
        places(array_of_requests, count)?.iter().try_for_each(|place| request::start(cs, live(place)?))
    }

    /// Error field of a status
    MPI_Status_get_error => (status: InStatus, error: OutInt) on none {
        error.set(status.error);
        Ok(())
    }

    /// Source field of a status
    MPI_Status_get_source => (status: InStatus, source: OutInt) on none {
        source.set(status.source);
        Ok(())
    }

    /// Tag field of a status
    MPI_Status_get_tag => (status: InStatus, tag: OutInt) on none {
        tag.set(status.tag);
        Ok(())
    }

    /// Whether an operation is complete
    MPI_Test => (request: InOutRequest, flag: OutFlag, status: OutStatus) on none {
        let ended = complete::test(cs, request.as_mut(), &mut { status });
        flag.set_flag(!matches!(ended, Ok(false)));
        ended.map(drop)
    }

    /// Whether an operation was cancelled
    MPI_Test_cancelled => (status: InStatus, flag: OutFlag) on none {
        flag.set_flag(status.known().cancelled);
        Ok(())
    }

    /// Whether all operations are complete
    MPI_Testall => (
        count: Length, array_of_requests: InOutRequestArray, flag: OutFlag, array_of_statuses: OutStatusArray
    ) on none {
        let ended = complete::testall(cs, places(array_of_requests, count)?, statuses(array_of_statuses, count));
        flag.set_flag(!matches!(ended, Ok(false)));
        ended.map(drop)
    }

    /// Whether any operation is complete
    MPI_Testany => (
        count: Length, array_of_requests: InOutRequestArray, indx: OutInt, flag: OutFlag, status: OutStatus
    ) on none {
        let mut ended = None;
        let places = places(array_of_requests, count)?;
        let result = complete::testany(cs, places, &mut { status }, &mut ended);
        flag.set_flag(ended.is_some());
        indx.set(index(ended.flatten()));
        result
    }

    /// Which operations are complete
    MPI_Testsome => (
        incount: Length, array_of_requests: InOutRequestArray, outcount: OutInt, array_of_indices: OutIntArray,
        array_of_statuses: OutStatusArray
    ) on none {
        let (places, indices) = (places(array_of_requests, incount)?, slice_mut(array_of_indices, incount));
        let mut ended = None;
        let result = complete::testsome(cs, places, indices, statuses(array_of_statuses, incount), &mut ended);
        outcount.set(index(ended));
        result
    }

    /// Waits for an operation
    MPI_Wait => (request: InOutRequest, status: OutStatus) on none {
        complete::wait(cs, request.as_mut(), &mut { status })
    }

    /// Waits for all operations
    MPI_Waitall => (
        count: Length, array_of_requests: InOutRequestArray, array_of_statuses: OutStatusArray
    ) on none { complete::waitall(cs, places(array_of_requests, count)?, statuses(array_of_statuses, count)) }

    /// Waits for any operation
    MPI_Waitany => (
        count: Length, array_of_requests: InOutRequestArray, indx: OutInt, status: OutStatus
    ) on none {
        let mut ended = None;
        let places = places(array_of_requests, count)?;
        let result = complete::waitany(cs, places, &mut { status }, &mut ended);
        indx.set(index(ended));
        result
    }

    /// Waits for at least one operation
    MPI_Waitsome => (
        incount: Length, array_of_requests: InOutRequestArray, outcount: OutInt, array_of_indices: OutIntArray,
        array_of_statuses: OutStatusArray
    ) on none {
        let (places, indices) = (places(array_of_requests, incount)?, slice_mut(array_of_indices, incount));
        let mut ended = None;
        let result = complete::waitsome(cs, places, indices, statuses(array_of_statuses, incount), &mut ended);
        outcount.set(index(ended));
        result
    }
}

/// The request that has to be at a place.
fn live(place: &CRequest) -> Result<Handle> {
    place.request().ok_or(Error::new(Class::ERR_REQUEST, "MPI_REQUEST_NULL where a request is needed"))
}

/// The program's array of requests.
///
/// # Safety
/// `array` is null or has `count` elements that nothing else of this call touches.
unsafe fn places<'a>(array: *mut CRequest, count: usize) -> Result<&'a mut [CRequest]> {
    ensure!(count == 0 || !array.is_null(), ERR_ARG, "null pointer for requests");
    // SAFETY: by the caller.
    Ok(unsafe { slice_mut(array, count) })
}

/// The program's array of statuses, if it wants any.
///
/// # Safety
/// `array` is null or has `count` elements that nothing else of this call touches.
unsafe fn statuses<'a>(array: *mut CStatus, count: usize) -> Option<&'a mut [CStatus]> {
    // SAFETY: by the caller.
    (!array.is_null()).then(|| unsafe { slice_mut(array, count) })
}

/// An index or number as the standard gives it.
fn index(value: Option<usize>) -> c_int {
    value.map_or(Chosen::UNDEFINED, |value| value as c_int)
}
