/*
 * mpi-ext.h of Ferrule: user-level failure mitigation, which is no part of MPI 5.0. A job that has lost processes can go on
 * (docs/user/faults.md; mpiexec --continue-on-failure).
 *
 * With Ferrule's mpi.h these are functions of libmpi_abi.so.1 that other libraries of the standard ABI may not have. With MPICH's mpi.h they are those of
 * its libmpi.so.12, and the numbers of the error classes are MPICH's.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef FERRULE_MPI_EXT_H
#define FERRULE_MPI_EXT_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Ferrule has them: for programs that ask at compile time */
#define FERRULE_HAVE_FAULT_TOLERANCE 1

#ifndef MPIX_ERR_PROC_FAILED
/* A process has failed: the class that MPI 5.0 has for it */
#define MPIX_ERR_PROC_FAILED         MPI_ERR_PROC_ABORTED
#endif
#ifndef MPIX_ERR_PROC_FAILED_PENDING
/* A receive from any source may wait for a failed process; its request stays active */
#define MPIX_ERR_PROC_FAILED_PENDING 0x3f01
#endif
#ifndef MPIX_ERR_REVOKED
/* The communicator is revoked */
#define MPIX_ERR_REVOKED             0x3f02
#endif

int MPIX_Comm_revoke(MPI_Comm comm);
int MPIX_Comm_is_revoked(MPI_Comm comm, int *flag);
int MPIX_Comm_shrink(MPI_Comm comm, MPI_Comm *newcomm);
int MPIX_Comm_ishrink(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request);
int MPIX_Comm_agree(MPI_Comm comm, int *flag);
int MPIX_Comm_iagree(MPI_Comm comm, int *flag, MPI_Request *request);
int MPIX_Comm_failure_ack(MPI_Comm comm);
int MPIX_Comm_failure_get_acked(MPI_Comm comm, MPI_Group *failedgrp);
int MPIX_Comm_get_failed(MPI_Comm comm, MPI_Group *failedgrp);
int MPIX_Comm_ack_failed(MPI_Comm comm, int num_to_ack, int *num_acked);

int PMPIX_Comm_revoke(MPI_Comm comm);
int PMPIX_Comm_is_revoked(MPI_Comm comm, int *flag);
int PMPIX_Comm_shrink(MPI_Comm comm, MPI_Comm *newcomm);
int PMPIX_Comm_ishrink(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request);
int PMPIX_Comm_agree(MPI_Comm comm, int *flag);
int PMPIX_Comm_iagree(MPI_Comm comm, int *flag, MPI_Request *request);
int PMPIX_Comm_failure_ack(MPI_Comm comm);
int PMPIX_Comm_failure_get_acked(MPI_Comm comm, MPI_Group *failedgrp);
int PMPIX_Comm_get_failed(MPI_Comm comm, MPI_Group *failedgrp);
int PMPIX_Comm_ack_failed(MPI_Comm comm, int num_to_ack, int *num_acked);

#ifdef __cplusplus
}
#endif

#endif
