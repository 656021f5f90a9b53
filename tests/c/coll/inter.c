/* Collectives on an inter-communicator of uneven halves: all of them, rooted ones with ROOT and PROC_NULL. */
#include "coll/coll.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    coll_args(argc, argv);
    if (check_size < 2) return check_skip("needs two ranks");
    int left = (check_size + 2) / 3, side = check_rank >= left, lr, ln, rn;
    MPI_Comm local, inter;
    OK(MPI_Comm_split(MPI_COMM_WORLD, side, 0, &local));
    OK(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, side ? 0 : left, 3, &inter));
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    OK(MPI_Comm_rank(inter, &lr));
    OK(MPI_Comm_size(inter, &ln));
    OK(MPI_Comm_remote_size(inter, &rn));
    int max = ln > rn ? ln : rn, *a = alloc(max * 600 * sizeof(int)), *b = alloc(max * 600 * sizeof(int)), bad;
    static const int ns[] = {0, 1, 40, 600};
    for (int s = 0; s < LEN(ns); s++) {
        int n = ns[s], id = 900 + s;
        COLL_(Barrier, barrier, , (void)0, inter);
        for (int root_side = 0; root_side < 2; root_side++) {
            int group_n = root_side == side ? ln : rn; /* size of the root's group */
            for (int root = 0; root < group_n; root++) {
                int arg = root_side == side ? (lr == root ? MPI_ROOT : MPI_PROC_NULL) : root;
                int sender = side != root_side; /* this side takes part with data */
                for (int i = 0; i < n; i++) a[i] = arg == MPI_ROOT ? value(id, root, 9, i) : -1;
                COLL(Bcast, bcast, (void)0, a, n, MPI_INT, arg, inter);
                bad = 0;
                if (coll_form && root && on_mpich()) /* the oracle's Ibcast between groups always starts at rank 0 */
                    sender = 0;
                if (sender) for (int i = 0; i < n; i++) bad += a[i] != value(id, root, 9, i);
                CHECK(bad == 0, "bcast n %d root %d of side %d: a[0] %d", n, root, root_side, a[0]);
                sender = side != root_side;
                for (int i = 0; i < n; i++) a[i] = value(id, lr, 1, i) & 0xffff;
                COLL(Gather, gather, memset(b, 0, rn * n * sizeof(int)), a, n, MPI_INT, b, n, MPI_INT, arg, inter);
                bad = 0;
                if (arg == MPI_ROOT)
                    for (int r = 0; r < rn; r++) for (int i = 0; i < n; i++) bad += b[r * n + i] != (value(id, r, 1, i) & 0xffff);
                EQ(bad, 0);
                COLL(Reduce, reduce, memset(b, 0, n * sizeof(int)), a, b, n, MPI_INT, MPI_SUM, arg, inter);
                bad = 0;
                if (arg == MPI_ROOT)
                    for (int i = 0; i < n; i++) { int w = 0; for (int r = 0; r < rn; r++) w += value(id, r, 1, i) & 0xffff; bad += b[i] != w; }
                EQ(bad, 0);
                if (arg == MPI_ROOT)
                    for (int r = 0; r < rn; r++) for (int i = 0; i < n; i++) b[r * n + i] = value(id, root, r, i);
                COLL(Scatter, scatter, memset(a, 0, n * sizeof(int)), b, n, MPI_INT, a, n, MPI_INT, arg, inter);
                bad = 0;
                if (sender) for (int i = 0; i < n; i++) bad += a[i] != value(id, root, lr, i);
                EQ(bad, 0);
            }
        }
        for (int i = 0; i < n; i++) a[i] = value(id, lr + 50 * side, 2, i) & 0xffff;
        int other = 50 * !side;
        COLL(Allgather, allgather, memset(b, 0, rn * n * sizeof(int)), a, n, MPI_INT, b, n, MPI_INT, inter);
        bad = 0;
        for (int r = 0; r < rn; r++) for (int i = 0; i < n; i++) bad += b[r * n + i] != (value(id, r + other, 2, i) & 0xffff);
        EQ(bad, 0);
        COLL(Allreduce, allreduce, memset(b, 0, n * sizeof(int)), a, b, n, MPI_INT, MPI_SUM, inter);
        bad = 0;
        for (int i = 0; i < n; i++) { int w = 0; for (int r = 0; r < rn; r++) w += value(id, r + other, 2, i) & 0xffff; bad += b[i] != w; }
        EQ(bad, 0);
        for (int r = 0; r < rn; r++) for (int i = 0; i < n; i++) a[r * n + i] = value(id, lr + 50 * side, r, i);
        COLL(Alltoall, alltoall, memset(b, 0, rn * n * sizeof(int)), a, n, MPI_INT, b, n, MPI_INT, inter);
        bad = 0;
        for (int r = 0; r < rn; r++) for (int i = 0; i < n; i++) bad += b[r * n + i] != value(id, r + other, lr, i);
        EQ(bad, 0);
        /* reduce_scatter_block: both groups hand in the same total: rn * ln elements in blocks */
        int each_here = rn, total = ln * rn; /* my group receives total in ln blocks of rn */
        int *c = alloc(total * sizeof(int)), *d = alloc(total * sizeof(int));
        for (int i = 0; i < total; i++) c[i] = (lr + 1) * 100 + i + side;
        COLL(Reduce_scatter_block, reduce_scatter_block, memset(d, 0, total * sizeof(int)), c, d, each_here, MPI_INT, MPI_SUM, inter);
        bad = 0;
        for (int i = 0; i < each_here; i++) {
            int w = 0;
            for (int r = 0; r < rn; r++) w += (r + 1) * 100 + lr * each_here + i + !side;
            bad += d[i] != w;
        }
        EQ(bad, 0);
        free(c); free(d);
    }
    /* v forms with different lengths per rank */
    int cnt[64], dsp[64], scnt[64], sdsp[64];
    MPI_Count bc[64], sbc[64];
    MPI_Aint bd[64], sbd[64];
    for (int r = 0; r < rn; r++) cnt[r] = r + 1, dsp[r] = r * (r + 1) / 2, bc[r] = cnt[r], bd[r] = dsp[r];
    for (int r = 0; r < rn; r++) scnt[r] = lr + 1, sdsp[r] = 0, sbc[r] = scnt[r], sbd[r] = 0;
    for (int i = 0; i <= lr; i++) a[i] = lr * 10 + i + 1000 * side;
    COLLV(Allgatherv, allgatherv, memset(b, 0, 600), ARGS(a, lr + 1, MPI_INT, b, cnt, dsp, MPI_INT, inter), ARGS(a, lr + 1, MPI_INT, b, bc, bd, MPI_INT, inter));
    for (int r = 0; r < rn; r++) for (int i = 0; i <= r; i++) EQ(b[dsp[r] + i], r * 10 + i + 1000 * !side);
    COLLV(Alltoallv, alltoallv, memset(b, 0, 600), ARGS(a, scnt, sdsp, MPI_INT, b, cnt, dsp, MPI_INT, inter), ARGS(a, sbc, sbd, MPI_INT, b, bc, bd, MPI_INT, inter));
    for (int r = 0; r < rn; r++) for (int i = 0; i <= r; i++) EQ(b[dsp[r] + i], r * 10 + i + 1000 * !side);
    FAILS_ANY(MPI_Scan(a, b, 1, MPI_INT, MPI_SUM, inter));
    OK(MPI_Comm_free(&inter));
    OK(MPI_Comm_free(&local));
    return check_done();
}
