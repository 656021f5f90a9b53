/*
 * What MPICH's module mpi calls beside the external procedures: MPI_SIZEOF, comparisons of handles. Names are those of gfortran and of Intel's
 * compilers (and of MPICH's modules, mpi_sizeofs and mpi_constants). And what the C library must know of Fortran when it is loaded.
 */
#include "binding.h"

#define BOTH(module, name) \
    extern __typeof__(__##module##_MOD_##name) module##_mp_##name##_ __attribute__((alias(QUOTE(__##module##_MOD_##name))));

#define SIZEOF(name, bytes) \
    void __mpi_sizeofs_MOD_mpi_sizeof_##name(void *x, int *size, int *ierror); \
    void __mpi_sizeofs_MOD_mpi_sizeof_##name(void *x, int *size, int *ierror) \
    { \
        (void)x; \
        *size = bytes; \
        give(ierror, MPI_SUCCESS); \
    } \
    BOTH(mpi_sizeofs, mpi_sizeof_##name)
/* A scalar and an array (v) of each type; ierror isn't optional */
#define SIZEOFS(name, bytes) SIZEOF(name, bytes) SIZEOF(name##v, bytes)
SIZEOFS(ch, 1)
SIZEOFS(cx, 8)
SIZEOFS(d, 8)
SIZEOFS(i, 4)
SIZEOFS(i1, 1)
SIZEOFS(i2, 2)
SIZEOFS(i8, 8)
SIZEOFS(l, 4)
SIZEOFS(r, 4)

/* TYPE(MPI_Comm) and its like: one INTEGER each */
#define COMPARISON(name, operator) \
    int __mpi_constants_MOD_##name(const int *left, const int *right); \
    int __mpi_constants_MOD_##name(const int *left, const int *right) \
    { \
        return *left operator *right; \
    } \
    BOTH(mpi_constants, name)
#define COMPARISONS(of) COMPARISON(of##eq, ==) COMPARISON(of##neq, !=)
COMPARISONS(comm)
COMPARISONS(datatype)
COMPARISONS(errhandler)
COMPARISONS(file)
COMPARISONS(group)
COMPARISONS(info)
COMPARISONS(message)
COMPARISONS(op)
COMPARISONS(request)
COMPARISONS(session)
COMPARISONS(win)

__attribute__((constructor)) static void tell_sentinels(void)
{
    MPI_F_STATUS_IGNORE = mpi_fortran_status_ignore_;
    MPI_F_STATUSES_IGNORE = mpi_fortran_statuses_ignore_;
}
