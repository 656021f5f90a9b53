//! User-level failure mitigation, which is no part of MPI 5.0 (`mpi-ext.h`; decision 0053).

use crate::api::api;
use crate::kinds::*;
use base::ensure;
use mpi::{comm, group, recovery};

api! {
    with cs;

    /// Revokes a communicator for all its processes
    MPIX_Comm_revoke => (comm: Comm) on comm {
        recovery::revoke(cs, &comm)
    }

    /// Whether a communicator is revoked
    MPIX_Comm_is_revoked => (comm: Comm, flag: OutFlag) on comm {
        flag.set_flag(recovery::is_revoked(cs, &comm));
        Ok(())
    }

    /// Makes a communicator of the processes that have not failed
    MPIX_Comm_shrink => (comm: Comm, newcomm: OutComm) on comm {
        newcomm.set(CComm::of(comm::handle_of(Some(&recovery::shrink(cs, &comm)?))));
        Ok(())
    }

    /// Starts to make a communicator of the processes that have not failed
    MPIX_Comm_ishrink => (comm: Comm, newcomm: OutComm, request: OutRequest) on comm {
        let (new, handle) = recovery::ishrink(cs, &comm)?;
        newcomm.set(CComm::of(new));
        request.set(CRequest::of(handle));
        Ok(())
    }

    /// Agrees on the bits that all have in a flag, whatever fails meanwhile
    MPIX_Comm_agree => (comm: Comm, flag: InOutInt) on comm {
        let mut agreed = flag.value();
        let outcome = recovery::agree(cs, &comm, agreed, &mut agreed);
        flag.set(agreed);
        outcome
    }

    /// Starts to agree on a flag
    MPIX_Comm_iagree => (comm: Comm, flag: InOutInt, request: OutRequest) on comm {
        let given = flag.value();
        // The program leaves the flag to the request until that is complete.
        let handle = recovery::iagree(cs, &comm, given, move |agreed| flag.set(agreed))?;
        request.set(CRequest::of(handle));
        Ok(())
    }

    /// Acknowledges all failures that are known
    MPIX_Comm_failure_ack => (comm: Comm) on comm {
        recovery::failed(cs, &comm);
        recovery::acknowledge(cs, &comm, usize::MAX);
        Ok(())
    }

    /// The group of processes whose failure is acknowledged
    MPIX_Comm_failure_get_acked => (comm: Comm, failedgrp: OutGroup) on comm {
        failedgrp.set(CGroup::of(group::share(cs, &recovery::acknowledged(cs, &comm))));
        Ok(())
    }

    /// The group of processes that are known to have failed
    MPIX_Comm_get_failed => (comm: Comm, failedgrp: OutGroup) on comm {
        let failed = recovery::failed(cs, &comm);
        failedgrp.set(CGroup::of(group::share(cs, &failed)));
        Ok(())
    }

    /// Acknowledges the first failures of the group that MPIX_Comm_get_failed gives
    MPIX_Comm_ack_failed => (comm: Comm, num_to_ack: Int, num_acked: OutInt) on comm {
        ensure!(num_to_ack >= 0, ERR_ARG, "a number of failures is negative");
        num_acked.set(recovery::acknowledge(cs, &comm, num_to_ack as usize) as i32);
        Ok(())
    }
}
