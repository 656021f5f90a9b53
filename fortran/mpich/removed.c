/*
 * Procedures of MPI-1 that MPI-3.0 removed and programs for MPICH may still call, and MPICH's own for failure mitigation.
 *
 * Addresses and displacements are default INTEGERs there. A value that doesn't fit is an error (MPI_ERR_ARG), not a cut one.
 */
#include "binding.h"

static int fits(MPI_Aint value, int *place, int error)
{
    if (error != MPI_SUCCESS)
        return error;
    *place = (int)value;
    return *place == value ? MPI_SUCCESS : PMPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_ARG) == MPI_SUCCESS ? MPI_ERR_ARG : MPI_ERR_INTERN;
}

static MPI_Aint *widened(const int *displacements, int count)
{
    size_t n = count > 0 ? (size_t)count : 0;
    MPI_Aint *wide = allocate(n * sizeof *wide);
    for (size_t i = 0; i < n; i++)
        wide[i] = displacements[i];
    return wide;
}

void NAME(address)(void *location, int *address, int *ierror)
{
    MPI_Aint found = 0;
    int error = CALL(Get_address)(choice(location), &found);
    give(ierror, fits(found, address, error));
}

void NAME(type_extent)(int *datatype, int *extent, int *ierror)
{
    MPI_Aint lb = 0, found = 0;
    int error = CALL(Type_get_extent)(*datatype, &lb, &found);
    give(ierror, fits(found, extent, error));
}

void NAME(type_lb)(int *datatype, int *displacement, int *ierror)
{
    MPI_Aint lb = 0, extent = 0;
    int error = CALL(Type_get_extent)(*datatype, &lb, &extent);
    give(ierror, fits(lb, displacement, error));
}

void NAME(type_ub)(int *datatype, int *displacement, int *ierror)
{
    MPI_Aint lb = 0, extent = 0;
    int error = CALL(Type_get_extent)(*datatype, &lb, &extent);
    give(ierror, fits(lb + extent, displacement, error));
}

void NAME(type_hvector)(int *count, int *blocklength, int *stride, int *oldtype, int *newtype, int *ierror)
{
    give(ierror, CALL(Type_create_hvector)(*count, *blocklength, *stride, *oldtype, newtype));
}

void NAME(type_hindexed)(int *count, int *lengths, int *displacements, int *oldtype, int *newtype, int *ierror)
{
    MPI_Aint *wide = widened(displacements, *count);
    give(ierror, CALL(Type_create_hindexed)(*count, lengths, wide, *oldtype, newtype));
    free(wide);
}

/* Members may be MPI_LB and MPI_UB, which only this C function knows */
void NAME(type_struct)(int *count, int *lengths, int *displacements, int *types, int *newtype, int *ierror)
{
    MPI_Aint *wide = widened(displacements, *count);
    give(ierror, CALL(Type_struct)(*count, lengths, wide, types, newtype));
    free(wide);
}

void NAME(errhandler_create)(FortranErrhandler *function, int *errhandler, int *ierror)
{
    NAME(comm_create_errhandler)(function, errhandler, ierror);
}

void NAME(errhandler_set)(int *comm, int *errhandler, int *ierror)
{
    give(ierror, CALL(Comm_set_errhandler)(*comm, *errhandler));
}

void NAME(errhandler_get)(int *comm, int *errhandler, int *ierror)
{
    give(ierror, CALL(Comm_get_errhandler)(*comm, errhandler));
}

void XNAME(comm_revoke)(int *comm, int *ierror)
{
    give(ierror, XCALL(Comm_revoke)(*comm));
}

void XNAME(comm_shrink)(int *comm, int *newcomm, int *ierror)
{
    give(ierror, XCALL(Comm_shrink)(*comm, newcomm));
}

void XNAME(comm_agree)(int *comm, int *flag, int *ierror)
{
    give(ierror, XCALL(Comm_agree)(*comm, flag));
}

void XNAME(comm_failure_ack)(int *comm, int *ierror)
{
    give(ierror, XCALL(Comm_failure_ack)(*comm));
}

void XNAME(comm_failure_get_acked)(int *comm, int *failed, int *ierror)
{
    give(ierror, XCALL(Comm_failure_get_acked)(*comm, failed));
}
