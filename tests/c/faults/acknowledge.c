/* The last rank dies. What that means for receives from any source, for agreements, and for the groups of failed processes, before and after the others
 * have acknowledged it. */
#include "check.h"
#include <mpi-ext.h>
#include <signal.h>

static int class_of(int code)
{
    int class = code;
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    return class;
}

static int size_of(MPI_Group *group)
{
    int size;
    OK(MPI_Group_size(*group, &size));
    OK(MPI_Group_free(group));
    return size;
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    const int victim = check_size - 1;
    int word = 0, flag, done, acked, code;
    MPI_Comm comm;
    MPI_Group failed, world, own;
    MPI_Request any, persistent;
    MPI_Status status;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPIX_Comm_get_failed(comm, &failed));
    EQ(size_of(&failed), 0);
    OK(MPIX_Comm_ack_failed(comm, 3, &acked));
    EQ(acked, 0);
    flag = 6 | check_rank;
    OK(MPIX_Comm_agree(comm, &flag));
    EQ(flag, 6);
    if (check_rank == victim) {
        /* The others have their receives posted. */
        OK(MPI_Barrier(comm));
        raise(SIGKILL);
    }
    OK(MPI_Irecv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 1, comm, &any));
    OK(MPI_Recv_init(&acked, 1, MPI_INT, MPI_ANY_SOURCE, 2, comm, &persistent));
    OK(MPI_Start(&persistent));
    code = MPI_Barrier(comm);
    if (code != MPI_SUCCESS)
        EQ(class_of(code), MPIX_ERR_PROC_FAILED);
    /* Interrupted, and not over. */
    FAILS(MPIX_ERR_PROC_FAILED_PENDING, MPI_Wait(&any, &status));
    CHECK(any != MPI_REQUEST_NULL, "the request is gone");
    FAILS(MPIX_ERR_PROC_FAILED_PENDING, MPI_Test(&any, &done, &status));
    FAILS(MPIX_ERR_PROC_FAILED_PENDING, MPI_Wait(&persistent, &status));
    MPI_Request both[2] = {any, persistent};
    MPI_Status statuses[2];
    FAILS(MPI_ERR_IN_STATUS, MPI_Waitall(2, both, statuses));
    EQ(class_of(statuses[0].MPI_ERROR), MPIX_ERR_PROC_FAILED_PENDING);
    EQ(class_of(statuses[1].MPI_ERROR), MPIX_ERR_PROC_FAILED_PENDING);
    CHECK(both[0] == any && both[1] == persistent, "the requests are others");
    FAILS(MPIX_ERR_PROC_FAILED, MPI_Recv(&flag, 1, MPI_INT, MPI_ANY_SOURCE, 3, comm, &status));
    FAILS(MPIX_ERR_PROC_FAILED, MPI_Probe(MPI_ANY_SOURCE, 3, comm, &status));
    FAILS(MPIX_ERR_PROC_FAILED, MPI_Send(&word, 1, MPI_INT, victim, 3, comm));
    /* A failure that not all have acknowledged is the outcome of an agreement; its flag is right all the same. */
    flag = 12 | check_rank;
    FAILS(MPIX_ERR_PROC_FAILED, MPIX_Comm_agree(comm, &flag));
    EQ(flag & 12, 12);
    OK(MPIX_Comm_get_failed(comm, &failed));
    int rank = -1, zero = 0;
    OK(MPI_Comm_group(comm, &world));
    OK(MPI_Group_translate_ranks(failed, 1, &zero, world, &rank));
    EQ(rank, victim);
    EQ(size_of(&failed), 1);
    OK(MPIX_Comm_failure_get_acked(comm, &failed));
    EQ(size_of(&failed), 0);
    if (check_rank == 0)
        OK(MPIX_Comm_failure_ack(comm));
    flag = 1;
    if (check_size > 2)
        FAILS(MPIX_ERR_PROC_FAILED, MPIX_Comm_agree(comm, &flag));
    else
        OK(MPIX_Comm_agree(comm, &flag));
    OK(MPIX_Comm_ack_failed(comm, 1, &done));
    EQ(done, 1);
    OK(MPIX_Comm_failure_get_acked(comm, &failed));
    EQ(size_of(&failed), 1);
    OK(MPIX_Comm_agree(comm, &flag));
    EQ(flag, 1);
    /* The receives go on. */
    OK(MPI_Test(&any, &done, &status));
    EQ(done, 0);
    /* Nobody has sent yet. */
    OK(MPIX_Comm_agree(comm, &flag));
    int next = (check_rank + 1) % victim, before = (check_rank + victim - 1) % victim, mine = 100 + check_rank;
    OK(MPI_Send(&mine, 1, MPI_INT, next, 1, comm));
    OK(MPI_Send(&mine, 1, MPI_INT, next, 2, comm));
    OK(MPI_Send(&mine, 1, MPI_INT, next, 3, comm));
    OK(MPI_Wait(&any, &status));
    EQ(word, 100 + before);
    EQ(status.MPI_SOURCE, before);
    OK(MPI_Wait(&persistent, &status));
    EQ(acked, 100 + before);
    OK(MPI_Request_free(&persistent));
    OK(MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 3, comm, &status));
    EQ(word, 100 + before);
    /* Collectives don't. */
    FAILS(MPIX_ERR_PROC_FAILED, MPI_Barrier(comm));
    MPI_Comm survivors;
    OK(MPIX_Comm_shrink(comm, &survivors));
    OK(MPI_Comm_group(survivors, &own));
    OK(MPI_Group_excl(world, 1, &victim, &failed));
    OK(MPI_Group_compare(own, failed, &done));
    EQ(done, MPI_IDENT);
    OK(MPI_Group_free(&own));
    OK(MPI_Group_free(&failed));
    OK(MPI_Group_free(&world));
    OK(MPI_Comm_free(&comm));
    check_survivors(&survivors);
    OK(MPI_Finalize());
    return check_failed != 0;
}
