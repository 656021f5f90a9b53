/* MPI_DATATYPE_NULL as the type of no items: programs written for MPICH pass it, above all in the arrays of MPI_Alltoallw. With items it is an error. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    MPI_Comm c;
    MPI_Request rq[2];
    MPI_Status status;
    MPI_Datatype none = MPI_DATATYPE_NULL;
    int to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size, n = -1, value = 7;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &c));
    OK(MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN));
    OK(MPI_Irecv(NULL, 0, none, from, 1, c, &rq[0]));
    OK(MPI_Isend(NULL, 0, none, to, 1, c, &rq[1]));
    OK(MPI_Waitall(2, rq, MPI_STATUSES_IGNORE));
    OK(MPI_Sendrecv(NULL, 0, none, to, 2, NULL, 0, none, from, 2, c, &status));
    EQ(status.MPI_SOURCE, from);
    OK(MPI_Get_count(&status, MPI_INT, &n));
    EQ(n, 0);
    OK(MPI_Recv_init(NULL, 0, none, from, 3, c, &rq[0]));
    OK(MPI_Send_init(NULL, 0, none, to, 3, c, &rq[1]));
    OK(MPI_Startall(2, rq));
    OK(MPI_Waitall(2, rq, MPI_STATUSES_IGNORE));
    OK(MPI_Request_free(&rq[0]));
    OK(MPI_Request_free(&rq[1]));
    FAILS(MPI_ERR_TYPE, MPI_Send(&value, 1, none, to, 4, c));
    FAILS(MPI_ERR_TYPE, MPI_Recv(&value, 1, none, from, 4, c, &status));
    /* collectives: only rank 0 has data for its right neighbour */
    OK(MPI_Bcast(NULL, 0, none, 0, c));
    int counts[64] = {0}, zeros[64] = {0}, got = -1;
    MPI_Datatype types[64], others[64];
    for (int i = 0; i < check_size; i++)
        types[i] = others[i] = none;
    int sends = check_rank == 0, receives = from == 0, in[64] = {0};
    if (sends)
        counts[to] = 1, types[to] = MPI_INT;
    if (receives)
        in[0] = 1, others[0] = MPI_INT;
    OK(MPI_Alltoallw(&value, counts, zeros, types, &got, in, zeros, others, c));
    EQ(got, receives ? 7 : -1);
    in[0] = 1;
    STRICT(OK(MPI_Gatherv(sends ? &value : NULL, sends, sends ? MPI_INT : none, &got, in, zeros, MPI_INT, 0, c)));
    STRICT(EQ(got, receives || check_rank == 0 ? 7 : -1));
    STRICT(OK(MPI_Gatherv(NULL, 0, none, NULL, zeros, zeros, none, 0, c)));
    FAILS(MPI_ERR_TYPE, MPI_Bcast(&value, 1, none, 0, c));
    OK(MPI_Barrier(c));
    OK(MPI_Comm_free(&c));
    return check_done();
}
