/* Many collectives in flight on one communicator and on several, mixed with point-to-point, completed in other orders. */
#include "check.h"
enum { K = 24, N = 500 };

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    int p = check_size, me = check_rank;
    MPI_Comm dup[3];
    for (int i = 0; i < 3; i++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup[i]));
    static int in[K][N], out[K][N], bc[K][N];
    MPI_Request rq[3 * K + 2];
    for (int round = 0; round < 8; round++) {
        int n = 0, ping = round, pong = -1;
        OK(MPI_Irecv(&pong, 1, MPI_INT, (me + p - 1) % p, 3, MPI_COMM_WORLD, &rq[n++]));
        for (int k = 0; k < K; k++) {
            MPI_Comm c = k % 2 ? MPI_COMM_WORLD : dup[k % 3];
            for (int i = 0; i < N; i++) in[k][i] = me + i + k * round, bc[k][i] = me == k % p ? k * i + round : -1;
            OK(MPI_Iallreduce(in[k], out[k], N, MPI_INT, MPI_SUM, c, &rq[n++]));
            OK(MPI_Ibcast(bc[k], N, MPI_INT, k % p, c, &rq[n++]));
            OK(MPI_Ibarrier(c, &rq[n++]));
        }
        OK(MPI_Isend(&ping, 1, MPI_INT, (me + 1) % p, 3, MPI_COMM_WORLD, &rq[n++]));
        if (round % 2) {
            for (int i = n - 1; i >= 0; i--) OK(MPI_Wait(&rq[i], MPI_STATUS_IGNORE));
        } else
            OK(MPI_Waitall(n, rq, MPI_STATUSES_IGNORE));
        EQ(pong, round);
        int bad = 0;
        for (int k = 0; k < K; k++)
            for (int i = 0; i < N; i++) {
                bad += out[k][i] != p * (p - 1) / 2 + p * (i + k * round);
                bad += bc[k][i] != k * i + round;
            }
        EQ(bad, 0);
    }
    /* several persistent collectives of one communicator started together */
    MPI_Request pr[3];
    int a = me, b = 0, c = 0, d[64], e = me + 1;
    OK(MPI_Allreduce_init(&a, &b, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &pr[0]));
    OK(MPI_Bcast_init(&c, 1, MPI_INT, p - 1, MPI_COMM_WORLD, MPI_INFO_NULL, &pr[1]));
    OK(MPI_Allgather_init(&e, 1, MPI_INT, d, 1, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &pr[2]));
    for (int i = 0; i < 5; i++) {
        a = me + i, c = me == p - 1 ? i : -1, e = me + i;
        OK(MPI_Startall(3, pr));
        OK(MPI_Waitall(3, pr, MPI_STATUSES_IGNORE));
        EQ(b, p * (p - 1) / 2 + p * i);
        EQ(c, i);
        EQ(d[p - 1], p - 1 + i);
    }
    for (int i = 0; i < 3; i++) OK(MPI_Request_free(&pr[i]));
    for (int i = 0; i < 3; i++) OK(MPI_Comm_free(&dup[i]));
    /* the communicator may be freed while its collective runs */
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup[0]));
    OK(MPI_Iallreduce(&a, &b, 1, MPI_INT, MPI_MAX, dup[0], &rq[0]));
    OK(MPI_Comm_free(&dup[0]));
    OK(MPI_Wait(&rq[0], MPI_STATUS_IGNORE));
    EQ(b, p - 1 + 4);
    return check_done();
}
