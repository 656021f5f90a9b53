/* Wrong arguments of collectives. All ranks make the same mistake, so nobody waits for anybody. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    MPI_Comm w = MPI_COMM_WORLD, nul = MPI_COMM_NULL;
    static int a[256], b[256];
    int one[64], zero[64] = {0}, neg[64], p = check_size;
    MPI_Datatype raw, dn = MPI_DATATYPE_NULL, I = MPI_INT, ty[64];
    MPI_Request rq;
    MPI_Info in = MPI_INFO_NULL;
    for (int i = 0; i < 64; i++) one[i] = 1, neg[i] = -1, ty[i] = MPI_INT;
    OK(MPI_Type_contiguous(2, MPI_INT, &raw));
/* each call in three forms */
#define THREE(cls, N, n, ...) do { FAILS(cls, MPI_##N(__VA_ARGS__)); FAILS(cls, MPI_I##n(__VA_ARGS__, &rq)); FAILS(cls, MPI_##N##_init(__VA_ARGS__, in, &rq)); } while (0)
#define SIX(cls, N, n, ...) do { THREE(cls, N, n, __VA_ARGS__); FAILS(cls, MPI_##N##_c(__VA_ARGS__)); FAILS(cls, MPI_I##n##_c(__VA_ARGS__, &rq)); \
        FAILS(cls, MPI_##N##_init_c(__VA_ARGS__, in, &rq)); } while (0)
    THREE(MPI_ERR_COMM, Barrier, barrier, nul);
    SIX(MPI_ERR_COMM, Bcast, bcast, a, 1, I, 0, nul); SIX(MPI_ERR_COUNT, Bcast, bcast, a, -1, I, 0, w); SIX(MPI_ERR_TYPE, Bcast, bcast, a, 1, dn, 0, w);
    SIX(MPI_ERR_TYPE, Bcast, bcast, a, 1, raw, 0, w); SIX(MPI_ERR_ROOT, Bcast, bcast, a, 1, I, p, w); SIX(MPI_ERR_ROOT, Bcast, bcast, a, 1, I, -5, w);
    SIX(MPI_ERR_COMM, Gather, gather, a, 1, I, b, 1, I, 0, nul); SIX(MPI_ERR_COUNT, Gather, gather, a, -1, I, b, 1, I, 0, w);
    SIX(MPI_ERR_TYPE, Gather, gather, a, 1, dn, b, 1, I, 0, w); SIX(MPI_ERR_ROOT, Gather, gather, a, 1, I, b, 1, I, p, w);
    SIX(MPI_ERR_COMM, Scatter, scatter, a, 1, I, b, 1, I, 0, nul); SIX(MPI_ERR_COUNT, Scatter, scatter, a, 1, I, b, -1, I, 0, w);
    SIX(MPI_ERR_TYPE, Scatter, scatter, a, 1, I, b, 1, dn, 0, w); SIX(MPI_ERR_ROOT, Scatter, scatter, a, 1, I, b, 1, I, -9, w);
    SIX(MPI_ERR_COMM, Allgather, allgather, a, 1, I, b, 1, I, nul); SIX(MPI_ERR_COUNT, Allgather, allgather, a, -1, I, b, 1, I, w);
    SIX(MPI_ERR_COUNT, Allgather, allgather, a, 1, I, b, -1, I, w); SIX(MPI_ERR_TYPE, Allgather, allgather, a, 1, dn, b, 1, I, w);
    SIX(MPI_ERR_TYPE, Allgather, allgather, a, 1, I, b, 1, dn, w);
    SIX(MPI_ERR_COMM, Alltoall, alltoall, a, 1, I, b, 1, I, nul); SIX(MPI_ERR_COUNT, Alltoall, alltoall, a, -1, I, b, 1, I, w);
    SIX(MPI_ERR_COUNT, Alltoall, alltoall, a, 1, I, b, -1, I, w); SIX(MPI_ERR_TYPE, Alltoall, alltoall, a, 1, dn, b, 1, I, w);
    SIX(MPI_ERR_TYPE, Alltoall, alltoall, a, 1, I, b, 1, dn, w);
    THREE(MPI_ERR_COMM, Gatherv, gatherv, a, 1, I, b, one, zero, I, 0, nul); THREE(MPI_ERR_ROOT, Gatherv, gatherv, a, 1, I, b, one, zero, I, p, w);
    THREE(MPI_ERR_COUNT, Gatherv, gatherv, a, -1, I, b, one, zero, I, 0, w); THREE(MPI_ERR_TYPE, Gatherv, gatherv, a, 1, dn, b, one, zero, I, 0, w);
    THREE(MPI_ERR_COMM, Scatterv, scatterv, a, one, zero, I, b, 1, I, 0, nul); THREE(MPI_ERR_ROOT, Scatterv, scatterv, a, one, zero, I, b, 1, I, p, w);
    THREE(MPI_ERR_COUNT, Scatterv, scatterv, a, one, zero, I, b, -1, I, 0, w); THREE(MPI_ERR_TYPE, Scatterv, scatterv, a, one, zero, I, b, 1, dn, 0, w);
    THREE(MPI_ERR_COMM, Allgatherv, allgatherv, a, 1, I, b, one, zero, I, nul); THREE(MPI_ERR_COUNT, Allgatherv, allgatherv, a, 1, I, b, neg, zero, I, w);
    THREE(MPI_ERR_TYPE, Allgatherv, allgatherv, a, 1, I, b, one, zero, dn, w);
    THREE(MPI_ERR_COMM, Alltoallv, alltoallv, a, one, zero, I, b, one, zero, I, nul); THREE(MPI_ERR_COUNT, Alltoallv, alltoallv, a, neg, zero, I, b, one, zero, I, w);
    THREE(MPI_ERR_COUNT, Alltoallv, alltoallv, a, one, zero, I, b, neg, zero, I, w); THREE(MPI_ERR_TYPE, Alltoallv, alltoallv, a, one, zero, dn, b, one, zero, I, w);
    THREE(MPI_ERR_COMM, Alltoallw, alltoallw, a, one, zero, ty, b, one, zero, ty, nul); THREE(MPI_ERR_COUNT, Alltoallw, alltoallw, a, neg, zero, ty, b, one, zero, ty, w);
#define REDUCTIONS(N, n) \
    SIX(MPI_ERR_COMM, N, n, a, b, 1, I, MPI_SUM, nul); SIX(MPI_ERR_COUNT, N, n, a, b, -1, I, MPI_SUM, w); STRICT(SIX(MPI_ERR_TYPE, N, n, a, b, 1, dn, MPI_SUM, w)); \
    STRICT(SIX(MPI_ERR_OP, N, n, a, b, 1, I, MPI_OP_NULL, w)); STRICT(SIX(MPI_ERR_OP, N, n, a, b, 1, MPI_DOUBLE, MPI_BXOR, w));
    if (on_mpich()) /* the oracle crashes on wrong types and operations of reductions */
        return check_done();
    REDUCTIONS(Allreduce, allreduce) REDUCTIONS(Scan, scan) REDUCTIONS(Exscan, exscan) REDUCTIONS(Reduce_scatter_block, reduce_scatter_block)
    SIX(MPI_ERR_COMM, Reduce, reduce, a, b, 1, I, MPI_SUM, 0, nul); SIX(MPI_ERR_COUNT, Reduce, reduce, a, b, -1, I, MPI_SUM, 0, w);
    SIX(MPI_ERR_TYPE, Reduce, reduce, a, b, 1, dn, MPI_SUM, 0, w); SIX(MPI_ERR_OP, Reduce, reduce, a, b, 1, I, MPI_OP_NULL, 0, w);
    SIX(MPI_ERR_ROOT, Reduce, reduce, a, b, 1, I, MPI_SUM, p, w); SIX(MPI_ERR_OP, Reduce, reduce, a, b, 1, MPI_FLOAT, MPI_BOR, 0, w);
    THREE(MPI_ERR_COMM, Reduce_scatter, reduce_scatter, a, b, one, I, MPI_SUM, nul); THREE(MPI_ERR_COUNT, Reduce_scatter, reduce_scatter, a, b, neg, I, MPI_SUM, w);
    THREE(MPI_ERR_OP, Reduce_scatter, reduce_scatter, a, b, one, I, MPI_OP_NULL, w);
    /* neighbourhood collectives need a topology */
    THREE(MPI_ERR_TOPOLOGY, Neighbor_allgather, neighbor_allgather, a, 1, I, b, 1, I, w); THREE(MPI_ERR_TOPOLOGY, Neighbor_alltoall, neighbor_alltoall, a, 1, I, b, 1, I, w);
    THREE(MPI_ERR_COMM, Neighbor_allgather, neighbor_allgather, a, 1, I, b, 1, I, nul);
    /* in place where it isn't allowed */
    FAILS(MPI_ERR_BUFFER, MPI_Bcast(MPI_IN_PLACE, 1, I, 0, w));
    FAILS(MPI_ERR_BUFFER, MPI_Allreduce(a, MPI_IN_PLACE, 1, I, MPI_SUM, w));
    FAILS(MPI_ERR_COUNT, MPI_Reduce_local(a, b, -1, I, MPI_SUM)); FAILS(MPI_ERR_OP, MPI_Reduce_local(a, b, 1, I, MPI_OP_NULL)); FAILS(MPI_ERR_TYPE, MPI_Reduce_local(a, b, 1, dn, MPI_SUM));
    MPI_Op op = MPI_SUM, on = MPI_OP_NULL;
    FAILS2(MPI_ERR_OP, MPI_ERR_ARG, MPI_Op_free(&op)); FAILS2(MPI_ERR_OP, MPI_ERR_ARG, MPI_Op_free(&on));
    OK(MPI_Type_free(&raw));
    OK(MPI_Allreduce(a, b, 1, I, MPI_SUM, w));
    return check_done();
}
