/* Collectives: how often each was called and how many bytes this rank has put into it. What an MPI library sends underneath can't be seen
 * from here; with FERRULE_PMPI_COLLECTIVES=direct those that only move data are counted as if it went straight to where it is needed. */
#include "pmpi.h"

#include <stddef.h>

enum { COLLECTIVES_MAX = 128 };
static Collective table[COLLECTIVES_MAX];
static int used;

const Collective *profile_collectives(int *number)
{
    *number = used;
    return table;
}

/* One more call. `name` is a literal: the same address each time. */
static void note(const char *name, uint64_t bytes)
{
    profile_lock();
    int at = 0;
    while (at < used && table[at].name != name)
        at++;
    if (at < COLLECTIVES_MAX) {
        table[at].name = name;
        table[at].calls++;
        table[at].bytes += bytes;
        used = at < used ? used : at + 1;
    }
    profile_unlock();
}

static int size_of(MPI_Comm comm)
{
    int size = 0;
    PMPI_Comm_size(comm, &size);
    return size;
}

static int rank_in(MPI_Comm comm)
{
    int rank = 0;
    PMPI_Comm_rank(comm, &rank);
    return rank;
}

static int is_direct(MPI_Comm comm)
{
    int inter = 0;
    if (profile.direct)
        PMPI_Comm_test_inter(comm, &inter);
    return profile.direct && !inter;
}

static void to_one(MPI_Comm comm, int root, uint64_t bytes)
{
    if (is_direct(comm) && root != rank_in(comm))
        profile_count_on(comm, root, bytes);
}

static void to_others(MPI_Comm comm, uint64_t bytes)
{
    int own = rank_in(comm), size = size_of(comm);
    for (int i = 0; is_direct(comm) && i < size; i++)
        if (i != own)
            profile_count_on(comm, i, bytes);
}

/* What goes to the `i`-th process, if it is not this one. */
#define TO_EACH(BYTES)                                                                                                   \
    for (int i = 0, own = rank_in(comm), size = is_direct(comm) ? size_of(comm) : 0; i < size; i++)                      \
        if (i != own)                                                                                                    \
            profile_count_on(comm, i, BYTES)

/* Sum of `BYTES` over the processes of the communicator. */
#define SUM(INTO, BYTES)                                                                                                 \
    do {                                                                                                                 \
        for (int i = 0, size = size_of(comm); i < size; i++)                                                             \
            INTO += BYTES;                                                                                               \
    } while (0)

#define UNPACK(...) __VA_ARGS__

/* A collective and the one that returns at once. NOTE sets `bytes`, and may count what goes to whom. */
#define BOTH(NAME, INAME, PARAMETERS, ARGUMENTS, NOTE)                                                                   \
    int MPI_##NAME(UNPACK PARAMETERS)                                                                                    \
    {                                                                                                                    \
        static const char name[] = "MPI_" #NAME;                                                                         \
        uint64_t bytes = 0;                                                                                              \
        NOTE;                                                                                                            \
        note(name, bytes);                                                                                               \
        return PMPI_##NAME(UNPACK ARGUMENTS);                                                                            \
    }                                                                                                                    \
    int MPI_##INAME(UNPACK PARAMETERS, MPI_Request *request)                                                             \
    {                                                                                                                    \
        static const char name[] = "MPI_" #INAME;                                                                        \
        uint64_t bytes = 0;                                                                                              \
        NOTE;                                                                                                            \
        note(name, bytes);                                                                                               \
        return PMPI_##INAME(UNPACK ARGUMENTS, request);                                                                  \
    }

#define COLLECTIVES(S, COUNT, DISPL)                                                                                     \
    BOTH(Bcast##S, Ibcast##S, (void *buf, COUNT n, MPI_Datatype t, int root, MPI_Comm comm), (buf, n, t, root, comm),    \
         if (root == rank_in(comm)) { bytes = profile_bytes(n, t); to_others(comm, bytes); })                            \
    BOTH(Gather##S, Igather##S,                                                                                          \
         (const void *out, COUNT n, MPI_Datatype t, void *in, COUNT m, MPI_Datatype u, int root, MPI_Comm comm),         \
         (out, n, t, in, m, u, root, comm),                                                                              \
         if (out != MPI_IN_PLACE && root >= 0) { bytes = profile_bytes(n, t); to_one(comm, root, bytes); })              \
    BOTH(Gatherv##S, Igatherv##S,                                                                                        \
         (const void *out, COUNT n, MPI_Datatype t, void *in, const COUNT m[], const DISPL d[], MPI_Datatype u, int root,\
          MPI_Comm comm), (out, n, t, in, m, d, u, root, comm),                                                          \
         if (out != MPI_IN_PLACE && root >= 0) { bytes = profile_bytes(n, t); to_one(comm, root, bytes); })              \
    BOTH(Scatter##S, Iscatter##S,                                                                                        \
         (const void *out, COUNT n, MPI_Datatype t, void *in, COUNT m, MPI_Datatype u, int root, MPI_Comm comm),         \
         (out, n, t, in, m, u, root, comm),                                                                              \
         if (root == rank_in(comm)) { uint64_t one = profile_bytes(n, t); SUM(bytes, one); to_others(comm, one); })      \
    BOTH(Scatterv##S, Iscatterv##S,                                                                                      \
         (const void *out, const COUNT n[], const DISPL d[], MPI_Datatype t, void *in, COUNT m, MPI_Datatype u, int root,\
          MPI_Comm comm), (out, n, d, t, in, m, u, root, comm),                                                          \
         if (root == rank_in(comm)) { SUM(bytes, profile_bytes(n[i], t)); TO_EACH(profile_bytes(n[i], t)); })            \
    BOTH(Allgather##S, Iallgather##S,                                                                                    \
         (const void *out, COUNT n, MPI_Datatype t, void *in, COUNT m, MPI_Datatype u, MPI_Comm comm),                   \
         (out, n, t, in, m, u, comm),                                                                                    \
         bytes = out == MPI_IN_PLACE ? profile_bytes(m, u) : profile_bytes(n, t); to_others(comm, bytes))                \
    BOTH(Allgatherv##S, Iallgatherv##S,                                                                                  \
         (const void *out, COUNT n, MPI_Datatype t, void *in, const COUNT m[], const DISPL d[], MPI_Datatype u,          \
          MPI_Comm comm), (out, n, t, in, m, d, u, comm),                                                                \
         bytes = out == MPI_IN_PLACE ? profile_bytes(m[rank_in(comm)], u) : profile_bytes(n, t); to_others(comm, bytes)) \
    BOTH(Alltoall##S, Ialltoall##S,                                                                                      \
         (const void *out, COUNT n, MPI_Datatype t, void *in, COUNT m, MPI_Datatype u, MPI_Comm comm),                   \
         (out, n, t, in, m, u, comm),                                                                                    \
         uint64_t one = out == MPI_IN_PLACE ? profile_bytes(m, u) : profile_bytes(n, t); SUM(bytes, one);                \
         to_others(comm, one))                                                                                           \
    BOTH(Alltoallv##S, Ialltoallv##S,                                                                                    \
         (const void *out, const COUNT n[], const DISPL d[], MPI_Datatype t, void *in, const COUNT m[], const DISPL e[], \
          MPI_Datatype u, MPI_Comm comm), (out, n, d, t, in, m, e, u, comm),                                             \
         const COUNT *of = out == MPI_IN_PLACE ? m : n; MPI_Datatype type = out == MPI_IN_PLACE ? u : t;                 \
         SUM(bytes, profile_bytes(of[i], type)); TO_EACH(profile_bytes(of[i], type)))                                    \
    BOTH(Alltoallw##S, Ialltoallw##S,                                                                                    \
         (const void *out, const COUNT n[], const DISPL d[], const MPI_Datatype t[], void *in, const COUNT m[],          \
          const DISPL e[], const MPI_Datatype u[], MPI_Comm comm), (out, n, d, t, in, m, e, u, comm),                    \
         const COUNT *of = out == MPI_IN_PLACE ? m : n; const MPI_Datatype *types = out == MPI_IN_PLACE ? u : t;         \
         SUM(bytes, profile_bytes(of[i], types[i])); TO_EACH(profile_bytes(of[i], types[i])))                            \
    BOTH(Reduce##S, Ireduce##S,                                                                                          \
         (const void *out, void *in, COUNT n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm comm),                       \
         (out, in, n, t, op, root, comm),                                                                                \
         if (root != MPI_PROC_NULL && root != MPI_ROOT) { bytes = profile_bytes(n, t); to_one(comm, root, bytes); })     \
    BOTH(Allreduce##S, Iallreduce##S, (const void *out, void *in, COUNT n, MPI_Datatype t, MPI_Op op, MPI_Comm comm),    \
         (out, in, n, t, op, comm), bytes = profile_bytes(n, t))                                                         \
    BOTH(Reduce_scatter##S, Ireduce_scatter##S,                                                                          \
         (const void *out, void *in, const COUNT n[], MPI_Datatype t, MPI_Op op, MPI_Comm comm),                         \
         (out, in, n, t, op, comm), SUM(bytes, profile_bytes(n[i], t)))                                                  \
    BOTH(Reduce_scatter_block##S, Ireduce_scatter_block##S,                                                              \
         (const void *out, void *in, COUNT n, MPI_Datatype t, MPI_Op op, MPI_Comm comm),                                 \
         (out, in, n, t, op, comm), SUM(bytes, profile_bytes(n, t)))                                                     \
    BOTH(Scan##S, Iscan##S, (const void *out, void *in, COUNT n, MPI_Datatype t, MPI_Op op, MPI_Comm comm),              \
         (out, in, n, t, op, comm), bytes = profile_bytes(n, t))                                                         \
    BOTH(Exscan##S, Iexscan##S, (const void *out, void *in, COUNT n, MPI_Datatype t, MPI_Op op, MPI_Comm comm),          \
         (out, in, n, t, op, comm), bytes = profile_bytes(n, t))

BOTH(Barrier, Ibarrier, (MPI_Comm comm), (comm), (void)0)
COLLECTIVES(, int, int)
#if MPI_VERSION >= 4
COLLECTIVES(_c, MPI_Count, MPI_Aint)
#endif
