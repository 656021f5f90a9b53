/* How much of a non-blocking collective is hidden behind computation, as osu_ialltoall and its like define it: offload COLLECTIVE BYTES ITERATIONS [COMPUTING]
 * t: the collective and its wait alone. T: the collective, a computation as long as t without MPI, the wait. Overlap = max(0, 100 (1 - (T - compute) / t)).
 * The first COMPUTING ranks compute, by default all; the others wait in MPI, and T is then that of those who compute.
 * Prints one line of JSON: medians in microseconds; of the slowest rank for t, of the slowest one that computes for T, and of the blocking collective. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int N, ME, bytes, *counts;
static char *from, *into;
static double post_s;

static void start(const char *name, MPI_Request *rq)
{
    double begin = MPI_Wtime();
    if (!strcmp(name, "ialltoall")) MPI_Ialltoall(from, bytes, MPI_BYTE, into, bytes, MPI_BYTE, MPI_COMM_WORLD, rq);
    else if (!strcmp(name, "iallgather")) MPI_Iallgather(from, bytes, MPI_BYTE, into, bytes, MPI_BYTE, MPI_COMM_WORLD, rq);
    else if (!strcmp(name, "ibcast")) MPI_Ibcast(from, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, rq);
    else if (!strcmp(name, "iallreduce")) MPI_Iallreduce(from, into, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, rq);
    else if (!strcmp(name, "ireduce_scatter")) MPI_Ireduce_scatter(from, into, counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, rq);
    else {
        fprintf(stderr, "no such collective: %s (ialltoall, iallgather, ibcast, iallreduce, ireduce_scatter)\n", name);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    post_s = MPI_Wtime() - begin;
}
static void block(const char *name)
{
    if (!strcmp(name, "ialltoall")) MPI_Alltoall(from, bytes, MPI_BYTE, into, bytes, MPI_BYTE, MPI_COMM_WORLD);
    else if (!strcmp(name, "iallgather")) MPI_Allgather(from, bytes, MPI_BYTE, into, bytes, MPI_BYTE, MPI_COMM_WORLD);
    else if (!strcmp(name, "ibcast")) MPI_Bcast(from, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    else if (!strcmp(name, "iallreduce")) MPI_Allreduce(from, into, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    else MPI_Reduce_scatter(from, into, counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
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

enum { BLOCKING, PURE, TOTAL, PHASES };

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &N);
    MPI_Comm_rank(MPI_COMM_WORLD, &ME);
    if (argc < 4 || (bytes = atoi(argv[2])) < 8 || atoi(argv[3]) < 1 || (argc > 4 && atoi(argv[4]) < 1)) {
        if (ME == 0) fprintf(stderr, "usage: offload COLLECTIVE BYTES ITERATIONS [COMPUTING]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int iterations = atoi(argv[3]), computing = argc > 4 ? atoi(argv[4]) : N;
    from = calloc(N, bytes), into = calloc(N, bytes), counts = malloc(N * sizeof *counts);
    for (int i = 0; i < N; i++) counts[i] = bytes / 8;
    double *times[PHASES], *posts = malloc(sizeof(double) * iterations), medians[PHASES];
    MPI_Request rq;
    for (int phase = 0; phase < PHASES; phase++) {
        times[phase] = malloc(sizeof(double) * iterations);
        for (int i = -3; i < iterations; i++) {
            MPI_Barrier(MPI_COMM_WORLD);
            double begin = MPI_Wtime();
            if (phase == BLOCKING) block(argv[1]);
            else {
                start(argv[1], &rq);
                if (phase == TOTAL && ME < computing) compute(medians[PURE]);
                MPI_Wait(&rq, MPI_STATUS_IGNORE);
            }
            double took = slowest(phase == TOTAL && ME >= computing ? 0 : MPI_Wtime() - begin);
            if (i >= 0) times[phase][i] = took, posts[i] = post_s;
        }
        medians[phase] = median(times[phase], iterations);
    }
    double t = medians[PURE], T = medians[TOTAL], overlap = 100 * (1 - (T - t) / t);
    if (ME == 0)
        printf("{\"collective\": \"%s\", \"ranks\": %d, \"bytes\": %d, \"blocking_us\": %.2f, \"pure_us\": %.2f, \"total_us\": %.2f, \"post_us\": %.2f, \"overlap\": %.1f}\n",
               argv[1], N, bytes, medians[BLOCKING] * 1e6, t * 1e6, T * 1e6, median(posts, iterations) * 1e6, overlap < 0 ? 0 : overlap);
    MPI_Finalize();
    return 0;
}
