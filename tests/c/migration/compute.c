/* Ranks that compute without calling MPI until a file appears, with messages under way meanwhile: for tests that move their hosts in that time.
 *
 *   compute STOP single|funneled|serialized|multiple [ROUNDS]
 *
 * In each round the ranks exchange messages whose sequence is checked, post large ones for all others, and compute until the file STOP.<round> is there. Then they wait for these
 * messages, and check them and sums of doubles, which must be equal bit by bit in all rounds. Rank 0 prints `running <round>` when all ranks are about to compute, and
 * at the end how many descriptors a rank has open more than after the first round: the worst rank. With `multiple` two threads of each rank exchange messages at the same time.
 */
#include "descriptors.h"
#include <math.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LARGE (300 * 1000)
#define SMALL 200

static int rank, size;
static long round_now;

static void expect(int is_so, const char *what) {
    if (!is_so) {
        fprintf(stderr, "rank %d, round %ld: %s is wrong\n", rank, round_now, what);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

/* Messages with every other rank, of a tag of their own. */
static void *exchange(void *tag_at) {
    int tag = *(int *)tag_at;
    for (int distance = 1; distance < size; distance++) {
        int to = (rank + distance) % size, from = (rank - distance + size) % size;
        for (long i = 0; i < SMALL; i++) {
            long mine = round_now * 1000 + i, theirs = -1;
            MPI_Sendrecv(&mine, 1, MPI_LONG, to, tag, &theirs, 1, MPI_LONG, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            expect(theirs == mine, "the order of small messages");
        }
    }
    return NULL;
}

/* Computes until the file is there, and a sum that doesn't depend on how long that takes. */
static double compute(const char *until) {
    volatile double sum = 0, waste = 0;
    for (int i = 0; i < 1000; i++)
        sum += sin(i + 0.1 * rank);
    while (access(until, F_OK) != 0)
        for (int i = 0; i < 20000; i++)
            waste += sqrt(i);
    return sum;
}

int main(int argc, char **argv) {
    static const struct { const char *name; int level; } levels[] = {
        {"single", MPI_THREAD_SINGLE}, {"funneled", MPI_THREAD_FUNNELED}, {"serialized", MPI_THREAD_SERIALIZED}, {"multiple", MPI_THREAD_MULTIPLE}};
    int level = -1, provided, rounds = argc > 3 ? atoi(argv[3]) : 1;
    for (size_t i = 0; argc > 2 && i < sizeof levels / sizeof *levels; i++)
        if (strcmp(argv[2], levels[i].name) == 0)
            level = levels[i].level;
    if (level < 0)
        return 2;
    MPI_Init_thread(&argc, &argv, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    /* A thread that only the library knows of changes nothing about the level. */
    expect(provided == level, "the level of thread support");
    char *out = malloc(LARGE), *in = malloc((size_t)size * LARGE);
    MPI_Request *requests = malloc(2 * (size_t)size * sizeof *requests);
    double first = 0;
    int open_before = 0;
    for (round_now = 0; round_now < rounds; round_now++) {
        int tags[2] = {1, 2}, count = 0;
        pthread_t other;
        if (level == MPI_THREAD_MULTIPLE)
            pthread_create(&other, NULL, exchange, &tags[1]);
        exchange(&tags[0]);
        if (level == MPI_THREAD_MULTIPLE)
            pthread_join(other, NULL);
        memset(out, (char)(rank + 10 * round_now), LARGE);
        memset(in, -1, (size_t)size * LARGE);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int peer = 0; peer < size; peer++)
            if (peer != rank) {
                MPI_Irecv(in + (size_t)peer * LARGE, LARGE, MPI_BYTE, peer, 7, MPI_COMM_WORLD, &requests[count++]);
                MPI_Isend(out, LARGE, MPI_BYTE, peer, 7, MPI_COMM_WORLD, &requests[count++]);
            }
        if (rank == 0)
            printf("running %ld\n", round_now), fflush(stdout);
        char file[4096];
        snprintf(file, sizeof file, "%s.%ld", argv[1], round_now);
        double mine = compute(file), sum;
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
        for (int peer = 0; peer < size; peer++)
            for (size_t at = 0; peer != rank && at < LARGE; at++)
                expect(in[(size_t)peer * LARGE + at] == (char)(peer + 10 * round_now), "a message that was under way");
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (round_now == 0)
            first = sum, open_before = descriptors();
        expect(memcmp(&sum, &first, sizeof sum) == 0, "a sum of doubles");
    }
    int more = descriptors() - open_before, most = 0;
    MPI_Reduce(&more, &most, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("rounds %ld, descriptors more at the end %d\n", round_now, most);
    MPI_Finalize();
    return 0;
}
