/* resources memory [ACTIVE]: memory of a rank after init and after exchanging 8 B and 64 KiB with ACTIVE peers (default: all), in KiB.
 * resources idle SECONDS: CPU share of a rank that waits in MPI_Recv for that long, after 10 ms of waiting, in per cent. */
#include "bench.h"
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Proportional set size: what the rank adds to the node. */
static double pss_kib(void)
{
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    long kib = 0;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Pss: %ld", &kib) == 1)
            break;
    if (f) fclose(f);
    return kib;
}
static double cpu_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}
static double mean(double mine)
{
    double sum = 0;
    MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    return sum / size;
}

int main(int argc, char **argv)
{
    double before = pss_kib();
    bench_init(&argc, &argv);
    if (argc > 1 && !strcmp(argv[1], "idle")) {
        double seconds = argc > 2 ? atof(argv[2]) : 1;
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) { /* sleeps outside of MPI; all others wait inside */
            usleep((useconds_t)(seconds * 1e6));
            for (int r = 1; r < size; r++) MPI_Send(&r, 1, MPI_INT, r, 1, MPI_COMM_WORLD);
        }
        double share = 0, sum = 0;
        if (rank) {
            int v;
            double c = cpu_s(), t = MPI_Wtime();
            MPI_Recv(&v, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            share = 100 * (cpu_s() - c - 0.0) / (MPI_Wtime() - t);
        }
        MPI_Reduce(&share, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        report("idle cpu", 0, size > 1 ? sum / (size - 1) : 0, "%");
    } else {
        int active = argc > 2 ? atoi(argv[2]) : size - 1;
        char *a = buffer(65536), *b = buffer(65536);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = pss_kib();
        for (int d = 1; d <= active && d < size; d++)
            for (int n = 8; n <= 65536; n *= 8192)
                MPI_Sendrecv(a, n, MPI_BYTE, (rank + d) % size, 1, b, n, MPI_BYTE, (rank + size - d) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        double end = pss_kib();
        MPI_Barrier(MPI_COMM_WORLD);
        report("memory after init", 0, mean(start - before), "KiB");
        report("memory active", active, mean(end - before), "KiB");
        free(a); free(b);
    }
    MPI_Finalize();
    return 0;
}
