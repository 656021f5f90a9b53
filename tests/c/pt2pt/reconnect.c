/* TCP connections are cut while all ranks send to each other: nothing is lost, doubled or reordered, and the job goes on.
 * A thread in each rank, which does not use MPI, cuts the process's TCP sockets at random moments: by disconnecting (a reset, what both kernels
 * hold is lost), or by a shutdown of one or both directions. Each round every rank exchanges numbered messages of all sizes with every other
 * one, checks their contents and order, and takes part in a reduction.
 * Arguments: seed, cuts of each rank. */
#define _GNU_SOURCE
#include "check.h"
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>

enum { ROUND = 12, FILES = 256, MOST = 700000 };

static _Atomic int cuts_left;
static uint64_t cutter_state;

/* A TCP socket of this process with a peer, or -1; begins to look at a random place. */
static int some_connection(uint64_t *state)
{
    int first = rnd_below(state, FILES);
    for (int i = 0; i < FILES; i++) {
        int fd = (first + i) % FILES, type = 0;
        struct sockaddr_storage peer;
        socklen_t len = sizeof peer, size = sizeof type;
        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) || type != SOCK_STREAM)
            continue;
        if (getpeername(fd, (struct sockaddr *)&peer, &len) || (peer.ss_family != AF_INET && peer.ss_family != AF_INET6))
            continue;
        return fd;
    }
    return -1;
}

static void *cutter(void *unused)
{
    (void)unused;
    while (atomic_load(&cuts_left) > 0) {
        struct timespec pause = {0, 1000 * (200 + rnd_below(&cutter_state, 30000))};
        nanosleep(&pause, NULL);
        int fd = some_connection(&cutter_state);
        if (fd < 0)
            continue;
        struct sockaddr nobody = {.sa_family = AF_UNSPEC};
        int how = rnd_below(&cutter_state, 4);
        int failed = how < 2 ? connect(fd, &nobody, sizeof nobody) : shutdown(fd, how == 2 ? SHUT_RDWR : SHUT_WR);
        if (!failed)
            atomic_fetch_sub(&cuts_left, 1);
    }
    return NULL;
}

static int length(int n)
{
    static const int SIZES[ROUND] = {0, 8, 200000, 1500, 64, 60000, MOST, 1, 9000, 100000, 30000, 4096};
    return SIZES[n % ROUND];
}

static unsigned char content(int from, int n, int i)
{
    return (unsigned char)(from * 101 + n * 13 + i * 7 + (i >> 8));
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    int cuts = argc > 2 ? atoi(argv[2]) : 50, rounds = 0, others = check_size - 1;
    cutter_state = seed * 1000 + (uint64_t)check_rank + 1;
    atomic_store(&cuts_left, cuts);
    char *out = alloc((size_t)ROUND * MOST), *in = alloc((size_t)others * ROUND * MOST);
    MPI_Request *requests = (MPI_Request *)alloc(sizeof(MPI_Request) * 2 * ROUND * (size_t)others);
    pthread_t thread;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK(!pthread_create(&thread, NULL, cutter, NULL));
    for (int most = 1; most > 0 && rounds < 100000; rounds++) {
        int started = 0;
        for (int n = 0; n < ROUND; n++)
            for (int i = 0; i < length(n); i++)
                out[(size_t)n * MOST + i] = (char)content(check_rank, rounds + n, i);
        for (int o = 0; o < others; o++)
            for (int n = 0; n < ROUND; n++)
                OK(MPI_Irecv(in + ((size_t)o * ROUND + n) * MOST, MOST, MPI_BYTE, (check_rank + 1 + o) % check_size, 7,
                             MPI_COMM_WORLD, &requests[started++]));
        for (int n = 0; n < ROUND; n++)
            for (int o = 0; o < others; o++)
                OK(MPI_Isend(out + (size_t)n * MOST, length(n), MPI_BYTE, (check_rank + 1 + o) % check_size, 7,
                             MPI_COMM_WORLD, &requests[started++]));
        for (int k = 0; k < others * ROUND; k++) {
            MPI_Status status;
            int from = (check_rank + 1 + k / ROUND) % check_size, n = k % ROUND, got = -1, wrong = 0;
            OK(MPI_Wait(&requests[k], &status));
            OK(MPI_Get_count(&status, MPI_BYTE, &got));
            EQ(got, length(n));
            for (int i = 0; i < length(n); i++)
                wrong += (unsigned char)in[(size_t)k * MOST + i] != content(from, rounds + n, i);
            EQ(wrong, 0);
        }
        OK(MPI_Waitall(started - others * ROUND, requests + others * ROUND, MPI_STATUSES_IGNORE));
        int left = atomic_load(&cuts_left);
        OK(MPI_Allreduce(&left, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    }
    CHECK(!pthread_join(thread, NULL));
    CHECK(atomic_load(&cuts_left) == 0, "%d cuts are left", atomic_load(&cuts_left));
    free(out);
    free(in);
    free(requests);
    return check_done();
}
