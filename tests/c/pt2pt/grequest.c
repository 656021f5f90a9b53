/* Generalized requests: query, free and cancel callbacks, their order, in every completion call, with threads' help. */
#include "check.h"
static int queried, freed, cancelled, cancel_complete = -1;
static int query(void *x, MPI_Status *st)
{
    queried++;
    MPI_Status_set_elements(st, MPI_INT, *(int *)x);
    MPI_Status_set_cancelled(st, cancelled);
    st->MPI_SOURCE = 3;
    st->MPI_TAG = 4;
    return MPI_SUCCESS;
}
static int release(void *x) { (void)x; freed++; return MPI_SUCCESS; }
static int cancel(void *x, int complete) { (void)x; cancelled = 1; cancel_complete = complete; return MPI_SUCCESS; }

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    int count = 17, got, flag, index, idx[2], out;
    MPI_Request rq, mixed[2];
    MPI_Status st, sts[2];
    OK(MPI_Grequest_start(query, release, cancel, &count, &rq));
    OK(MPI_Test(&rq, &flag, &st));
    EQ(flag, 0);
    OK(MPI_Grequest_complete(rq));
    OK(MPI_Request_get_status(rq, &flag, &st));
    EQ(flag, 1);
    EQ(freed, 0);
    queried = 0;
    OK(MPI_Wait(&rq, &st));
    EQ(queried, 1);
    EQ(freed, 1);
    EQ(st.MPI_SOURCE, 3);
    EQ(st.MPI_TAG, 4);
    OK(MPI_Get_count(&st, MPI_INT, &got));
    EQ(got, 17);
    OK(MPI_Test_cancelled(&st, &flag));
    EQ(flag, 0);
    EQ(rq == MPI_REQUEST_NULL, 1);
    /* freed before it is complete: free_fn runs after completion */
    OK(MPI_Grequest_start(query, release, cancel, &count, &rq));
    MPI_Request copy = rq;
    OK(MPI_Request_free(&rq));
    EQ(freed, 1);
    OK(MPI_Grequest_complete(copy));
    EQ(freed, 2);
    /* beside an ordinary request */
    int in = 0, v = 5;
    OK(MPI_Grequest_start(query, release, cancel, &count, &mixed[0]));
    OK(MPI_Irecv(&in, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &mixed[1]));
    OK(MPI_Grequest_complete(mixed[0]));
    OK(MPI_Waitany(2, mixed, &index, &st));
    EQ(index, 0);
    OK(MPI_Send(&v, 1, MPI_INT, 0, 1, MPI_COMM_SELF));
    OK(MPI_Waitsome(2, mixed, &out, idx, sts));
    EQ(out, 1);
    EQ(idx[0], 1);
    EQ(in, 5);
    for (int i = 0; i < 2; i++)
        OK(MPI_Grequest_start(query, release, cancel, &count, &mixed[i]));
    OK(MPI_Grequest_complete(mixed[1]));
    OK(MPI_Testall(2, mixed, &flag, sts));
    EQ(flag, 0);
    OK(MPI_Grequest_complete(mixed[0]));
    OK(MPI_Waitall(2, mixed, sts));
    EQ(freed, 5);
    EQ(sts[1].MPI_TAG, 4);
    /* cancel */
    OK(MPI_Grequest_start(query, release, cancel, &count, &rq));
    OK(MPI_Cancel(&rq));
    EQ(cancelled, 1);
    EQ(cancel_complete, 0);
    OK(MPI_Grequest_complete(rq));
    OK(MPI_Wait(&rq, &st));
    OK(MPI_Test_cancelled(&st, &flag));
    EQ(flag, 1);
    return check_done();
}
