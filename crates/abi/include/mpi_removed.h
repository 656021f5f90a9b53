/*
 * Names that MPI-3.0 removed (MPI-5.0, chapter 17). mpi.h includes this file.
 *
 * With -DFERRULE_COMPAT_MPI1 (mpicc --compat=mpi1) old sources find them: each is an inline function over its replacement, so that the program still
 * runs with any library of the standard ABI. Else their use is an error of the compiler that names the replacement.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef FERRULE_MPI_REMOVED_H
#define FERRULE_MPI_REMOVED_H

#ifdef FERRULE_COMPAT_MPI1

#include <stdlib.h>

typedef MPI_Comm_errhandler_function MPI_Handler_function;

/* Members of MPI_Type_struct that set the bounds; no datatypes of the library, and of use nowhere else */
#define MPI_LB ((MPI_Datatype) 0x2fe)
#define MPI_UB ((MPI_Datatype) 0x2ff)

/* No call returns these any more */
#define MPI_COMBINER_HVECTOR_INTEGER  (-101)
#define MPI_COMBINER_HINDEXED_INTEGER (-102)
#define MPI_COMBINER_STRUCT_INTEGER   (-103)

static inline int MPI_Address(void *location, MPI_Aint *address)
{
    return MPI_Get_address(location, address);
}

static inline int MPI_Errhandler_create(MPI_Comm_errhandler_function *function, MPI_Errhandler *errhandler)
{
    return MPI_Comm_create_errhandler(function, errhandler);
}

static inline int MPI_Errhandler_get(MPI_Comm comm, MPI_Errhandler *errhandler)
{
    return MPI_Comm_get_errhandler(comm, errhandler);
}

static inline int MPI_Errhandler_set(MPI_Comm comm, MPI_Errhandler errhandler)
{
    return MPI_Comm_set_errhandler(comm, errhandler);
}

static inline int MPI_Type_extent(MPI_Datatype datatype, MPI_Aint *extent)
{
    MPI_Aint lb;
    return MPI_Type_get_extent(datatype, &lb, extent);
}

static inline int MPI_Type_hindexed(int count, int lengths[], MPI_Aint displacements[], MPI_Datatype oldtype,
                                    MPI_Datatype *newtype)
{
    return MPI_Type_create_hindexed(count, lengths, displacements, oldtype, newtype);
}

static inline int MPI_Type_hvector(int count, int blocklength, MPI_Aint stride, MPI_Datatype oldtype,
                                   MPI_Datatype *newtype)
{
    return MPI_Type_create_hvector(count, blocklength, stride, oldtype, newtype);
}

static inline int MPI_Type_lb(MPI_Datatype datatype, MPI_Aint *displacement)
{
    MPI_Aint extent;
    return MPI_Type_get_extent(datatype, displacement, &extent);
}

static inline int MPI_Type_ub(MPI_Datatype datatype, MPI_Aint *displacement)
{
    MPI_Aint lb, extent;
    int code = MPI_Type_get_extent(datatype, displacement ? &lb : 0, &extent);
    if (code == MPI_SUCCESS)
        *displacement = lb + extent;
    return code;
}

/* The same structure with other bounds, where one is given */
static inline int FERRULE_Type_rebound(MPI_Datatype *type, const MPI_Aint *lower, const MPI_Aint *upper)
{
    MPI_Aint lb, extent;
    MPI_Datatype natural = *type;
    int code = MPI_Type_get_extent(natural, &lb, &extent);
    if (code == MPI_SUCCESS) {
        MPI_Aint first = lower ? *lower : lb, end = upper ? *upper : lb + extent;
        code = MPI_Type_create_resized(natural, first, end - first, type);
    }
    MPI_Type_free(&natural);
    return code;
}

static inline int MPI_Type_struct(int count, int lengths[], MPI_Aint displacements[], MPI_Datatype types[],
                                  MPI_Datatype *newtype)
{
    MPI_Aint lb = 0, ub = 0, *places;
    MPI_Datatype *members;
    int i, n = 0, has_lb = 0, has_ub = 0, code, *blocks;
    if (count <= 0)
        return MPI_Type_create_struct(count, lengths, displacements, types, newtype);
    blocks = (int *) malloc((size_t) count * sizeof *blocks);
    places = (MPI_Aint *) malloc((size_t) count * sizeof *places);
    members = (MPI_Datatype *) malloc((size_t) count * sizeof *members);
    for (i = 0; blocks && places && members && i < count; i++) {
        if (types[i] == MPI_LB) {
            lb = has_lb && lb < displacements[i] ? lb : displacements[i];
            has_lb = 1;
        } else if (types[i] == MPI_UB) {
            ub = has_ub && ub > displacements[i] ? ub : displacements[i];
            has_ub = 1;
        } else {
            blocks[n] = lengths[i];
            places[n] = displacements[i];
            members[n++] = types[i];
        }
    }
    code = blocks && places && members ? MPI_Type_create_struct(n, blocks, places, members, newtype) : MPI_ERR_NO_MEM;
    if (code == MPI_SUCCESS && (has_lb || has_ub))
        code = FERRULE_Type_rebound(newtype, has_lb ? &lb : NULL, has_ub ? &ub : NULL);
    free(blocks);
    free(places);
    free(members);
    return code;
}

#else /* not FERRULE_COMPAT_MPI1 */

#if defined(__has_attribute)
#if __has_attribute(unavailable)
#define FERRULE_REMOVED(text) __attribute__((unavailable("removed in MPI-3.0, " text "; or compile with mpicc --compat=mpi1")))
#endif
#endif

/* A compiler without that attribute says only that it doesn't know the name */
#ifdef FERRULE_REMOVED
#ifdef __cplusplus
extern "C" {
#endif
FERRULE_REMOVED("use MPI_Get_address") int MPI_Address(void *, MPI_Aint *);
FERRULE_REMOVED("use MPI_Comm_create_errhandler") int MPI_Errhandler_create(MPI_Comm_errhandler_function *, MPI_Errhandler *);
FERRULE_REMOVED("use MPI_Comm_get_errhandler") int MPI_Errhandler_get(MPI_Comm, MPI_Errhandler *);
FERRULE_REMOVED("use MPI_Comm_set_errhandler") int MPI_Errhandler_set(MPI_Comm, MPI_Errhandler);
FERRULE_REMOVED("use MPI_Type_get_extent") int MPI_Type_extent(MPI_Datatype, MPI_Aint *);
FERRULE_REMOVED("use MPI_Type_create_hindexed") int MPI_Type_hindexed(int, int *, MPI_Aint *, MPI_Datatype, MPI_Datatype *);
FERRULE_REMOVED("use MPI_Type_create_hvector") int MPI_Type_hvector(int, int, MPI_Aint, MPI_Datatype, MPI_Datatype *);
FERRULE_REMOVED("use MPI_Type_get_extent") int MPI_Type_lb(MPI_Datatype, MPI_Aint *);
FERRULE_REMOVED("use MPI_Type_get_extent") int MPI_Type_ub(MPI_Datatype, MPI_Aint *);
FERRULE_REMOVED("use MPI_Type_create_struct") int MPI_Type_struct(int, int *, MPI_Aint *, MPI_Datatype *, MPI_Datatype *);
FERRULE_REMOVED("use MPI_Type_create_resized") extern const MPI_Datatype MPI_LB;
FERRULE_REMOVED("use MPI_Type_create_resized") extern const MPI_Datatype MPI_UB;
FERRULE_REMOVED("use MPI_Comm_errhandler_function") typedef MPI_Comm_errhandler_function MPI_Handler_function;
FERRULE_REMOVED("no call returns it") extern const int MPI_COMBINER_HVECTOR_INTEGER;
FERRULE_REMOVED("no call returns it") extern const int MPI_COMBINER_HINDEXED_INTEGER;
FERRULE_REMOVED("no call returns it") extern const int MPI_COMBINER_STRUCT_INTEGER;
#ifdef __cplusplus
}
#endif
#undef FERRULE_REMOVED
#endif

#endif /* FERRULE_COMPAT_MPI1 */

#endif /* FERRULE_MPI_REMOVED_H */
