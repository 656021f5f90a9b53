/* Blocking collectives: coll NAME[,NAME...] SIZES. SIZES are bytes per rank (per block for gather, scatter, allgather, alltoall);
 * what reduce_scatter gives each rank is a part of them, but one number at least.
 * Each call is timed by itself with a barrier between; the result is the mean over calls and ranks. */
#include "bench.h"
static char *a, *b;
static int *counts, *displs;
static long n;

static int part(void) { return n / 4 < size ? 1 : (int)(n / 4 / size); }

static void call(const char *name)
{
    MPI_Comm w = MPI_COMM_WORLD;
    int bytes = (int)n, ints = (int)(n / 4);
    switch (name[0] * 256 + name[strlen(name) - 1]) {
    case 'b' * 256 + 'r': MPI_Barrier(w); break;
    case 'b' * 256 + 't': MPI_Bcast(a, bytes, MPI_BYTE, 0, w); break;
    case 'r' * 256 + 'e': MPI_Reduce(a, b, ints, MPI_FLOAT, MPI_SUM, 0, w); break;
    case 'r' * 256 + 'r': MPI_Reduce_scatter(a, b, counts, MPI_FLOAT, MPI_SUM, w); break;
    case 'r' * 256 + 'k': MPI_Reduce_scatter_block(a, b, part(), MPI_FLOAT, MPI_SUM, w); break;
    case 'g' * 256 + 'r': MPI_Gather(a, bytes, MPI_BYTE, b, bytes, MPI_BYTE, 0, w); break;
    case 'g' * 256 + 'v': MPI_Gatherv(a, bytes, MPI_BYTE, b, counts, displs, MPI_BYTE, 0, w); break;
    case 's' * 256 + 'r': MPI_Scatter(a, bytes, MPI_BYTE, b, bytes, MPI_BYTE, 0, w); break;
    case 's' * 256 + 'v': MPI_Scatterv(a, counts, displs, MPI_BYTE, b, bytes, MPI_BYTE, 0, w); break;
    case 's' * 256 + 'n': MPI_Scan(a, b, ints, MPI_FLOAT, MPI_SUM, w); break;
    case 'e' * 256 + 'n': MPI_Exscan(a, b, ints, MPI_FLOAT, MPI_SUM, w); break;
    default:
        if (!strcmp(name, "allreduce")) MPI_Allreduce(a, b, ints, MPI_FLOAT, MPI_SUM, w);
        else if (!strcmp(name, "allgather")) MPI_Allgather(a, bytes, MPI_BYTE, b, bytes, MPI_BYTE, w);
        else if (!strcmp(name, "allgatherv")) MPI_Allgatherv(a, bytes, MPI_BYTE, b, counts, displs, MPI_BYTE, w);
        else if (!strcmp(name, "alltoall")) MPI_Alltoall(a, bytes, MPI_BYTE, b, bytes, MPI_BYTE, w);
        else if (!strcmp(name, "alltoallv")) MPI_Alltoallv(a, counts, displs, MPI_BYTE, b, counts, displs, MPI_BYTE, w);
        else MPI_Abort(w, 2);
    }
}
static double run(const char *name, int k)
{
    double sum = 0;
    for (int i = 0; i < k; i++) {
        double t = MPI_Wtime();
        call(name);
        sum += MPI_Wtime() - t;
        if (strcmp(name, "barrier"))
            MPI_Barrier(MPI_COMM_WORLD);
    }
    return sum / k;
}

static void measure(const char *name, const long *sizes, int ns)
{
    int blocks = !strcmp(name, "reduce_scatter"), none = !strcmp(name, "barrier");
    for (int s = 0; s < (none ? 1 : ns); s++) {
        n = none ? 0 : sizes[s];
        for (int r = 0; r < size; r++) {
            counts[r] = blocks ? part() : (int)n;
            displs[r] = (int)n * r;
        }
        double one = run(name, 3);
        double start = MPI_Wtime();
        run(name, 2);
        one = (MPI_Wtime() - start) / 2;
        int k = iterations(one, target_s(), 5, 1000000);
        double mine = run(name, k), sum = 0;
        MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        report(name, n, sum / size * 1e6, "us");
    }
}

int main(int argc, char **argv)
{
    bench_init(&argc, &argv);
    long sizes[32], most = 0;
    int ns = sizes_of(argc > 2 ? argv[2] : "8", sizes, 32);
    for (int i = 0; i < ns; i++) most = sizes[i] > most ? sizes[i] : most;
    a = buffer((size_t)most * size + 64), b = buffer((size_t)most * size + 64);
    memset(a, 0, (size_t)most * size + 64);
    counts = calloc(size, sizeof(int)), displs = calloc(size, sizeof(int));
    for (char *name = strtok(argv[1], ","); name; name = strtok(NULL, ","))
        measure(name, sizes, ns);
    MPI_Finalize();
    return 0;
}

