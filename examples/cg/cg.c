/* Conjugate gradients for the 3-D Poisson equation: -Δu = f on a cube, 7-point stencil, zero on the boundary, SIZE^3 unknowns.
 *
 * The cube is cut over a 3-D process grid (MPI_Dims_create, MPI_Cart_create). A product with the matrix exchanges the six faces with
 * MPI_Irecv and MPI_Isend, works on the cells that need no neighbour meanwhile, then on the rest. Each iteration has two dot products
 * (MPI_Allreduce of one double).
 * Checked: the right side is A times a known vector, so the error of the solution is known; and the residual b - A x is computed anew.
 * The program returns 1 when the iteration does not converge or either is too large.
 *
 * Usage: cg [--size N] [--iterations MAX] [--tolerance T] [--repeats R] [--corrupt E]    (default 48, 10 N, 1e-10, 3, 0)
 * --corrupt adds E to one number of the solution before it is checked: the program must notice. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;
static MPI_Comm grid;
static int dims[3], place[3];
static int start[3], n[3]; /* our cells: [start, start + n) in each dimension */
static int edge = 48, most_iterations, repeats = 3;
static double tolerance = 1e-10, corrupt;

/* Vectors have one layer of ghost cells around our cells; index (z, y, x) from -1 to n. */
static size_t row_length, plane_length, cells;
static size_t at(int z, int y, int x) { return (size_t)(z + 1) * plane_length + (size_t)(y + 1) * row_length + (size_t)(x + 1); }

static void *need(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p) {
        fprintf(stderr, "cg: no memory for %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return p;
}

/* --- halo exchange --- */
static double *face_out[6], *face_in[6]; /* low and high face of each dimension; contiguous */
static int neighbour[6];
static MPI_Request request[12];

static int face_cells(int d) { return n[0] * n[1] * n[2] / (n[d] ? n[d] : 1); }
/* Copies the face of dimension d whose index in that dimension is `level` from a vector (`out`) or into it. */
static void copy_face(double *v, double *face, int d, int level, int out)
{
    int low[3] = {0, 0, 0}, end[3] = {n[0], n[1], n[2]};
    low[d] = level, end[d] = level + 1;
    for (int z = low[0]; z < end[0]; z++)
        for (int y = low[1]; y < end[1]; y++)
            for (int x = low[2]; x < end[2]; x++, face++) {
                if (out) *face = v[at(z, y, x)];
                else v[at(z, y, x)] = *face;
            }
}
static void start_halo(double *v)
{
    for (int f = 0; f < 6; f++) /* what f's neighbour sends left through its opposite face */
        MPI_Irecv(face_in[f], face_cells(f / 2), MPI_DOUBLE, neighbour[f], f ^ 1, grid, &request[f]);
    for (int f = 0; f < 6; f++) {
        if (neighbour[f] != MPI_PROC_NULL) copy_face(v, face_out[f], f / 2, f % 2 ? n[f / 2] - 1 : 0, 1);
        MPI_Isend(face_out[f], face_cells(f / 2), MPI_DOUBLE, neighbour[f], f, grid, &request[6 + f]);
    }
}
static void finish_halo(double *v)
{
    MPI_Waitall(12, request, MPI_STATUSES_IGNORE);
    for (int f = 0; f < 6; f++)
        if (neighbour[f] != MPI_PROC_NULL) copy_face(v, face_in[f], f / 2, f % 2 ? n[f / 2] : -1, 0);
}

/* --- the matrix --- */
static void stencil(const double *v, double *w, int z, int y, int x0, int x1)
{
    const double *c = v + at(z, y, 0);
    double *to = w + at(z, y, 0);
    for (int x = x0; x < x1; x++)
        to[x] = 6 * c[x] - c[x - 1] - c[x + 1] - c[x - (long)row_length] - c[x + row_length] - c[x - (long)plane_length] - c[x + plane_length];
}
/* w = A v; v's ghost cells are filled on the way. */
static void multiply(double *v, double *w)
{
    start_halo(v);
    for (int z = 1; z < n[0] - 1; z++)
        for (int y = 1; y < n[1] - 1; y++) stencil(v, w, z, y, 1, n[2] - 1);
    finish_halo(v);
    for (int z = 0; z < n[0]; z++)
        for (int y = 0; y < n[1]; y++) {
            int shell = z == 0 || z == n[0] - 1 || y == 0 || y == n[1] - 1;
            if (shell) {
                stencil(v, w, z, y, 0, n[2]);
            } else {
                stencil(v, w, z, y, 0, 1);
                if (n[2] > 1) stencil(v, w, z, y, n[2] - 1, n[2]);
            }
        }
}

/* --- vectors --- */
#define EACH_ROW(z, y) for (int z = 0; z < n[0]; z++) for (int y = 0; y < n[1]; y++)
static double dot(const double *a, const double *b)
{
    double mine = 0, all;
    EACH_ROW(z, y)
    {
        const double *p = a + at(z, y, 0), *q = b + at(z, y, 0);
        for (int x = 0; x < n[2]; x++) mine += p[x] * q[x];
    }
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, grid);
    return all;
}
/* y = b * y + a * x */
static void update(double *y_, double b, double a, const double *x_)
{
    EACH_ROW(z, y)
    {
        double *p = y_ + at(z, y, 0);
        const double *q = x_ + at(z, y, 0);
        for (int x = 0; x < n[2]; x++) p[x] = b * p[x] + a * q[x];
    }
}
/* A vector that is not an eigenvector and has no symmetry; a function of the cell only. */
static double known(int z, int y, int x)
{
    double h = 1.0 / (edge + 1), a = (z + 1) * h, b = (y + 1) * h, c = (x + 1) * h;
    return a * (1 - a) * sin(5 * b) * (1 - b) * (exp(c) - 1) * (1 - c) + 0.25 * sin(M_PI * a) * sin(2 * M_PI * b) * sin(3 * M_PI * c);
}

/* Solves A x = b from x = 0; returns the number of iterations, negative when it gave up. `work` has three vectors. */
static int solve(double *x, double *b, double *work)
{
    double *r = work, *p = work + cells, *q = work + 2 * cells;
    memset(x, 0, cells * sizeof *x);
    memcpy(r, b, cells * sizeof *r);
    memcpy(p, r, cells * sizeof *p);
    double rr = dot(r, r), goal = tolerance * tolerance * rr;
    for (int i = 0; i < most_iterations; i++) {
        if (rr <= goal) return i;
        multiply(p, q);
        double alpha = rr / dot(p, q), old = rr;
        update(x, 1, alpha, p);
        update(r, 1, -alpha, q);
        rr = dot(r, r);
        update(p, rr / old, 1, r);
    }
    return rr <= goal ? most_iterations : -most_iterations;
}

static void usage(void)
{
    if (!rank) fprintf(stderr, "usage: cg [--size N 2..2000] [--iterations MAX] [--tolerance T] [--repeats R]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
}
static void options(int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc) usage();
        else if (!strcmp(argv[i], "--size")) edge = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--iterations")) most_iterations = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--tolerance")) tolerance = atof(argv[i + 1]);
        else if (!strcmp(argv[i], "--corrupt")) corrupt = atof(argv[i + 1]);
        else if (!strcmp(argv[i], "--repeats")) repeats = atoi(argv[i + 1]);
        else usage();
    }
    if (!most_iterations) most_iterations = 10 * edge;
    if (edge < 2 || edge > 2000 || most_iterations < 1 || tolerance <= 0 || repeats < 1) usage();
}
static void cut(void)
{
    int periods[3] = {0, 0, 0};
    MPI_Dims_create(size, 3, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 1, &grid);
    MPI_Comm_rank(grid, &rank);
    MPI_Cart_coords(grid, rank, 3, place);
    for (int d = 0; d < 3; d++) {
        if (dims[d] > edge) usage();
        n[d] = edge / dims[d] + (place[d] < edge % dims[d]);
        start[d] = place[d] * (edge / dims[d]) + (place[d] < edge % dims[d] ? place[d] : edge % dims[d]);
        MPI_Cart_shift(grid, d, 1, &neighbour[2 * d], &neighbour[2 * d + 1]);
    }
    row_length = n[2] + 2, plane_length = row_length * (n[1] + 2), cells = plane_length * (n[0] + 2);
    for (int f = 0; f < 6; f++) face_out[f] = need(face_cells(f / 2) * sizeof(double)), face_in[f] = need(face_cells(f / 2) * sizeof(double));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    options(argc, argv);
    cut();
    double *x = need(cells * sizeof *x), *b = need(cells * sizeof *b), *u = need(cells * sizeof *u), *work = need(3 * cells * sizeof *work);
    EACH_ROW(z, y) for (int i = 0; i < n[2]; i++) u[at(z, y, i)] = known(start[0] + z, start[1] + y, start[2] + i);
    multiply(u, b);

    MPI_Barrier(grid);
    double t = MPI_Wtime(), seconds;
    int iterations = 0;
    for (int i = 0; i < repeats; i++) iterations = solve(x, b, work);
    t = (MPI_Wtime() - t) / repeats;
    MPI_Allreduce(&t, &seconds, 1, MPI_DOUBLE, MPI_MAX, grid);

    if (rank == size - 1) x[at(0, 0, 0)] += corrupt;
    double *r = work; /* b - A x, and x - u */
    multiply(x, r);
    update(r, -1, 1, b);
    double residual = sqrt(dot(r, r) / dot(b, b)), norm = sqrt(dot(u, u));
    update(x, 1, -1, u);
    double error = sqrt(dot(x, x)) / norm;
    /* the condition of the matrix, about (edge/π)² · 4, stands between residual and error */
    double allowed = 10 * tolerance * (edge + 1.0) * (edge + 1.0) + 1e-12;
    int good = iterations >= 0 && residual <= 10 * tolerance + 1e-13 && error <= allowed;
    if (!rank) {
        double unknowns = (double)edge * edge * edge, flops = abs(iterations) * unknowns * (8 + 2 + 2 + 3 * 3);
        printf("cg %d^3 unknowns (grid %d x %d x %d): %d iterations, residual %.1e, error %.1e: %s\n", edge, dims[0], dims[1], dims[2], abs(iterations),
               residual, error, good ? "right" : "WRONG");
        printf("RESULT cg ranks=%d seconds=%.6f gflops=%.3f\n", size, seconds, flops / seconds * 1e-9);
    }
    for (int f = 0; f < 6; f++) free(face_out[f]), free(face_in[f]);
    free(x); free(b); free(u); free(work);
    MPI_Comm_free(&grid);
    MPI_Finalize();
    return !good;
}
