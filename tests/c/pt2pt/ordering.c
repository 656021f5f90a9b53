/* Messages don't overtake: same (source, tag, communicator) arrive in order, mixed sizes, wildcards on the receiver. */
#include "check.h"
enum { N = 400 };

static int size_of(int i) { static const int S[] = {4, 64, 3000, 4, 70000, 12, 300000, 4}; return S[i % LEN(S)]; }

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    if (check_size < 2)
        return check_skip("needs two ranks");
    char *buf = alloc(300000);
    static MPI_Request rq[N];
    static char *bufs[N];
    if (check_rank == 0) { /* every other rank sends N numbered messages; receive by exact or wild patterns */
        int *next = calloc(check_size, sizeof *next);
        for (int k = 0; k < N * (check_size - 1); k++) {
            MPI_Status st;
            int count, number;
            OK(MPI_Recv(buf, 300000, MPI_BYTE, MPI_ANY_SOURCE, k % 3 ? MPI_ANY_TAG : 5, MPI_COMM_WORLD, &st));
            OK(MPI_Get_count(&st, MPI_BYTE, &count));
            memcpy(&number, buf, sizeof number);
            EQ(number, next[st.MPI_SOURCE]);
            EQ(count, size_of(number));
            EQ(wrong_at(buf + 4, count - 4, number * 31 + st.MPI_SOURCE), -1);
            next[st.MPI_SOURCE]++;
        }
        free(next);
    } else {
        for (int i = 0; i < N; i++) {
            bufs[i] = alloc(size_of(i));
            memcpy(bufs[i], &i, sizeof i);
            fill(bufs[i] + 4, size_of(i) - 4, i * 31 + check_rank);
            OK(MPI_Isend(bufs[i], size_of(i), MPI_BYTE, 0, 5, MPI_COMM_WORLD, &rq[i]));
        }
        OK(MPI_Waitall(N, rq, MPI_STATUSES_IGNORE));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* Tags received in the reverse of the order in which they were sent: all but one message are unexpected. */
    if (check_rank == 1)
        for (int i = 0; i < N; i++) {
            int v = i * 3;
            OK(MPI_Send(&v, 1, MPI_INT, 0, 1000 + i, MPI_COMM_WORLD));
        }
    if (check_rank == 0)
        for (int i = N - 1; i >= 0; i--) {
            int v = -1;
            OK(MPI_Recv(&v, 1, MPI_INT, 1, 1000 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            EQ(v, i * 3);
        }
    /* Posted receives are matched in the order in which they were posted, wild and exact ones mixed. */
    if (check_rank == 0) {
        int got[N];
        for (int i = 0; i < N; i++)
            OK(MPI_Irecv(&got[i], 1, MPI_INT, i % 2 ? MPI_ANY_SOURCE : 1, i % 3 ? 7 : MPI_ANY_TAG, MPI_COMM_WORLD, &rq[i]));
        OK(MPI_Send(NULL, 0, MPI_INT, 1, 8, MPI_COMM_WORLD));
        OK(MPI_Waitall(N, rq, MPI_STATUSES_IGNORE));
        for (int i = 0; i < N; i++)
            EQ(got[i], i);
    }
    if (check_rank == 1) {
        OK(MPI_Recv(NULL, 0, MPI_INT, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = 0; i < N; i++)
            OK(MPI_Send(&i, 1, MPI_INT, 0, 7, MPI_COMM_WORLD));
    }
    return check_done();
}
