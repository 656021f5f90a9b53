/* A communicator is revoked although nobody has failed. What is under way in it ends, also blocking calls of others; later calls fail; another communicator,
 * and agreements and shrinking of the revoked one, work. At last MPI_COMM_WORLD is revoked, too. */
#include "check.h"
#include <mpi-ext.h>

/* Larger than what leaves without being asked for. */
enum { BIG = 4 << 20 };
static char *in, *out;

/* Every way in which a call begins. */
static void refused(MPI_Comm comm)
{
    int n = 0, value = 1, sum;
    MPI_Request rq = MPI_REQUEST_NULL;
    MPI_Status status;
    MPI_Message message;
    MPI_Comm other;
    FAILS(MPIX_ERR_REVOKED, MPI_Send(in, 8, MPI_BYTE, 0, 1, comm));
    FAILS(MPIX_ERR_REVOKED, MPI_Ssend(in, 8, MPI_BYTE, 0, 1, comm));
    FAILS(MPIX_ERR_REVOKED, MPI_Isend(in, 8, MPI_BYTE, 0, 1, comm, &rq));
    FAILS(MPIX_ERR_REVOKED, MPI_Send(in, BIG, MPI_BYTE, 0, 1, comm));
    FAILS(MPIX_ERR_REVOKED, MPI_Recv(out, 8, MPI_BYTE, 0, 1, comm, &status));
    FAILS(MPIX_ERR_REVOKED, MPI_Irecv(out, 8, MPI_BYTE, MPI_ANY_SOURCE, 1, comm, &rq));
    FAILS(MPIX_ERR_REVOKED, MPI_Sendrecv(in, 1, MPI_BYTE, 0, 1, out, 1, MPI_BYTE, 0, 1, comm, &status));
    FAILS(MPIX_ERR_REVOKED, MPI_Probe(MPI_ANY_SOURCE, 1, comm, &status));
    FAILS(MPIX_ERR_REVOKED, MPI_Iprobe(MPI_ANY_SOURCE, 1, comm, &n, &status));
    FAILS(MPIX_ERR_REVOKED, MPI_Mprobe(0, 1, comm, &message, &status));
    FAILS(MPIX_ERR_REVOKED, MPI_Improbe(0, 1, comm, &n, &message, &status));
    OK(MPI_Send_init(in, 8, MPI_BYTE, 0, 1, comm, &rq));
    FAILS(MPIX_ERR_REVOKED, MPI_Start(&rq));
    OK(MPI_Request_free(&rq));
    FAILS(MPIX_ERR_REVOKED, MPI_Barrier(comm));
    FAILS(MPIX_ERR_REVOKED, MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm));
    FAILS(MPIX_ERR_REVOKED, MPI_Iallreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm, &rq));
    FAILS(MPIX_ERR_REVOKED, MPI_Comm_dup(comm, &other));
    FAILS(MPIX_ERR_REVOKED, MPI_Comm_split(comm, 0, 0, &other));
    /* What is local goes on. */
    OK(MPI_Comm_rank(comm, &n));
    OK(MPI_Comm_test_inter(comm, &n));
}

static void works(MPI_Comm comm)
{
    int one = 1, sum = 0, size;
    OK(MPI_Comm_size(comm, &size));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    EQ(sum, size);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    MPI_Comm comm, other, shrunk;
    MPI_Request rq[4];
    int revoked = 0, flag = 5;
    in = alloc(BIG);
    out = alloc(BIG);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    OK(MPIX_Comm_is_revoked(comm, &revoked));
    EQ(revoked, 0);
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    /* Nobody ever matches these. */
    OK(MPI_Irecv(out, 8, MPI_BYTE, before, 7, comm, &rq[0]));
    OK(MPI_Irecv(out + 8, 8, MPI_BYTE, MPI_ANY_SOURCE, 8, comm, &rq[1]));
    OK(MPI_Issend(in, 8, MPI_BYTE, next, 9, comm, &rq[2]));
    OK(MPI_Isend(in, BIG, MPI_BYTE, next, 10, comm, &rq[3]));
    OK(MPI_Barrier(other));
    if (check_rank != 0) {
        /* These wait for rank 0, which doesn't come. */
        int code = check_rank % 2 ? MPI_Barrier(comm) : MPI_Recv(out + 16, 1, MPI_BYTE, 0, 11, comm, MPI_STATUS_IGNORE);
        FAILS(MPIX_ERR_REVOKED, code);
    } else {
        usleep(20000);
        OK(MPIX_Comm_revoke(comm));
    }
    for (int i = 0; i < 4; i++)
        FAILS(MPIX_ERR_REVOKED, MPI_Wait(&rq[i], MPI_STATUS_IGNORE));
    OK(MPIX_Comm_is_revoked(comm, &revoked));
    EQ(revoked, 1);
    refused(comm);
    OK(MPIX_Comm_revoke(comm));
    works(other);
    flag = 5 | 2 << check_rank;
    OK(MPIX_Comm_agree(comm, &flag));
    EQ(flag, check_size == 1 ? 7 : 5);
    OK(MPIX_Comm_shrink(comm, &shrunk));
    works(shrunk);
    OK(MPI_Comm_free(&shrunk));
    MPI_Request request;
    OK(MPIX_Comm_ishrink(comm, &shrunk, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    works(shrunk);
    /* Both sides of an inter-communicator, with the collectives inside of a group. */
    MPI_Comm half, inter, smaller;
    if (check_size > 1) {
        int colour = check_rank % 2, size = 0, merged = 0;
        OK(MPI_Comm_split(shrunk, colour, 0, &half));
        OK(MPI_Intercomm_create(half, 0, shrunk, !colour, 4, &inter));
        OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
        OK(MPI_Barrier(inter));
        OK(MPI_Barrier(shrunk));
        if (check_rank == 1)
            OK(MPIX_Comm_revoke(inter));
        else
            FAILS(MPIX_ERR_REVOKED, MPI_Recv(out, 1, MPI_BYTE, 0, 1, inter, MPI_STATUS_IGNORE));
        FAILS(MPIX_ERR_REVOKED, MPI_Barrier(inter));
        OK(MPIX_Comm_shrink(inter, &smaller));
        OK(MPI_Barrier(smaller));
        OK(MPI_Comm_remote_size(smaller, &size));
        EQ(size, colour ? (check_size + 1) / 2 : check_size / 2);
        OK(MPI_Comm_free(&comm));
        OK(MPI_Intercomm_merge(smaller, colour, &comm));
        OK(MPI_Comm_size(comm, &merged));
        EQ(merged, check_size);
        works(comm);
        OK(MPI_Comm_free(&smaller));
        OK(MPI_Comm_free(&inter));
        OK(MPI_Comm_free(&half));
    }
    OK(MPI_Comm_free(&shrunk));
    OK(MPI_Comm_free(&comm));
    works(other);
    if (check_rank == check_size - 1)
        OK(MPIX_Comm_revoke(MPI_COMM_WORLD));
    else
        FAILS(MPIX_ERR_REVOKED, MPI_Recv(out, 1, MPI_BYTE, check_size - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    refused(MPI_COMM_WORLD);
    works(other);
    OK(MPI_Comm_free(&other));
    OK(MPI_Finalize());
    return check_failed != 0;
}
