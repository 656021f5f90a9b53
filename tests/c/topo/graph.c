/* graph and dist_graph: queries give back what was put in; weights; the general constructor; reorder keeps the graph. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    int p = check_size, me = check_rank, n, e, nb[16], nn, w, *index = alloc(p * sizeof(int)), *edges = alloc(2 * p * sizeof(int));
    MPI_Comm c;
    for (int r = 0; r < p; r++) { index[r] = 2 * (r + 1); edges[2 * r] = (r + 1) % p; edges[2 * r + 1] = (r + p - 1) % p; }
    OK(MPI_Graph_create(MPI_COMM_WORLD, p, index, edges, 0, &c));
    OK(MPI_Topo_test(c, &n)); EQ(n, MPI_GRAPH);
    OK(MPI_Graphdims_get(c, &n, &e)); EQ(n, p); EQ(e, 2 * p);
    int *i2 = alloc(p * sizeof(int)), *e2 = alloc(2 * p * sizeof(int));
    OK(MPI_Graph_get(c, p, 2 * p, i2, e2));
    EQ(memcmp(index, i2, p * sizeof(int)), 0); EQ(memcmp(edges, e2, 2 * p * sizeof(int)), 0);
    for (int r = 0; r < p; r++) {
        OK(MPI_Graph_neighbors_count(c, r, &nn)); EQ(nn, 2);
        OK(MPI_Graph_neighbors(c, r, 2, nb)); EQ(nb[0], (r + 1) % p); EQ(nb[1], (r + p - 1) % p);
    }
    OK(MPI_Comm_free(&c));
    OK(MPI_Graph_map(MPI_COMM_WORLD, p, index, edges, &n)); CHECK(n >= 0 && n < p);
    /* adjacent, weighted */
    int src[2] = {(me + p - 1) % p, me}, dst[2] = {(me + 1) % p, me}, sw[2] = {me + 1, 7}, dw[2] = {(me + 1) % p + 1, 7}, s2[2], d2[2], sw2[2], dw2[2], in, out;
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, src, sw, 2, dst, dw, MPI_INFO_NULL, 0, &c));
    OK(MPI_Topo_test(c, &n)); EQ(n, MPI_DIST_GRAPH);
    OK(MPI_Dist_graph_neighbors_count(c, &in, &out, &w)); EQ(in, 2); EQ(out, 2); EQ(w, 1);
    OK(MPI_Dist_graph_neighbors(c, 2, s2, sw2, 2, d2, dw2));
    for (int i = 0; i < 2; i++) { EQ(s2[i], src[i]); EQ(d2[i], dst[i]); EQ(sw2[i], sw[i]); EQ(dw2[i], dw[i]); }
    OK(MPI_Comm_free(&c));
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, src, MPI_UNWEIGHTED, 1, dst, MPI_UNWEIGHTED, MPI_INFO_NULL, 1, &c));
    OK(MPI_Dist_graph_neighbors_count(c, &in, &out, &w)); EQ(in, 1); EQ(out, 1); EQ(w, 0);
    int r2; /* reordered or not: the ring is still a ring of processes by old rank */
    OK(MPI_Comm_rank(c, &r2));
    OK(MPI_Dist_graph_neighbors(c, 1, s2, MPI_UNWEIGHTED, 1, d2, MPI_UNWEIGHTED));
    int got = -1;
    OK(MPI_Neighbor_allgather(&r2, 1, MPI_INT, &got, 1, MPI_INT, c)); EQ(got, s2[0]);
    OK(MPI_Comm_free(&c));
    /* general: rank 0 names all edges (a star plus a ring), the others nothing */
    int srcs[64], degs[64], dsts[256], ws[256], k = 0, m = 0;
    if (me == 0)
        for (int r = 0; r < p && r < 64; r++) { srcs[m] = r; degs[m++] = 2; ws[k] = r; dsts[k++] = (r + 1) % p; ws[k] = 100 + r; dsts[k++] = 0; }
    OK(MPI_Dist_graph_create(MPI_COMM_WORLD, m, srcs, degs, dsts, ws, MPI_INFO_NULL, 0, &c));
    OK(MPI_Dist_graph_neighbors_count(c, &in, &out, &w)); EQ(out, 2); EQ(in, me == 0 ? p + 1 : 1); EQ(w, 1);
    int is[80], iw[80], os[80], ow[80];
    OK(MPI_Dist_graph_neighbors(c, in, is, iw, out, os, ow));
    int sum = 0, so = os[0] + os[1];
    for (int i = 0; i < in; i++) sum += is[i];
    EQ(so, (me + 1) % p); EQ(sum, me == 0 ? p * (p - 1) / 2 + p - 1 : me - 1);
    int wsum = ow[0] + ow[1]; EQ(wsum, 100 + 2 * me);
    OK(MPI_Comm_free(&c));
    /* every rank names an edge that is not its own */
    int s1 = (me + 1) % p, deg = 1, d1 = (me + 2) % p;
    OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &s1, &deg, &d1, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &c));
    OK(MPI_Dist_graph_neighbors_count(c, &in, &out, &w)); EQ(in, 1); EQ(out, 1); EQ(w, 0);
    OK(MPI_Dist_graph_neighbors(c, 1, is, MPI_UNWEIGHTED, 1, os, MPI_UNWEIGHTED)); EQ(is[0], (me + p - 1) % p); EQ(os[0], (me + 1) % p);
    OK(MPI_Comm_free(&c));
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, NULL, MPI_WEIGHTS_EMPTY, 0, NULL, MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &c));
    OK(MPI_Dist_graph_neighbors_count(c, &in, &out, &w)); EQ(in, 0); EQ(out, 0);
    OK(MPI_Comm_free(&c));
    return check_done();
}
