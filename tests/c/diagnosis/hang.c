/* Programs that hang in known ways, for mpiexec --timeout, SIGQUIT and ferrule top: what is the wait-for graph?
 *   sends       ranks 0 and 1 send to each other without a receive; the others wait for them
 *   ring        each receives from the next before it sends
 *   computing   the last rank computes, the others wait for it in a barrier
 *   wildcard    everybody receives from anybody
 *   probe       rank 0 probes for rank 1, which waits for rank 0
 *   waitany     rank 0 waits for one of all others, which wait for it; with 3 ranks the last computes
 *   waitall     rank 0 waits for all others, rank 1 waits for rank 0, the last computes
 *   collective  rank 0 is in a barrier, the others in another communicator's
 *   nonblocking everybody waits for a non-blocking barrier that the last never enters: it tests a message that never comes
 *   ended       rank 0 receives from rank 1, which has finalized as far as it can (it waits in MPI_Finalize)
 *   threads     two threads of each rank wait, each for a message of its own that never comes */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank, size;
static char big[4 << 20], other[4 << 20];

static void compute(void)
{
    volatile double x = 1;
    for (;;) x = x * 1.0000001 + 1e-9;
}
static void *receive_for_ever(void *tag)
{
    int v;
    MPI_Recv(&v, 1, MPI_INT, (rank + 1) % size, (int)(long)tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return NULL;
}
static void waits_for_all(int any)
{
    MPI_Request *request = malloc((size_t)size * sizeof *request);
    int *v = malloc((size_t)size * sizeof *v), n = 0, index;
    if (rank == 0) {
        for (int r = 1; r < size; r++) MPI_Irecv(&v[r], 1, MPI_INT, r, 3, MPI_COMM_WORLD, &request[n++]);
        if (any) MPI_Waitany(n, request, &index, MPI_STATUS_IGNORE);
        else MPI_Waitall(n, request, MPI_STATUSES_IGNORE);
    }
    if (rank == 2) compute();
    MPI_Recv(&n, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
static void never_enters(void)
{
    MPI_Request barrier;
    int flag = 0, v;
    if (rank == size - 1) {
        MPI_Irecv(&v, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, &barrier);
        while (!flag) MPI_Test(&barrier, &flag, MPI_STATUS_IGNORE);
    }
    MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
    MPI_Wait(&barrier, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "sends";
    int provided, v = 0;
    MPI_Init_thread(&argc, &argv, strcmp(how, "threads") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(how, "sends")) {
        if (rank > 1) MPI_Recv(&v, 1, MPI_INT, rank % 2, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(big, sizeof big, MPI_BYTE, 1 - rank, 7, MPI_COMM_WORLD);
        MPI_Recv(other, sizeof other, MPI_BYTE, 1 - rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (!strcmp(how, "ring")) {
        MPI_Recv(&v, 1, MPI_INT, (rank + 1) % size, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (!strcmp(how, "computing")) {
        if (rank == size - 1) compute();
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (!strcmp(how, "wildcard")) {
        MPI_Recv(&v, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (!strcmp(how, "probe")) {
        if (rank == 0) MPI_Probe(1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Ssend(&v, 1, MPI_INT, 0, 8, MPI_COMM_WORLD);
    } else if (!strcmp(how, "waitany") || !strcmp(how, "waitall")) {
        waits_for_all(how[4] == 'a' && how[5] == 'n');
    } else if (!strcmp(how, "collective")) {
        MPI_Comm second;
        MPI_Comm_dup(MPI_COMM_WORLD, &second);
        MPI_Comm_set_name(second, "second");
        MPI_Barrier(rank ? second : MPI_COMM_WORLD);
    } else if (!strcmp(how, "nonblocking")) {
        never_enters();
    } else if (!strcmp(how, "ended")) {
        if (rank == 0) MPI_Recv(&v, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (!strcmp(how, "threads")) {
        pthread_t thread;
        pthread_create(&thread, NULL, receive_for_ever, (void *)11L);
        receive_for_ever((void *)12L);
    }
    MPI_Finalize();
    return 0;
}
