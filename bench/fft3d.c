/* A 3-D FFT of several fields whose transposes are hidden behind the transforms of other fields: fft3d N FIELDS ITERATIONS [blocking]
 * Each rank has N/P planes of N x N complex numbers of each field (slabs). For each field: FFTW transforms y and z, MPI_Ialltoall turns x slabs into y slabs,
 * FFTW transforms x. While one field is under way the next one's y and z are transformed, and then the one before it gets its x. With `blocking`: MPI_Alltoall.
 * Every transform is checked with a plane wave. Prints one line of JSON: the median time of all fields (ms), of the slowest rank. */
#include <complex.h>
#include <fftw3.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { FIELDS_MAX = 64 };
static int n, fields, ranks, me, planes;
static size_t block; /* complex numbers that one rank has for another one */
static fftw_complex *field[FIELDS_MAX], *packed[FIELDS_MAX];
static fftw_plan flat, across;

/* y and z of a field, and its planes' parts for each rank next to each other: [rank][x][y of the rank][z]. */
static void transform_planes(int f)
{
    fftw_execute_dft(flat, field[f], field[f]);
    for (int r = 0; r < ranks; r++)
        for (int x = 0; x < planes; x++)
            memcpy(packed[f] + r * block + (size_t)x * planes * n, field[f] + ((size_t)x * n + (size_t)r * planes) * n, sizeof(fftw_complex) * planes * n);
}
/* After the exchange a field is [x][own y][z]. */
static void transform_columns(int f) { fftw_execute_dft(across, field[f], field[f]); }

static void exchange(int f, MPI_Request *rq)
{
    int count = (int)(2 * block);
    if (rq) MPI_Ialltoall(packed[f], count, MPI_DOUBLE, field[f], count, MPI_DOUBLE, MPI_COMM_WORLD, rq);
    else MPI_Alltoall(packed[f], count, MPI_DOUBLE, field[f], count, MPI_DOUBLE, MPI_COMM_WORLD);
}
static void transform_all(int is_blocking)
{
    MPI_Request rq[FIELDS_MAX];
    for (int f = 0; f < fields; f++) {
        transform_planes(f);
        exchange(f, is_blocking ? NULL : &rq[f]);
        if (is_blocking) transform_columns(f);
        else if (f > 0) MPI_Wait(&rq[f - 1], MPI_STATUS_IGNORE), transform_columns(f - 1);
    }
    if (!is_blocking) MPI_Wait(&rq[fields - 1], MPI_STATUS_IGNORE), transform_columns(fields - 1);
}
/* Field f is a plane wave: its transform is N^3 at (1 + f, 2, 3), and 0 elsewhere. */
static void fill(void)
{
    for (int f = 0; f < fields; f++)
        for (int x = 0; x < planes; x++)
            for (int y = 0; y < n; y++)
                for (int z = 0; z < n; z++)
                    field[f][((size_t)x * n + y) * n + z] = cexp(2 * M_PI * I * ((double)(1 + f) * (me * planes + x) + 2.0 * y + 3.0 * z) / n);
}
static int is_right(void)
{
    double volume = (double)n * n * n;
    for (int f = 0; f < fields; f++)
        for (int x = 0; x < n; x++)
            for (int y = 0; y < planes; y++)
                for (int z = 0; z < n; z++) {
                    double want = x == (1 + f) % n && me * planes + y == 2 && z == 3 ? volume : 0;
                    if (cabs(field[f][((size_t)x * planes + y) * n + z] - want) > 1e-9 * volume) return 0;
                }
    return 1;
}
static int ascending(const void *a, const void *b) { double d = *(const double *)a - *(const double *)b; return d < 0 ? -1 : d > 0; }

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    n = argc > 3 ? atoi(argv[1]) : 0, fields = argc > 3 ? atoi(argv[2]) : 0;
    int iterations = argc > 3 ? atoi(argv[3]) : 0, is_blocking = argc > 4 && !strcmp(argv[4], "blocking");
    if (n < 4 || n % ranks || fields < 1 || fields > FIELDS_MAX || iterations < 1) {
        if (me == 0) fprintf(stderr, "usage: fft3d N FIELDS ITERATIONS [blocking], N a multiple of the number of ranks, at most %d fields\n", FIELDS_MAX);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    planes = n / ranks, block = (size_t)planes * planes * n;
    size_t all = block * ranks;
    for (int f = 0; f < fields; f++) field[f] = fftw_alloc_complex(all), packed[f] = fftw_alloc_complex(all);
    int square[] = {n, n}, line[] = {n}, stride = planes * n;
    flat = fftw_plan_many_dft(2, square, planes, field[0], NULL, 1, n * n, field[0], NULL, 1, n * n, FFTW_FORWARD, FFTW_ESTIMATE);
    across = fftw_plan_many_dft(1, line, stride, field[0], NULL, stride, 1, field[0], NULL, stride, 1, FFTW_FORWARD, FFTW_ESTIMATE);
    double *times = malloc(sizeof(double) * iterations);
    int all_right = 1;
    for (int i = -1; i < iterations; i++) {
        fill();
        MPI_Barrier(MPI_COMM_WORLD);
        double took = MPI_Wtime(), slowest;
        transform_all(is_blocking);
        took = MPI_Wtime() - took;
        all_right &= is_right();
        MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (i >= 0) times[i] = slowest;
    }
    int right;
    MPI_Allreduce(&all_right, &right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    qsort(times, iterations, sizeof *times, ascending);
    if (me == 0) printf("{\"fft\": %d, \"ranks\": %d, \"fields\": %d, \"blocking\": %d, \"bytes\": %zu, \"ms\": %.3f}\n", n, ranks, fields, is_blocking, block * sizeof(fftw_complex), times[iterations / 2] * 1e3);
    if (!right) {
        fprintf(stderr, "fft3d: rank %d: the transform of a plane wave is wrong\n", me);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
