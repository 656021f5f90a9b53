/* What all micro-benchmarks share: warm-up, iteration counts chosen by time, one JSON object a line on standard output. */
#ifndef BENCH_H
#define BENCH_H
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

static inline void bench_init(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}
static inline void report(const char *row, long bytes, double value, const char *unit)
{
    if (rank == 0) {
        printf("{\"row\": \"%s\", \"ranks\": %d, \"bytes\": %ld, \"value\": %.6g, \"unit\": \"%s\"}\n", row, size, bytes, value, unit);
        fflush(stdout);
    }
}
/* How many iterations fill about `seconds`, given the time that one takes; rank 0's answer for all. */
static inline int iterations(double one_s, double seconds, int least, int most)
{
    double n = one_s > 0 ? seconds / one_s : most;
    int k = n > most ? most : n < least ? least : (int)n;
    MPI_Bcast(&k, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return k;
}
/* Page-aligned and touched. */
static inline char *buffer(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, 4096, bytes ? bytes : 1))
        abort();
    memset(p, 1, bytes);
    return p;
}
/* "8,1024,65536" */
static inline int sizes_of(const char *text, long *out, int max)
{
    int n = 0;
    for (char *end; *text && n < max; text = *end ? end + 1 : end)
        out[n++] = strtol(text, &end, 10);
    return n;
}
static inline double target_s(void)
{
    const char *text = getenv("BENCH_SECONDS");
    return text ? atof(text) : 0.15;
}
#endif
