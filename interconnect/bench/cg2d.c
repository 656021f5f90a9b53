/* Conjugate gradients for a sparse random matrix that is cut in two dimensions, as NAS CG does (D. Bailey et al., 1991): ranks form a grid of
 * rows x columns (a power of two; columns = rows or twice that), each has one block of the matrix and the vectors' segment of its column.
 *
 * A product sums the blocks' results along each row by exchange with the partners at distance 1, 2, 4 .. columns/2, then goes to the transposed rank,
 * which needs that segment. Where there are twice as many columns, the first exchange leaves each of a pair one half. All messages are of one size.
 * Each exchange of a product is a phase of its own for profilers (MPI_Pcontrol 10, 11, ..; 1 for the rest).
 * Checked: the right side is A times a known vector; the residual b - A x is computed anew and must have shrunk. Returns 1 when it hasn't.
 *
 * Usage: cg2d [--size N] [--iterations I] [--offsets K]    unknowns, at least 4 a rank (131072), iterations (5), entries beside the diagonal (8, both sides)
 * Prints RESULT with the time of all iterations (longest rank) and the mean over ranks of the time in communication. */
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 16, OFFSETS_MAX = 64, PHASE = 10 };

static int rank, size, rows, columns, row, column, width; /* width: columns of one square's column, 1 or 2 */
static int partner[STEPS_MAX], steps, transposed;
static long n, of_row, of_column; /* unknowns; of a block's row range and column range */
static int iterations = 5, offsets = 8;
static long offset[OFFSETS_MAX];
static double communication_s;

static void fail(const char *why)
{
	if (!rank)
		fprintf(stderr, "cg2d: %s\n", why);
	MPI_Abort(MPI_COMM_WORLD, 2);
}

static double *vector(long length)
{
	double *made = calloc((size_t)length, sizeof *made);
	if (!made)
		fail("no memory");
	return made;
}

/* A reproducible number in (0, 1). */
static double drawn(uint64_t a, uint64_t b)
{
	uint64_t z = (a << 32 | b) + 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (double)((z ^ z >> 31) >> 11) * 0x1p-53 + 0x1p-54;
}

/* The matrix: A[i][i ± offset] = -drawn(smaller place, offset), so it is symmetric; the diagonal is the sum of those and a bit more: positive definite. */
static double beside(long i, int k, int sign)
{
	return drawn((uint64_t)(sign > 0 ? i : (i - offset[k] + n) % n), (uint64_t)k);
}

/* One block in compressed rows. */
static long *first, *at;
static double *value;

static void build(void)
{
	long entries = 0, room = of_row * (2 * offsets + 1);
	first = malloc(((size_t)of_row + 1) * sizeof *first);
	at = malloc((size_t)room * sizeof *at);
	value = vector(room);
	if (!first || !at)
		fail("no memory");
	long from = column * of_column;
	for (long r = 0; r < of_row; r++) {
		long i = row * of_row + r;
		double diagonal = 0.1;
		first[r] = entries;
		for (int k = 0; k < offsets; k++)
			for (int sign = -1; sign <= 1; sign += 2) {
				long j = (i + sign * offset[k] + n) % n;
				double v = beside(i, k, sign);
				diagonal += v;
				if (j >= from && j < from + of_column)
					at[entries] = j - from, value[entries++] = -v;
			}
		if (i >= from && i < from + of_column)
			at[entries] = i - from, value[entries++] = diagonal;
	}
	first[of_row] = entries;
}

static void exchange(const double *out, double *in, long count, int with)
{
	double begin = MPI_Wtime();
	if (with == rank)
		memcpy(in, out, (size_t)count * sizeof *in);
	else
		MPI_Sendrecv(out, (int)count, MPI_DOUBLE, with, 1, in, (int)count, MPI_DOUBLE, with, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	communication_s += MPI_Wtime() - begin;
}

/* q = A p, both by columns. `work` has of_row doubles, `came` too. */
static void multiply(const double *p, double *q, double *work, double *came)
{
	for (long r = 0; r < of_row; r++) {
		double sum = 0;
		for (long e = first[r]; e < first[r + 1]; e++)
			sum += value[e] * p[at[e]];
		work[r] = sum;
	}
	double *mine = work;
	for (int s = 0; s < steps; s++) {
		double *out = mine;
		if (s == 0 && width == 2) { /* the partner gets its half and adds it to its own */
			mine = work + (column % 2) * of_column;
			out = work + (1 - column % 2) * of_column;
		}
		MPI_Pcontrol(PHASE + s);
		exchange(out, came, of_column, partner[s]);
		for (long i = 0; i < of_column; i++)
			mine[i] += came[i];
	}
	MPI_Pcontrol(PHASE + steps);
	exchange(mine, q, of_column, transposed);
	MPI_Pcontrol(1);
}

static double dot(const double *a, const double *b)
{
	double sum = 0, other;
	for (long i = 0; i < of_column; i++)
		sum += a[i] * b[i];
	for (int s = 0; s < steps; s++) {
		exchange(&sum, &other, 1, partner[s]);
		sum += other;
	}
	return sum;
}

/* y = a y + b x */
static void update(double *y, double a, double b, const double *x)
{
	for (long i = 0; i < of_column; i++)
		y[i] = a * y[i] + b * x[i];
}

static void solve(double *x, const double *b, double *r, double *p, double *q, double *work, double *came)
{
	memset(x, 0, (size_t)of_column * sizeof *x);
	memcpy(r, b, (size_t)of_column * sizeof *r);
	memcpy(p, r, (size_t)of_column * sizeof *p);
	double rr = dot(r, r);
	for (int i = 0; i < iterations && rr > 0; i++) {
		multiply(p, q, work, came);
		double alpha = rr / dot(p, q), old = rr;
		update(x, 1, alpha, p);
		update(r, 1, -alpha, q);
		rr = dot(r, r);
		update(p, rr / old, 1, r);
	}
}

static void grid(void)
{
	int log = 0;
	while (1 << log < size)
		log++;
	if (1 << log != size)
		fail("the number of ranks must be a power of two");
	columns = 1 << (log + 1) / 2, rows = 1 << log / 2, width = columns / rows;
	row = rank / columns, column = rank % columns;
	for (int distance = 1; distance < columns; distance *= 2)
		partner[steps++] = row * columns + (column ^ distance);
	transposed = width * (rank / width % rows * rows + rank / width / rows) + rank % width;
	n = n / columns * columns;
	of_row = n / rows, of_column = n / columns;
	if (of_column < 4 || of_row > INT32_MAX)
		fail("--size doesn't fit the number of ranks");
	for (int k = 0; k < offsets; k++)
		offset[k] = 1 + (long)(drawn(77, (uint64_t)k) * (double)(n / 2 - 1));
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	n = 131072;
	for (int i = 1; i < argc; i += 2) {
		long given = i + 1 < argc ? atol(argv[i + 1]) : 0;
		if (!strcmp(argv[i], "--size") && given > 0)
			n = given;
		else if (!strcmp(argv[i], "--iterations") && given > 0)
			iterations = (int)given;
		else if (!strcmp(argv[i], "--offsets") && given > 0 && given <= OFFSETS_MAX)
			offsets = (int)given;
		else
			fail("usage: cg2d [--size N] [--iterations I] [--offsets K]");
	}
	grid();
	build();
	double *x = vector(of_column), *b = vector(of_column), *r = vector(of_column), *p = vector(of_column), *q = vector(of_column);
	double *work = vector(of_row), *came = vector(of_row);
	for (long i = 0; i < of_column; i++)
		x[i] = drawn(5, (uint64_t)(column * of_column + i)) - 0.5;
	multiply(x, b, work, came);

	MPI_Barrier(MPI_COMM_WORLD);
	communication_s = 0;
	double took = MPI_Wtime(), mine[2], all[2];
	solve(x, b, r, p, q, work, came);
	took = MPI_Wtime() - took;
	double seconds, own = communication_s;
	MPI_Reduce(&took, &seconds, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	mine[0] = own, mine[1] = took;
	MPI_Reduce(mine, all, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);

	multiply(x, q, work, came);
	update(q, -1, 1, b);
	double residual = sqrt(dot(q, q) / dot(b, b)), drift = fabs(sqrt(dot(r, r) / dot(b, b)) - residual);
	int good = residual < pow(0.8, iterations) + 1e-12 && drift < 1e-9;
	if (!rank) {
		printf("cg2d %ld unknowns (grid %d x %d): %d iterations, residual %.1e: %s\n", n, rows, columns, iterations, residual, good ? "right" : "WRONG");
		printf("RESULT cg2d ranks=%d seconds=%.6f communication=%.6f\n", size, seconds, all[0] / size);
	}
	if (rank && !good)
		fprintf(stderr, "cg2d: rank %d: residual %.3e, off by %.3e\n", rank, residual, drift);
	free(x), free(b), free(r), free(p), free(q), free(work), free(came), free(first), free(at), free(value);
	MPI_Finalize();
	return !good;
}
