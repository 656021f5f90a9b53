/*
 * Buffers of the module mpi_f08 of MPICH: TYPE(*), DIMENSION(..), of which gfortran 9 and later passes its own array descriptor.
 *
 * An array section that isn't contiguous becomes a datatype where one count and one datatype say what is in it. Elsewhere it is an error.
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

/* What is passed for a section: `count` items of `type`, which free_section frees */
typedef struct {
    MPI_Count count;
    int type;
} Section;

/* A section's first elements, as many as `count` items of `type` fill; false if items don't fill whole elements */
static inline int make_section(const Descriptor *array, MPI_Count count, int type, Section *made)
{
    MPI_Count size = 0, lb = 0, extent = 0, elements = 1;
    if (PMPI_Type_size_c(type, &size) != MPI_SUCCESS || PMPI_Type_get_extent_c(type, &lb, &extent) != MPI_SUCCESS)
        return 0;
    MPI_Count bytes = (MPI_Count)array->type.element_bytes;
    if (size <= 0 || lb != 0 || extent != size || bytes % size != 0 || count < 0 || count % (bytes / size) != 0)
        return 0;
    for (int i = 0; i < array->type.rank; i++)
        elements *= array->dimensions[i].upper - array->dimensions[i].lower + 1;
    MPI_Count wanted = count / (bytes / size);
    if (wanted > elements)
        return 0;
    MPI_Count *places = allocate((size_t)wanted * sizeof *places);
    for (MPI_Count n = 0; n < wanted; n++) {
        MPI_Count rest = n, place = 0;
        for (int i = 0; i < array->type.rank; i++) {
            ptrdiff_t length = array->dimensions[i].upper - array->dimensions[i].lower + 1;
            place += rest % length * array->dimensions[i].stride * array->span;
            rest /= length;
        }
        places[n] = place;
    }
    made->count = 1;
    int error = PMPI_Type_create_hindexed_block_c(wanted, bytes / size, places, type, &made->type);
    free(places);
    return error == MPI_SUCCESS && PMPI_Type_commit(&made->type) == MPI_SUCCESS;
}

static inline int take_section(const Descriptor *array, MPI_Count count, int type, Section *made)
{
    made->count = count;
    made->type = type;
    return is_contiguous(array) || make_section(array, count, type, made);
}

/* What is under way keeps the datatype */
static inline void free_section(const Descriptor *array, Section *made)
{
    if (!is_contiguous(array))
        PMPI_Type_free(&made->type);
}

static inline int refuse_section(const char *function)
{
    fprintf(stderr, "%s: a buffer is an array section that isn't contiguous, which this function doesn't take in libmpifort.so.12 with these arguments: pass a copy of it\n",
        function);
    PMPI_Comm_call_errhandler(MPI_COMM_SELF, MPI_ERR_BUFFER);
    return MPI_ERR_BUFFER;
}

#endif
