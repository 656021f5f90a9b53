/* All ranks send many small messages to rank 0, which looks away first: unexpected queue, credits, then ssend semantics. */
#include "check.h"
#include <time.h>
enum { N = 3000 };

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    if (check_size < 2)
        return check_skip("needs two ranks");
    static int v[N];
    static MPI_Request rq[N];
    if (check_rank) {
        for (int i = 0; i < N; i++) {
            v[i] = i + check_rank * 100000;
            OK(MPI_Isend(&v[i], 1, MPI_INT, 0, i % 7, MPI_COMM_WORLD, &rq[i]));
        }
        OK(MPI_Waitall(N, rq, MPI_STATUSES_IGNORE));
    } else {
        usleep(200000);
        for (int tag = 6; tag >= 0; tag--)
            for (int r = check_size - 1; r > 0; r--)
                for (int i = tag; i < N; i += 7) {
                    int got;
                    OK(MPI_Recv(&got, 1, MPI_INT, r, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                    EQ(got, i + r * 100000);
                }
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* Ssend ends only when the receive has started. */
    double started;
    int x = 1;
    if (check_rank == 1) {
        OK(MPI_Ssend(&x, 1, MPI_INT, 0, 1, MPI_COMM_WORLD));
        double ended = check_clock();
        OK(MPI_Recv(&started, 1, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(ended >= started, "ssend returned %.6f s before its receive", started - ended);
    } else if (check_rank == 0) {
        usleep(300000);
        started = check_clock();
        OK(MPI_Recv(&x, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Send(&started, 1, MPI_DOUBLE, 1, 2, MPI_COMM_WORLD));
    }
    return check_done();
}
