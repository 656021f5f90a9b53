/* A job that computes and communicates in turns, for bench/migration.py, which moves its hosts meanwhile.
 *
 *   migration ROUNDS COMPUTE_MS EXCHANGES     rounds of COMPUTE_MS of processor time without MPI, then EXCHANGES all-to-alls of BLOCK bytes and reductions
 *
 * Computing goes by the processor time of the thread that computes: whoever else uses the processor makes it longer. All sums must be right. Rank 0 prints `computing R` at the
 * beginning of each round, and at the end {"seconds": …}, the time of all rounds. */
#include "bench.h"
#include <time.h>
enum { BLOCK = 16384 };

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void compute(double s)
{
    volatile double waste = 0;
    for (double end = seconds(CLOCK_THREAD_CPUTIME_ID) + s; seconds(CLOCK_THREAD_CPUTIME_ID) < end;)
        for (int i = 0; i < 1000; i++)
            waste += i;
}

int main(int argc, char **argv)
{
    bench_init(&argc, &argv);
    if (argc != 4)
        MPI_Abort(MPI_COMM_WORLD, 2);
    int rounds = atoi(argv[1]), exchanges = atoi(argv[3]);
    double work = atof(argv[2]) / 1000;
    char *out = buffer((size_t)size * BLOCK), *in = buffer((size_t)size * BLOCK);
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = seconds(CLOCK_MONOTONIC);
    for (int r = 0; r < rounds; r++) {
        if (rank == 0)
            printf("computing %d\n", r), fflush(stdout);
        compute(work);
        for (int e = 0; e < exchanges; e++) {
            int mine = rank + r + e, sum;
            memset(out, r + e + rank, (size_t)size * BLOCK);
            MPI_Alltoall(out, BLOCK, MPI_BYTE, in, BLOCK, MPI_BYTE, MPI_COMM_WORLD);
            MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            for (int from = 0; from < size; from++)
                if (in[from * BLOCK + BLOCK / 2] != (char)(r + e + from) || sum != size * (size - 1) / 2 + size * (r + e))
                    MPI_Abort(MPI_COMM_WORLD, 3);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("{\"seconds\": %.6f}\n", seconds(CLOCK_MONOTONIC) - begin);
    MPI_Finalize();
    return 0;
}
