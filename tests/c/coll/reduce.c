/* Reduce, Allreduce, Reduce_scatter(_block), Scan, Exscan against a sequential model: int sum and a user operation that
 * does not commute (composition of affine maps), every root, in place, zero counts, large counts. */
#include "coll/coll.h"
enum { PMAX = 64 };
struct affine { unsigned a, b; }; /* x -> a x + b over 2^32; composition is associative and not commutative */
static MPI_Datatype AFFINE;
static MPI_Op COMPOSE;

static void compose(void *in, void *inout, int *n, MPI_Datatype *t)
{
    struct affine *f = in, *g = inout; /* f is of the lower rank: result = f after g applied ... f∘g in rank order */
    (void)t;
    for (int i = 0; i < *n; i++)
        g[i] = (struct affine){f[i].a * g[i].a, f[i].a * g[i].b + f[i].b};
}
static struct affine element(int id, int rank, int i) { return (struct affine){(unsigned)(2 * (rank * 7 + i + id) + 3), (unsigned)(rank * 1001 + i * 3 + id)}; }
static struct affine model(int id, int from, int to, int i) /* ranks from..to */
{
    struct affine r = element(id, to, i);
    for (int k = to - 1; k >= from; k--) {
        struct affine f = element(id, k, i);
        r = (struct affine){f.a * r.a, f.a * r.b + f.b};
    }
    return r;
}
static int sum_model(int id, int from, int to, int i)
{
    int s = 0;
    for (int k = from; k <= to; k++) s += value(id, k, 0, i) & 0xffff;
    return s;
}

struct run { int user, n, id, first; size_t bytes; void *in, *out; MPI_Datatype t; MPI_Op op; };

static void load(struct run *r, void *buf)
{
    for (int i = 0; i < r->n; i++)
        if (r->user) ((struct affine *)buf)[i] = element(r->id, check_rank, i);
        else ((int *)buf)[i] = value(r->id, check_rank, 0, i) & 0xffff;
}
/* Wrong entries of buf[0..n) which stand for the places at.. of the reduction over ranks from..to. */
static int wrong(struct run *r, const void *buf, int at, int n, int from, int to)
{
    int bad = 0;
    for (int i = 0; i < n; i++)
        if (r->user) {
            struct affine w = model(r->id, from, to, at + i), g = ((const struct affine *)buf)[i];
            bad += w.a != g.a || w.b != g.b;
        } else
            bad += ((const int *)buf)[i] != sum_model(r->id, from, to, at + i);
    return bad;
}

static void one(struct run *r, int in_place)
{
    int p = check_size, me = check_rank;
    MPI_Comm w = MPI_COMM_WORLD;
    void *src = in_place ? MPI_IN_PLACE : r->in;
#define LOAD do { memset(r->out, 0xee, r->bytes); load(r, in_place ? r->out : r->in); } while (0)
    for (int root = 0; root < p; root++) {
        if (r->n > 3000 && root) continue;
        r->id++;
        int at_root = in_place && me == root;
        COLL(Reduce, reduce, { memset(r->out, 0xee, r->bytes); load(r, at_root ? r->out : r->in); }, at_root ? MPI_IN_PLACE : r->in,
             me == root ? r->out : NULL, r->n, r->t, r->op, root, w);
        if (me == root) EQ(wrong(r, r->out, 0, r->n, 0, p - 1), 0);
    }
    r->id++;
    COLL(Allreduce, allreduce, LOAD, src, r->out, r->n, r->t, r->op, w);
    EQ(wrong(r, r->out, 0, r->n, 0, p - 1), 0);
    r->id++;
    COLL(Scan, scan, LOAD, src, r->out, r->n, r->t, r->op, w);
    EQ(wrong(r, r->out, 0, r->n, 0, me), 0);
    r->id++;
    COLL(Exscan, exscan, LOAD, src, r->out, r->n, r->t, r->op, w);
    if (me) EQ(wrong(r, r->out, 0, r->n, 0, me - 1), 0);
    int each = r->n / p, cnt[PMAX], at = 0, mine = 0;
    MPI_Count bcnt[PMAX];
    r->id++;
    int all = r->n;
    r->n = each * p;
    COLL(Reduce_scatter_block, reduce_scatter_block, LOAD, src, r->out, each, r->t, r->op, w);
    EQ(wrong(r, r->out, me * each, each, 0, p - 1), 0);
    r->n = all;
    for (int k = 0, left = all; k < p; k++) {
        cnt[k] = k == p - 1 ? left : (k % 3 == 1 ? 0 : left / 2);
        left -= cnt[k];
        if (k < me) at += cnt[k];
        if (k == me) mine = cnt[k];
        bcnt[k] = cnt[k];
    }
    r->id++;
    COLLV(Reduce_scatter, reduce_scatter, LOAD, ARGS(src, r->out, cnt, r->t, r->op, w), ARGS(src, r->out, bcnt, r->t, r->op, w));
    EQ(wrong(r, r->out, at, mine, 0, p - 1), 0);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    coll_args(argc, argv);
    OK(MPI_Type_contiguous(2, MPI_UNSIGNED, &AFFINE));
    OK(MPI_Type_commit(&AFFINE));
    OK(MPI_Op_create(compose, 0, &COMPOSE));
    struct run r = {0};
    for (r.user = 0; r.user < 2; r.user++)
        for (int c = 0; c < LEN(COUNTS); c++)
            for (int in_place = 0; in_place < 2; in_place++) {
                r.n = COUNTS[c];
                r.bytes = r.n * sizeof(struct affine);
                r.in = alloc(r.bytes), r.out = alloc(r.bytes);
                r.t = r.user ? AFFINE : MPI_INT, r.op = r.user ? COMPOSE : MPI_SUM;
                one(&r, in_place);
                free(r.in); free(r.out);
            }
    /* one large allreduce: the pipelined algorithms */
    r.user = 0, r.n = 600000, r.bytes = r.n * sizeof(int), r.t = MPI_INT, r.op = MPI_SUM;
    r.in = alloc(r.bytes), r.out = alloc(r.bytes);
    COLL(Allreduce, allreduce, load(&r, r.in), r.in, r.out, r.n, r.t, r.op, MPI_COMM_WORLD);
    EQ(wrong(&r, r.out, 0, r.n, 0, check_size - 1), 0);
    free(r.in); free(r.out);
    OK(MPI_Op_free(&COMPOSE));
    OK(MPI_Type_free(&AFFINE));
    return check_done();
}
