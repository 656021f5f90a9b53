/* A communicator that is freed while a message waits in it: the program goes on, and the log names the message. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    MPI_Comm comm;
    MPI_Status st;
    double out[3] = {1, 2, 3};
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_name(comm, "leaky"));
    if (check_rank == 0) {
        OK(MPI_Send(out, 3, MPI_DOUBLE, 1, 42, comm));
        OK(MPI_Send(out, 1, MPI_DOUBLE, 1, 43, comm));
    } else {
        OK(MPI_Probe(0, 43, comm, &st)); /* so both have come */
    }
    OK(MPI_Comm_free(&comm));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    return check_done();
}
