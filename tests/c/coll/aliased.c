/* A process's own block may not be the same memory in the send and the receive buffer; MPI_IN_PLACE says that. The error is MPI_ERR_BUFFER on
 * the process that made the mistake, before anything is sent. All processes make it here, on MPI_COMM_SELF or with the root's arguments. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    MPI_Comm c = MPI_COMM_SELF, w = MPI_COMM_WORLD;
    int a[128], n = check_size, one[64], at[64], *mine = a + 2 * check_rank;
    MPI_Datatype I = MPI_INT, types[64];
    MPI_Request rq;
    for (int i = 0; i < 128; i++) a[i] = i;
    for (int i = 0; i < 64; i++) one[i] = 2, at[i] = 2 * i, types[i] = MPI_INT;
#define BOTH(N, n, ...) do { FAILS(MPI_ERR_BUFFER, MPI_##N(__VA_ARGS__)); FAILS(MPI_ERR_BUFFER, MPI_I##n(__VA_ARGS__, &rq)); } while (0)
    BOTH(Gather, gather, a, 2, I, a, 2, I, 0, c);
    BOTH(Scatter, scatter, a, 2, I, a, 2, I, 0, c);
    BOTH(Allgather, allgather, a, 2, I, a, 2, I, c);
    BOTH(Alltoall, alltoall, a, 2, I, a, 2, I, c);
    BOTH(Gatherv, gatherv, a, 2, I, a, one, at, I, 0, c);
    BOTH(Scatterv, scatterv, a, one, at, I, a, 2, I, 0, c);
    BOTH(Allgatherv, allgatherv, a, 2, I, a, one, at, I, c);
    BOTH(Alltoallv, alltoallv, a, one, at, I, a, one, at, I, c);
    BOTH(Alltoallw, alltoallw, a, one, at, types, a, one, at, types, c);
    BOTH(Allgather, allgather, mine, 2, I, a, 2, I, w);
    BOTH(Alltoall, alltoall, a, 2, I, a, 2, I, w);
    BOTH(Allgatherv, allgatherv, mine, 2, I, a, one, at, I, w);
    /* no data, no aliasing; another process's block is no aliasing that the library sees */
    OK(MPI_Gather(a, 0, I, a, 0, I, 0, c));
    OK(MPI_Allgather(NULL, 0, I, NULL, 0, I, w));
    OK(MPI_Alltoall(a, 0, I, a, 0, I, w));
    /* what the standard has for it */
    OK(MPI_Allgather(MPI_IN_PLACE, 0, I, a, 2, I, w));
    OK(MPI_Gather(MPI_IN_PLACE, 0, I, a, 2, I, 0, c));
    for (int i = 0; i < 2 * n; i++) EQ(a[i], i);
    return check_done();
}
