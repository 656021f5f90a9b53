/* A communicator with an attached buffer is freed while buffered messages wait in it: they leave all the same, whole. MPI_Comm_disconnect
 * waits until they have left. */
#include "check.h"

enum { SMALL = 30000, BIG = 3 << 20, GO = 9, ROUNDS = 4 };

/* Memory that was given back is used again, and holds something else. */
static void scribble(void)
{
    for (int i = 0; i < 8; i++) {
        char *more[2] = {alloc(SMALL), alloc(BIG)};
        memset(more[0], 0x55, SMALL);
        memset(more[1], 0x55, BIG);
        free(more[0]);
        free(more[1]);
    }
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    static char pool[2 * (SMALL + BIG + 2 * MPI_BSEND_OVERHEAD)];
    char *buf = alloc(BIG);
    int sizes[] = {SMALL, BIG}, go = 0;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Comm comm;
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        if (round % 2)
            OK(MPI_Comm_attach_buffer(comm, pool, sizeof pool));
        else
            OK(MPI_Comm_attach_buffer(comm, MPI_BUFFER_AUTOMATIC, 0));
        if (check_rank == 0) {
            for (int i = 0; i < LEN(sizes); i++) {
                fill(buf, sizes[i], 10 * round + i);
                OK(MPI_Bsend(buf, sizes[i], MPI_BYTE, 1, i, comm));
            }
            if (round < 2) {
                OK(MPI_Comm_free(&comm));
                scribble();
                OK(MPI_Send(&go, 1, MPI_INT, 1, GO, MPI_COMM_WORLD));
            } else {
                OK(MPI_Comm_disconnect(&comm));
                scribble();
            }
        } else if (check_rank == 1) {
            if (round < 2)
                OK(MPI_Recv(&go, 1, MPI_INT, 0, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            for (int i = LEN(sizes) - 1; i >= 0; i--) {
                OK(MPI_Recv(buf, sizes[i], MPI_BYTE, 0, i, comm, MPI_STATUS_IGNORE));
                EQ(wrong_at(buf, sizes[i], 10 * round + i), -1);
            }
        }
        if (comm != MPI_COMM_NULL)
            OK(round < 2 ? MPI_Comm_free(&comm) : MPI_Comm_disconnect(&comm));
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    free(buf);
    return check_done();
}
