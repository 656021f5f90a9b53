//! Groups (MPI-5.0, 7.3).

use crate::api::api;
use crate::chosen::Chosen;
use crate::convert::{Abi, number};
use crate::kinds::*;
use base::{ensure, fail};
use core::ffi::c_int;
use mpi::group::Comparison;
use mpi::{group, job, session};

/// `MPI_IDENT` and the like.
pub fn c_comparison(result: Comparison) -> c_int {
    number(Chosen::COMPARISONS, result).unwrap_or(Chosen::UNDEFINED)
}

api! {
    with cs;

    /// The group of a communicator
    MPI_Comm_group => (comm: Comm, group: OutGroup) on comm {
        group.set(CGroup::of(group::share(cs, &comm.group)));
        Ok(())
    }

    /// Remote group of an inter-communicator
    MPI_Comm_remote_group => (comm: Comm, group: OutGroup) on comm {
        let Some(remote) = &comm.remote else { fail!(ERR_COMM, "not an inter-communicator") };
        group.set(CGroup::of(group::share(cs, remote)));
        Ok(())
    }

    /// Compares two groups
    MPI_Group_compare => (group1: Group, group2: Group, result: OutInt) on none {
        result.set(c_comparison(group1.compare(&group2)));
        Ok(())
    }

    /// Members of the first group that are not in the second
    MPI_Group_difference => (group1: Group, group2: Group, newgroup: OutGroup) on none {
        newgroup.set(CGroup::of(group::share(cs, &group1.difference(cs, &group2))));
        Ok(())
    }

    /// Group without the listed ranks
    MPI_Group_excl => (group: Group, n: Room, ranks: IntArray, newgroup: OutGroup) on none {
        newgroup.set(CGroup::of(group::share(cs, &group.exclude(cs, slice(ranks, n))?)));
        Ok(())
    }

    /// Frees a group
    MPI_Group_free => (group: InOutGroup) on none {
        group::free(cs, group.value().known())?;
        group.set(CGroup::null());
        Ok(())
    }

    /// Group of a named process set
    MPI_Group_from_session_pset => (session: Session, pset_name: Text, newgroup: OutGroup) on session {
        newgroup.set(CGroup::of(group::share(cs, &session::group_from_pset(&session, pset_name)?)));
        Ok(())
    }

    /// Group of the listed ranks
    MPI_Group_incl => (group: Group, n: Room, ranks: IntArray, newgroup: OutGroup) on none {
        newgroup.set(CGroup::of(group::share(cs, &group.include(cs, slice(ranks, n))?)));
        Ok(())
    }

    /// Members of both groups
    MPI_Group_intersection => (group1: Group, group2: Group, newgroup: OutGroup) on none {
        newgroup.set(CGroup::of(group::share(cs, &group1.intersection(cs, &group2))));
        Ok(())
    }

    /// Group without the listed ranges of ranks
    MPI_Group_range_excl => (group: Group, n: Room, ranges: RangeArray, newgroup: OutGroup) on none {
        newgroup.set(CGroup::of(group::share(cs, &group.exclude_ranges(cs, slice(ranges, n))?)));
        Ok(())
    }

    /// Group of the listed ranges of ranks
    MPI_Group_range_incl => (group: Group, n: Room, ranges: RangeArray, newgroup: OutGroup) on none {
        newgroup.set(CGroup::of(group::share(cs, &group.include_ranges(cs, slice(ranges, n))?)));
        Ok(())
    }

    /// Rank of this process in a group
    MPI_Group_rank => (group: Group, rank: OutInt) on none {
        rank.set(group.rank_of(job::me()).unwrap_or(Chosen::UNDEFINED));
        Ok(())
    }

    /// Number of processes in a group
    MPI_Group_size => (group: Group, size: OutInt) on none {
        size.set(group.size());
        Ok(())
    }

    /// Ranks in one group of processes given by their ranks in another
    MPI_Group_translate_ranks => (
        group1: Group, n: Room, ranks1: IntArray, group2: Group, ranks2: OutIntArray
    ) on none {
        ensure!(n == 0 || !ranks1.is_null() && !ranks2.is_null(), ERR_ARG, "an array of ranks is null");
        for (place, &rank) in slice_mut(ranks2, n).iter_mut().zip(slice(ranks1, n)) {
            *place = Chosen::c_rank(group1.translate(Chosen::rank(rank), &group2)?);
        }
        Ok(())
    }

    /// Members of the first group followed by the other members of the second
    MPI_Group_union => (group1: Group, group2: Group, newgroup: OutGroup) on none {
        newgroup.set(CGroup::of(group::share(cs, &group1.union(cs, &group2))));
        Ok(())
    }
}
