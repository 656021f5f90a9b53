/* A collective that one rank gets refused for its arguments has not happened there: the correct call that follows meets the others' call. */
#include "check.h"

static int a[64], b[64], counts[64], displs[64], n;

/* Every rank calls the collective rightly, and gets the right result. */
static void reduce_works(void)
{
    for (int i = 0; i < 4; i++) a[i] = check_rank + i, b[i] = -1;
    OK(MPI_Reduce(a, b, 4, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD));
    for (int i = 0; i < 4 && check_rank == 0; i++) EQ(b[i], n * (n - 1) / 2 + n * i);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void bcast_works(int value)
{
    a[0] = check_rank == 0 ? value : -1;
    OK(MPI_Bcast(a, 1, MPI_INT, 0, MPI_COMM_WORLD));
    EQ(a[0], value);
}

/* A non-blocking or persistent broadcast of every rank; frees the request. */
static void completes(MPI_Request *request, int persistent, int value)
{
    if (persistent)
        OK(MPI_Start(request));
    OK(MPI_Wait(request, MPI_STATUS_IGNORE));
    EQ(a[0], value);
    if (persistent)
        OK(MPI_Request_free(request));
}

static void blocking(int who)
{
    if (check_rank == who) {
        FAILS(MPI_ERR_ROOT, MPI_Bcast(a, 1, MPI_INT, n, MPI_COMM_WORLD));
        FAILS(MPI_ERR_ROOT, MPI_Reduce(a, b, 1, MPI_INT, MPI_SUM, -7, MPI_COMM_WORLD));
        FAILS(MPI_ERR_ROOT, MPI_Gather(a, 1, MPI_INT, b, 1, MPI_INT, n, MPI_COMM_WORLD));
        FAILS(MPI_ERR_ROOT, MPI_Scatterv(a, counts, displs, MPI_INT, b, 1, MPI_INT, n, MPI_COMM_WORLD));
    }
    bcast_works(10 + who);
    reduce_works();
    if (check_rank == who && n > 1) {
        FAILS(MPI_ERR_BUFFER, MPI_Allreduce(a, a, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        FAILS(MPI_ERR_BUFFER, MPI_Reduce(a, a, 4, MPI_INT, MPI_SUM, check_rank, MPI_COMM_WORLD));
    }
    reduce_works();
    counts[n - 1] = -1;
    if (check_rank == who) {
        FAILS(MPI_ERR_COUNT, MPI_Allgatherv(a, 1, MPI_INT, b, counts, displs, MPI_INT, MPI_COMM_WORLD));
        FAILS(MPI_ERR_COUNT, MPI_Alltoallv(a, counts, displs, MPI_INT, b, counts, displs, MPI_INT, MPI_COMM_WORLD));
        /* the oracle crashes on an operation that its type hasn't */
        STRICT(FAILS(MPI_ERR_OP, MPI_Scan(a, b, 1, MPI_DOUBLE, MPI_BXOR, MPI_COMM_WORLD)));
    }
    counts[n - 1] = 1;
    a[0] = check_rank;
    OK(MPI_Allgatherv(a, 1, MPI_INT, b, counts, displs, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < n; i++) EQ(b[i], i);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void nonblocking(int who)
{
    MPI_Request request;
    for (int persistent = 0; persistent < 2; persistent++) {
        if (check_rank == who && persistent) {
            FAILS(MPI_ERR_ROOT, MPI_Bcast_init(a, 1, MPI_INT, n, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
            FAILS(MPI_ERR_BUFFER, MPI_Reduce_init(a, a, 4, MPI_INT, MPI_SUM, who, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
        } else if (check_rank == who) {
            FAILS(MPI_ERR_ROOT, MPI_Ibcast(a, 1, MPI_INT, n, MPI_COMM_WORLD, &request));
            FAILS(MPI_ERR_BUFFER, MPI_Ireduce(a, a, 4, MPI_INT, MPI_SUM, who, MPI_COMM_WORLD, &request));
        }
        int value = 20 + 2 * who + persistent;
        a[0] = check_rank == 0 ? value : -1;
        if (persistent)
            OK(MPI_Bcast_init(a, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
        else
            OK(MPI_Ibcast(a, 1, MPI_INT, 0, MPI_COMM_WORLD, &request));
        completes(&request, persistent, value);
        bcast_works(30);
    }
}

/* The local groups have sequence numbers of their own. */
static void between_groups(void)
{
    MPI_Comm half, both;
    int mine = check_rank % 2, value = check_rank, sum = -1;
    OK(MPI_Comm_split(MPI_COMM_WORLD, mine, 0, &half));
    OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - mine, 3, &both));
    OK(MPI_Comm_set_errhandler(both, MPI_ERRORS_RETURN));
    if (check_rank == 0)
        FAILS(MPI_ERR_ROOT, MPI_Bcast(&value, 1, MPI_INT, n, both));
    OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, both));
    int expected = 0;
    for (int r = 1 - mine; r < n; r += 2) expected += r;
    EQ(sum, expected);
    OK(MPI_Barrier(both));
    OK(MPI_Comm_free(&both));
    OK(MPI_Comm_free(&half));
}

static void neighbours(void)
{
    MPI_Comm ring;
    int periodic = 1, two[2] = {1, 1}, bad[2] = {1, -1}, at[2] = {0, 1}, from[2] = {-1, -1};
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &n, &periodic, 0, &ring));
    OK(MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN));
    if (check_rank == 0)
        FAILS(MPI_ERR_COUNT, MPI_Neighbor_allgatherv(&check_rank, 1, MPI_INT, from, bad, at, MPI_INT, ring));
    OK(MPI_Neighbor_allgatherv(&check_rank, 1, MPI_INT, from, two, at, MPI_INT, ring));
    EQ(from[0], (check_rank + n - 1) % n);
    EQ(from[1], (check_rank + 1) % n);
    OK(MPI_Barrier(ring));
    OK(MPI_Comm_free(&ring));
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    n = check_size;
    for (int i = 0; i < n; i++) counts[i] = 1, displs[i] = i;
    for (int who = 0; who < n; who++) {
        blocking(who);
        nonblocking(who);
    }
    if (n > 1)
        between_groups();
    neighbours();
    return check_done();
}
