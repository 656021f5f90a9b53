//! Communicators (MPI-5.0, 7.4-7.6).

use crate::api::api;
use crate::kinds::*;

api! {
    /// Compares two communicators
    MPI_Comm_compare => (comm1: Comm, comm2: Comm, result: OutInt) on comm1 later

    /// Creates a communicator from a subgroup, collective over the parent
    MPI_Comm_create => (comm: Comm, group: Group, newcomm: OutComm) on comm later

    /// Creates a communicator from a group without a parent
    MPI_Comm_create_from_group => (
        group: Group, stringtag: Text, info: Info, errhandler: Errhandler, newcomm: OutComm
    ) on none later

    /// Creates a communicator, collective over the group only
    MPI_Comm_create_group => (comm: Comm, group: Group, tag: SendTag, newcomm: OutComm) on comm later

    /// Duplicates a communicator with its attributes and info
    MPI_Comm_dup => (comm: Comm, newcomm: OutComm) on comm later

    /// Duplicates a communicator with its attributes and other info
    MPI_Comm_dup_with_info => (comm: Comm, info: Info, newcomm: OutComm) on comm later

    /// Frees a communicator
    MPI_Comm_free => (comm: InOutComm) on comm later

    /// The hints in use of a communicator
    MPI_Comm_get_info => (comm: Comm, info_used: OutInfo) on comm later

    /// Starts to duplicate a communicator
    MPI_Comm_idup => (comm: Comm, newcomm: OutComm, request: OutRequest) on comm later

    /// Starts to duplicate a communicator with other info
    MPI_Comm_idup_with_info => (comm: Comm, info: Info, newcomm: OutComm, request: OutRequest) on comm later

    /// Rank of this process in a communicator
    MPI_Comm_rank => (comm: Comm, rank: OutInt) on comm later

    /// Size of the remote group of an inter-communicator
    MPI_Comm_remote_size => (comm: Comm, size: OutInt) on comm later

    /// Sets hints of a communicator
    MPI_Comm_set_info => (comm: Comm, info: Info) on comm later

    /// Number of processes in a communicator's local group
    MPI_Comm_size => (comm: Comm, size: OutInt) on comm later

    /// Splits a communicator by colour and key
    MPI_Comm_split => (comm: Comm, color: Int, key: Int, newcomm: OutComm) on comm later

    /// Splits a communicator by shared resources
    MPI_Comm_split_type => (comm: Comm, split_type: Int, key: Int, info: Info, newcomm: OutComm) on comm later

    /// Whether a communicator is an inter-communicator
    MPI_Comm_test_inter => (comm: Comm, flag: OutFlag) on comm later

    /// Creates an inter-communicator from two groups with leaders
    MPI_Intercomm_create => (
        local_comm: Comm, local_leader: Int, peer_comm: Comm, remote_leader: Int, tag: SendTag,
        newintercomm: OutComm
    ) on local_comm later

    /// Creates an inter-communicator from two groups without a parent
    MPI_Intercomm_create_from_groups => (
        local_group: Group, local_leader: Int, remote_group: Group, remote_leader: Int, stringtag: Text,
        info: Info, errhandler: Errhandler, newintercomm: OutComm
    ) on none later

    /// Merges both groups of an inter-communicator
    MPI_Intercomm_merge => (intercomm: Comm, high: Flag, newintracomm: OutComm) on intercomm later
}
