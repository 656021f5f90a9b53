//! Versions, memory, error handling, clocks (MPI-5.0, chapter 9).

use crate::api::{api, plain};
use crate::kinds::*;

api! {
    /// Creates an error class
    MPI_Add_error_class => (errorclass: OutInt) on anytime later

    /// Creates an error code of a class
    MPI_Add_error_code => (errorclass: Int, errorcode: OutInt) on anytime later

    /// Gives an error class or code its text
    MPI_Add_error_string => (errorcode: Int, string: Text) on anytime later

    /// Allocates memory that is good for communication
    MPI_Alloc_mem => (size: Aint, info: Info, baseptr: OutAddr) on none later

    /// Calls a communicator's error handler
    MPI_Comm_call_errhandler => (comm: Comm, errorcode: Int) on comm later

    /// Creates an error handler for communicators
    MPI_Comm_create_errhandler => (comm_errhandler_fn: FnCommErrhandler, errhandler: OutErrhandler) on none later

    /// The error handler of a communicator
    MPI_Comm_get_errhandler => (comm: Comm, errhandler: OutErrhandler) on comm later

    /// Sets the error handler of a communicator
    MPI_Comm_set_errhandler => (comm: Comm, errhandler: Errhandler) on comm later

    /// Frees an error handler
    MPI_Errhandler_free => (errhandler: InOutErrhandler) on anytime later

    /// Class of an error code
    MPI_Error_class => (errorcode: Int, errorclass: OutInt) on anytime later

    /// Text of an error code or class
    MPI_Error_string => (errorcode: Int, string: OutText, resultlen: OutInt) on anytime later

    /// Calls a file's error handler
    MPI_File_call_errhandler => (fh: File, errorcode: Int) on fh later

    /// Creates an error handler for files
    MPI_File_create_errhandler => (file_errhandler_fn: FnFileErrhandler, errhandler: OutErrhandler) on none later

    /// The error handler of a file
    MPI_File_get_errhandler => (file: File, errhandler: OutErrhandler) on file later

    /// Sets the error handler of a file
    MPI_File_set_errhandler => (file: File, errhandler: Errhandler) on file later

    /// Frees memory of `MPI_Alloc_mem`
    MPI_Free_mem => (base: Addr) on none later

    /// Which hardware resources this process runs on
    MPI_Get_hw_resource_info => (hw_info: OutInfo) on none later

    /// Name and version of this library
    MPI_Get_library_version => (version: OutText, resultlen: OutInt) on anytime later

    /// Name of this host
    MPI_Get_processor_name => (name: OutText, resultlen: OutInt) on none later

    /// Version of the MPI standard
    MPI_Get_version => (version: OutInt, subversion: OutInt) on anytime later

    /// Removes a user's error class
    MPI_Remove_error_class => (errorclass: Int) on anytime later

    /// Removes a user's error code
    MPI_Remove_error_code => (errorcode: Int) on anytime later

    /// Removes the text of a user's error class or code
    MPI_Remove_error_string => (errorcode: Int) on anytime later

    /// Calls a session's error handler
    MPI_Session_call_errhandler => (session: Session, errorcode: Int) on anytime later

    /// Creates an error handler for sessions
    MPI_Session_create_errhandler => (
        session_errhandler_fn: FnSessionErrhandler, errhandler: OutErrhandler
    ) on anytime later

    /// The error handler of a session
    MPI_Session_get_errhandler => (session: Session, errhandler: OutErrhandler) on session later

    /// Sets the error handler of a session
    MPI_Session_set_errhandler => (session: Session, errhandler: Errhandler) on session later

    /// Calls a window's error handler
    MPI_Win_call_errhandler => (win: Win, errorcode: Int) on win later

    /// Creates an error handler for windows
    MPI_Win_create_errhandler => (win_errhandler_fn: FnWinErrhandler, errhandler: OutErrhandler) on none later

    /// The error handler of a window
    MPI_Win_get_errhandler => (win: Win, errhandler: OutErrhandler) on win later

    /// Sets the error handler of a window
    MPI_Win_set_errhandler => (win: Win, errhandler: Errhandler) on win later
}

plain! {
    /// Resolution of `MPI_Wtime` in seconds
    MPI_Wtick => () -> "double" f64 { mpi::env::wtick() }

    /// Seconds since a fixed time in the past
    MPI_Wtime => () -> "double" f64 { mpi::env::wtime() }
}
