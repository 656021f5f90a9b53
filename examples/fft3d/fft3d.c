/* Distributed 3-D FFT with a pencil decomposition over a 2-D process grid.
 *
 *   start:  every rank holds whole x lines:  [z/Pz][y/Py][x]         transform along x
 *   row exchange (ranks of equal z part):    [z/Pz][x/Py][y]         transform along y
 *   column exchange (equal x part):          [x/Py][y/Pz][z]         transform along z
 * The inverse goes the same way back. Exchanges are MPI_Alltoallv with derived types for what is strided, on the two families of
 * sub-communicators. The program checks two things: the transform of a plane wave has a single peak of the right height, and the
 * inverse transform of random data gives the data back. It prints time and accuracy, and fails when either is wrong.
 *
 * Usage: fft3d [NX NY NZ [REPEATS]], sizes are powers of two (default 64 64 64, 4). */
#include <complex.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef double complex cplx;
static int rank, size;
static MPI_Comm row, column; /* py ranks that exchange x against y; pz ranks that exchange y against z */
static int py, pz, iy, iz;   /* the process grid and our place in it */
static int nx, ny, nz;

static int part(int n, int p, int i) { return n / p + (i < n % p); }
static int start_of(int n, int p, int i) { return i * (n / p) + (i < n % p ? i : n % p); }
static void *need(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p) MPI_Abort(MPI_COMM_WORLD, 1);
    return p;
}

/* In-place radix-2 transform of n values (a power of two); sign -1 forward, +1 inverse (not scaled). */
static void fft(cplx *a, int n, int sign)
{
    for (int i = 1, j = 0; i < n; i++) {
        int bit = n >> 1;
        for (; j & bit; bit >>= 1) j ^= bit;
        j ^= bit;
        if (i < j) { cplx t = a[i]; a[i] = a[j]; a[j] = t; }
    }
    for (int length = 2; length <= n; length <<= 1) {
        cplx step = cexp(sign * 2.0 * M_PI * I / length);
        for (int k = 0; k < length / 2; k++) {
            cplx w = k ? cpow(step, k) : 1;
            for (int i = k; i < n; i += length) {
                cplx u = a[i], v = a[i + length / 2] * w;
                a[i] = u + v;
                a[i + length / 2] = u - v;
            }
        }
    }
}
static void fft_lines(cplx *a, int lines, int n, int sign)
{
    for (int i = 0; i < lines; i++) fft(a + (size_t)i * n, n, sign);
}

/* Turns `planes` planes of [rows][n] (n whole, rows ours) into [columns][m] (m whole, columns ours) within `comm`: the transpose of a
 * matrix that is distributed by rows. `n` columns in all, `m` rows in all. Blocks leave as vectors; they are put into place here. */
static void transpose(MPI_Comm comm, cplx *in, cplx *out, int planes, int m, int n)
{
    int p, me;
    MPI_Comm_size(comm, &p);
    MPI_Comm_rank(comm, &me);
    int rows = part(m, p, me), columns = part(n, p, me);
    int *sc = need(4 * p * sizeof(int)), *sd = sc + p, *rc = sd + p, *rd = rc + p;
    cplx *stage = need((size_t)planes * m * columns * sizeof(cplx));
    MPI_Datatype *types = need(p * sizeof *types), *plain = need(p * sizeof *plain);
    for (int r = 0, at = 0; r < p; r++) {
        MPI_Datatype block;
        int width = part(n, p, r);
        /* what goes to r: its columns of each of our rows of each plane; planes follow each other without a gap */
        MPI_Type_vector(planes * rows, width, n, MPI_C_DOUBLE_COMPLEX, &block);
        MPI_Type_commit(&block);
        types[r] = block, plain[r] = MPI_C_DOUBLE_COMPLEX;
        sc[r] = planes * rows * width > 0, sd[r] = start_of(n, p, r) * (int)sizeof(cplx);
        rc[r] = planes * part(m, p, r) * columns, rd[r] = at * (int)sizeof(cplx);
        at += rc[r];
    }
    MPI_Alltoallw(in, sc, sd, types, stage, rc, rd, plain, comm);
    for (int r = 0; r < p; r++) { /* block of r: [plane][its row][our column] */
        cplx *block = stage + rd[r] / (int)sizeof(cplx);
        int first = start_of(m, p, r), count = part(m, p, r);
        for (int z = 0; z < planes; z++)
            for (int y = 0; y < count; y++)
                for (int x = 0; x < columns; x++)
                    out[((size_t)z * columns + x) * m + first + y] = block[((size_t)z * count + y) * columns + x];
        MPI_Type_free(&types[r]);
    }
    free(sc); free(stage); free(types); free(plain);
}
/* Exchanges the two outer dimensions of [a][b][n] in memory. */
static void swap_outer(const cplx *in, cplx *out, int a, int b, int n)
{
    for (int i = 0; i < a; i++)
        for (int j = 0; j < b; j++) memcpy(out + ((size_t)j * a + i) * n, in + ((size_t)i * b + j) * n, n * sizeof(cplx));
}

/* x pencils [z][y][x] → z pencils [x][y][z]. */
static void forward(cplx *a, cplx *b)
{
    int lz = part(nz, pz, iz), ly = part(ny, py, iy), lx = part(nx, py, iy), my = part(ny, pz, iz);
    fft_lines(a, lz * ly, nx, -1);
    transpose(row, a, b, lz, ny, nx); /* [z][x][y] */
    fft_lines(b, lz * lx, ny, -1);
    swap_outer(b, a, lz, lx, ny);        /* [x][z][y] */
    transpose(column, a, b, lx, nz, ny); /* [x][y][z] */
    fft_lines(b, lx * my, nz, -1);
    memcpy(a, b, (size_t)lx * my * nz * sizeof(cplx));
}
static void inverse(cplx *a, cplx *b)
{
    int lz = part(nz, pz, iz), ly = part(ny, py, iy), lx = part(nx, py, iy), my = part(ny, pz, iz);
    fft_lines(a, lx * my, nz, 1);
    transpose(column, a, b, lx, ny, nz); /* [x][z][y] */
    swap_outer(b, a, lx, lz, ny);        /* [z][x][y] */
    fft_lines(a, lz * lx, ny, 1);
    transpose(row, a, b, lz, nx, ny); /* [z][y][x] */
    fft_lines(b, lz * ly, nx, 1);
    double scale = 1.0 / ((double)nx * ny * nz);
    for (size_t i = 0; i < (size_t)lz * ly * nx; i++) a[i] = b[i] * scale;
}

/* A reproducible pseudo-random value of a global place. */
static cplx noise(long place)
{
    unsigned long z = (unsigned long)place * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 29)) * 0xbf58476d1ce4e5b9u;
    z ^= z >> 32;
    return (double)(z & 0xffff) / 65536 - 0.5 + I * ((double)(z >> 16 & 0xffff) / 65536 - 0.5);
}
static double worst(double mine)
{
    double all;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    nx = argc > 3 ? atoi(argv[1]) : 64, ny = argc > 3 ? atoi(argv[2]) : 64, nz = argc > 3 ? atoi(argv[3]) : 64;
    int repeats = argc > 4 ? atoi(argv[4]) : 4;
    if ((nx & (nx - 1)) || (ny & (ny - 1)) || (nz & (nz - 1)) || nx < 1 || ny < 1 || nz < 1) {
        if (!rank) fprintf(stderr, "fft3d: sizes must be powers of two\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int dims[2] = {0, 0}, periods[2] = {0, 0}, place[2], keep_y[2] = {0, 1}, keep_z[2] = {1, 0};
    MPI_Comm grid;
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
    MPI_Cart_coords(grid, rank, 2, place);
    pz = dims[0], py = dims[1], iz = place[0], iy = place[1];
    MPI_Cart_sub(grid, keep_y, &row);
    MPI_Cart_sub(grid, keep_z, &column);
    int lz = part(nz, pz, iz), ly = part(ny, py, iy), lx = part(nx, py, iy), my = part(ny, pz, iz);
    int z0 = start_of(nz, pz, iz), y0 = start_of(ny, py, iy), x0 = start_of(nx, py, iy), v0 = start_of(ny, pz, iz);
    size_t most = (size_t)lz * ly * nx, other = (size_t)lz * lx * ny, third = (size_t)lx * my * nz;
    most = most > other ? most : other, most = most > third ? most : third;
    cplx *a = need(most * sizeof *a), *b = need(most * sizeof *b);

    /* a plane wave exp(2πi (kx x/nx + ky y/ny + kz z/nz)) → nx·ny·nz at (kx, ky, kz), 0 elsewhere */
    int kx = 3 % nx, ky = 5 % ny, kz = nz > 2 ? nz - 2 : 0;
    for (int z = 0; z < lz; z++)
        for (int y = 0; y < ly; y++)
            for (int x = 0; x < nx; x++)
                a[((size_t)z * ly + y) * nx + x] = cexp(2 * M_PI * I * ((double)kx * x / nx + (double)ky * (y0 + y) / ny + (double)kz * (z0 + z) / nz));
    forward(a, b);
    double error = 0, volume = (double)nx * ny * nz;
    for (int x = 0; x < lx; x++)
        for (int y = 0; y < my; y++)
            for (int z = 0; z < nz; z++) {
                double want = x0 + x == kx && v0 + y == ky && z == kz ? volume : 0;
                double d = cabs(a[((size_t)x * my + y) * nz + z] - want) / volume;
                error = d > error ? d : error;
            }
    double wave = worst(error);

    /* random data forth and back */
    for (int z = 0; z < lz; z++)
        for (int y = 0; y < ly; y++)
            for (int x = 0; x < nx; x++) a[((size_t)z * ly + y) * nx + x] = noise(((long)(z0 + z) * ny + y0 + y) * nx + x);
    MPI_Barrier(MPI_COMM_WORLD);
    double t = MPI_Wtime();
    for (int i = 0; i < repeats; i++) {
        forward(a, b);
        inverse(a, b);
    }
    double seconds = worst((MPI_Wtime() - t) / (2 * repeats));
    error = 0;
    for (int z = 0; z < lz; z++)
        for (int y = 0; y < ly; y++)
            for (int x = 0; x < nx; x++) {
                double d = cabs(a[((size_t)z * ly + y) * nx + x] - noise(((long)(z0 + z) * ny + y0 + y) * nx + x));
                error = d > error ? d : error;
            }
    double back = worst(error);
    int good = wave < 1e-12 * volume && wave < 1e-9 && back < 1e-9;
    if (!rank) {
        printf("fft3d %dx%dx%d on %d ranks (grid %d x %d): %.2f ms a transform, plane wave error %.1e, round trip error %.1e: %s\n", nx, ny, nz, size,
               pz, py, seconds * 1e3, wave, back, good ? "right" : "WRONG");
        double operations = 5.0 * volume * log2(volume); /* as usual for transforms */
        printf("RESULT fft3d ranks=%d seconds=%.6f gflops=%.3f\n", size, seconds, operations / seconds * 1e-9);
    }
    free(a); free(b);
    MPI_Comm_free(&row); MPI_Comm_free(&column); MPI_Comm_free(&grid);
    MPI_Finalize();
    return !good;
}
