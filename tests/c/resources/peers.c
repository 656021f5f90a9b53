/* exchange N [TIMES]: exchanges messages of several sizes with N peers, each TIMES times; late N [TIMES]: the same, but nobody receives before
 * all has been sent; burst N: streams 32 MiB to and fro; collect N [TIMES]: collectives of all ranks. Then rests in MPI, prints its pid and
 * stops. stream N: as burst, prints its pid and goes on for ever. idle: all but rank 0 wait in MPI_Recv for ever; threads: two threads of each.
 * The buffers are static, and plain.c has the same. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGEST = 65536, MOST = 64 };
static const int SIZES[] = {8, 1000, 2048, 8192, 16384, LARGEST};
static char out[LARGEST], in[LARGEST];
static int rank, size;

static void exchange(int active, int n)
{
    for (int d = 1; d <= active && d < size; d++)
        MPI_Sendrecv(out, n, MPI_BYTE, (rank + d) % size, 1, in, n, MPI_BYTE, (rank + size - d) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void late(int active, int n)
{
    MPI_Request rq[MOST];
    int sent = 0;
    for (int d = 1; d <= active && d < size; d++)
        MPI_Isend(out, n, MPI_BYTE, (rank + d) % size, 1, MPI_COMM_WORLD, &rq[sent++]);
    /* what follows a message of the same peer comes after it */
    for (int d = 1; d <= active && d < size; d++)
        MPI_Sendrecv(out, 0, MPI_BYTE, (rank + d) % size, 2, in, 0, MPI_BYTE, (rank + size - d) % size, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int d = 1; d <= active && d < size; d++)
        MPI_Recv(in, n, MPI_BYTE, (rank + size - d) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Waitall(sent, rq, MPI_STATUSES_IGNORE);
}

static void collect(int n)
{
    int block = n / size, root = n % 7 % size;
    MPI_Allreduce(out, in, n, MPI_UNSIGNED_CHAR, MPI_MAX, MPI_COMM_WORLD);
    MPI_Reduce(out, in, n, MPI_UNSIGNED_CHAR, MPI_MAX, root, MPI_COMM_WORLD);
    MPI_Alltoall(out, block, MPI_BYTE, in, block, MPI_BYTE, MPI_COMM_WORLD);
    MPI_Allgather(out, block, MPI_BYTE, in, block, MPI_BYTE, MPI_COMM_WORLD);
    MPI_Bcast(in, n, MPI_BYTE, root, MPI_COMM_WORLD);
    MPI_Scan(out, in, n, MPI_UNSIGNED_CHAR, MPI_MAX, MPI_COMM_WORLD);
}

/* Each half of the ranks waits in MPI while the other one sleeps. */
static void rest(void)
{
    int other = rank ^ 1, v = 0;
    for (int turn = 0; turn < 2 && other < size; turn++) {
        if (rank % 2 == turn) {
            usleep(50000);
            MPI_Send(&v, 1, MPI_INT, other, 3, MPI_COMM_WORLD);
        } else {
            MPI_Recv(&v, 1, MPI_INT, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
}

static void *wait_for_ever(void *unused)
{
    int v;
    MPI_Recv(&v, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return unused;
}

int main(int argc, char **argv)
{
    int has_threads = argc > 1 && !strcmp(argv[1], "threads"), provided;
    MPI_Init_thread(&argc, &argv, has_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *what = argc > 1 ? argv[1] : "exchange";
    int active = argc > 2 ? atoi(argv[2]) : size - 1, times = argc > 3 ? atoi(argv[3]) : 1, v;
    int is_idle = has_threads || !strcmp(what, "idle"), streams = !strcmp(what, "stream"), is_large = streams || !strcmp(what, "burst");
    for (int s = 0; s < (int)(sizeof SIZES / sizeof *SIZES) && !is_idle && !is_large; s++)
        for (int i = 0; i < times; i++)
            if (!strcmp(what, "late")) late(active, SIZES[s]);
            else if (!strcmp(what, "collect")) collect(SIZES[s]);
            else exchange(active, SIZES[s]);
    if (is_large) {
        for (int i = 0; i < (32 << 20) / LARGEST; i++) exchange(active, LARGEST);
    }
    if (!is_idle && !streams) rest();
    if (is_idle && rank) {
        /* rank 0 prints first, so that the reader knows which line is whose */
        MPI_Recv(&v, 1, MPI_INT, rank - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    if (is_idle && rank + 1 < size) MPI_Send(&rank, 1, MPI_INT, rank + 1, 1, MPI_COMM_WORLD);
    pthread_t other;
    if (has_threads && rank) pthread_create(&other, NULL, wait_for_ever, NULL);
    if (is_idle && rank) MPI_Recv(&v, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    while (streams) exchange(active, LARGEST);
    for (;;) pause();
}
