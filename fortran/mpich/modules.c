/*
 * What MPICH's modules mpi and mpi_f08 call beside the external procedures: MPI_SIZEOF, comparisons of handles. Names are those of gfortran and of Intel's
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

/* Of mpi_f08: sentinels, which the program names and the C layer compares (binding.h) */
int MPIR_F08_MPI_BOTTOM, MPIR_F08_MPI_IN_PLACE, MPIR_F08_MPI_BUFFER_AUTOMATIC;
int __mpi_f08_link_constants_MOD_mpi_unweighted[1], __mpi_f08_link_constants_MOD_mpi_weights_empty[1];
int __mpi_f08_link_constants_MOD_mpi_errcodes_ignore[1];
char __mpi_f08_link_constants_MOD_mpi_argv_null[1] = " ", __mpi_f08_link_constants_MOD_mpi_argvs_null[1] = " ";

/* Of mpi_f08: comparisons of handles with each other and with integers */
#define F08_COMPARISON(name, operator) \
    int __mpi_f08_types_MOD_mpi_##name(const int *left, const int *right); \
    int __mpi_f08_types_MOD_mpi_##name(const int *left, const int *right) \
    { \
        return *left operator *right; \
    }
#define F08_COMPARISONS(of) \
    F08_COMPARISON(of##_eq, ==) F08_COMPARISON(of##_neq, !=) F08_COMPARISON(of##_f08_eq_f, ==) F08_COMPARISON(of##_f08_neq_f, !=) \
    F08_COMPARISON(of##_f_eq_f08, ==) F08_COMPARISON(of##_f_neq_f08, !=)
F08_COMPARISONS(comm)
F08_COMPARISONS(datatype)
F08_COMPARISONS(errhandler)
F08_COMPARISONS(file)
F08_COMPARISONS(group)
F08_COMPARISONS(info)
F08_COMPARISONS(message)
F08_COMPARISONS(op)
F08_COMPARISONS(request)
F08_COMPARISONS(session)
F08_COMPARISONS(win)

/* Of mpi_f08: MPI_SIZEOF of any rank; names have bits */
#define F08_SIZEOF(name, bytes) \
    void __mpi_f08_types_MOD_mpi_sizeof_##name(void *x, int *size, int *ierror); \
    void __mpi_f08_types_MOD_mpi_sizeof_##name(void *x, int *size, int *ierror) \
    { \
        (void)x; \
        *size = bytes; \
        give(ierror, MPI_SUCCESS); \
    }
F08_SIZEOF(character, 1)
F08_SIZEOF(logical, 4)
F08_SIZEOF(xint8, 1)
F08_SIZEOF(xint16, 2)
F08_SIZEOF(xint32, 4)
F08_SIZEOF(xint64, 8)
F08_SIZEOF(xreal32, 4)
F08_SIZEOF(xreal64, 8)
F08_SIZEOF(xreal128, 16)
F08_SIZEOF(xcomplex32, 8)
F08_SIZEOF(xcomplex64, 16)
F08_SIZEOF(xcomplex128, 32)
