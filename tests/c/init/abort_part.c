/* A part of the processes ends by MPI_Abort on its communicator, in a job that continues on failure: the others lose these peers, and only
 * these. Arguments: "abort", or "handler" for an error on a communicator with MPI_ERRORS_ABORT. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    int doomed = check_rank >= 2, mine, class, sum, never;
    MPI_Comm half;
    OK(MPI_Comm_split(MPI_COMM_WORLD, doomed, 0, &half));
    OK(MPI_Comm_rank(half, &mine));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (doomed) {
        if (mine == 0 && arg_is(argc, argv, "abort"))
            MPI_Abort(half, 5);
        if (mine == 0 && arg_is(argc, argv, "handler")) {
            MPI_Comm_set_errhandler(half, MPI_ERRORS_ABORT);
            MPI_Send(NULL, -1, MPI_INT, 0, 0, half);
        }
        MPI_Recv(&never, 1, MPI_INT, mine, 999, half, MPI_STATUS_IGNORE); /* the rest of the part waits for ever */
        return 0;
    }
    for (int rank = 2; rank < check_size; rank++) {
        MPI_Error_class(MPI_Recv(&never, 1, MPI_INT, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), &class);
        EQ(class, ERR_LOST);
    }
    for (int i = 0; i < 20; i++) {
        OK(MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, half));
        EQ(sum, 2 * i);
    }
    check_survivors(&half);
    OK(MPI_Finalize());
    return check_failed != 0;
}
