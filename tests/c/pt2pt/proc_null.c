/* MPI_PROC_NULL: every operation completes at once; the status is (PROC_NULL, ANY_TAG, 0 elements). */
#include "check.h"

static void empty(const MPI_Status *st)
{
    int count = -1;
    EQ(st->MPI_SOURCE, MPI_PROC_NULL);
    EQ(st->MPI_TAG, MPI_ANY_TAG);
    OK(MPI_Get_count(st, MPI_INT, &count));
    EQ(count, 0);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    int v = 5, w = 6, none = MPI_PROC_NULL;
    MPI_Comm c = MPI_COMM_WORLD;
    MPI_Status st;
    MPI_Request rq[10];
    OK(MPI_Send(&v, 1, MPI_INT, none, 0, c));
    OK(MPI_Ssend(&v, 1, MPI_INT, none, 0, c));
    OK(MPI_Rsend(&v, 1, MPI_INT, none, 0, c));
    OK(MPI_Bsend(&v, 1, MPI_INT, none, 0, c));
    OK(MPI_Recv(&w, 1, MPI_INT, none, 0, c, &st));
    empty(&st);
    EQ(w, 6);
    OK(MPI_Isend(&v, 1, MPI_INT, none, 0, c, &rq[0]));
    OK(MPI_Issend(&v, 1, MPI_INT, none, 0, c, &rq[1]));
    OK(MPI_Irsend(&v, 1, MPI_INT, none, 0, c, &rq[2]));
    OK(MPI_Irecv(&w, 1, MPI_INT, none, 0, c, &rq[3]));
    MPI_Status four[4];
    OK(MPI_Waitall(4, rq, four));
    empty(&four[3]);
    OK(MPI_Sendrecv(&v, 1, MPI_INT, none, 0, &w, 1, MPI_INT, none, 0, c, &st));
    empty(&st);
    OK(MPI_Sendrecv(&v, 1, MPI_INT, check_rank, 3, &w, 1, MPI_INT, check_rank, 3, c, &st));
    EQ(w, 5);
    OK(MPI_Sendrecv_replace(&v, 1, MPI_INT, none, 0, none, 0, c, &st));
    empty(&st);
    EQ(v, 5);
    OK(MPI_Isendrecv(&v, 1, MPI_INT, none, 0, &w, 1, MPI_INT, none, 0, c, &rq[0]));
    OK(MPI_Wait(&rq[0], &st));
    if (!on_mpich()) /* the oracle returns an empty status with ANY_SOURCE here, and for the persistent receive */
        empty(&st);
    OK(MPI_Send_init(&v, 1, MPI_INT, none, 0, c, &rq[0]));
    OK(MPI_Recv_init(&w, 1, MPI_INT, none, 0, c, &rq[1]));
    for (int i = 0; i < 3; i++) {
        OK(MPI_Startall(2, rq));
        OK(MPI_Waitall(2, rq, four));
        if (!on_mpich())
            empty(&four[1]);
    }
    OK(MPI_Request_free(&rq[0]));
    OK(MPI_Request_free(&rq[1]));
    /* A chain that ends in PROC_NULL on both sides, as stencil codes use it. */
    int left = check_rank ? check_rank - 1 : none, right = check_rank + 1 < check_size ? check_rank + 1 : none;
    int mine = check_rank * 10, from_left = -1;
    OK(MPI_Sendrecv(&mine, 1, MPI_INT, right, 1, &from_left, 1, MPI_INT, left, 1, c, &st));
    EQ(from_left, check_rank ? (check_rank - 1) * 10 : -1);
    return check_done();
}
