/* rails SECONDS: rank 0 streams numbered messages of 256 KiB to rank 1, which checks each byte of them; what went where while rails come and go.
 * Prints the Mbit/s of each slice of 100 ms, from the beginning, and "checked COUNT". */
#include "../check.h"
enum { BYTES = 256 << 10, WINDOW = 8, SLICES = 6000 };
static unsigned char data[WINDOW][BYTES], wanted[BYTES];
static double slices[SLICES];

static void paint(unsigned char *at, unsigned number)
{
    for (unsigned i = 0; i < BYTES; i += 64)
        memset(at + i, (int)((number * 31 + i / 64) & 255), 64);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    int rank = check_rank, more = 1;
    double seconds = argc > 1 ? atof(argv[1]) : 2;
    unsigned number = 0;
    double begin = MPI_Wtime();
    while (more) {
        MPI_Request requests[WINDOW];
        for (int i = 0; i < WINDOW; i++) {
            if (rank == 0)
                paint(data[i], number + (unsigned)i);
            if (rank == 0)
                MPI_Isend(data[i], BYTES, MPI_BYTE, 1, i, MPI_COMM_WORLD, &requests[i]);
            else
                MPI_Irecv(data[i], BYTES, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[i]);
        }
        for (int i = 0; i < WINDOW; i++, number++) {
            MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
            if (rank == 0)
                continue;
            paint(wanted, number);
            CHECK(!memcmp(wanted, data[i], BYTES));
            int slice = (int)((MPI_Wtime() - begin) * 10);
            slices[slice < SLICES ? slice : SLICES - 1] += BYTES * 80e-6;
        }
        more = MPI_Wtime() - begin < seconds;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 1) {
        int last = (int)((MPI_Wtime() - begin) * 10);
        for (int i = 0; i < last && i < SLICES; i++)
            printf("slice %d %.1f\n", i, slices[i]);
        printf("checked %u\n", number);
    }
    return check_done();
}
