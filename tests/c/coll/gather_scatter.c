/* Gather, Scatter, Allgather, Alltoall: roots, counts, types, in place, different types on the two sides. */
#include "coll/coll.h"
static int id;

static void rooted(int t, int n, int root, int in_place)
{
    struct ctype *c = &CT[t];
    int block = n * c->extent, me = check_rank, p = check_size, bytes = block * (int)sizeof(int);
    int *one = alloc(bytes), *all = alloc((size_t)bytes * p);
    id++;
    if (in_place && me == root)
        COLL(Gather, gather, { memset(all, 0xee, (size_t)bytes * p); put_block(all + me * block, c, n, id, me, root); },
             MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, n, c->t, root, MPI_COMM_WORLD);
    else
        COLL(Gather, gather, { memset(all, 0xee, (size_t)bytes * p); put_block(one, c, n, id, me, root); },
             one, n, c->t, me == root ? all : NULL, me == root ? n : -5, me == root ? c->t : MPI_DATATYPE_NULL, root, MPI_COMM_WORLD);
    if (me == root)
        for (int r = 0; r < p; r++)
            EQ(bad_block(all + r * block, c, n, id, r, root), 0);
    id++;
    if (me == root)
        for (int r = 0; r < p; r++)
            put_block(all + r * block, c, n, id, root, r);
    if (in_place && me == root)
        COLL(Scatter, scatter, (void)0, all, n, c->t, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, root, MPI_COMM_WORLD);
    else
        COLL(Scatter, scatter, memset(one, 0xee, bytes), me == root ? all : NULL, me == root ? n : -5, me == root ? c->t : MPI_DATATYPE_NULL,
             one, n, c->t, root, MPI_COMM_WORLD);
    EQ(bad_block(in_place && me == root ? all + me * block : one, c, n, id, root, me), 0);
    free(one); free(all);
}

static void all_to(int t, int n, int in_place)
{
    struct ctype *c = &CT[t];
    int block = n * c->extent, me = check_rank, p = check_size, bytes = block * (int)sizeof(int);
    int *out = alloc((size_t)bytes * p), *in = alloc((size_t)bytes * p);
    id++;
    if (in_place)
        COLL(Allgather, allgather, { memset(in, 0xee, (size_t)bytes * p); put_block(in + me * block, c, n, id, me, 0); },
             MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, n, c->t, MPI_COMM_WORLD);
    else
        COLL(Allgather, allgather, { memset(in, 0xee, (size_t)bytes * p); put_block(out, c, n, id, me, 0); },
             out, n, c->t, in, n, c->t, MPI_COMM_WORLD);
    for (int r = 0; r < p; r++)
        EQ(bad_block(in + r * block, c, n, id, r, 0), 0);
    id++;
#define FILL_FOR_ALL(buf) for (int r = 0; r < p; r++) put_block((buf) + r * block, c, n, id, me, r)
    if (in_place)
        COLL(Alltoall, alltoall, FILL_FOR_ALL(in), MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, n, c->t, MPI_COMM_WORLD);
    else
        COLL(Alltoall, alltoall, { memset(in, 0xee, (size_t)bytes * p); FILL_FOR_ALL(out); }, out, n, c->t, in, n, c->t, MPI_COMM_WORLD);
    for (int r = 0; r < p; r++)
        EQ(bad_block(in + r * block, c, n, id, r, me), 0);
    free(out); free(in);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    coll_args(argc, argv);
    coll_types();
    for (int t = 0; t < 3; t++)
        for (int c = 0; c < LEN(COUNTS); c++)
            for (int in_place = 0; in_place < 2; in_place++) {
                for (int root = 0; root < check_size; root++)
                    if (COUNTS[c] < 1000 || root == check_size - 1)
                        rooted(t, COUNTS[c], root, in_place);
                all_to(t, COUNTS[c], in_place);
            }
    /* two ints sent as one pair received as two ints */
    int pair[2] = {check_rank, -check_rank}, *got = alloc(check_size * 2 * sizeof(int));
    COLL(Allgather, allgather, (void)0, pair, 1, MPI_2INT, got, 2, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < check_size; r++) { EQ(got[2 * r], r); EQ(got[2 * r + 1], -r); }
    free(got);
    coll_types_free();
    return check_done();
}
