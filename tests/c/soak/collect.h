/* Collective operations of the random program: arguments, expected results. */
#ifndef COLLECT_H
#define COLLECT_H
#include "check.h"

enum { BARRIER, BCAST, REDUCE, ALLREDUCE, COMPOSE, GATHER, SCATTER, ALLGATHER, ALLTOALL, ALLTOALLV, SCAN, SCATTER_BLOCK,
       GATHERV, COLLECTIVES };

struct collective {
    int kind, root, count, nonblocking, in_place, size, me;
    uint64_t id;
    uint64_t *in, *out;
    int *tables;            /* four of `size` ints: counts and displacements of both sides */
};

static MPI_Op op_compose;
static MPI_Datatype type_affine;

/* x -> a x + b: composition is associative, not commutative. */
static void compose(void *in, void *inout, int *len, MPI_Datatype *type)
{
    uint64_t *f = in, *g = inout;
    (void)type;
    for (int i = 0; i < *len; i++, f += 2, g += 2) {
        g[1] += g[0] * f[1];
        g[0] *= f[0];
    }
}
static void collect_init(void)
{
    OK(MPI_Type_contiguous(2, MPI_UINT64_T, &type_affine));
    OK(MPI_Type_commit(&type_affine));
    OK(MPI_Op_create(compose, 0, &op_compose));
}
static void collect_finish(void)
{
    OK(MPI_Op_free(&op_compose));
    OK(MPI_Type_free(&type_affine));
}

static uint64_t value(const struct collective *c, int rank, int i)
{
    return (c->id * 1000003u + rank * 7919u + i * 31u) & 0xffffff;
}
/* What `from` has for `to` in an alltoallv. */
static int amount(const struct collective *c, int from, int to) { return (c->count * (1 + (from * 3 + to * 5) % 4)) / 4; }

static uint64_t expected(const struct collective *c, int i)
{
    int each = c->count ? c->count : 1;
    uint64_t sum = 0, f[2] = {1, 0};
    switch (c->kind) {
    case BCAST: return value(c, c->root, i);
    case GATHER: case ALLGATHER: case GATHERV: return value(c, i / each, i % each);
    case SCATTER: return value(c, c->root, c->me * c->count + i);
    case ALLTOALL: return value(c, i / each, c->me * c->count + i % each);
    case COMPOSE:
        for (int r = 0; r < c->size; r++) {
            uint64_t g[2] = {value(c, r, i & ~1), value(c, r, i | 1)};
            int one = 1;
            compose(f, g, &one, NULL);
            f[0] = g[0];
            f[1] = g[1];
        }
        return f[i & 1];
    default:
        for (int r = 0; r < (c->kind == SCAN ? c->me + 1 : c->size); r++)
            sum += value(c, r, c->kind == SCATTER_BLOCK ? c->me * c->count + i : i);
        return sum;
    }
}

static int has_result(const struct collective *c)
{
    return (c->kind != REDUCE && c->kind != GATHER && c->kind != GATHERV) || c->me == c->root;
}
static int result_length(const struct collective *c)
{
    switch (c->kind) {
    case BARRIER: return 0;
    case GATHER: case ALLGATHER: case ALLTOALL: case GATHERV: return c->count * c->size;
    case COMPOSE: return c->count & ~1;
    default: return c->count;
    }
}

static void collect_check(struct collective *c)
{
    if (c->kind == ALLTOALLV) {
        for (int r = 0, at = 0; r < c->size; at += amount(c, r++, c->me))
            for (int i = 0; i < amount(c, r, c->me); i++)
                if (c->out[at + i] != value(c, r, c->me * c->count + i)) {
                    CHECK(0, "alltoallv of %d from %d at %d", c->count, r, i);
                    return;
                }
        return;
    }
    for (int i = 0; has_result(c) && i < result_length(c); i++)
        if (c->out[i] != expected(c, i)) {
            CHECK(0, "collective %d of %d, size %d root %d in place %d, at %d: %llx, expected %llx", c->kind, c->count, c->size,
                c->root, c->in_place, i, (unsigned long long)c->out[i], (unsigned long long)expected(c, i));
            return;
        }
}
static void collect_free(struct collective *c)
{
    free(c->in);
    free(c->out);
    free(c->tables);
    free(c);
}

static void alltoallv_tables(struct collective *c)
{
    int *counts = c->tables, *to = counts + c->size, *got = to + c->size, *from = got + c->size, at = 0;
    for (int r = 0; r < c->size; r++) {
        counts[r] = amount(c, c->me, r);
        to[r] = r * c->count;
        got[r] = amount(c, r, c->me);
        from[r] = at;
        at += got[r];
    }
}

/* Starts the operation, or performs it: then the request stays MPI_REQUEST_NULL. */
static void collect_start(struct collective *c, MPI_Comm comm, MPI_Request *rq)
{
    int n = c->count, total = n * c->size, root = c->root;
    c->in = alloc((total + 2) * sizeof(uint64_t));
    c->out = alloc((total + 2) * sizeof(uint64_t));
    c->tables = calloc(4 * c->size, sizeof(int));
    for (int i = 0; i < total; i++)
        c->in[i] = value(c, c->me, i);
    int *t = c->tables, s = c->size;
    void *in = c->in;
    if (c->in_place && (c->kind == ALLREDUCE || c->kind == SCAN || (c->kind == REDUCE && c->me == root))) {
        memcpy(c->out, c->in, n * sizeof *c->in);
        in = MPI_IN_PLACE;
    }
    if (c->in_place && c->kind == ALLGATHER) {
        memcpy(c->out + c->me * n, c->in, n * sizeof *c->in);
        in = MPI_IN_PLACE;
    }
#define DO(now, begin, ...) OK(c->nonblocking ? MPI_##begin(__VA_ARGS__, rq) : MPI_##now(__VA_ARGS__))
    const MPI_Datatype u = MPI_UINT64_T;
    switch (c->kind) {
    case BARRIER:
        if (c->nonblocking)
            OK(MPI_Ibarrier(comm, rq));
        else
            OK(MPI_Barrier(comm));
        break;
    case BCAST:
        if (c->me == root)
            memcpy(c->out, c->in, n * sizeof *c->in);
        DO(Bcast, Ibcast, c->out, n, u, root, comm);
        break;
    case REDUCE: DO(Reduce, Ireduce, in, c->out, n, u, MPI_SUM, root, comm); break;
    case ALLREDUCE: DO(Allreduce, Iallreduce, in, c->out, n, u, MPI_SUM, comm); break;
    case COMPOSE: DO(Allreduce, Iallreduce, in, c->out, n / 2, type_affine, op_compose, comm); break;
    case GATHER: DO(Gather, Igather, in, n, u, c->out, n, u, root, comm); break;
    case SCATTER: DO(Scatter, Iscatter, in, n, u, c->out, n, u, root, comm); break;
    case ALLGATHER: DO(Allgather, Iallgather, in, n, u, c->out, n, u, comm); break;
    case ALLTOALL: DO(Alltoall, Ialltoall, in, n, u, c->out, n, u, comm); break;
    case ALLTOALLV:
        alltoallv_tables(c);
        DO(Alltoallv, Ialltoallv, in, t, t + s, u, c->out, t + 2 * s, t + 3 * s, u, comm);
        break;
    case SCAN: DO(Scan, Iscan, in, c->out, n, u, MPI_SUM, comm); break;
    case SCATTER_BLOCK: DO(Reduce_scatter_block, Ireduce_scatter_block, in, c->out, n, u, MPI_SUM, comm); break;
    case GATHERV:
        for (int r = 0; r < s; r++) {
            t[r] = n;
            t[s + r] = r * n;
        }
        DO(Gatherv, Igatherv, in, n, u, c->out, t, t + s, u, root, comm);
        break;
    }
#undef DO
}
#endif
