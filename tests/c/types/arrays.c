/* subarray and darray against direct formulas, both orders, all distributions, several process grids. */
#include "check.h"

/* Owner of global index g in one dimension. */
static int owner(int g, int size, int procs, int dist, int darg)
{
    if (dist == MPI_DISTRIBUTE_NONE)
        return 0;
    if (dist == MPI_DISTRIBUTE_BLOCK)
        return g / (darg == MPI_DISTRIBUTE_DFLT_DARG ? (size + procs - 1) / procs : darg);
    return g / (darg == MPI_DISTRIBUTE_DFLT_DARG ? 1 : darg) % procs;
}

static void darray(const int *gs, const int *dist, const int *darg, const int *ps, int order, int rank)
{
    MPI_Datatype t;
    MPI_Aint lb, ext;
    int procs = ps[0] * ps[1] * ps[2], total = gs[0] * gs[1] * gs[2], size, bad = 0, k = 0, position = 0;
    OK(MPI_Type_create_darray(procs, rank, 3, gs, dist, darg, ps, order, MPI_INT, &t));
    OK(MPI_Type_commit(&t));
    OK(MPI_Type_get_extent(t, &lb, &ext));
    EQ(lb, 0);
    EQ(ext, total * (int)sizeof(int));
    int *whole = alloc(total * sizeof(int)), *mine = alloc(total * sizeof(int));
    for (int i = 0; i < total; i++)
        whole[i] = i;
    OK(MPI_Type_size(t, &size));
    OK(MPI_Pack(whole, 1, t, mine, size, &position, MPI_COMM_SELF));
    int coord[3] = {rank / (ps[1] * ps[2]), rank / ps[2] % ps[1], rank % ps[2]}; /* the grid is always row-major */
    for (int at = 0; at < total; at++) { /* memory order */
        int g[3];
        if (order == MPI_ORDER_C)
            g[0] = at / (gs[1] * gs[2]), g[1] = at / gs[2] % gs[1], g[2] = at % gs[2];
        else
            g[2] = at / (gs[0] * gs[1]), g[1] = at / gs[0] % gs[1], g[0] = at % gs[0];
        int ours = 1;
        for (int d = 0; d < 3; d++)
            ours &= owner(g[d], gs[d], ps[d], dist[d], darg[d]) == coord[d];
        if (ours)
            bad += k * (int)sizeof(int) >= size || mine[k] != at, k++;
    }
    EQ(size, k * (int)sizeof(int));
    CHECK(bad == 0, "darray: %d wrong", bad);
    free(whole); free(mine);
    OK(MPI_Type_free(&t));
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    static const int dists[3] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE};
    uint64_t s = 7;
    for (int trial = 0; trial < 300; trial++) {
        int gs[3], dist[3], darg[3], ps[3];
        for (int d = 0; d < 3; d++) {
            dist[d] = dists[rnd_below(&s, 3)];
            ps[d] = dist[d] == MPI_DISTRIBUTE_NONE ? 1 : 1 + rnd_below(&s, 3);
            gs[d] = 1 + rnd_below(&s, 9);
            darg[d] = MPI_DISTRIBUTE_DFLT_DARG;
            if (dist[d] == MPI_DISTRIBUTE_CYCLIC && rnd_below(&s, 2))
                darg[d] = 1 + rnd_below(&s, 3);
            if (dist[d] == MPI_DISTRIBUTE_BLOCK && rnd_below(&s, 2))
                darg[d] = (gs[d] + ps[d] - 1) / ps[d] + rnd_below(&s, 2);
        }
        int procs = ps[0] * ps[1] * ps[2];
        for (int r = 0; r < procs; r++)
            darray(gs, dist, darg, ps, rnd_below(&s, 2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, r);
    }
    for (int trial = 0; trial < 300; trial++) { /* subarrays of 1 to 4 dimensions */
        int nd = 1 + rnd_below(&s, 4), sizes[4], sub[4], start[4], total = 1, sn = 1, order = rnd_below(&s, 2), bad = 0, position = 0, k = 0;
        for (int d = 0; d < nd; d++) {
            sizes[d] = 1 + rnd_below(&s, 6);
            sub[d] = 1 + rnd_below(&s, sizes[d]);
            start[d] = rnd_below(&s, sizes[d] - sub[d] + 1);
            total *= sizes[d];
            sn *= sub[d];
        }
        MPI_Datatype t;
        OK(MPI_Type_create_subarray(nd, sizes, sub, start, order ? MPI_ORDER_C : MPI_ORDER_FORTRAN, MPI_INT, &t));
        OK(MPI_Type_commit(&t));
        int *whole = alloc(total * sizeof(int)), *mine = alloc(sn * sizeof(int));
        for (int i = 0; i < total; i++)
            whole[i] = i;
        OK(MPI_Pack(whole, 1, t, mine, sn * (int)sizeof(int), &position, MPI_COMM_SELF));
        for (int at = 0; at < total; at++) {
            int rest = at, in = 1;
            for (int q = 0; q < nd; q++) { /* fastest dimension first */
                int d = order ? nd - 1 - q : q, g = rest % sizes[d];
                rest /= sizes[d];
                in &= g >= start[d] && g < start[d] + sub[d];
            }
            if (in)
                bad += mine[k++] != at;
        }
        EQ(k, sn);
        EQ(bad, 0);
        free(whole); free(mine);
        OK(MPI_Type_free(&t));
    }
    return check_done();
}
