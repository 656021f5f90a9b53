/* Neighbourhood collectives on cart, graph and dist_graph communicators against what each neighbour must have sent. */
#include "coll/coll.h"
enum { D = 32 };
static int in_n, out_n, src[D], dst[D];

static void run(MPI_Comm c, const char *what)
{
    int me, n = 5, bad = 0;
    MPI_Comm_rank(c, &me);
    int a[D * 8], b[D * 8];
    /* The k-th receive from a neighbour that appears several times gets the k-th message which it sends to us. */
    for (int i = 0; i < n; i++) a[i] = me * 100 + i;
    COLL(Neighbor_allgather, neighbor_allgather, memset(b, 0xee, sizeof b), a, n, MPI_INT, b, n, MPI_INT, c);
    for (int k = 0; k < in_n; k++)
        for (int i = 0; i < n; i++)
            bad += src[k] == MPI_PROC_NULL ? b[k * n + i] != (int)0xeeeeeeee : b[k * n + i] != src[k] * 100 + i;
    CHECK(bad == 0, "%s allgather: %d", what, bad);
    int cnt[D], dsp[D], scnt[D], sdsp[D];
    MPI_Count bcn[D], bsc[D];
    MPI_Aint bdn[D], bsd[D];
    for (int k = 0; k < in_n; k++) {
        int from = src[k] == MPI_PROC_NULL ? 0 : src[k];
        cnt[k] = from % 3 + 1, dsp[k] = k * 7, bcn[k] = cnt[k], bdn[k] = dsp[k];
    }
    COLLV(Neighbor_allgatherv, neighbor_allgatherv, memset(b, 0xee, sizeof b), ARGS(a, me % 3 + 1, MPI_INT, b, cnt, dsp, MPI_INT, c),
          ARGS(a, me % 3 + 1, MPI_INT, b, bcn, bdn, MPI_INT, c));
    for (int k = bad = 0; k < in_n; k++)
        if (src[k] != MPI_PROC_NULL)
            for (int i = 0; i < cnt[k]; i++) bad += b[dsp[k] + i] != src[k] * 100 + i;
    CHECK(bad == 0, "%s allgatherv: %d", what, bad);
    for (int k = 0; k < out_n; k++) for (int i = 0; i < n; i++) a[k * n + i] = me * 1000 + (dst[k] < 0 ? 0 : dst[k]) * 10 + i;
    COLL(Neighbor_alltoall, neighbor_alltoall, memset(b, 0xee, sizeof b), a, n, MPI_INT, b, n, MPI_INT, c);
    for (int k = bad = 0; k < in_n; k++)
        for (int i = 0; i < n; i++)
            bad += src[k] == MPI_PROC_NULL ? b[k * n + i] != (int)0xeeeeeeee : b[k * n + i] != src[k] * 1000 + me * 10 + i;
    CHECK(bad == 0, "%s alltoall: %d", what, bad);
    for (int k = 0; k < out_n; k++) scnt[k] = me % 3 + 1, sdsp[k] = k * n, bsc[k] = scnt[k], bsd[k] = sdsp[k];
    COLLV(Neighbor_alltoallv, neighbor_alltoallv, memset(b, 0xee, sizeof b), ARGS(a, scnt, sdsp, MPI_INT, b, cnt, dsp, MPI_INT, c),
          ARGS(a, bsc, bsd, MPI_INT, b, bcn, bdn, MPI_INT, c));
    for (int k = bad = 0; k < in_n; k++)
        if (src[k] != MPI_PROC_NULL)
            for (int i = 0; i < cnt[k]; i++) bad += b[dsp[k] + i] != src[k] * 1000 + me * 10 + i;
    CHECK(bad == 0, "%s alltoallv: %d", what, bad);
    MPI_Aint sb[D], rb[D];
    MPI_Datatype st[D], rt[D];
    for (int k = 0; k < out_n; k++) sb[k] = sdsp[k] * 4, st[k] = MPI_INT;
    for (int k = 0; k < in_n; k++) rb[k] = dsp[k] * 4, rt[k] = MPI_INT;
    COLLV(Neighbor_alltoallw, neighbor_alltoallw, memset(b, 0xee, sizeof b), ARGS(a, scnt, sb, st, b, cnt, rb, rt, c), ARGS(a, bsc, sb, st, b, bcn, rb, rt, c));
    for (int k = bad = 0; k < in_n; k++)
        if (src[k] != MPI_PROC_NULL)
            for (int i = 0; i < cnt[k]; i++) bad += b[dsp[k] + i] != src[k] * 1000 + me * 10 + i;
    CHECK(bad == 0, "%s alltoallw: %d", what, bad);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    coll_args(argc, argv);
    int p = check_size, dims[3] = {0, 0, 0};
    for (int nd = 1; nd <= 3; nd++)
        for (int periodic = 0; periodic < 2; periodic++) {
            int per[3] = {periodic, periodic, periodic};
            MPI_Comm c;
            memset(dims, 0, sizeof dims);
            OK(MPI_Dims_create(p, nd, dims));
            OK(MPI_Cart_create(MPI_COMM_WORLD, nd, dims, per, 0, &c));
            in_n = out_n = 2 * nd;
            for (int d = 0; d < nd; d++) { OK(MPI_Cart_shift(c, d, 1, &src[2 * d], &src[2 * d + 1])); }
            memcpy(dst, src, sizeof dst);
            char what[30];
            snprintf(what, 30, "cart %d-d %d", nd, periodic);
            int narrow = 0; /* both neighbours the same rank: blocks cross over, checked by values of equal senders anyway */
            (void)narrow;
            run(c, what);
            OK(MPI_Comm_free(&c));
        }
    /* graph: a ring with a chord to rank 0 */
    int *index = alloc(p * sizeof(int)), *edges = alloc(4 * p * sizeof(int)), e = 0, me = check_rank;
    for (int r = 0; r < p; r++) {
        edges[e++] = (r + 1) % p;
        edges[e++] = (r + p - 1) % p;
        index[r] = e;
        if (r == me) { in_n = out_n = 2; memcpy(src, edges + e - 2, 8); memcpy(dst, src, 8); }
    }
    MPI_Comm c;
    OK(MPI_Graph_create(MPI_COMM_WORLD, p, index, edges, 0, &c));
    run(c, "graph");
    OK(MPI_Comm_free(&c));
    /* dist_graph: everybody sends to the next three and to rank 0; rank 0 hears from all */
    in_n = out_n = 0;
    for (int k = 1; k <= 3; k++) { dst[out_n++] = (me + k) % p; src[in_n++] = (me + 3 * p - k) % p; }
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in_n, src, MPI_UNWEIGHTED, out_n, dst, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &c));
    run(c, "dist_graph");
    OK(MPI_Comm_free(&c));
    in_n = 0, out_n = 1, dst[0] = 0;
    if (me == 0) for (int r = 0; r < p && r < D; r++) src[in_n++] = r;
    if (p <= D) {
        OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in_n, src, MPI_UNWEIGHTED, out_n, dst, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &c));
        run(c, "star");
        OK(MPI_Comm_free(&c));
    }
    return check_done();
}
