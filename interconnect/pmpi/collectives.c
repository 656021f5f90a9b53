/* Collectives: how often each was called and how many bytes this rank has put into it. What an MPI library sends underneath can't be seen
 * from here; with FERRULE_PMPI_COLLECTIVES=direct those that only move data are counted as if it went straight to where it is needed. */
#include "pmpi.h"

#include <stdlib.h>

enum { COLLECTIVES_MAX = 256 };
static Collective table[COLLECTIVES_MAX];
static int used;

const Collective *profile_collectives(int *number)
{
    *number = used;
    return table;
}

/* One more call. `name` is a literal: the same address each time. */
void profile_note(const char *name, uint64_t bytes)
{
    if (!profile_is_counting())
        return;
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
#define TWO(S, NAME, INAME, PARAMETERS, ARGUMENTS, NOTE)                                                                 \
    int MPI_##NAME##S(UNPACK PARAMETERS)                                                                                 \
    {                                                                                                                    \
        static const char name[] = "MPI_" #NAME #S;                                                                      \
        uint64_t bytes = 0;                                                                                              \
        NOTE;                                                                                                            \
        profile_note(name, bytes);                                                                                       \
        return PMPI_##NAME##S(UNPACK ARGUMENTS);                                                                         \
    }                                                                                                                    \
    int MPI_##INAME##S(UNPACK PARAMETERS, MPI_Request *request)                                                          \
    {                                                                                                                    \
        static const char name[] = "MPI_" #INAME #S;                                                                     \
        uint64_t bytes = 0;                                                                                              \
        NOTE;                                                                                                            \
        profile_note(name, bytes);                                                                                       \
        return PMPI_##INAME##S(UNPACK ARGUMENTS, request);                                                               \
    }

/* Those and the persistent one: what NOTE counts is planned, and counts at each start. */
#if HAS_MPI4
#define BOTH(S, NAME, INAME, PARAMETERS, ARGUMENTS, NOTE)                                                                \
    TWO(S, NAME, INAME, PARAMETERS, ARGUMENTS, NOTE)                                                                     \
    int MPI_##NAME##_init##S(UNPACK PARAMETERS, MPI_Info info, MPI_Request *request)                                     \
    {                                                                                                                    \
        static const char name[] = "MPI_" #NAME "_init" #S;                                                              \
        uint64_t bytes = 0;                                                                                              \
        int error = PMPI_##NAME##_init##S(UNPACK ARGUMENTS, info, request);                                              \
        if (error == MPI_SUCCESS) {                                                                                      \
            profile_plan_begin();                                                                                        \
            NOTE;                                                                                                        \
            Plan *plan = profile_plan_end();                                                                             \
            plan->collective = name;                                                                                     \
            plan->bytes = bytes;                                                                                         \
            profile_prepare(*request, plan);                                                                             \
        }                                                                                                                \
        return error;                                                                                                    \
    }
#else
#define BOTH TWO
#endif

#define COLLECTIVES(S, COUNT, DISPL)                                                                                     \
    BOTH(S, Bcast, Ibcast, (void *buf, COUNT n, MPI_Datatype t, int root, MPI_Comm comm), (buf, n, t, root, comm),    \
         if (root == rank_in(comm)) { bytes = profile_bytes(n, t); to_others(comm, bytes); })                            \
    BOTH(S, Gather, Igather,                                                                                          \
         (const void *out, COUNT n, MPI_Datatype t, void *in, COUNT m, MPI_Datatype u, int root, MPI_Comm comm),         \
         (out, n, t, in, m, u, root, comm),                                                                              \
         if (out != MPI_IN_PLACE && root >= 0) { bytes = profile_bytes(n, t); to_one(comm, root, bytes); })              \
    BOTH(S, Gatherv, Igatherv,                                                                                        \
         (const void *out, COUNT n, MPI_Datatype t, void *in, const COUNT m[], const DISPL d[], MPI_Datatype u, int root,\
          MPI_Comm comm), (out, n, t, in, m, d, u, root, comm),                                                          \
         if (out != MPI_IN_PLACE && root >= 0) { bytes = profile_bytes(n, t); to_one(comm, root, bytes); })              \
    BOTH(S, Scatter, Iscatter,                                                                                        \
         (const void *out, COUNT n, MPI_Datatype t, void *in, COUNT m, MPI_Datatype u, int root, MPI_Comm comm),         \
         (out, n, t, in, m, u, root, comm),                                                                              \
         if (root == rank_in(comm)) { uint64_t one = profile_bytes(n, t); SUM(bytes, one); to_others(comm, one); })      \
    BOTH(S, Scatterv, Iscatterv,                                                                                      \
         (const void *out, const COUNT n[], const DISPL d[], MPI_Datatype t, void *in, COUNT m, MPI_Datatype u, int root,\
          MPI_Comm comm), (out, n, d, t, in, m, u, root, comm),                                                          \
         if (root == rank_in(comm)) { SUM(bytes, profile_bytes(n[i], t)); TO_EACH(profile_bytes(n[i], t)); })            \
    BOTH(S, Allgather, Iallgather,                                                                                    \
         (const void *out, COUNT n, MPI_Datatype t, void *in, COUNT m, MPI_Datatype u, MPI_Comm comm),                   \
         (out, n, t, in, m, u, comm),                                                                                    \
         bytes = out == MPI_IN_PLACE ? profile_bytes(m, u) : profile_bytes(n, t); to_others(comm, bytes))                \
    BOTH(S, Allgatherv, Iallgatherv,                                                                                  \
         (const void *out, COUNT n, MPI_Datatype t, void *in, const COUNT m[], const DISPL d[], MPI_Datatype u,          \
          MPI_Comm comm), (out, n, t, in, m, d, u, comm),                                                                \
         bytes = out == MPI_IN_PLACE ? profile_bytes(m[rank_in(comm)], u) : profile_bytes(n, t); to_others(comm, bytes)) \
    BOTH(S, Alltoall, Ialltoall,                                                                                      \
         (const void *out, COUNT n, MPI_Datatype t, void *in, COUNT m, MPI_Datatype u, MPI_Comm comm),                   \
         (out, n, t, in, m, u, comm),                                                                                    \
         uint64_t one = out == MPI_IN_PLACE ? profile_bytes(m, u) : profile_bytes(n, t); SUM(bytes, one);                \
         to_others(comm, one))                                                                                           \
    BOTH(S, Alltoallv, Ialltoallv,                                                                                    \
         (const void *out, const COUNT n[], const DISPL d[], MPI_Datatype t, void *in, const COUNT m[], const DISPL e[], \
          MPI_Datatype u, MPI_Comm comm), (out, n, d, t, in, m, e, u, comm),                                             \
         const COUNT *of = out == MPI_IN_PLACE ? m : n; MPI_Datatype type = out == MPI_IN_PLACE ? u : t;                 \
         SUM(bytes, profile_bytes(of[i], type)); TO_EACH(profile_bytes(of[i], type)))                                    \
    BOTH(S, Alltoallw, Ialltoallw,                                                                                    \
         (const void *out, const COUNT n[], const DISPL d[], const MPI_Datatype t[], void *in, const COUNT m[],          \
          const DISPL e[], const MPI_Datatype u[], MPI_Comm comm), (out, n, d, t, in, m, e, u, comm),                    \
         const COUNT *of = out == MPI_IN_PLACE ? m : n; const MPI_Datatype *types = out == MPI_IN_PLACE ? u : t;         \
         SUM(bytes, profile_bytes(of[i], types[i])); TO_EACH(profile_bytes(of[i], types[i])))                            \
    BOTH(S, Reduce, Ireduce,                                                                                          \
         (const void *out, void *in, COUNT n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm comm),                       \
         (out, in, n, t, op, root, comm),                                                                                \
         if (root != MPI_PROC_NULL && root != MPI_ROOT) { bytes = profile_bytes(n, t); to_one(comm, root, bytes); })     \
    BOTH(S, Allreduce, Iallreduce, (const void *out, void *in, COUNT n, MPI_Datatype t, MPI_Op op, MPI_Comm comm),    \
         (out, in, n, t, op, comm), bytes = profile_bytes(n, t))                                                         \
    BOTH(S, Reduce_scatter, Ireduce_scatter,                                                                          \
         (const void *out, void *in, const COUNT n[], MPI_Datatype t, MPI_Op op, MPI_Comm comm),                         \
         (out, in, n, t, op, comm), SUM(bytes, profile_bytes(n[i], t)))                                                  \
    BOTH(S, Reduce_scatter_block, Ireduce_scatter_block,                                                              \
         (const void *out, void *in, COUNT n, MPI_Datatype t, MPI_Op op, MPI_Comm comm),                                 \
         (out, in, n, t, op, comm), SUM(bytes, profile_bytes(n, t)))                                                     \
    BOTH(S, Scan, Iscan, (const void *out, void *in, COUNT n, MPI_Datatype t, MPI_Op op, MPI_Comm comm),              \
         (out, in, n, t, op, comm), bytes = profile_bytes(n, t))                                                         \
    BOTH(S, Exscan, Iexscan, (const void *out, void *in, COUNT n, MPI_Datatype t, MPI_Op op, MPI_Comm comm),          \
         (out, in, n, t, op, comm), bytes = profile_bytes(n, t))

/* The neighborhood: the processes that this one sends to, in the order of the blocks; MPI_PROC_NULL beside a border. */
typedef struct {
    int number;
    int *ranks;
} Neighbors;

static Neighbors neighbors_of(MPI_Comm comm)
{
    Neighbors found = { 0, NULL };
    int kind = MPI_UNDEFINED, own = rank_in(comm), in = 0, weighted = 0;
    PMPI_Topo_test(comm, &kind);
    if (kind == MPI_CART) {
        int dimensions = 0;
        PMPI_Cartdim_get(comm, &dimensions);
        found.ranks = malloc((size_t)(2 * dimensions + 1) * sizeof *found.ranks);
        for (int i = 0; i < dimensions; i++, found.number += 2)
            PMPI_Cart_shift(comm, i, 1, &found.ranks[2 * i], &found.ranks[2 * i + 1]);
    } else if (kind == MPI_GRAPH) {
        PMPI_Graph_neighbors_count(comm, own, &found.number);
        found.ranks = malloc((size_t)(found.number + 1) * sizeof *found.ranks);
        PMPI_Graph_neighbors(comm, own, found.number, found.ranks);
    } else if (kind == MPI_DIST_GRAPH) {
        PMPI_Dist_graph_neighbors_count(comm, &in, &found.number, &weighted);
        int *unused = malloc((size_t)(2 * in + found.number + 1) * sizeof *unused);
        found.ranks = malloc((size_t)(found.number + 1) * sizeof *found.ranks);
        PMPI_Dist_graph_neighbors(comm, in, unused, unused + in, found.number, found.ranks, unused + 2 * in);
        free(unused);
    }
    return found;
}

/* What goes to the `i`-th neighbor. */
#define TO_NEIGHBORS(BYTES)                                                                                              \
    Neighbors all = neighbors_of(comm);                                                                                  \
    for (int i = 0; i < all.number; i++) {                                                                               \
        uint64_t one = all.ranks[i] >= 0 ? (BYTES) : 0;                                                                  \
        bytes += one;                                                                                                    \
        if (profile.direct)                                                                                              \
            profile_count_on(comm, all.ranks[i], one);                                                                   \
    }                                                                                                                    \
    free(all.ranks)

#define NEIGHBORHOOD(S, COUNT, DISPL)                                                                                    \
    BOTH(S, Neighbor_allgather, Ineighbor_allgather,                                                                     \
         (const void *out, COUNT n, MPI_Datatype t, void *in, COUNT m, MPI_Datatype u, MPI_Comm comm),                   \
         (out, n, t, in, m, u, comm), TO_NEIGHBORS(profile_bytes(n, t)))                                                 \
    BOTH(S, Neighbor_allgatherv, Ineighbor_allgatherv,                                                                   \
         (const void *out, COUNT n, MPI_Datatype t, void *in, const COUNT m[], const DISPL d[], MPI_Datatype u,          \
          MPI_Comm comm), (out, n, t, in, m, d, u, comm), TO_NEIGHBORS(profile_bytes(n, t)))                             \
    BOTH(S, Neighbor_alltoall, Ineighbor_alltoall,                                                                       \
         (const void *out, COUNT n, MPI_Datatype t, void *in, COUNT m, MPI_Datatype u, MPI_Comm comm),                   \
         (out, n, t, in, m, u, comm), TO_NEIGHBORS(profile_bytes(n, t)))                                                 \
    BOTH(S, Neighbor_alltoallv, Ineighbor_alltoallv,                                                                     \
         (const void *out, const COUNT n[], const DISPL d[], MPI_Datatype t, void *in, const COUNT m[], const DISPL e[], \
          MPI_Datatype u, MPI_Comm comm), (out, n, d, t, in, m, e, u, comm), TO_NEIGHBORS(profile_bytes(n[i], t)))       \
    BOTH(S, Neighbor_alltoallw, Ineighbor_alltoallw,                                                                     \
         (const void *out, const COUNT n[], const MPI_Aint d[], const MPI_Datatype t[], void *in, const COUNT m[],       \
          const MPI_Aint e[], const MPI_Datatype u[], MPI_Comm comm), (out, n, d, t, in, m, e, u, comm),                 \
         TO_NEIGHBORS(profile_bytes(n[i], t[i])))

BOTH(, Barrier, Ibarrier, (MPI_Comm comm), (comm), (void)0)
COLLECTIVES(, int, int)
NEIGHBORHOOD(, int, int)
#if HAS_LARGE
COLLECTIVES(_c, MPI_Count, MPI_Aint)
NEIGHBORHOOD(_c, MPI_Count, MPI_Aint)
#endif
