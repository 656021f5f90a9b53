/* Partitioned communication between neighbours of a ring: several rounds, partitions that differ on both sides, in any order, one by one,
 * as ranges and as lists; a strided type on one side; completion by all families; null processes; matching in order; errors. */
#include "check.h"
enum { ROUNDS = 4 };

static void mark(MPI_Request *send, int partitions, int how)
{
    if (how == 0) /* one by one, backwards */
        for (int i = partitions; i-- > 0;)
            OK(MPI_Pready(i, *send));
    if (how == 1) { /* two ranges */
        if (partitions > 1)
            OK(MPI_Pready_range(partitions / 2, partitions - 1, *send));
        OK(MPI_Pready_range(0, partitions > 1 ? partitions / 2 - 1 : 0, *send));
    }
    if (how >= 2) { /* odd ones first */
        int list[64], n = 0;
        for (int odd = 1; odd >= 0; odd--)
            for (int i = 0; i < partitions; i++)
                if (i % 2 == odd)
                    list[n++] = i;
        OK(MPI_Pready_list(n, list, *send));
    }
}

static void finish(MPI_Request rq[2], int how, MPI_Status *received)
{
    MPI_Status st[2];
    int flag = 0, at, done = 0;
    if (how == 0)
        OK(MPI_Waitall(2, rq, st));
    if (how == 1) {
        while (!flag)
            OK(MPI_Request_get_status(rq[1], &flag, &st[1]));
        STRICT(EQ(st[1].MPI_TAG, 5));
        OK(MPI_Wait(&rq[0], MPI_STATUS_IGNORE));
        OK(MPI_Wait(&rq[1], &st[1]));
    }
    if (how == 2 && on_mpich()) /* which takes the send's request for none */
        OK(MPI_Waitall(2, rq, st));
    else if (how == 2)
        while (!flag)
            OK(MPI_Testall(2, rq, &flag, st));
    if (how == 3)
        for (; done < 2; done++) {
            MPI_Status one;
            OK(MPI_Waitany(2, rq, &at, &one));
            CHECK(at == 0 || at == 1);
            if (at == 1)
                st[1] = one;
        }
    *received = st[1];
}

/* `items` ints go round, as `sends` partitions and `receives` ones. */
static void ring(int items, int sends, int receives, int strided)
{
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size, flag, count;
    int *out = alloc(items * sizeof(int)), *in = alloc(2 * items * sizeof(int)), stride = strided ? 2 : 1;
    MPI_Request rq[2];
    MPI_Status st;
    MPI_Datatype type = MPI_INT;
    if (strided) {
        OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &type));
        OK(MPI_Type_commit(&type));
    }
    OK(MPI_Psend_init(out, sends, items / sends, MPI_INT, next, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &rq[0]));
    OK(MPI_Precv_init(in, receives, items / receives, type, before, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &rq[1]));
    STRICT({
        OK(MPI_Parrived(rq[1], 0, &flag)); /* inactive */
        EQ(flag, 1);
    });
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < items; i++)
            out[i] = check_rank * 1000003 + round * 977 + i;
        for (int i = 0; i < 2 * items; i++)
            in[i] = -1;
        OK(MPI_Startall(2, rq));
        mark(&rq[0], sends, round % 3);
        for (int p = receives; p-- > 0;) {
            for (flag = 0; !flag;)
                OK(MPI_Parrived(rq[1], p, &flag));
            int first = p * (items / receives), bad = 0;
            for (int i = first; i < first + items / receives; i++)
                bad += in[i * stride] != before * 1000003 + round * 977 + i;
            EQ(bad, 0);
        }
        finish(rq, round, &st);
        STRICT({ /* the oracle's status is the empty one */
            EQ(st.MPI_SOURCE, before);
            EQ(st.MPI_TAG, 5);
            OK(MPI_Get_count(&st, MPI_INT, &count));
            EQ(count, items);
        });
        for (int i = 0; strided && i < items; i++)
            EQ(in[2 * i + 1], -1);
    }
    OK(MPI_Request_free(&rq[0]));
    OK(MPI_Request_free(&rq[1]));
    EQ(rq[0], MPI_REQUEST_NULL);
    if (strided)
        OK(MPI_Type_free(&type));
    free(out);
    free(in);
}

/* Two pairs with one tag match in the order of their calls, whatever is started first. The receiver waits for another message
 * that is sent after the first pair is complete on the other side. */
static void order(void)
{
    enum { BIG = 300000 };
    static int data[2][BIG];
    MPI_Request rq[2];
    if (check_rank == 0) {
        for (int k = 0; k < 2; k++) {
            data[k][0] = data[k][BIG - 1] = 100 + k;
            OK(MPI_Psend_init(data[k], 3, BIG / 3, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &rq[k]));
        }
        for (int k = 2; k-- > 0;) {
            OK(MPI_Start(&rq[k]));
            OK(MPI_Pready_range(0, 2, rq[k]));
            OK(MPI_Wait(&rq[k], MPI_STATUS_IGNORE));
        }
        OK(MPI_Send(NULL, 0, MPI_INT, 1, 8, MPI_COMM_WORLD));
    } else if (check_rank == 1) {
        for (int k = 0; k < 2; k++) {
            OK(MPI_Precv_init(data[k], 1, BIG, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &rq[k]));
            OK(MPI_Start(&rq[k]));
        }
        OK(MPI_Recv(NULL, 0, MPI_INT, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Waitall(2, rq, MPI_STATUSES_IGNORE));
        for (int k = 0; k < 2; k++)
            CHECK(data[k][0] == 100 + k && data[k][BIG - 1] == 100 + k, "%d", data[k][0]);
    }
    if (check_rank < 2)
        for (int k = 0; k < 2; k++)
            OK(MPI_Request_free(&rq[k]));
}

static void nobody(void)
{
    int x[4] = {1, 2, 3, 4}, flag = 0;
    MPI_Request rq[2];
    MPI_Status st;
    OK(MPI_Psend_init(x, 2, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &rq[0]));
    OK(MPI_Precv_init(x + 2, 2, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &rq[1]));
    OK(MPI_Startall(2, rq));
    OK(MPI_Pready_range(0, 1, rq[0]));
    OK(MPI_Parrived(rq[1], 1, &flag));
    EQ(flag, 1);
    OK(MPI_Wait(&rq[0], &st));
    OK(MPI_Wait(&rq[1], &st));
    STRICT(EQ(st.MPI_SOURCE, MPI_PROC_NULL));
    CHECK(x[2] == 3 && x[3] == 4);
    OK(MPI_Request_free(&rq[0]));
    OK(MPI_Request_free(&rq[1]));
}

static void errors(void)
{
    int x[4] = {0}, y[4] = {0}, flag, bad = 9;
    MPI_Request send, recv, persistent, null = MPI_REQUEST_NULL;
    FAILS(MPI_ERR_RANK, MPI_Psend_init(x, 1, 1, MPI_INT, check_size, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    FAILS(MPI_ERR_TAG, MPI_Psend_init(x, 1, 1, MPI_INT, 0, -7, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    FAILS(MPI_ERR_COUNT, MPI_Psend_init(x, 1, -1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    STRICT({
        FAILS(MPI_ERR_ARG, MPI_Psend_init(x, -1, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
        FAILS(MPI_ERR_RANK, MPI_Precv_init(x, 1, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
        FAILS(MPI_ERR_TAG, MPI_Precv_init(x, 1, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
        FAILS(MPI_ERR_COMM, MPI_Psend_init(x, 1, 1, MPI_INT, 0, 0, MPI_COMM_NULL, MPI_INFO_NULL, &send));
    });
    OK(MPI_Psend_init(x, 4, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &send));
    OK(MPI_Precv_init(y, 2, 2, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &recv));
    OK(MPI_Send_init(x, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &persistent));
    STRICT({
        FAILS(MPI_ERR_REQUEST, MPI_Pready(0, send)); /* inactive */
        FAILS(MPI_ERR_REQUEST, MPI_Pready(0, null));
        FAILS(MPI_ERR_REQUEST, MPI_Pready(0, recv));
        FAILS(MPI_ERR_REQUEST, MPI_Pready(0, persistent));
        FAILS(MPI_ERR_REQUEST, MPI_Parrived(send, 0, &flag));
        FAILS(MPI_ERR_REQUEST, MPI_Parrived(persistent, 0, &flag));
    });
    OK(MPI_Start(&send));
    OK(MPI_Start(&recv));
    STRICT({
        FAILS(MPI_ERR_REQUEST, MPI_Start(&send));
        FAILS(MPI_ERR_ARG, MPI_Pready(4, send));
        FAILS(MPI_ERR_ARG, MPI_Pready(-1, send));
        FAILS(MPI_ERR_ARG, MPI_Pready_range(2, 1, send));
        FAILS(MPI_ERR_ARG, MPI_Pready_range(0, 4, send));
        FAILS(MPI_ERR_ARG, MPI_Pready_list(1, &bad, send));
        FAILS(MPI_ERR_ARG, MPI_Pready_list(-1, &bad, send));
        FAILS(MPI_ERR_ARG, MPI_Parrived(recv, 2, &flag));
        OK(MPI_Test(&send, &flag, MPI_STATUS_IGNORE));
        EQ(flag, 0);
    });
    OK(MPI_Pready_range(1, 3, send));
    STRICT({
        FAILS(MPI_ERR_ARG, MPI_Pready(2, send)); /* ready already */
        OK(MPI_Parrived(recv, 1, &flag));
        EQ(flag, 1);
        OK(MPI_Parrived(recv, 0, &flag));
        EQ(flag, 0);
        OK(MPI_Test(&recv, &flag, MPI_STATUS_IGNORE));
        EQ(flag, 0);
    });
    OK(MPI_Pready(0, send));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&recv, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&recv));
    OK(MPI_Request_free(&persistent));
}

/* More is sent than there is room for; what lies behind the buffer stays. */
static void truncation(void)
{
    int x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8] = {0};
    MPI_Request send, recv;
    OK(MPI_Psend_init(x, 4, 2, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &send));
    OK(MPI_Precv_init(y, 1, 5, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &recv));
    OK(MPI_Start(&send));
    OK(MPI_Start(&recv));
    OK(MPI_Pready_range(0, 3, send));
    FAILS(MPI_ERR_TRUNCATE, MPI_Wait(&recv, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    EQ(y[3], 4);
    EQ(y[5], 0);
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&recv));
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    if (check_size < 2)
        return check_skip("needs two ranks");
    ring(12, 4, 4, 0);
    ring(60, 6, 4, 0);
    ring(60, 1, 30, 0);
    ring(240000, 8, 3, 0);
    STRICT({
        ring(60, 30, 1, 1);
        ring(60000, 5, 12, 1);
        ring(0, 3, 2, 0);
    });
    order();
    STRICT(nobody()); /* the oracle crashes */
    errors();
    STRICT(truncation());
    return check_done();
}
