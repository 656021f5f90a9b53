//! Communicators (MPI-5.0, 7.4-7.6).

use crate::api::api;
use crate::ch07_groups::c_comparison;
use crate::chosen::Chosen;
use crate::convert::{Abi, known};
use crate::kinds::*;
use crate::lookup;
use base::ensure;
use mpi::errhandler::{self, Target};
use mpi::{comm, constructors, group, info};
use std::rc::Rc;

api! {
    with cs;

    /// Compares two communicators
    MPI_Comm_compare => (comm1: Comm, comm2: Comm, result: OutInt) on comm1 {
        result.set(c_comparison(comm1.compare(&comm2)));
        Ok(())
    }

    /// Creates a communicator from a subgroup, collective over the parent
    MPI_Comm_create => (comm: Comm, group: Group, newcomm: OutComm) on comm {
        newcomm.set(CComm::of(comm::handle_of(constructors::create(cs, &comm, &group)?.as_ref())));
        Ok(())
    }

    /// Creates a communicator from a group without a parent
    MPI_Comm_create_from_group => (
        group: Group, stringtag: Text, info: Info, errhandler: Errhandler, newcomm: OutComm
    ) on none {
        let handler = errhandler::for_target(cs, errhandler.known(), Target::Comm)?;
        let new = constructors::create_from_group(cs, &group, stringtag, info.as_deref(), handler)?;
        newcomm.set(CComm::of(comm::handle_of(new.as_ref())));
        Ok(())
    }

    /// Creates a communicator, collective over the group only
    MPI_Comm_create_group => (comm: Comm, group: Group, tag: SendTag, newcomm: OutComm) on comm {
        newcomm.set(CComm::of(comm::handle_of(constructors::create_group(cs, &comm, &group, tag)?.as_ref())));
        Ok(())
    }

    /// Duplicates a communicator with its attributes and info
    MPI_Comm_dup => (comm: Comm, newcomm: OutComm) on comm {
        newcomm.set(CComm::of(comm::handle_of(Some(&constructors::dup(cs, &comm)?))));
        Ok(())
    }

    /// Duplicates a communicator with its attributes and other info
    MPI_Comm_dup_with_info => (comm: Comm, info: Info, newcomm: OutComm) on comm {
        newcomm.set(CComm::of(comm::handle_of(Some(&constructors::dup_with_info(cs, &comm, info.as_deref())?))));
        Ok(())
    }

    /// Frees a communicator
    MPI_Comm_free => (comm: InOutComm) on comm {
        comm::free(cs, &*lookup::comm(cs, comm.value())?)?;
        comm.set(CComm::null());
        Ok(())
    }

    /// The hints in use of a communicator
    MPI_Comm_get_info => (comm: Comm, info_used: OutInfo) on comm {
        info_used.set(CInfo::of(info::enter(cs, comm::get_info(&comm))));
        Ok(())
    }

    /// Starts to duplicate a communicator
    MPI_Comm_idup => (comm: Comm, newcomm: OutComm, request: OutRequest) on comm {
        let (new, handle) = constructors::idup(cs, &comm)?;
        newcomm.set(CComm::of(new));
        request.set(CRequest::of(handle));
        Ok(())
    }

    /// Starts to duplicate a communicator with other info
    MPI_Comm_idup_with_info => (comm: Comm, info: Info, newcomm: OutComm, request: OutRequest) on comm {
        let (new, handle) = constructors::idup_with_info(cs, &comm, info.as_deref())?;
        newcomm.set(CComm::of(new));
        request.set(CRequest::of(handle));
        Ok(())
    }

    /// Rank of this process in a communicator
    MPI_Comm_rank => (comm: Comm, rank: OutInt) on comm {
        rank.set(Chosen::c_rank(comm.rank));
        Ok(())
    }

    /// Size of the remote group of an inter-communicator
    MPI_Comm_remote_size => (comm: Comm, size: OutInt) on comm {
        ensure!(comm.is_inter(), ERR_COMM, "not an inter-communicator");
        size.set(comm.peer_size());
        Ok(())
    }

    /// Sets hints of a communicator
    MPI_Comm_set_info => (comm: Comm, info: Info) on comm {
        if let Some(info) = info {
            comm::set_info(cs, &comm, &info);
        }
        Ok(())
    }

    /// Number of processes in a communicator's local group
    MPI_Comm_size => (comm: Comm, size: OutInt) on comm {
        size.set(comm.size());
        Ok(())
    }

    /// Splits a communicator by colour and key
    MPI_Comm_split => (comm: Comm, color: Int, key: Int, newcomm: OutComm) on comm {
        newcomm.set(CComm::of(comm::handle_of(constructors::split(cs, &comm, Chosen::rank(color), key)?.as_ref())));
        Ok(())
    }

    /// Splits a communicator by shared resources
    MPI_Comm_split_type => (comm: Comm, split_type: Int, key: Int, info: Info, newcomm: OutComm) on comm {
        let kind = known(Chosen::SPLIT_TYPES, split_type);
        ensure!(kind.is_some() || split_type == Chosen::UNDEFINED, ERR_ARG, "no such split type");
        let new = constructors::split_type(cs, &comm, kind, key, info.as_deref())?;
        newcomm.set(CComm::of(comm::handle_of(new.as_ref())));
        Ok(())
    }

    /// Whether a communicator is an inter-communicator
    MPI_Comm_test_inter => (comm: Comm, flag: OutFlag) on comm {
        flag.set_flag(comm.is_inter());
        Ok(())
    }

    /// Creates an inter-communicator from two groups with leaders
    MPI_Intercomm_create => (
        local_comm: Comm, local_leader: Int, peer_comm: AnyComm, remote_leader: Int, tag: SendTag,
        newintercomm: OutComm
    ) on local_comm {
        let peer = lookup::comm(cs, peer_comm).map(|peer| Rc::clone(&peer));
        let new = constructors::intercomm_create(cs, &local_comm, local_leader, peer, remote_leader, tag)?;
        newintercomm.set(CComm::of(comm::handle_of(Some(&new))));
        Ok(())
    }

    /// Creates an inter-communicator from two groups without a parent
    MPI_Intercomm_create_from_groups => (
        local_group: Group, local_leader: Int, remote_group: AnyGroup, remote_leader: Int, stringtag: Text,
        info: Info, errhandler: Errhandler, newintercomm: OutComm
    ) on none {
        let handler = errhandler::for_target(cs, errhandler.known(), Target::Comm)?;
        let remote = group::from_handle(cs, remote_group.known());
        let (local, info) = (&local_group, info.as_deref());
        let new = constructors::intercomm_create_from_groups(cs,
            local, local_leader, remote, remote_leader, stringtag, info, handler,
        )?;
        newintercomm.set(CComm::of(comm::handle_of(new.as_ref())));
        Ok(())
    }

    /// Merges both groups of an inter-communicator
    MPI_Intercomm_merge => (intercomm: Comm, high: Flag, newintracomm: OutComm) on intercomm {
        newintracomm.set(CComm::of(comm::handle_of(Some(&constructors::intercomm_merge(cs, &intercomm, high)?))));
        Ok(())
    }
}
