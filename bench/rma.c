/* One-sided communication between ranks 0 and 1: time of an access with its flush, throughput of many, lock and unlock, and how long an accumulate takes while its
 * target computes. Usage: rma ROWS SIZES, where ROWS are of put, get, accumulate, fetch_and_op, compare_and_swap, lock, flush, progress, bandwidth */
#include "bench.h"
enum { WINDOW = 64, LEAST = 20, MOST = 200000 };
static MPI_Win win;
static char *mine;

static void access(const char *what, long bytes)
{
    int n = (int)bytes, words = bytes < 8 ? 1 : (int)(bytes / 8);
    static long one = 1, zero, old;
    if (!strcmp(what, "put")) MPI_Put(mine, n, MPI_CHAR, 1, 0, n, MPI_CHAR, win);
    else if (!strcmp(what, "get")) MPI_Get(mine, n, MPI_CHAR, 1, 0, n, MPI_CHAR, win);
    else if (!strcmp(what, "accumulate")) MPI_Accumulate(mine, words, MPI_LONG, 1, 0, words, MPI_LONG, MPI_SUM, win);
    else if (!strcmp(what, "fetch_and_op")) MPI_Fetch_and_op(&one, &old, MPI_LONG, 1, 0, MPI_SUM, win);
    else if (!strcmp(what, "compare_and_swap")) MPI_Compare_and_swap(&one, &zero, &old, MPI_LONG, 1, 0, win);
}

/* Seconds of each of `k` accesses with a flush after every `window` of them. */
static double timed(const char *what, long bytes, int k, int window)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    if (rank == 0) {
        MPI_Win_lock_all(0, win);
        for (int i = 0; i < k; i += window) {
            for (int j = 0; j < window; j++) access(what, bytes);
            MPI_Win_flush(1, win);
        }
        MPI_Win_unlock_all(win);
    }
    double seconds = MPI_Wtime() - begin;
    /* Whoever is not the origin is in MPI meanwhile. */
    MPI_Barrier(MPI_COMM_WORLD);
    return seconds / k;
}

static void measure(const char *row, const char *what, long bytes, int window)
{
    timed(what, bytes, window, window);
    int k = iterations(timed(what, bytes, window, window), target_s(), LEAST, MOST);
    double one = timed(what, bytes, (k + window - 1) / window * window, window);
    if (window == 1) report(row, bytes, one * 1e6, "us");
    else report(row, bytes, (double)bytes / one / 1e9, "GB/s");
}

static double locked(int k)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (int i = 0; rank == 0 && i < k; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
        MPI_Win_unlock(1, win);
    }
    double seconds = MPI_Wtime() - begin;
    MPI_Barrier(MPI_COMM_WORLD);
    return seconds / k;
}

/* A flush with nothing to flush. */
static double flushed(int k)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
        for (int i = 0; i < k; i++) MPI_Win_flush(1, win);
        MPI_Win_unlock(1, win);
    }
    double seconds = MPI_Wtime() - begin;
    MPI_Barrier(MPI_COMM_WORLD);
    return seconds / k;
}

/* Rank 1 computes for `busy` seconds, outside of MPI. The longest time of an access and its flush on rank 0 meanwhile: with progress of the target's own it
 * is no longer than else, without it is what is left of the computation. */
static void progress(long bytes, double busy)
{
    double longest = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    if (rank == 1)
        while (MPI_Wtime() - begin < busy) { }
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 1, MPI_MODE_NOCHECK, win);
        for (int i = 0; i < 20 && MPI_Wtime() - begin < busy; i++) {
            double start = MPI_Wtime();
            access("accumulate", bytes);
            MPI_Win_flush(1, win);
            double took = MPI_Wtime() - start;
            longest = took > longest ? took : longest;
        }
        MPI_Win_unlock(1, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    report("accumulate while the target computes", bytes, longest * 1e6, "us");
}

int main(int argc, char **argv)
{
    bench_init(&argc, &argv);
    if (argc < 3 || size < 2) {
        if (rank == 0) fprintf(stderr, "usage: rma ROWS SIZES, with at least 2 ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    long sizes[16], largest = 8;
    int n = sizes_of(argv[2], sizes, 16);
    for (int i = 0; i < n; i++) largest = sizes[i] > largest ? sizes[i] : largest;
    MPI_Win_allocate(largest, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
    memset(mine, 1, (size_t)largest);
    for (char *row = strtok(argv[1], ","); row; row = strtok(NULL, ",")) {
        if (!strcmp(row, "lock") || !strcmp(row, "flush")) {
            double (*step)(int) = strcmp(row, "lock") ? flushed : locked;
            step(LEAST);
            int k = iterations(step(LEAST), target_s(), LEAST, MOST);
            report(step == locked ? "lock and unlock" : "flush of nothing", 0, step(k) * 1e6, "us");
        } else if (!strcmp(row, "fetch_and_op") || !strcmp(row, "compare_and_swap")) {
            measure(row, row, 8, 1);
        } else {
            for (int i = 0; i < n; i++) {
                if (!strcmp(row, "progress")) progress(sizes[i], 0.5);
                else if (!strcmp(row, "bandwidth")) {
                    measure("put bandwidth", "put", sizes[i], WINDOW);
                    measure("get bandwidth", "get", sizes[i], WINDOW);
                    measure("accumulate bandwidth", "accumulate", sizes[i], WINDOW);
                }
                else measure(row, row, sizes[i], 1);
            }
        }
    }
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
