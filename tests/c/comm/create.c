/* dup, idup, dup_with_info, split, split_type, create, create_group; compare; isolation of traffic; many alive at once. */
#include "check.h"

static void works(MPI_Comm c, int tag) /* point-to-point ring and a collective on c */
{
    int r, n, sum = 0, in = -1;
    OK(MPI_Comm_rank(c, &r));
    OK(MPI_Comm_size(c, &n));
    OK(MPI_Sendrecv(&r, 1, MPI_INT, (r + 1) % n, tag, &in, 1, MPI_INT, (r + n - 1) % n, tag, c, MPI_STATUS_IGNORE));
    EQ(in, (r + n - 1) % n);
    OK(MPI_Allreduce(&r, &sum, 1, MPI_INT, MPI_SUM, c));
    EQ(sum, n * (n - 1) / 2);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    MPI_Comm w = MPI_COMM_WORLD, c, d, many[200];
    MPI_Request rq;
    MPI_Group world, g;
    int res, rank, size, flag;
    OK(MPI_Comm_compare(w, w, &res)); EQ(res, MPI_IDENT);
    OK(MPI_Comm_dup(w, &c)); OK(MPI_Comm_compare(w, c, &res)); EQ(res, MPI_CONGRUENT); works(c, 1);
    OK(MPI_Comm_compare(w, MPI_COMM_SELF, &res)); EQ(res, check_size == 1 ? MPI_CONGRUENT : MPI_UNEQUAL);
    /* the same tags on two communicators don't meet */
    int a = 1, b = 2, x = 0, y = 0;
    MPI_Request two[2];
    OK(MPI_Irecv(&x, 1, MPI_INT, check_rank, 5, c, &two[0]));
    OK(MPI_Irecv(&y, 1, MPI_INT, check_rank, 5, w, &two[1]));
    OK(MPI_Send(&a, 1, MPI_INT, check_rank, 5, w));
    OK(MPI_Send(&b, 1, MPI_INT, check_rank, 5, c));
    OK(MPI_Waitall(2, two, MPI_STATUSES_IGNORE));
    EQ(x, 2); EQ(y, 1);
    OK(MPI_Comm_free(&c)); EQ(c == MPI_COMM_NULL, 1);
    OK(MPI_Comm_idup(w, &c, &rq)); OK(MPI_Comm_idup(w, &d, &two[0]));
    OK(MPI_Wait(&two[0], MPI_STATUS_IGNORE)); OK(MPI_Wait(&rq, MPI_STATUS_IGNORE));
    works(c, 2); works(d, 3);
    OK(MPI_Comm_free(&c)); OK(MPI_Comm_free(&d));
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Comm_dup_with_info(w, info, &c)); works(c, 1); OK(MPI_Comm_free(&c));
    OK(MPI_Comm_idup_with_info(w, info, &c, &rq)); OK(MPI_Wait(&rq, MPI_STATUS_IGNORE)); works(c, 1); OK(MPI_Comm_free(&c));
    OK(MPI_Info_free(&info));
    /* split: keys reverse the order; equal keys keep it; undefined */
    OK(MPI_Comm_split(w, check_rank % 2, -check_rank, &c));
    OK(MPI_Comm_rank(c, &rank)); OK(MPI_Comm_size(c, &size));
    EQ(size, (check_size + !(check_rank % 2)) / 2);
    EQ(rank, size - 1 - check_rank / 2);
    works(c, 4);
    OK(MPI_Comm_split(c, 0, 0, &d)); OK(MPI_Comm_compare(c, d, &res)); EQ(res, MPI_CONGRUENT); OK(MPI_Comm_free(&d));
    OK(MPI_Comm_free(&c));
    OK(MPI_Comm_split(w, 0, -check_rank, &c)); OK(MPI_Comm_compare(w, c, &res)); EQ(res, check_size == 1 ? MPI_CONGRUENT : MPI_SIMILAR); OK(MPI_Comm_free(&c));
    OK(MPI_Comm_split(w, check_rank ? MPI_UNDEFINED : 3, 0, &c)); EQ(c == MPI_COMM_NULL, check_rank != 0); if (!check_rank) { works(c, 1); OK(MPI_Comm_free(&c)); }
    OK(MPI_Comm_split_type(w, MPI_COMM_TYPE_SHARED, -check_rank, MPI_INFO_NULL, &c));
    OK(MPI_Comm_size(c, &size)); EQ(size, check_size); /* one node here */
    OK(MPI_Comm_rank(c, &rank)); EQ(rank, size - 1 - check_rank); works(c, 5); OK(MPI_Comm_free(&c));
    OK(MPI_Comm_split_type(w, MPI_UNDEFINED, 0, MPI_INFO_NULL, &c)); EQ(c == MPI_COMM_NULL, 1);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_hw_resource_type", "mpi_shared_memory"));
    OK(MPI_Comm_split_type(w, MPI_COMM_TYPE_HW_GUIDED, check_rank, info, &c));
    if (c != MPI_COMM_NULL) { OK(MPI_Comm_size(c, &size)); EQ(size, check_size); works(c, 6); OK(MPI_Comm_free(&c)); }
    OK(MPI_Info_set(info, "mpi_hw_resource_type", "no such thing"));
    OK(MPI_Comm_split_type(w, MPI_COMM_TYPE_HW_GUIDED, check_rank, info, &c)); EQ(c == MPI_COMM_NULL, 1);
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_split_type(w, MPI_COMM_TYPE_HW_UNGUIDED, check_rank, MPI_INFO_NULL, &c));
    if (c != MPI_COMM_NULL) { OK(MPI_Comm_size(c, &size)); CHECK(size < check_size || check_size == 1, "not a strict part"); OK(MPI_Comm_free(&c)); }
    /* create: the upper half in reverse */
    int ranks[64], n = 0;
    for (int r = check_size - 1; r >= check_size / 2; r--) ranks[n++] = r;
    OK(MPI_Comm_group(w, &world));
    OK(MPI_Group_incl(world, n, ranks, &g));
    OK(MPI_Comm_create(w, g, &c));
    EQ(c == MPI_COMM_NULL, check_rank < check_size / 2);
    if (c != MPI_COMM_NULL) { OK(MPI_Comm_rank(c, &rank)); EQ(rank, check_size - 1 - check_rank); works(c, 7); OK(MPI_Comm_free(&c)); }
    if (check_rank >= check_size / 2) { /* only the members call */
        OK(MPI_Comm_create_group(w, g, 17, &c));
        works(c, 8);
        OK(MPI_Comm_create_group(c, g, 17, &d));
        works(d, 8);
        OK(MPI_Comm_free(&c)); OK(MPI_Comm_free(&d));
    }
    OK(MPI_Group_free(&g)); OK(MPI_Group_free(&world));
    /* disjoint groups create at the same time with the same tag */
    OK(MPI_Comm_group(w, &world));
    int mine[64]; n = 0;
    for (int r = check_rank % 2; r < check_size; r += 2) mine[n++] = r;
    OK(MPI_Group_incl(world, n, mine, &g));
    OK(MPI_Comm_create_group(w, g, 1, &c)); works(c, 9); OK(MPI_Comm_free(&c));
    OK(MPI_Group_free(&g)); OK(MPI_Group_free(&world));
    /* many at once, and many one after the other */
    for (int i = 0; i < 200; i++) OK(MPI_Comm_dup(i ? many[i - 1] : w, &many[i]));
    works(many[199], 1); works(many[100], 1);
    for (int i = 0; i < 200; i++) OK(MPI_Comm_free(&many[i]));
    for (int i = 0; i < 1500; i++) { OK(MPI_Comm_dup(i % 2 ? MPI_COMM_SELF : w, &c)); OK(MPI_Comm_free(&c)); }
    OK(MPI_Comm_dup(w, &c)); OK(MPI_Comm_disconnect(&c)); EQ(c == MPI_COMM_NULL, 1);
    OK(MPI_Comm_test_inter(w, &flag)); EQ(flag, 0);
    return check_done();
}
