/* What MPI_Init costs: the slowest rank's MPI_Init plus the first exchange with every peer, in milliseconds. */
#include "bench.h"
#include <time.h>

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
    double begin = now_ms(), mine[2], worst[2];
    bench_init(&argc, &argv);
    mine[0] = now_ms() - begin;
    MPI_Barrier(MPI_COMM_WORLD);
    begin = now_ms();
    int *out = calloc(size, sizeof *out), *in = calloc(size, sizeof *in);
    MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD);
    mine[1] = now_ms() - begin;
    MPI_Reduce(mine, worst, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    report("MPI_Init", 0, worst[0], "ms");
    report("first all-to-all", 0, worst[1], "ms");
    MPI_Finalize();
    return 0;
}
