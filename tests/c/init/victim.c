/* For the kill tests: all ranks keep all channels busy (short, eager, rendezvous, collectives) until they are killed or N seconds pass. */
#include "check.h"

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double end = MPI_Wtime() + (argc > 1 ? atof(argv[1]) : 5);
    enum { BIG = 1 << 20 };
    char *a = malloc(BIG), *b = malloc(BIG);
    memset(a, 1, BIG);
    for (int i = 0;; i++) {
        int sizes[3] = {8, 6000, BIG}, go = MPI_Wtime() < end, all, n = sizes[i % 3];
        MPI_Sendrecv(a, n, MPI_BYTE, (rank + 1) % size, 1, b, n, MPI_BYTE, (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Allreduce(&go, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        if (i % 7 == 0) usleep(1000); /* sometimes nobody has anything to do */
        if (!all) break;
    }
    MPI_Finalize();
    return 0;
}
