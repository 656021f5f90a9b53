/* Traffic of many kinds until a file appears, every byte of it checked: for tests that suspend and move endpoints meanwhile.
 *
 *   traffic STOP [compute SECONDS]
 *
 * Each round has a sequence-checked ping-pong with every other rank, messages under way of up to 1 MiB each in both directions, a derived type, puts under a
 * fence, collectives and non-blocking collectives. Sums of doubles must be equal bit by bit to those of the first round. With `compute` the last rank computes
 * for so long once, outside of MPI. Rank 0 prints the rounds, and how many descriptors a rank had open after the first round and has at the end, the worst one.
 */
#include "descriptors.h"
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MANY 6
#define LARGE (1 << 20)

static int rank, size;
static char *out[MANY], *in[MANY];

static void expect(int is_so, const char *what, long round) {
    if (!is_so) {
        fprintf(stderr, "rank %d, round %ld: %s is wrong\n", rank, round, what);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

static unsigned char byte_of(long round, int from, int message, size_t at) {
    return (unsigned char)(round * 131 + from * 17 + message * 29 + (long)(at * 7 + at / 251));
}

static void ping_pong(long round) {
    for (int distance = 1; distance < size; distance++) {
        int to = (rank + distance) % size, from = (rank - distance + size) % size;
        for (long i = 0; i < 20; i++) {
            long mine = round * 1000 + i, theirs = -1;
            MPI_Sendrecv(&mine, 1, MPI_LONG, to, 1, &theirs, 1, MPI_LONG, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            expect(theirs == mine, "the order of small messages", round);
        }
    }
}

static void under_way(long round) {
    static const size_t sizes[MANY] = {1, 3000, 40000, 100000, 300000, LARGE};
    int to = (rank + 1) % size, from = (rank - 1 + size) % size;
    MPI_Request requests[2 * MANY];
    for (int m = 0; m < MANY; m++) {
        memset(in[m], 0, sizes[m]);
        for (size_t at = 0; at < sizes[m]; at++)
            out[m][at] = (char)byte_of(round, rank, m, at);
        MPI_Irecv(in[m], (int)sizes[m], MPI_BYTE, from, 7, MPI_COMM_WORLD, &requests[m]);
    }
    for (int m = 0; m < MANY; m++)
        MPI_Isend(out[m], (int)sizes[m], MPI_BYTE, to, 7, MPI_COMM_WORLD, &requests[MANY + m]);
    MPI_Waitall(2 * MANY, requests, MPI_STATUSES_IGNORE);
    for (int m = 0; m < MANY; m++)
        for (size_t at = 0; at < sizes[m]; at++)
            expect((unsigned char)in[m][at] == byte_of(round, from, m, at), "a message under way", round);
}

static void derived(long round, MPI_Datatype column) {
    int matrix[64][64], got[64][64], peer = rank ^ 1;
    if (peer >= size)
        return;
    memset(got, 0, sizeof got);
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 64; j++)
            matrix[i][j] = (int)round + rank * 10000 + i * 64 + j;
    MPI_Sendrecv(matrix, 1, column, peer, 3, got, 1, column, peer, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 64; i++)
        expect(got[i][0] == (int)round + peer * 10000 + i * 64, "a derived type", round);
}

static void collectives(long round, double first[2]) {
    double mine = sin(rank + 0.1), sums[2];
    int counts = rank + (int)round, all = -1, turned = rank == 0 ? (int)round : -1;
    MPI_Request requests[3];
    MPI_Iallreduce(&mine, &sums[0], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Ibcast(&turned, 1, MPI_INT, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[2]);
    MPI_Allreduce(&counts, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    expect(all == size * (size - 1) / 2 + size * (int)round, "a sum", round);
    expect(turned == (int)round, "a broadcast", round);
    int *give = malloc(2 * sizeof *give * (size_t)size), *take = give + size;
    for (int i = 0; i < size; i++)
        give[i] = (int)round + rank * 100 + i;
    MPI_Alltoall(give, 1, MPI_INT, take, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
        expect(take[i] == (int)round + i * 100 + rank, "an all-to-all", round);
    free(give);
    MPI_Allreduce(&sums[0], &sums[1], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (round == 0)
        memcpy(first, sums, sizeof sums);
    expect(memcmp(first, sums, sizeof sums) == 0, "a sum of doubles", round);
}

static void puts_under_fences(long round, MPI_Win window, long *memory) {
    long value = round * 100 + rank;
    MPI_Win_fence(0, window);
    MPI_Put(&value, 1, MPI_LONG, (rank + 1) % size, rank, 1, MPI_LONG, window);
    MPI_Win_fence(0, window);
    int from = (rank - 1 + size) % size;
    expect(memory[from] == round * 100 + from, "what was put", round);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int m = 0; m < MANY; m++)
        out[m] = malloc(LARGE), in[m] = malloc(LARGE);
    MPI_Datatype column;
    MPI_Type_vector(64, 1, 64, MPI_INT, &column);
    MPI_Type_commit(&column);
    long *memory;
    MPI_Win window;
    MPI_Win_allocate((MPI_Aint)(sizeof(long) * (size_t)size), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    double first[2], seconds = argc > 3 ? atof(argv[3]) : 0;
    int open_before = 0, is_over = 0;
    long round = 0;
    for (; !is_over; round++) {
        ping_pong(round);
        under_way(round);
        derived(round, column);
        collectives(round, first);
        puts_under_fences(round, window, memory);
        if (round == 2)
            open_before = descriptors();
        if (round == 3 && rank == 0)
            printf("running\n"), fflush(stdout);
        if (round == 3 && rank == size - 1)
            for (double end = now() + seconds; now() < end;)
                ;
        is_over = rank == 0 && access(argv[1], F_OK) == 0;
        MPI_Bcast(&is_over, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    int more = descriptors() - open_before, most = 0;
    MPI_Reduce(&more, &most, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("rounds %ld, descriptors more at the end %d\n", round, most);
    MPI_Win_free(&window);
    MPI_Type_free(&column);
    MPI_Finalize();
    return 0;
}
