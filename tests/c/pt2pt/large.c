/* Large messages, both ways at once, at odd offsets; several in flight; every byte is checked. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    if (check_size < 2)
        return check_skip("needs two ranks");
    size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : 24;
    int peer = check_rank ^ 1, n = (int)(mib << 20) + 13, k = 4;
    if (peer < check_size) {
        char *out = alloc(n + 16), *in = alloc(n + 16);
        for (int off = 0; off < 16; off += 5) {
            fill(out + off, n, 100 * check_rank + off);
            memset(in, 0, n + 16);
            OK(MPI_Sendrecv(out + off, n, MPI_BYTE, peer, 1, in + 3, n, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            EQ(wrong_at(in + 3, n, 100 * peer + off), -1);
            EQ(in[2], 0);
            EQ(in[n + 3], 0);
        }
        MPI_Request rq[8];
        int part = n / k;
        fill(out, n, 5000 + check_rank);
        memset(in, 0, n);
        for (int i = 0; i < k; i++)
            OK(MPI_Irecv(in + i * part, part, MPI_BYTE, peer, 10, MPI_COMM_WORLD, &rq[i]));
        for (int i = 0; i < k; i++)
            OK(MPI_Isend(out + i * part, part, MPI_BYTE, peer, 10, MPI_COMM_WORLD, &rq[k + i]));
        OK(MPI_Waitall(2 * k, rq, MPI_STATUSES_IGNORE));
        EQ(wrong_at(in, (size_t)k * part, 5000 + peer), -1);
    }
    return check_done();
}
