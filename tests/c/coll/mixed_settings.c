/* Ranks are started with different FERRULE_COLL_* settings: all collectives give right results all the same, on MPI_COMM_WORLD, communicators made
 * from it, from a group, and between groups. */
#include "check.h"

enum { MOST = 4000 };

static int in[MOST], out[64 * MOST], back[64 * MOST];

static void all(MPI_Comm comm, int count)
{
    int n, me, wrong = 0;
    OK(MPI_Comm_size(comm, &n));
    OK(MPI_Comm_rank(comm, &me));
    for (int root = 0; root < n; root++) {
        OK(MPI_Barrier(comm));
        for (int i = 0; i < count; i++)
            in[i] = me == root ? root * 7 + i : -1;
        OK(MPI_Bcast(in, count, MPI_INT, root, comm));
        for (int i = 0; i < count; i++)
            wrong += in[i] != root * 7 + i;
        for (int i = 0; i < count; i++)
            in[i] = me + i;
        OK(MPI_Reduce(in, out, count, MPI_INT, MPI_SUM, root, comm));
        for (int i = 0; me == root && i < count; i++)
            wrong += out[i] != n * (n - 1) / 2 + n * i;
        OK(MPI_Gather(in, count, MPI_INT, out, count, MPI_INT, root, comm));
        for (int i = 0; me == root && i < n * count; i++)
            wrong += out[i] != i / count + i % count;
        OK(MPI_Scatter(out, count, MPI_INT, back, count, MPI_INT, root, comm));
        for (int i = 0; i < count; i++)
            wrong += back[i] != me + i;
    }
    OK(MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, comm));
    for (int i = 0; i < count; i++)
        wrong += out[i] != n * (n - 1) / 2 + n * i;
    OK(MPI_Scan(in, out, count, MPI_INT, MPI_SUM, comm));
    for (int i = 0; i < count; i++)
        wrong += out[i] != me * (me + 1) / 2 + (me + 1) * i;
    OK(MPI_Allgather(in, count, MPI_INT, out, count, MPI_INT, comm));
    for (int i = 0; i < n * count; i++)
        wrong += out[i] != i / count + i % count;
    OK(MPI_Reduce_scatter_block(out, back, count, MPI_INT, MPI_SUM, comm));
    for (int i = 0; i < count; i++)
        wrong += back[i] != n * (me + i);
    for (int i = 0; i < n * count; i++)
        out[i] = me * 1000 + i;
    OK(MPI_Alltoall(out, count, MPI_INT, back, count, MPI_INT, comm));
    for (int i = 0; i < n * count; i++)
        wrong += back[i] != i / count * 1000 + me * count + i % count;
    CHECK(wrong == 0, "%d wrong items of %d, %d ranks", wrong, count, n);
}

static void every_size(MPI_Comm comm)
{
    static const int counts[] = {1, 50, MOST};
    for (int i = 0; i < 3; i++)
        all(comm, counts[i]);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    MPI_Comm made, half;
    MPI_Group group;
    every_size(MPI_COMM_WORLD);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &made));
    every_size(made);
    OK(MPI_Comm_free(&made));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &group));
    OK(MPI_Comm_create_from_group(group, "mixed", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &made));
    every_size(made);
    OK(MPI_Comm_free(&made));
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, -check_rank, &half));
    every_size(half);
    OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, check_size - 1 - check_rank % 2, 3, &made));
    OK(MPI_Comm_free(&half));
    OK(MPI_Barrier(made));
    OK(MPI_Intercomm_merge(made, check_rank % 2, &half));
    every_size(half);
    OK(MPI_Comm_free(&half));
    OK(MPI_Comm_free(&made));
    return check_done();
}
