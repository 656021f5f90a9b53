/* Persistent requests of all four modes and receives: start, startall, inactive requests in wait/test, free. */
#include "check.h"
enum { N = 5, ROUNDS = 6 };

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    if (check_size < 2)
        return check_skip("needs two ranks");
    static int sizes[N] = {0, 1, 3000, 20000, 300000}; /* ints */
    int *buf[N], flag, active;
    MPI_Request rq[N];
    MPI_Status st[N];
    char *pool = alloc(8 << 20), *back;
    OK(MPI_Buffer_attach(pool, 8 << 20));
    for (int i = 0; i < N; i++)
        buf[i] = alloc(sizes[i] * sizeof(int));
    for (int mode = 0; mode < 4 && check_rank < 2; mode++) {
        int peer = !check_rank;
        for (int i = 0; i < N; i++) {
            if (check_rank == 0 && mode == 0) OK(MPI_Send_init(buf[i], sizes[i], MPI_INT, peer, i, MPI_COMM_WORLD, &rq[i]));
            if (check_rank == 0 && mode == 1) OK(MPI_Ssend_init(buf[i], sizes[i], MPI_INT, peer, i, MPI_COMM_WORLD, &rq[i]));
            if (check_rank == 0 && mode == 2) OK(MPI_Bsend_init(buf[i], sizes[i], MPI_INT, peer, i, MPI_COMM_WORLD, &rq[i]));
            if (check_rank == 0 && mode == 3) OK(MPI_Rsend_init(buf[i], sizes[i], MPI_INT, peer, i, MPI_COMM_WORLD, &rq[i]));
            if (check_rank == 1) OK(MPI_Recv_init(buf[i], sizes[i], MPI_INT, i & 1 ? MPI_ANY_SOURCE : peer, i, MPI_COMM_WORLD, &rq[i]));
        }
        OK(MPI_Test(&rq[1], &flag, &st[0])); /* inactive: complete at once, empty status */
        EQ(flag, 1);
        EQ(st[0].MPI_SOURCE, MPI_ANY_SOURCE);
        EQ(st[0].MPI_TAG, MPI_ANY_TAG);
        OK(MPI_Waitany(N, rq, &active, &st[0]));
        EQ(active, MPI_UNDEFINED);
        for (int round = 0; round < ROUNDS; round++) {
            if (check_rank == 1) {
                for (int i = 0; i < N; i++)
                    memset(buf[i], 0, sizes[i] * sizeof(int));
                OK(MPI_Startall(N, rq));
                OK(MPI_Send(NULL, 0, MPI_INT, 0, 77, MPI_COMM_WORLD));
            } else {
                OK(MPI_Recv(NULL, 0, MPI_INT, 1, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                for (int i = 0; i < N; i++) {
                    for (int k = 0; k < sizes[i]; k++)
                        buf[i][k] = round * 1000003 + i * 17 + k;
                    OK(MPI_Start(&rq[i]));
                }
            }
            OK(MPI_Waitall(N, rq, st));
            for (int i = 0; i < N; i++) {
                CHECK(rq[i] != MPI_REQUEST_NULL);
                if (check_rank == 1) {
                    int count, bad = 0;
                    OK(MPI_Get_count(&st[i], MPI_INT, &count));
                    EQ(count, sizes[i]);
                    for (int k = 0; k < sizes[i]; k++)
                        bad += buf[i][k] != round * 1000003 + i * 17 + k;
                    EQ(bad, 0);
                    EQ(st[i].MPI_TAG, i);
                }
            }
        }
        for (int i = 0; i < N; i++) {
            OK(MPI_Request_free(&rq[i]));
            EQ(rq[i] == MPI_REQUEST_NULL, 1);
        }
    }
    int size;
    OK(MPI_Buffer_detach(&back, &size));
    /* A started persistent send may be freed at once: it still completes. */
    int one = 42, got = 0;
    if (check_rank == 0) {
        OK(MPI_Send_init(&one, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, &rq[0]));
        OK(MPI_Start(&rq[0]));
        OK(MPI_Request_free(&rq[0]));
    } else if (check_rank == 1) {
        OK(MPI_Recv(&got, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        EQ(got, 42);
    }
    return check_done();
}
