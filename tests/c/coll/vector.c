/* Gatherv, Scatterv, Allgatherv, Alltoallv, Alltoallw: random counts with zeros, displacements out of order, in place. */
#include "coll/coll.h"
enum { PMAX = 64 };
static int id;
static uint64_t state = 11;
static int cnt[PMAX], dsp[PMAX], cnt2[PMAX], dsp2[PMAX];
static MPI_Count bcnt[PMAX], bcnt2[PMAX];
static MPI_Aint bdsp[PMAX], bdsp2[PMAX];

/* Counts for p blocks, placed in a shuffled order with gaps; returns the elements needed. */
static int layout(int p, int *c, int *d, MPI_Count *bc, MPI_Aint *bd, const int *given, uint64_t *s)
{
    int order[PMAX], at = 0;
    for (int i = 0; i < p; i++) order[i] = i;
    for (int i = p - 1; i > 0; i--) { int j = rnd_below(s, i + 1), x = order[i]; order[i] = order[j]; order[j] = x; }
    for (int k = 0; k < p; k++) {
        int i = order[k];
        c[i] = given[i];
        d[i] = at;
        at += c[i] + rnd_below(s, 3);
        bc[i] = c[i], bd[i] = d[i];
    }
    return at + 1;
}

static void rooted(struct ctype *c, int root, int in_place, int scale)
{
    int p = check_size, me = check_rank, given[PMAX], total;
    for (int r = 0; r < p; r++) given[r] = rnd_below(&state, 3) ? rnd_below(&state, scale) : 0; /* alike on all ranks */
    total = layout(p, cnt, dsp, bcnt, bdsp, given, &state);
    int n = given[me];
    int *one = alloc(n * c->extent * sizeof(int)), *all = alloc(total * c->extent * sizeof(int));
    id++;
    int ip = in_place && me == root;
    void *sb = ip ? MPI_IN_PLACE : one;
#define READY do { memset(all, 0xee, total * c->extent * sizeof(int)); if (ip) put_block(all + dsp[me] * c->extent, c, n, id, me, root); \
        else put_block(one, c, n, id, me, root); } while (0)
    COLLV(Gatherv, gatherv, READY, ARGS(sb, ip ? 0 : n, c->t, all, cnt, dsp, c->t, root, MPI_COMM_WORLD),
          ARGS(sb, ip ? 0 : n, c->t, all, bcnt, bdsp, c->t, root, MPI_COMM_WORLD));
    if (me == root)
        for (int r = 0; r < p; r++) EQ(bad_block(all + dsp[r] * c->extent, c, given[r], id, r, root), 0);
    id++;
    if (me == root)
        for (int r = 0; r < p; r++) put_block(all + dsp[r] * c->extent, c, given[r], id, root, r);
    void *rb = ip ? MPI_IN_PLACE : one;
    COLLV(Scatterv, scatterv, memset(one, 0xee, n * c->extent * sizeof(int)),
          ARGS(all, cnt, dsp, c->t, rb, ip ? 0 : n, c->t, root, MPI_COMM_WORLD), ARGS(all, bcnt, bdsp, c->t, rb, ip ? 0 : n, c->t, root, MPI_COMM_WORLD));
    EQ(bad_block(ip ? all + dsp[me] * c->extent : one, c, n, id, root, me), 0);
    id++;
    ip = in_place;
    sb = ip ? MPI_IN_PLACE : one;
#define READY2 do { memset(all, 0xee, total * c->extent * sizeof(int)); if (ip) put_block(all + dsp[me] * c->extent, c, n, id, me, 0); \
        else put_block(one, c, n, id, me, 0); } while (0)
    COLLV(Allgatherv, allgatherv, READY2, ARGS(sb, ip ? 0 : n, c->t, all, cnt, dsp, c->t, MPI_COMM_WORLD),
          ARGS(sb, ip ? 0 : n, c->t, all, bcnt, bdsp, c->t, MPI_COMM_WORLD));
    for (int r = 0; r < p; r++) EQ(bad_block(all + dsp[r] * c->extent, c, given[r], id, r, 0), 0);
    free(one); free(all);
}

static void alltoallv(struct ctype *c, int in_place, int scale)
{
    static int matrix[PMAX][PMAX];
    int p = check_size, me = check_rank, out_given[PMAX], in_given[PMAX];
    for (int i = 0; i < p; i++)
        for (int j = 0; j < p; j++) matrix[i][j] = rnd_below(&state, 3) ? rnd_below(&state, scale) : 0;
    if (in_place) /* what comes must be as long as what goes */
        for (int i = 0; i < p; i++) for (int j = 0; j < i; j++) matrix[i][j] = matrix[j][i];
    for (int r = 0; r < p; r++) out_given[r] = matrix[me][r], in_given[r] = matrix[r][me];
    uint64_t mine = state + me * 77777;
    int out_n = layout(p, cnt, dsp, bcnt, bdsp, out_given, &mine), in_n = layout(p, cnt2, dsp2, bcnt2, bdsp2, in_given, &mine);
    int *out = alloc(out_n * c->extent * sizeof(int)), *in = alloc(in_n * c->extent * sizeof(int));
    id++;
    void *sb = in_place ? MPI_IN_PLACE : out;
    int e = c->extent;
#define READY3 do { memset(in, 0xee, in_n * e * sizeof(int)); for (int r = 0; r < p; r++) { \
        if (in_place) put_block(in + dsp2[r] * e, c, matrix[r][me], id, me, r); else put_block(out + dsp[r] * e, c, matrix[me][r], id, me, r); } } while (0)
    COLLV(Alltoallv, alltoallv, READY3, ARGS(sb, cnt, dsp, c->t, in, cnt2, dsp2, c->t, MPI_COMM_WORLD),
          ARGS(sb, bcnt, bdsp, c->t, in, bcnt2, bdsp2, c->t, MPI_COMM_WORLD));
    for (int r = 0; r < p; r++) EQ(bad_block(in + dsp2[r] * e, c, matrix[r][me], id, r, me), 0);
    /* w: the displacements are in bytes; the type depends on the pair */
    MPI_Datatype st[PMAX], rt[PMAX];
    id++;
    for (int r = 0; r < p; r++) {
        st[r] = rt[r] = c->t;
        dsp[r] *= e * (int)sizeof(int), dsp2[r] *= e * (int)sizeof(int);
        bdsp[r] = dsp[r], bdsp2[r] = dsp2[r];
    }
#define READY4 do { memset(in, 0xee, in_n * e * sizeof(int)); for (int r = 0; r < p; r++) { \
        if (in_place) put_block(in + dsp2[r] / (int)sizeof(int), c, matrix[r][me], id, me, r); \
        else put_block(out + dsp[r] / (int)sizeof(int), c, matrix[me][r], id, me, r); } } while (0)
    COLLV(Alltoallw, alltoallw, READY4, ARGS(sb, cnt, dsp, st, in, cnt2, dsp2, rt, MPI_COMM_WORLD),
          ARGS(sb, bcnt, bdsp, st, in, bcnt2, bdsp2, rt, MPI_COMM_WORLD));
    for (int r = 0; r < p; r++) EQ(bad_block(in + dsp2[r] / (int)sizeof(int), c, matrix[r][me], id, r, me), 0);
    free(out); free(in);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    coll_args(argc, argv);
    coll_types();
    static const int scales[] = {2, 30, 1500, 12000};
    for (int t = 0; t < 3; t++)
        for (int s = 0; s < LEN(scales); s++)
            for (int in_place = 0; in_place < 2; in_place++) {
                for (int root = 0; root < check_size; root++)
                    rooted(&CT[t], root, in_place, scales[s]);
                alltoallv(&CT[t], in_place, scales[s]);
            }
    coll_types_free();
    return check_done();
}
