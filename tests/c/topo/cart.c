/* Cartesian topologies: create, rank and coords, shift, sub, map, dims_create, wrong arguments. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    int nd = 3, dims[3] = {0, 0, 0}, per[3] = {1, 0, 1}, co[3], d2[3], p2[3], c2[3], r, n, a, b;
    MPI_Comm c, s;
    OK(MPI_Dims_create(check_size, nd, dims));
    EQ(dims[0] * dims[1] * dims[2], check_size);
    CHECK(dims[0] >= dims[1] && dims[1] >= dims[2], "not in falling order");
    OK(MPI_Cart_create(MPI_COMM_WORLD, nd, dims, per, 1, &c));
    OK(MPI_Topo_test(c, &n)); EQ(n, MPI_CART);
    OK(MPI_Topo_test(MPI_COMM_WORLD, &n)); EQ(n, MPI_UNDEFINED);
    OK(MPI_Cartdim_get(c, &n)); EQ(n, 3);
    OK(MPI_Comm_rank(c, &r));
    OK(MPI_Cart_get(c, 3, d2, p2, c2));
    for (int i = 0; i < 3; i++) { EQ(d2[i], dims[i]); EQ(p2[i], per[i]); }
    for (int q = 0; q < check_size; q++) {
        OK(MPI_Cart_coords(c, q, 3, co));
        EQ(q, (co[0] * dims[1] + co[1]) * dims[2] + co[2]);
        OK(MPI_Cart_rank(c, co, &n)); EQ(n, q);
        co[0] += 5 * dims[0]; co[2] -= 3 * dims[2]; /* periodic dimensions wrap */
        OK(MPI_Cart_rank(c, co, &n)); EQ(n, q);
    }
    co[1] = dims[1];
    OK(MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN));
    FAILS2(MPI_ERR_RANK, MPI_ERR_ARG, MPI_Cart_rank(c, co, &n));
    OK(MPI_Cart_coords(c, r, 3, co));
    for (int d = 0; d < 3; d++)
        for (int disp = -2; disp <= 2; disp++) {
            int to[3] = {co[0], co[1], co[2]}, from[3] = {co[0], co[1], co[2]}, want_to, want_from;
            OK(MPI_Cart_shift(c, d, disp, &a, &b));
            to[d] += disp; from[d] -= disp;
            int out_to = to[d] < 0 || to[d] >= dims[d], out_from = from[d] < 0 || from[d] >= dims[d];
            to[d] = ((to[d] % dims[d]) + dims[d]) % dims[d]; from[d] = ((from[d] % dims[d]) + dims[d]) % dims[d];
            want_to = out_to && !per[d] ? MPI_PROC_NULL : (to[0] * dims[1] + to[1]) * dims[2] + to[2];
            want_from = out_from && !per[d] ? MPI_PROC_NULL : (from[0] * dims[1] + from[1]) * dims[2] + from[2];
            EQ(a, want_from); EQ(b, want_to);
        }
    int keep[3] = {1, 0, 1};
    OK(MPI_Cart_sub(c, keep, &s));
    OK(MPI_Comm_size(s, &n)); EQ(n, dims[0] * dims[2]);
    OK(MPI_Cartdim_get(s, &n)); EQ(n, 2);
    OK(MPI_Cart_get(s, 2, d2, p2, c2)); EQ(d2[1], dims[2]); EQ(c2[0], co[0]); EQ(c2[1], co[2]); EQ(p2[1], 1);
    OK(MPI_Comm_free(&s));
    int none[3] = {0, 0, 0};
    OK(MPI_Cart_sub(c, none, &s)); OK(MPI_Comm_size(s, &n)); EQ(n, 1); OK(MPI_Cartdim_get(s, &n)); EQ(n, 0); OK(MPI_Comm_free(&s));
    OK(MPI_Comm_dup(c, &s)); OK(MPI_Topo_test(s, &n)); EQ(n, MPI_CART); OK(MPI_Comm_free(&s));
    OK(MPI_Comm_free(&c));
    OK(MPI_Cart_create(MPI_COMM_WORLD, 0, NULL, NULL, 0, &c)); EQ(c != MPI_COMM_NULL, check_rank == 0); if (c != MPI_COMM_NULL) OK(MPI_Comm_free(&c));
    int one[1] = {1}; /* smaller than the group: the others get COMM_NULL */
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, one, per, 0, &c)); EQ(c != MPI_COMM_NULL, check_rank == 0); if (c != MPI_COMM_NULL) OK(MPI_Comm_free(&c));
    OK(MPI_Cart_map(MPI_COMM_WORLD, 3, dims, per, &n)); CHECK(n >= 0 && n < check_size);
    int big[2] = {check_size + 1, 2}, neg[1] = {-1};
    FAILS_ANY(MPI_Cart_create(MPI_COMM_WORLD, 2, big, per, 0, &c));
    if (!on_mpich()) /* the oracle takes a negative dimension */
        FAILS_ANY(MPI_Cart_create(MPI_COMM_WORLD, 1, neg, per, 0, &c));
    static const int cases[][5] = {{6, 2, 0, 0, 0}, {7, 2, 0, 0, 0}, {6, 3, 0, 3, 0}, {60, 3, 0, 0, 0}, {1024, 3, 0, 0, 0}, {96, 2, 0, 0, 0}};
    static const int want[][3] = {{3, 2}, {7, 1}, {2, 3, 1}, {5, 4, 3}, {16, 8, 8}, {12, 8}};
    for (int i = 0; i < LEN(cases); i++) {
        int d[3] = {cases[i][2], cases[i][3], cases[i][4]};
        OK(MPI_Dims_create(cases[i][0], cases[i][1], d));
        for (int k = 0; k < cases[i][1]; k++) CHECK(d[k] == want[i][k], "dims_create(%d, %d): [%d] is %d, expected %d", cases[i][0], cases[i][1], k, d[k], want[i][k]);
    }
    int bad[2] = {4, 0};
    FAILS2(MPI_ERR_DIMS, MPI_ERR_ARG, MPI_Dims_create(6, 2, bad));
    FAILS(MPI_ERR_TOPOLOGY, MPI_Cart_coords(MPI_COMM_WORLD, 0, 1, co));
    FAILS(MPI_ERR_TOPOLOGY, MPI_Cart_shift(MPI_COMM_WORLD, 0, 1, &a, &b));
    FAILS(MPI_ERR_TOPOLOGY, MPI_Graphdims_get(MPI_COMM_WORLD, &a, &b));
    return check_done();
}
