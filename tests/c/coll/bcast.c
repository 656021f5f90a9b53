/* Bcast: every root, sizes from nothing to large, types with holes. */
#include "coll/coll.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    coll_args(argc, argv);
    coll_types();
    int id = 0;
    for (int t = 0; t < 3; t++)
        for (int c = 0; c < LEN(COUNTS); c++)
            for (int root = 0; root < check_size; root++) {
                int n = COUNTS[c], bytes = n * CT[t].extent * (int)sizeof(int);
                if (n > 1000 && root != check_size / 2)
                    continue;
                int *buf = alloc(bytes);
                id++;
#define PREPARE do { memset(buf, 0xee, bytes); if (check_rank == root) put_block(buf, &CT[t], n, id, root, 0); } while (0)
                COLL(Bcast, bcast, PREPARE, buf, n, CT[t].t, root, MPI_COMM_WORLD);
                EQ(bad_block(buf, &CT[t], n, id, root, 0), 0);
                if (CT[t].extent == 4 && n && check_rank != root)
                    EQ(buf[1], (int)0xeeeeeeee); /* the hole stays */
                free(buf);
            }
    /* the root sends elements, the others receive the same data as another type */
    int v[6];
    for (int i = 0; i < 6; i++) v[i] = check_rank ? -1 : i;
    COLL(Bcast, bcast, (void)0, v, check_rank ? 6 : 2, check_rank ? MPI_INT : CT[1].t, 0, MPI_COMM_WORLD);
    for (int i = 0; i < 6; i++) EQ(v[i], i);
    /* a big one */
    int n = (3 << 20) + 7;
    char *big = alloc(n);
    if (check_rank == check_size - 1) fill(big, n, 5);
    COLL(Bcast, bcast, (void)0, big, n, MPI_BYTE, check_size - 1, MPI_COMM_WORLD);
    EQ(wrong_at(big, n, 5), -1);
    free(big);
    coll_types_free();
    return check_done();
}
