/* Predefined callbacks: procedures in Fortran, so that a program may name them as arguments (MPI-5.0, 7.7, 14.5.3). */
#include "callbacks.h"

#define ATTRIBUTES(of) \
    FortranCopy mpi_##of##_dup_fn_, mpi_##of##_null_copy_fn_; \
    FortranDelete mpi_##of##_null_delete_fn_; \
    void mpi_##of##_dup_fn_(int *object, int *keyval, MPI_Aint *state, MPI_Aint *in, MPI_Aint *out, int *flag, int *ierror) \
    { \
        (void)object, (void)keyval, (void)state; \
        *out = *in; \
        *flag = 1; \
        *ierror = MPI_SUCCESS; \
    } \
    void mpi_##of##_null_copy_fn_(int *object, int *keyval, MPI_Aint *state, MPI_Aint *in, MPI_Aint *out, int *flag, \
        int *ierror) \
    { \
        (void)object, (void)keyval, (void)state, (void)in, (void)out; \
        *flag = 0; \
        *ierror = MPI_SUCCESS; \
    } \
    void mpi_##of##_null_delete_fn_(int *object, int *keyval, MPI_Aint *value, MPI_Aint *state, int *ierror) \
    { \
        (void)object, (void)keyval, (void)value, (void)state; \
        *ierror = MPI_SUCCESS; \
    }
ATTRIBUTES(comm)
ATTRIBUTES(type)
ATTRIBUTES(win)

/* Of MPI_KEYVAL_CREATE */
FortranOldCopy mpi_dup_fn_, mpi_null_copy_fn_;
FortranOldDelete mpi_null_delete_fn_;

void mpi_dup_fn_(int *comm, int *keyval, int *state, int *in, int *out, int *flag, int *ierror)
{
    (void)comm, (void)keyval, (void)state;
    *out = *in;
    *flag = 1;
    *ierror = MPI_SUCCESS;
}

void mpi_null_copy_fn_(int *comm, int *keyval, int *state, int *in, int *out, int *flag, int *ierror)
{
    (void)comm, (void)keyval, (void)state, (void)in, (void)out;
    *flag = 0;
    *ierror = MPI_SUCCESS;
}

void mpi_null_delete_fn_(int *comm, int *keyval, int *value, int *state, int *ierror)
{
    (void)comm, (void)keyval, (void)value, (void)state;
    *ierror = MPI_SUCCESS;
}

/* Stand for "no conversion"; their addresses count, nobody calls them */
FortranConversion mpi_conversion_fn_null_;
FortranConversionLarge mpi_conversion_fn_null_c_;

void mpi_conversion_fn_null_(void *userbuf, int *datatype, int *count, void *filebuf, MPI_Offset *position, MPI_Aint *state,
    int *ierror)
{
    (void)userbuf, (void)datatype, (void)count, (void)filebuf, (void)position, (void)state;
    *ierror = MPI_ERR_CONVERSION;
}

void mpi_conversion_fn_null_c_(void *userbuf, int *datatype, MPI_Count *count, void *filebuf, MPI_Offset *position,
    MPI_Aint *state, int *ierror)
{
    (void)userbuf, (void)datatype, (void)count, (void)filebuf, (void)position, (void)state;
    *ierror = MPI_ERR_CONVERSION;
}
