/* One-sided communication. What a rank puts or accumulates it has sent. What it gets the target has sent, which has called nothing:
 * it is kept apart and given to the target's counts in MPI_Finalize (output.c). */
#include "pmpi.h"

#include <stdlib.h>

/* Attribute of windows: world ranks of their processes. */
static int world_ranks = MPI_KEYVAL_INVALID;

static int forget_ranks(MPI_Win win, int keyval, void *ranks, void *extra)
{
    (void)win, (void)keyval, (void)extra;
    free(ranks);
    return MPI_SUCCESS;
}

/* The world rank of a process of `win`; negative ones stay what they are. */
static int world_of(MPI_Win win, int rank)
{
    int found = 0, *ranks = NULL;
    if (rank < 0)
        return rank;
    profile_lock();
    if (world_ranks == MPI_KEYVAL_INVALID)
        PMPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, forget_ranks, &world_ranks, NULL);
    PMPI_Win_get_attr(win, world_ranks, &ranks, &found);
    if (!found) {
        MPI_Group group;
        PMPI_Win_get_group(win, &group);
        ranks = profile_world_ranks(group);
        PMPI_Win_set_attr(win, world_ranks, ranks);
    }
    profile_unlock();
    return ranks[rank];
}

static void put(MPI_Win win, int rank, uint64_t bytes)
{
    if (profile_is_counting())
        profile_count(world_of(win, rank), bytes);
}

static void get(MPI_Win win, int rank, uint64_t bytes)
{
    if (profile_is_counting())
        profile_count_fetched(world_of(win, rank), bytes);
}

/* The calls of one kind of count; REQUEST and ITS_NAME are what those that make a request have more. */
#define TRANSFERS(S, COUNT, PUT, GET, ACCUMULATE, GET_ACCUMULATE, REQUEST, ITS_NAME)                                     \
    int MPI_##PUT##S(const void *out, COUNT n, MPI_Datatype t, int rank, MPI_Aint at, COUNT m, MPI_Datatype u,           \
                     MPI_Win win REQUEST)                                                                                \
    {                                                                                                                    \
        int error = PMPI_##PUT##S(out, n, t, rank, at, m, u, win ITS_NAME);                                              \
        if (error == MPI_SUCCESS)                                                                                        \
            put(win, rank, profile_bytes(n, t));                                                                         \
        return error;                                                                                                    \
    }                                                                                                                    \
    int MPI_##GET##S(void *in, COUNT n, MPI_Datatype t, int rank, MPI_Aint at, COUNT m, MPI_Datatype u,                  \
                     MPI_Win win REQUEST)                                                                                \
    {                                                                                                                    \
        int error = PMPI_##GET##S(in, n, t, rank, at, m, u, win ITS_NAME);                                               \
        if (error == MPI_SUCCESS)                                                                                        \
            get(win, rank, profile_bytes(n, t));                                                                         \
        return error;                                                                                                    \
    }                                                                                                                    \
    int MPI_##ACCUMULATE##S(const void *out, COUNT n, MPI_Datatype t, int rank, MPI_Aint at, COUNT m, MPI_Datatype u,    \
                            MPI_Op op, MPI_Win win REQUEST)                                                              \
    {                                                                                                                    \
        int error = PMPI_##ACCUMULATE##S(out, n, t, rank, at, m, u, op, win ITS_NAME);                                   \
        if (error == MPI_SUCCESS)                                                                                        \
            put(win, rank, profile_bytes(n, t));                                                                         \
        return error;                                                                                                    \
    }                                                                                                                    \
    int MPI_##GET_ACCUMULATE##S(const void *out, COUNT n, MPI_Datatype t, void *in, COUNT k, MPI_Datatype v, int rank,   \
                                MPI_Aint at, COUNT m, MPI_Datatype u, MPI_Op op, MPI_Win win REQUEST)                    \
    {                                                                                                                    \
        int error = PMPI_##GET_ACCUMULATE##S(out, n, t, in, k, v, rank, at, m, u, op, win ITS_NAME);                     \
        if (error == MPI_SUCCESS && op != MPI_NO_OP)                                                                     \
            put(win, rank, profile_bytes(n, t));                                                                         \
        if (error == MPI_SUCCESS)                                                                                        \
            get(win, rank, profile_bytes(k, v));                                                                         \
        return error;                                                                                                    \
    }

#define REQUEST_PARAMETER , MPI_Request *request
#define REQUEST_ARGUMENT , request
#define BOTH(S, COUNT)                                                                                                   \
    TRANSFERS(S, COUNT, Put, Get, Accumulate, Get_accumulate, , )                                                        \
    TRANSFERS(S, COUNT, Rput, Rget, Raccumulate, Rget_accumulate, REQUEST_PARAMETER, REQUEST_ARGUMENT)

BOTH(, int)
#if HAS_LARGE
BOTH(_c, MPI_Count)
#endif

int MPI_Fetch_and_op(const void *out, void *in, MPI_Datatype type, int rank, MPI_Aint at, MPI_Op op, MPI_Win win)
{
    int error = PMPI_Fetch_and_op(out, in, type, rank, at, op, win);
    if (error == MPI_SUCCESS && op != MPI_NO_OP)
        put(win, rank, profile_bytes(1, type));
    if (error == MPI_SUCCESS)
        get(win, rank, profile_bytes(1, type));
    return error;
}

/* The new value and the one to be compared with go together. */
int MPI_Compare_and_swap(const void *out, const void *with, void *in, MPI_Datatype type, int rank, MPI_Aint at, MPI_Win win)
{
    int error = PMPI_Compare_and_swap(out, with, in, type, rank, at, win);
    if (error == MPI_SUCCESS) {
        put(win, rank, 2 * profile_bytes(1, type));
        get(win, rank, profile_bytes(1, type));
    }
    return error;
}
