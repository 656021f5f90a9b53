//! Groups (MPI-5.0, 7.3).

use crate::api::api;
use crate::kinds::*;

api! {
    /// The group of a communicator
    MPI_Comm_group => (comm: Comm, group: OutGroup) on comm later

    /// Remote group of an inter-communicator
    MPI_Comm_remote_group => (comm: Comm, group: OutGroup) on comm later

    /// Compares two groups
    MPI_Group_compare => (group1: Group, group2: Group, result: OutInt) on none later

    /// Members of the first group that are not in the second
    MPI_Group_difference => (group1: Group, group2: Group, newgroup: OutGroup) on none later

    /// Group without the listed ranks
    MPI_Group_excl => (group: Group, n: Int, ranks: IntArray, newgroup: OutGroup) on none later

    /// Frees a group
    MPI_Group_free => (group: InOutGroup) on none later

    /// Group of a named process set
    MPI_Group_from_session_pset => (session: Session, pset_name: Text, newgroup: OutGroup) on session later

    /// Group of the listed ranks
    MPI_Group_incl => (group: Group, n: Int, ranks: IntArray, newgroup: OutGroup) on none later

    /// Members of both groups
    MPI_Group_intersection => (group1: Group, group2: Group, newgroup: OutGroup) on none later

    /// Group without the listed ranges of ranks
    MPI_Group_range_excl => (group: Group, n: Int, ranges: RangeArray, newgroup: OutGroup) on none later

    /// Group of the listed ranges of ranks
    MPI_Group_range_incl => (group: Group, n: Int, ranges: RangeArray, newgroup: OutGroup) on none later

    /// Rank of this process in a group
    MPI_Group_rank => (group: Group, rank: OutInt) on none later

    /// Number of processes in a group
    MPI_Group_size => (group: Group, size: OutInt) on none later

    /// Ranks in one group of processes given by their ranks in another
    MPI_Group_translate_ranks => (
        group1: Group, n: Int, ranks1: IntArray, group2: Group, ranks2: OutIntArray
    ) on none later

    /// Members of the first group followed by the other members of the second
    MPI_Group_union => (group1: Group, group2: Group, newgroup: OutGroup) on none later
}
