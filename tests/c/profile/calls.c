/* What the profiling interface sees beside plain messages and collectives: one-sided calls, neighborhoods, persistent collectives.
 * tests/profile.py says what must be counted. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#if MPI_VERSION >= 4 || (defined OMPI_MAJOR_VERSION && OMPI_MAJOR_VERSION >= 5)
#define HAS_PERSISTENT 1
#else
#define HAS_PERSISTENT 0
#endif

static int rank, size;
static char out[1 << 16], in[1 << 16];

/* To the next rank go 3 times 100 bytes, 80, 8, 16, 8, and 40 and 24 with requests; each gets 2 times 200, 8, 8, 8, and 50 and 24. */
static void one_sided(void)
{
    MPI_Win win;
    static double memory[4096];
    int next = (rank + 1) % size;
    double value = 1, old, other = 2;
    long number = 1, before, zero = 0;
    MPI_Request requests[4];
    MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < 3; i++)
        MPI_Put(out, 100, MPI_BYTE, next, 0, 100, MPI_BYTE, win);
    MPI_Accumulate(out, 10, MPI_DOUBLE, next, 1024, 10, MPI_DOUBLE, MPI_SUM, win);
    for (int i = 0; i < 2; i++)
        MPI_Get(in, 200, MPI_BYTE, next, 4096, 200, MPI_BYTE, win);
    MPI_Fetch_and_op(&value, &old, MPI_DOUBLE, next, 8192, MPI_SUM, win);
    MPI_Compare_and_swap(&number, &zero, &before, MPI_LONG, next, 9000 / 8 * 8, win);
    MPI_Get_accumulate(&value, 1, MPI_DOUBLE, &other, 1, MPI_DOUBLE, next, 10000, 1, MPI_DOUBLE, MPI_SUM, win);
    MPI_Win_flush_all(win);
    MPI_Rput(out, 40, MPI_BYTE, next, 12000, 40, MPI_BYTE, win, &requests[0]);
    MPI_Rget(in, 50, MPI_BYTE, next, 13000, 50, MPI_BYTE, win, &requests[1]);
    /* Only the answer has data. */
    MPI_Rget_accumulate(NULL, 0, MPI_DOUBLE, in + 1024, 3, MPI_DOUBLE, next, 14000, 3, MPI_DOUBLE, MPI_NO_OP, win, &requests[2]);
    MPI_Raccumulate(out, 3, MPI_DOUBLE, next, 16000, 3, MPI_DOUBLE, MPI_SUM, win, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    MPI_Put(out, 100, MPI_BYTE, MPI_PROC_NULL, 0, 100, MPI_BYTE, win);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

/* Gets are counted in the phase of the same number of the rank that they come from. */
static void phases(void)
{
    MPI_Win win;
    static char memory[4096];
    MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    for (int phase = 1; phase <= 2; phase++) {
        MPI_Win_fence(0, win);
        for (int i = 0; i < phase; i++)
            MPI_Get(in + 1000 * i, 1000, MPI_BYTE, (rank + 1) % size, 0, 1000, MPI_BYTE, win);
        MPI_Win_fence(0, win);
        if (phase == 1)
            MPI_Pcontrol(5);
    }
    MPI_Win_free(&win);
}

/* A ring with both neighbors: 40 and 30 bytes to each of them, 10 to the one before, 20 to the one after, and as many again; a line whose
 * ends have one neighbor: 7 bytes; a graph in which each sends 50 bytes to the next. */
static void neighbors(void)
{
    MPI_Comm ring, line, graph;
    MPI_Request request;
    int members[] = { size }, yes[] = { 1 }, no[] = { 0 }, previous = (rank + size - 1) % size, next = (rank + 1) % size;
    int counts[] = { 10, 20 }, places[] = { 0, 100 }, in_counts[] = { 20, 10 };
    MPI_Aint far_places[] = { 0, 100 };
    MPI_Datatype types[] = { MPI_BYTE, MPI_BYTE };
    MPI_Cart_create(MPI_COMM_WORLD, 1, members, yes, 0, &ring);
    MPI_Neighbor_alltoall(out, 40, MPI_BYTE, in, 40, MPI_BYTE, ring);
    MPI_Ineighbor_allgather(out, 30, MPI_BYTE, in, 30, MPI_BYTE, ring, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Neighbor_alltoallv(out, counts, places, MPI_BYTE, in, in_counts, places, MPI_BYTE, ring);
    MPI_Neighbor_alltoallw(out, counts, far_places, types, in, in_counts, far_places, types, ring);
    MPI_Cart_create(MPI_COMM_WORLD, 1, members, no, 0, &line);
    MPI_Neighbor_alltoall(out, 7, MPI_BYTE, in, 7, MPI_BYTE, line);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &previous, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
    MPI_Neighbor_allgather(out, 50, MPI_BYTE, in, 50, MPI_BYTE, graph);
    MPI_Comm_free(&graph);
    MPI_Comm_free(&line);
    MPI_Comm_free(&ring);
}

/* A broadcast of 100 bytes that is started twice, and an all-to-all of 60 once; one that never is. */
static void persistent(void)
{
#if HAS_PERSISTENT
    MPI_Request requests[2], never;
    MPI_Bcast_init(out, 100, MPI_BYTE, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Alltoall_init(out, 60, MPI_BYTE, in, 60, MPI_BYTE, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    MPI_Bcast_init(out, 10, MPI_BYTE, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &never);
    MPI_Start(&requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    MPI_Request_free(&never);
#endif
}

/* Two partitions of 32 bytes to the next rank, started twice. */
static void partitioned(void)
{
#if HAS_PERSISTENT
    MPI_Request requests[2];
    MPI_Psend_init(out, 2, 32, MPI_BYTE, (rank + 1) % size, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(in, 2, 32, MPI_BYTE, (rank + size - 1) % size, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    for (int i = 0; i < 2; i++) {
        MPI_Startall(2, requests);
        MPI_Pready_range(0, 1, requests[0]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
#endif
}

/* The same with large counts: 70 bytes by a message, 90 by a collective, 110 put and 130 got. */
static void large(void)
{
#if MPI_VERSION >= 4
    MPI_Win win;
    static char memory[4096];
    int next = (rank + 1) % size;
    MPI_Sendrecv_c(out, 70, MPI_BYTE, next, 1, in, 70, MPI_BYTE, (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Alltoall_c(out, 90, MPI_BYTE, in, 90, MPI_BYTE, MPI_COMM_WORLD);
    MPI_Win_create_c(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    MPI_Put_c(out, 110, MPI_BYTE, next, 0, 110, MPI_BYTE, win);
    MPI_Get_c(in, 130, MPI_BYTE, next, 1000, 130, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
#endif
}

int main(int argc, char **argv)
{
    const struct { const char *name; void (*run)(void); } all[] = {
        { "one-sided", one_sided }, { "phases", phases }, { "neighbors", neighbors }, { "persistent", persistent }, { "partitioned", partitioned },
        { "large", large },
    };
    int done = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (size_t i = 0; argc > 1 && i < sizeof all / sizeof *all; i++)
        if (!strcmp(argv[1], all[i].name)) {
            all[i].run();
            done = 1;
        }
    MPI_Finalize();
    return done ? 0 : 2;
}
