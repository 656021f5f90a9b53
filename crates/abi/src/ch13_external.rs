//! Generalized requests and statuses (MPI-5.0, chapter 13).

use crate::api::api;
use crate::kinds::*;

api! {
    /// Completes a generalized request
    MPI_Grequest_complete => (request: Request) on none later

    /// Starts a generalized request
    MPI_Grequest_start => (
        query_fn: FnGrequestQuery, free_fn: FnGrequestFree, cancel_fn: FnGrequestCancel, extra_state: Addr,
        request: OutRequest
    ) on none later

    /// Marks a status as cancelled
    MPI_Status_set_cancelled => (status: InOutStatus, flag: Flag) on none later

    /// Sets the number of basic elements of a status
    MPI_Status_set_elements, MPI_Status_set_elements_c => (
        status: InOutStatus, datatype: AnyType, count: Count
    ) on none later

    /// Sets the error field of a status
    MPI_Status_set_error => (status: InOutStatus, error: Int) on none later

    /// Sets the source field of a status
    MPI_Status_set_source => (status: InOutStatus, source: Source) on none later

    /// Sets the tag field of a status
    MPI_Status_set_tag => (status: InOutStatus, tag: Int) on none later
}
