/*
 * What every external procedure of the Fortran layer needs: names, conversion of arguments (MPI-5.0, 19.1 and 19.3).
 *
 * A file that includes this one is compiled twice. Without FORTRAN_PROFILING it defines mpi_x_, which calls MPI_X; with it,
 * pmpi_x_, which calls PMPI_X. Procedures of mpi_f08 have another name, and mostly the same code: ierror may be absent
 * (a null pointer), handles are structures of one INTEGER, statuses are structures of eight.
 *
 * LOGICAL values need no conversion: C reads every value but 0 as true, and 1 and 0 are gfortran's .TRUE. and .FALSE.
 */
#ifndef FERRULE_FORTRAN_BINDING_H
#define FERRULE_FORTRAN_BINDING_H

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#ifdef FORTRAN_PROFILING
#define CALL(name)  PMPI_##name
#define XCALL(name) PMPIX_##name
#define NAME(name)  pmpi_##name##_
#define XNAME(name) pmpix_##name##_
#else
#define CALL(name)  MPI_##name
#define XCALL(name) MPIX_##name
#define NAME(name)  mpi_##name##_
#define XNAME(name) mpix_##name##_
#endif

#define QUOTED(symbol) #symbol
#define QUOTE(symbol)  QUOTED(symbol)

/* mpi_x_f08_ is mpi_x_ under another name. Programs for MPICH don't know it: there only procedures with large counts have it, and it stays inside. */
#ifdef MPICH_ABI
#define ALIAS(name)
#ifdef FORTRAN_PROFILING
#define F08(name) inner_p_##name
#else
#define F08(name) inner_##name
#endif
#else
#ifdef FORTRAN_PROFILING
#define F08(name) pmpi_##name##_f08_
#else
#define F08(name) mpi_##name##_f08_
#endif
#define ALIAS(name) extern __typeof__(NAME(name)) F08(name) __attribute__((alias(QUOTE(NAME(name)))));
#endif
#define ALSO(name, other) extern __typeof__(NAME(name)) NAME(other) __attribute__((alias(QUOTE(NAME(name)))));

/* Common blocks whose addresses stand for something; the program's copies of them are these (runtime/convert.c) */
#ifdef MPICH_ABI
extern struct {
    int bottom, in_place, status_ignore[MPI_F_STATUS_SIZE];
} mpipriv1_;
extern struct {
    int statuses_ignore[MPI_F_STATUS_SIZE], errcodes_ignore[1];
} mpipriv2_;
extern struct {
    char argvs_null[1], argv_null[1];
} mpiprivc_;
extern int mpifcmb5_[1], mpifcmb9_[1], mpifcmba_;
/* Those of its module mpi_f08 are other variables */
extern int MPIR_F08_MPI_BOTTOM, MPIR_F08_MPI_IN_PLACE, MPIR_F08_MPI_BUFFER_AUTOMATIC;
extern int MPIR_F08_MPI_STATUS_IGNORE_OBJ[MPI_F_STATUS_SIZE], MPIR_F08_MPI_STATUSES_IGNORE_OBJ[MPI_F_STATUS_SIZE];
extern int __mpi_f08_link_constants_MOD_mpi_unweighted[1], __mpi_f08_link_constants_MOD_mpi_weights_empty[1];
extern int __mpi_f08_link_constants_MOD_mpi_errcodes_ignore[1];
extern char __mpi_f08_link_constants_MOD_mpi_argv_null[1], __mpi_f08_link_constants_MOD_mpi_argvs_null[1];
#define OR_F08(place, name) || (void *)(place) == (void *)name
#define mpi_fortran_bottom_           mpipriv1_.bottom
#define mpi_fortran_in_place_         mpipriv1_.in_place
#define mpi_fortran_status_ignore_    mpipriv1_.status_ignore
#define mpi_fortran_statuses_ignore_  mpipriv2_.statuses_ignore
#define mpi_fortran_errcodes_ignore_  mpipriv2_.errcodes_ignore
#define mpi_fortran_argvs_null_       mpiprivc_.argvs_null
#define mpi_fortran_argv_null_        mpiprivc_.argv_null
#define mpi_fortran_unweighted_       mpifcmb5_
#define mpi_fortran_weights_empty_    mpifcmb9_
#define mpi_fortran_buffer_automatic_ mpifcmba_
#else
#define OR_F08(place, name)
extern int mpi_fortran_bottom_, mpi_fortran_in_place_, mpi_fortran_buffer_automatic_;
extern int mpi_fortran_status_ignore_[MPI_F_STATUS_SIZE], mpi_fortran_statuses_ignore_[MPI_F_STATUS_SIZE];
extern int mpi_fortran_errcodes_ignore_[1], mpi_fortran_unweighted_[1], mpi_fortran_weights_empty_[1];
extern char mpi_fortran_argv_null_[1], mpi_fortran_argvs_null_[1];
#endif

/* Arrays of handles up to this length are converted without malloc */
enum { FEW = 32 };

int tell_logicals(int error);
void *allocate(size_t bytes);
char *text_in(const char *text, size_t length);
char *text_in_both_ends(const char *text, size_t length);
void text_out(char *text, size_t length, const char *from, int error);
MPI_Count peers_send(const void *sendbuf, const int *comm);
MPI_Count peers_recv(const void *sendbuf, const int *comm);
MPI_Count neighbors_send(const void *sendbuf, const int *comm);
MPI_Count neighbors_recv(const void *sendbuf, const int *comm);

/* Address of a choice buffer */
static inline void *choice(void *address)
{
    if (address == &mpi_fortran_bottom_ OR_F08(address, &MPIR_F08_MPI_BOTTOM))
        return MPI_BOTTOM;
    if (address == &mpi_fortran_in_place_ OR_F08(address, &MPIR_F08_MPI_IN_PLACE))
        return MPI_IN_PLACE;
    if (address == &mpi_fortran_buffer_automatic_ OR_F08(address, &MPIR_F08_MPI_BUFFER_AUTOMATIC))
        return MPI_BUFFER_AUTOMATIC;
    return address;
}

/* A status: eight integers in Fortran as in C */
static inline MPI_Status *status_in(int *place)
{
    if (place == mpi_fortran_status_ignore_ || place == mpi_fortran_statuses_ignore_
        OR_F08(place, MPIR_F08_MPI_STATUS_IGNORE_OBJ) OR_F08(place, MPIR_F08_MPI_STATUSES_IGNORE_OBJ))
        return MPI_STATUS_IGNORE;
    return (MPI_Status *)place;
}

static inline MPI_Status *statuses_in(int *place)
{
    return status_in(place);
}

static inline int *weights_in(int *place)
{
    if (place == mpi_fortran_unweighted_ OR_F08(place, __mpi_f08_link_constants_MOD_mpi_unweighted))
        return MPI_UNWEIGHTED;
    if (place == mpi_fortran_weights_empty_ OR_F08(place, __mpi_f08_link_constants_MOD_mpi_weights_empty))
        return MPI_WEIGHTS_EMPTY;
    return place;
}

static inline int *errcodes_in(int *place)
{
    if (place == mpi_fortran_errcodes_ignore_ OR_F08(place, __mpi_f08_link_constants_MOD_mpi_errcodes_ignore))
        return MPI_ERRCODES_IGNORE;
    return place;
}

static inline int is_argv_null(const char *argv)
{
    return argv == mpi_fortran_argv_null_ OR_F08(argv, __mpi_f08_link_constants_MOD_mpi_argv_null);
}

static inline int is_argvs_null(const char *argvs)
{
    return argvs == mpi_fortran_argvs_null_ OR_F08(argvs, __mpi_f08_link_constants_MOD_mpi_argvs_null);
}

/* Room for n handles: the caller's few, or memory that leave() frees */
static inline void *room(void *few, MPI_Count n, size_t size)
{
    return n <= FEW ? few : allocate((size_t)n * size);
}

static inline void leave(void *used, void *few)
{
    if (used != few)
        free(used);
}

/* The key in C of an attribute: MPICH has an even number in Fortran and the odd one before it in C for each predefined attribute */
static inline int keyval_in(int keyval)
{
#ifdef MPICH_ABI
    int predefined = (keyval > MPI_TAG_UB && keyval <= MPI_APPNUM + 1) || (keyval > MPI_WIN_BASE && keyval <= MPI_WIN_MODEL + 1);
    return predefined && keyval % 2 == 0 ? keyval - 1 : keyval;
#else
    return keyval;
#endif
}

static inline void from_one(int *index)
{
    if (*index != MPI_UNDEFINED)
        ++*index;
}

static inline void give(int *ierror, int error)
{
    if (ierror)
        *ierror = error;
}

#endif
