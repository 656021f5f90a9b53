/* A send-receive whose send fails, because its destination is dead, leaves no receive behind: the next message of its source goes to the
 * next receive, and the buffer of the failed call stays as it is. */
#include "check.h"
#include <signal.h>

enum { TAG = 5, READY = 6 };

/* Rank 0: each form of send-receive to the dead rank 2 and from rank 1. */
static int failing(int form, int *buf)
{
    MPI_Request rq;
    int out = 0, code;
    switch (form) {
    case 0: return MPI_Sendrecv(&out, 1, MPI_INT, 2, TAG, buf, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    case 1: return MPI_Sendrecv_replace(buf, 1, MPI_INT, 2, TAG, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    case 2: code = MPI_Isendrecv(&out, 1, MPI_INT, 2, TAG, buf, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD, &rq); break;
    default: code = MPI_Isendrecv_replace(buf, 1, MPI_INT, 2, TAG, 1, TAG, MPI_COMM_WORLD, &rq); break;
    }
    return code == MPI_SUCCESS ? MPI_Wait(&rq, MPI_STATUS_IGNORE) : code;
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    int word = 0, ours = -1, theirs = -1;
    if (check_rank == 2)
        raise(SIGKILL);
    if (check_rank == 0)
        FAILS(ERR_LOST, MPI_Recv(&word, 1, MPI_INT, 2, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int form = 0; form < 4; form++) {
        if (check_rank == 0) {
            FAILS(ERR_LOST, failing(form, &ours));
            ours = -1;
            OK(MPI_Send(&word, 1, MPI_INT, 1, READY, MPI_COMM_WORLD));
            OK(MPI_Recv(&theirs, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            EQ(theirs, 10 * form);
            EQ(ours, -1);
            if (theirs == 10 * form)
                OK(MPI_Recv(&theirs, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_Recv(&word, 1, MPI_INT, 0, READY, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            for (int i = 0; i < 2; i++) {
                int out = 10 * form + i;
                OK(MPI_Send(&out, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD));
            }
        }
    }
    MPI_Group world, alive;
    MPI_Comm survivors;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_excl(world, 1, (int[]){2}, &alive));
    OK(MPI_Comm_create_group(MPI_COMM_WORLD, alive, 5, &survivors));
    check_survivors(&survivors);
    OK(MPI_Group_free(&alive));
    OK(MPI_Group_free(&world));
    OK(MPI_Finalize());
    return check_failed != 0;
}
