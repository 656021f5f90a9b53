/* How much of a non-blocking collective is hidden behind computation, as osu_ialltoall and its like define it: offload COLLECTIVE BYTES ITERATIONS
 * t: the collective and its wait alone. T: the collective, a computation as long as t without MPI, the wait. Overlap = max(0, 100 (1 - (T - compute) / t)).
 * Prints one line of JSON: medians of the slowest rank's times, in microseconds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int N, ME, bytes;
static char *from, *into;
static double post_s;

static void start(const char *name, MPI_Request *rq)
{
    double begin = MPI_Wtime();
    if (!strcmp(name, "ialltoall")) MPI_Ialltoall(from, bytes, MPI_BYTE, into, bytes, MPI_BYTE, MPI_COMM_WORLD, rq);
    else if (!strcmp(name, "iallgather")) MPI_Iallgather(from, bytes, MPI_BYTE, into, bytes, MPI_BYTE, MPI_COMM_WORLD, rq);
    else if (!strcmp(name, "ibcast")) MPI_Ibcast(from, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, rq);
    else if (!strcmp(name, "iallreduce")) MPI_Iallreduce(from, into, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, rq);
    else {
        fprintf(stderr, "no such collective: %s (ialltoall, iallgather, ibcast, iallreduce)\n", name);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    post_s = MPI_Wtime() - begin;
}
static void compute(double seconds)
{
    volatile double x = 1;
    for (double end = MPI_Wtime() + seconds; MPI_Wtime() < end;)
        for (int i = 0; i < 200; i++) x = x * 1.0000001 + 1e-9;
}
static double slowest(double own)
{
    double all;
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}
static int ascending(const void *a, const void *b) { double d = *(const double *)a - *(const double *)b; return d < 0 ? -1 : d > 0; }
static double median(double *values, int n)
{
    qsort(values, n, sizeof *values, ascending);
    return values[n / 2];
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &N);
    MPI_Comm_rank(MPI_COMM_WORLD, &ME);
    if (argc < 4 || (bytes = atoi(argv[2])) < 8 || atoi(argv[3]) < 1) {
        if (ME == 0) fprintf(stderr, "usage: offload COLLECTIVE BYTES ITERATIONS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int iterations = atoi(argv[3]);
    from = calloc(N, bytes), into = calloc(N, bytes);
    double *pure = malloc(sizeof(double) * iterations), *total = malloc(sizeof(double) * iterations), *posts = malloc(sizeof(double) * iterations);
    MPI_Request rq;
    for (int phase = 0; phase < 2; phase++) {
        double length = phase ? median(pure, iterations) : 0;
        for (int i = -3; i < iterations; i++) {
            MPI_Barrier(MPI_COMM_WORLD);
            double begin = MPI_Wtime();
            start(argv[1], &rq);
            if (phase) compute(length);
            MPI_Wait(&rq, MPI_STATUS_IGNORE);
            double took = slowest(MPI_Wtime() - begin);
            if (i >= 0) (phase ? total : pure)[i] = took, posts[i] = post_s;
        }
        if (phase) {
            double t = length, T = median(total, iterations), overlap = 100 * (1 - (T - t) / t);
            if (ME == 0)
                printf("{\"collective\": \"%s\", \"ranks\": %d, \"bytes\": %d, \"pure_us\": %.2f, \"total_us\": %.2f, \"post_us\": %.2f, \"overlap\": %.1f}\n",
                       argv[1], N, bytes, t * 1e6, T * 1e6, median(posts, iterations) * 1e6, overlap < 0 ? 0 : overlap);
        }
    }
    MPI_Finalize();
    return 0;
}
