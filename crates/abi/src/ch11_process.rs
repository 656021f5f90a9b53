//! Initialisation, threads, sessions, abort (MPI-5.0, 11.2-11.6).

use crate::api::api;
use crate::kinds::*;

api! {
    /// Ends every process of the communicator's job
    MPI_Abort => (comm: Comm, errorcode: Int) on comm later

    /// Leaves the world model
    MPI_Finalize => () on none later

    /// Whether `MPI_Finalize` has completed
    MPI_Finalized => (flag: OutFlag) on anytime later

    /// Enters the world model
    MPI_Init => (argc: ArgcPtr, argv: ArgvPtr) on anytime later

    /// Enters the world model with a thread level
    MPI_Init_thread => (argc: ArgcPtr, argv: ArgvPtr, required: Int, provided: OutInt) on anytime later

    /// Whether `MPI_Init` has completed
    MPI_Initialized => (flag: OutFlag) on anytime later

    /// Whether this thread initialised MPI
    MPI_Is_thread_main => (flag: OutFlag) on none later

    /// The thread level in use
    MPI_Query_thread => (provided: OutInt) on none later

    /// Ends a session
    MPI_Session_finalize => (session: InOutSession) on session later

    /// The hints in use of a session
    MPI_Session_get_info => (session: Session, info_used: OutInfo) on session later

    /// Name of the n-th process set
    MPI_Session_get_nth_pset => (
        session: Session, info: Info, n: Int, pset_len: InOutInt, pset_name: OutText
    ) on session later

    /// Number of process sets
    MPI_Session_get_num_psets => (session: Session, info: Info, npset_names: OutInt) on session later

    /// Info about a process set
    MPI_Session_get_pset_info => (session: Session, pset_name: Text, info: OutInfo) on session later

    /// Starts a session
    MPI_Session_init => (info: Info, errhandler: Errhandler, session: OutSession) on anytime later
}
