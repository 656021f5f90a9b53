/* Cancelling receives: those without a match are cancelled, those matched complete; others keep their messages. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    int in = -1, flag, v;
    MPI_Request rq, two[2];
    MPI_Status st;
    OK(MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 55, MPI_COMM_WORLD, &rq));
    OK(MPI_Cancel(&rq));
    OK(MPI_Wait(&rq, &st));
    OK(MPI_Test_cancelled(&st, &flag));
    EQ(flag, 1);
    EQ(rq == MPI_REQUEST_NULL, 1);
    for (int i = 0; i < 200; i++) { /* many, with Test */
        OK(MPI_Irecv(&in, 1, MPI_INT, 0, 1000 + i, MPI_COMM_WORLD, &rq));
        OK(MPI_Cancel(&rq));
        for (flag = 0; !flag;)
            OK(MPI_Test(&rq, &flag, &st));
        OK(MPI_Test_cancelled(&st, &flag));
        EQ(flag, 1);
    }
    /* The middle receive is cancelled, the message goes to the next one that matches. */
    MPI_Comm self = MPI_COMM_SELF;
    int a = -1, b = -1;
    OK(MPI_Irecv(&a, 1, MPI_INT, 0, 1, self, &two[0]));
    OK(MPI_Irecv(&b, 1, MPI_INT, 0, 1, self, &two[1]));
    OK(MPI_Cancel(&two[0]));
    OK(MPI_Wait(&two[0], &st));
    OK(MPI_Test_cancelled(&st, &flag));
    EQ(flag, 1);
    v = 99;
    OK(MPI_Send(&v, 1, MPI_INT, 0, 1, self));
    OK(MPI_Wait(&two[1], &st));
    EQ(b, 99);
    EQ(a, -1);
    OK(MPI_Test_cancelled(&st, &flag));
    EQ(flag, 0);
    /* Too late: the receive is complete. */
    OK(MPI_Irecv(&a, 1, MPI_INT, 0, 2, self, &rq));
    v = 7;
    OK(MPI_Send(&v, 1, MPI_INT, 0, 2, self));
    OK(MPI_Request_get_status(rq, &flag, &st));
    EQ(flag, 1);
    OK(MPI_Cancel(&rq));
    OK(MPI_Wait(&rq, &st));
    OK(MPI_Test_cancelled(&st, &flag));
    EQ(flag, 0);
    EQ(a, 7);
    /* Persistent receive: cancel affects this start only. */
    OK(MPI_Recv_init(&a, 1, MPI_INT, 0, 3, self, &rq));
    OK(MPI_Start(&rq));
    OK(MPI_Cancel(&rq));
    OK(MPI_Wait(&rq, &st));
    OK(MPI_Test_cancelled(&st, &flag));
    EQ(flag, 1);
    OK(MPI_Start(&rq));
    v = 8;
    OK(MPI_Send(&v, 1, MPI_INT, 0, 3, self));
    OK(MPI_Wait(&rq, &st));
    EQ(a, 8);
    OK(MPI_Request_free(&rq));
    /* A cancelled and freed receive never takes a message. */
    OK(MPI_Irecv(&a, 1, MPI_INT, 0, 4, self, &rq));
    OK(MPI_Cancel(&rq));
    OK(MPI_Request_free(&rq));
    v = 11;
    OK(MPI_Sendrecv(&v, 1, MPI_INT, 0, 4, &b, 1, MPI_INT, 0, 4, self, &st));
    EQ(b, 11);
    EQ(a, 8);
    return check_done();
}
