/* Overlap of Ialltoall: t = Ialltoall + Wait; then Ialltoall, a computation that takes t, Wait: T in all.
 * overlap = max(0, 100 * (1 - (T - computation) / t)) per cent. Usage: overlap SIZES */
#include "bench.h"

static volatile double sink;
static void compute(double seconds)
{
    double x = 1;
    for (double end = MPI_Wtime() + seconds; MPI_Wtime() < end;)
        for (int i = 0; i < 200; i++)
            x = x * 1.0000001 + 1e-9;
    sink = x;
}

int main(int argc, char **argv)
{
    bench_init(&argc, &argv);
    long sizes[32];
    int ns = sizes_of(argc > 1 ? argv[1] : "16384,65536,524288", sizes, 32);
    for (int s = 0; s < ns; s++) {
        int n = (int)sizes[s], k = 3;
        char *a = buffer((size_t)n * size), *b = buffer((size_t)n * size);
        MPI_Request rq;
        double pure = 0, total = 0, computed = 0, t;
        for (int pass = 0; pass < 2; pass++) { /* the first finds the number of iterations */
            MPI_Barrier(MPI_COMM_WORLD);
            t = MPI_Wtime();
            for (int i = 0; i < k; i++) {
                MPI_Ialltoall(a, n, MPI_BYTE, b, n, MPI_BYTE, MPI_COMM_WORLD, &rq);
                MPI_Wait(&rq, MPI_STATUS_IGNORE);
            }
            pure = (MPI_Wtime() - t) / k;
            if (pass == 0)
                k = iterations(pure, target_s(), 5, 5000);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < k; i++) {
            t = MPI_Wtime();
            MPI_Ialltoall(a, n, MPI_BYTE, b, n, MPI_BYTE, MPI_COMM_WORLD, &rq);
            double c = MPI_Wtime();
            compute(pure);
            computed += MPI_Wtime() - c;
            MPI_Wait(&rq, MPI_STATUS_IGNORE);
            total += MPI_Wtime() - t;
        }
        double mine[3] = {pure, total / k, computed / k}, sum[3];
        MPI_Reduce(mine, sum, 3, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        double overlap = 100 * (1 - (sum[1] - sum[2]) / sum[0]);
        report("ialltoall time", n, sum[0] / size * 1e6, "us");
        report("ialltoall overlap", n, overlap > 0 ? overlap : 0, "%");
        free(a); free(b);
    }
    MPI_Finalize();
    return 0;
}
