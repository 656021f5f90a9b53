/* Messages to oneself: nonblocking both ways, unexpected, synchronous, large, on WORLD and SELF. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    static const int sizes[] = {0, 8, 4000, 100000, 3000000};
    char *a = alloc(3000000), *b = alloc(3000000);
    MPI_Comm comms[2] = {MPI_COMM_WORLD, MPI_COMM_SELF};
    for (int c = 0; c < 2; c++)
        for (int s = 0; s < LEN(sizes); s++)
            for (int form = 0; form < 4; form++) {
                int n = sizes[s], me, count;
                MPI_Comm_rank(comms[c], &me);
                MPI_Request rq[2];
                MPI_Status st[2];
                fill(a, n, s * 10 + form);
                memset(b, 0, n);
                if (form & 1)
                    OK(MPI_Irecv(b, n, MPI_BYTE, me, 4, comms[c], &rq[1]));
                if (form & 2)
                    OK(MPI_Issend(a, n, MPI_BYTE, me, 4, comms[c], &rq[0]));
                else
                    OK(MPI_Isend(a, n, MPI_BYTE, me, 4, comms[c], &rq[0]));
                if (form == 2) { /* synchronous and unexpected: not complete before the receive is posted */
                    int flag;
                    OK(MPI_Test(&rq[0], &flag, MPI_STATUS_IGNORE));
                    EQ(flag, 0);
                }
                if (!(form & 1))
                    OK(MPI_Irecv(b, n, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comms[c], &rq[1]));
                OK(MPI_Waitall(2, rq, st));
                OK(MPI_Get_count(&st[1], MPI_BYTE, &count));
                EQ(count, n);
                EQ(st[1].MPI_SOURCE, me);
                EQ(wrong_at(b, n, s * 10 + form), -1);
            }
    return check_done();
}
