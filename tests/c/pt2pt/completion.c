/* The Wait and Test families, Request_get_status(_all/_any/_some), null and inactive requests, error per status. */
#include "check.h"
enum { N = 12 };
static MPI_Request rq[N];
static int val[N];

static void post(int tag0)
{
    for (int i = 0; i < N; i++) {
        val[i] = -1;
        OK(MPI_Irecv(&val[i], 1, MPI_INT, 0, tag0 + i, MPI_COMM_SELF, &rq[i]));
    }
}
static void give(int tag) { int v = tag * 2; OK(MPI_Send(&v, 1, MPI_INT, 0, tag, MPI_COMM_SELF)); }
static int nulls(void) { int n = 0; for (int i = 0; i < N; i++) n += rq[i] == MPI_REQUEST_NULL; return n; }

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    int flag, index, out, idx[N];
    MPI_Status st, sts[N];
    /* null requests */
    MPI_Request null = MPI_REQUEST_NULL;
    OK(MPI_Wait(&null, &st));
    EQ(st.MPI_SOURCE, MPI_ANY_SOURCE);
    EQ(st.MPI_TAG, MPI_ANY_TAG);
    OK(MPI_Test(&null, &flag, &st));
    EQ(flag, 1);
    for (int i = 0; i < N; i++)
        rq[i] = MPI_REQUEST_NULL;
    OK(MPI_Waitany(N, rq, &index, &st)); EQ(index, MPI_UNDEFINED);
    OK(MPI_Testany(N, rq, &index, &flag, &st)); EQ(index, MPI_UNDEFINED); EQ(flag, 1);
    OK(MPI_Waitsome(N, rq, &out, idx, sts)); EQ(out, MPI_UNDEFINED);
    OK(MPI_Testsome(N, rq, &out, idx, sts)); EQ(out, MPI_UNDEFINED);
    OK(MPI_Waitall(N, rq, sts)); EQ(sts[3].MPI_SOURCE, MPI_ANY_SOURCE);
    OK(MPI_Testall(N, rq, &flag, sts)); EQ(flag, 1);
    OK(MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE));
    OK(MPI_Testall(0, NULL, &flag, MPI_STATUSES_IGNORE)); EQ(flag, 1);
    OK(MPI_Waitany(0, NULL, &index, MPI_STATUS_IGNORE)); EQ(index, MPI_UNDEFINED);
    /* Waitany / Testany pick what is complete */
    post(100);
    OK(MPI_Testany(N, rq, &index, &flag, &st)); EQ(flag, 0); EQ(index, MPI_UNDEFINED);
    give(107);
    OK(MPI_Waitany(N, rq, &index, &st)); EQ(index, 7); EQ(val[7], 214); EQ(st.MPI_TAG, 107); EQ(nulls(), 1);
    give(102);
    for (flag = 0; !flag;)
        OK(MPI_Testany(N, rq, &index, &flag, &st));
    EQ(index, 2); EQ(val[2], 204);
    /* Testall doesn't touch anything until all are complete */
    give(100);
    OK(MPI_Testall(N, rq, &flag, sts)); EQ(flag, 0); EQ(nulls(), 2);
    /* some */
    give(101); give(103);
    int seen = 0;
    while (seen < 3) {
        OK(MPI_Waitsome(N, rq, &out, idx, sts));
        for (int i = 0; i < out; i++)
            EQ(sts[i].MPI_TAG, 100 + idx[i]);
        seen += out;
    }
    EQ(seen, 3); EQ(nulls(), 5); EQ(val[0], 200); EQ(val[3], 206);
    OK(MPI_Testsome(N, rq, &out, idx, sts)); EQ(out, 0);
    /* get_status leaves requests alone */
    OK(MPI_Request_get_status(rq[4], &flag, &st)); EQ(flag, 0);
    give(104);
    for (flag = 0; !flag;)
        OK(MPI_Request_get_status(rq[4], &flag, &st));
    EQ(st.MPI_TAG, 104); EQ(nulls(), 5);
    OK(MPI_Request_get_status_any(N, rq, &index, &flag, &st)); EQ(flag, 1); EQ(index, 4); EQ(nulls(), 5);
    OK(MPI_Request_get_status_some(N, rq, &out, idx, sts)); EQ(out, 1); EQ(idx[0], 4);
    OK(MPI_Request_get_status_all(N, rq, &flag, sts)); EQ(flag, 0);
    OK(MPI_Request_get_status(MPI_REQUEST_NULL, &flag, &st)); EQ(flag, 1); EQ(st.MPI_SOURCE, MPI_ANY_SOURCE);
    for (int i = 5; i < N; i++)
        if (i != 7)
            give(100 + i);
    for (flag = 0; !flag;)
        OK(MPI_Request_get_status_all(N, rq, &flag, sts));
    EQ(nulls(), 5);
    OK(MPI_Waitall(N, rq, sts));
    EQ(nulls(), N); EQ(sts[11].MPI_TAG, 111); EQ(sts[0].MPI_TAG, MPI_ANY_TAG);
    /* Testall with everything complete */
    post(300);
    for (int i = N - 1; i >= 0; i--)
        give(300 + i);
    for (flag = 0; !flag;)
        OK(MPI_Testall(N, rq, &flag, sts));
    for (int i = 0; i < N; i++) { EQ(sts[i].MPI_TAG, 300 + i); EQ(val[i], 600 + 2 * i); }
    /* One bad message among several: MPI_ERR_IN_STATUS, and the error in its status */
    int big[4] = {1, 2, 3, 4};
    OK(MPI_Irecv(&val[0], 1, MPI_INT, 0, 1, MPI_COMM_SELF, &rq[0]));
    OK(MPI_Irecv(&val[1], 1, MPI_INT, 0, 2, MPI_COMM_SELF, &rq[1]));
    OK(MPI_Send(big, 4, MPI_INT, 0, 1, MPI_COMM_SELF));
    OK(MPI_Send(big, 1, MPI_INT, 0, 2, MPI_COMM_SELF));
    int code = MPI_Waitall(2, rq, sts), class;
    EQ(code, MPI_ERR_IN_STATUS);
    MPI_Error_class(sts[0].MPI_ERROR, &class);
    EQ(class, MPI_ERR_TRUNCATE);
    if (sts[1].MPI_ERROR == MPI_ERR_PENDING) /* allowed: it neither failed nor completed */
        OK(MPI_Wait(&rq[1], &sts[1]));
    else
        EQ(sts[1].MPI_ERROR, MPI_SUCCESS);
    EQ(val[1], 1);
    return check_done();
}
