//! Completion of requests, persistent starts, cancel, status queries (MPI-5.0, 3.7, 3.8.4, 3.9).

use crate::api::api;
use crate::kinds::*;

api! {
    /// Marks a pending operation for cancellation
    MPI_Cancel => (request: InOutRequest) on none later

    /// Number of top-level elements received
    MPI_Get_count, MPI_Get_count_c => (status: InStatus, datatype: AnyType, count: OutCount) on none later

    /// Frees a request; its operation still completes
    MPI_Request_free => (request: InOutRequest) on none later

    /// Whether an operation is complete, without freeing the request
    MPI_Request_get_status => (request: Request, flag: OutFlag, status: OutStatus) on none later

    /// Whether all operations are complete, without freeing the requests
    MPI_Request_get_status_all => (
        count: Length, array_of_requests: RequestArray, flag: OutFlag, array_of_statuses: OutStatusArray
    ) on none later

    /// Whether any operation is complete, without freeing its request
    MPI_Request_get_status_any => (
        count: Length, array_of_requests: RequestArray, indx: OutInt, flag: OutFlag, status: OutStatus
    ) on none later

    /// Which operations are complete, without freeing the requests
    MPI_Request_get_status_some => (
        incount: Length, array_of_requests: RequestArray, outcount: OutInt, array_of_indices: OutIntArray,
        array_of_statuses: OutStatusArray
    ) on none later

    /// Starts a persistent operation
    MPI_Start => (request: InOutRequest) on none later

    /// Starts several persistent operations
    MPI_Startall => (count: Length, array_of_requests: InOutRequestArray) on none later

    /// Error field of a status
    MPI_Status_get_error => (status: InStatus, error: OutInt) on none later

    /// Source field of a status
    MPI_Status_get_source => (status: InStatus, source: OutInt) on none later

    /// Tag field of a status
    MPI_Status_get_tag => (status: InStatus, tag: OutInt) on none later

    /// Whether an operation is complete
    MPI_Test => (request: InOutRequest, flag: OutFlag, status: OutStatus) on none later

    /// Whether an operation was cancelled
    MPI_Test_cancelled => (status: InStatus, flag: OutFlag) on none later

    /// Whether all operations are complete
    MPI_Testall => (
        count: Length, array_of_requests: InOutRequestArray, flag: OutFlag, array_of_statuses: OutStatusArray
    ) on none later

    /// Whether any operation is complete
    MPI_Testany => (
        count: Length, array_of_requests: InOutRequestArray, indx: OutInt, flag: OutFlag, status: OutStatus
    ) on none later

    /// Which operations are complete
    MPI_Testsome => (
        incount: Length, array_of_requests: InOutRequestArray, outcount: OutInt, array_of_indices: OutIntArray,
        array_of_statuses: OutStatusArray
    ) on none later

    /// Waits for an operation
    MPI_Wait => (request: InOutRequest, status: OutStatus) on none later

    /// Waits for all operations
    MPI_Waitall => (
        count: Length, array_of_requests: InOutRequestArray, array_of_statuses: OutStatusArray
    ) on none later

    /// Waits for any operation
    MPI_Waitany => (
        count: Length, array_of_requests: InOutRequestArray, indx: OutInt, status: OutStatus
    ) on none later

    /// Waits for at least one operation
    MPI_Waitsome => (
        incount: Length, array_of_requests: InOutRequestArray, outcount: OutInt, array_of_indices: OutIntArray,
        array_of_statuses: OutStatusArray
    ) on none later
}
