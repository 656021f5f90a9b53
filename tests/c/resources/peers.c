/* exchange N [TIMES]: exchanges 8 bytes and 64 KiB with N peers, prints its pid and stops; idle: all but rank 0 wait in MPI_Recv for ever.
 * The buffers are static and as large as a message, so they count little and the same for all N. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char out[65536], in[65536];

int main(int argc, char **argv)
{
    int rank, size, v;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int idle = argc > 1 && !strcmp(argv[1], "idle"), active = argc > 2 ? atoi(argv[2]) : size - 1, times = argc > 3 ? atoi(argv[3]) : 1;
    for (int i = 0; i < times && !idle; i++)
        for (int d = 1; d <= active && d < size; d++)
            for (int n = 8; n <= 65536; n *= 8192)
                MPI_Sendrecv(out, n, MPI_BYTE, (rank + d) % size, 1, in, n, MPI_BYTE, (rank + size - d) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (idle && rank) {
        /* rank 0 prints first, so that the reader knows which line is whose */
        MPI_Recv(&v, 1, MPI_INT, rank - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    if (idle && rank + 1 < size) MPI_Send(&rank, 1, MPI_INT, rank + 1, 1, MPI_COMM_WORLD);
    if (idle && rank) MPI_Recv(&v, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (;;) pause();
}
