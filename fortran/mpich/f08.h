/*
 * Buffers of the module mpi_f08 of MPICH: TYPE(*), DIMENSION(..), of which gfortran 9 and later passes its own array descriptor.
 *
 * Only contiguous arrays are taken. MPICH makes a datatype of an array section; here it is an error.
 */
#ifndef FERRULE_FORTRAN_MPICH_F08_H
#define FERRULE_FORTRAN_MPICH_F08_H

#include "binding.h"
#include <stddef.h>
#include <stdio.h>

typedef struct {
    void *base;
    size_t offset;
    struct {
        size_t element_bytes;
        int version;
        signed char rank, type;
        short attribute;
    } type;
    ptrdiff_t span;
    struct {
        ptrdiff_t stride, lower, upper;
    } dimensions[];
} Descriptor;

/* Strides are in elements. The last dimension of an array of assumed size has no elements here. */
static inline int is_contiguous(const Descriptor *array)
{
    ptrdiff_t wanted = 1;
    for (int i = 0; i < array->type.rank; i++) {
        ptrdiff_t extent = array->dimensions[i].upper - array->dimensions[i].lower + 1;
        if (extent <= 0)
            return 1;
        if (extent > 1 && array->dimensions[i].stride != wanted)
            return 0;
        wanted *= extent;
    }
    return wanted == 1 || array->span == (ptrdiff_t)array->type.element_bytes;
}

static inline int refuse_section(const char *function)
{
    fprintf(stderr, "%s: the buffer is an array section that isn't contiguous, which libmpifort.so.12 doesn't take from mpi_f08: copy it, or build with Ferrule's mpifort\n",
        function);
    PMPI_Comm_call_errhandler(MPI_COMM_SELF, MPI_ERR_BUFFER);
    return MPI_ERR_BUFFER;
}

#endif
