/* User operations: derived types, large-count functions, commutativity flag, order kept with in-place and many ranks. */
#include "check.h"
static int calls;
static void last(void *in, void *inout, int *n, MPI_Datatype *t) { (void)in; (void)inout; (void)n; (void)t; calls++; }
/* Concatenation of digit strings: element = {length, value}; keeps order visible. */
struct digits { unsigned long long value, scale; };
static void join_c(void *in, void *inout, MPI_Count *n, MPI_Datatype *t)
{
    struct digits *a = in, *b = inout;
    (void)t;
    for (MPI_Count i = 0; i < *n; i++) {
        b[i].value = a[i].value * b[i].scale + b[i].value;
        b[i].scale = a[i].scale * b[i].scale;
    }
}
/* Over a type with a hole: the function must see elements at the type's extent. */
static void add_strided(void *in, void *inout, int *n, MPI_Datatype *t)
{
    MPI_Aint lb, ext;
    MPI_Type_get_extent(*t, &lb, &ext);
    for (int i = 0; i < *n; i++) {
        int *a = (int *)((char *)in + i * ext), *b = (int *)((char *)inout + i * ext);
        b[0] += a[0];
        b[2] += a[2];
    }
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    MPI_Op op, opc, ops;
    int flag, n = 300;
    OK(MPI_Op_create(last, 0, &op));
    OK(MPI_Op_commutative(op, &flag));
    EQ(flag, 0);
    int a = check_rank, b = -1;
    OK(MPI_Allreduce(&a, &b, 1, MPI_INT, op, MPI_COMM_WORLD)); /* "right operand wins": the last rank's value */
    EQ(b, check_size - 1);
    OK(MPI_Scan(&a, &b, 1, MPI_INT, op, MPI_COMM_WORLD));
    EQ(b, check_rank);
    OK(MPI_Op_free(&op));
    EQ(op == MPI_OP_NULL, 1);
    MPI_Datatype dig;
    OK(MPI_Type_contiguous(2, MPI_UNSIGNED_LONG_LONG, &dig));
    OK(MPI_Type_commit(&dig));
    OK(MPI_Op_create_c(join_c, 0, &opc));
    struct digits *x = alloc(n * sizeof *x), *y = alloc(n * sizeof *y);
    for (int root = 0; root < check_size; root++) {
        for (int i = 0; i < n; i++) x[i] = (struct digits){(check_rank + i) % 10, 10};
        OK(MPI_Reduce_c(x, y, n, dig, opc, root, MPI_COMM_WORLD));
        if (check_rank == root)
            for (int i = 0; i < n; i++) {
                unsigned long long want = 0;
                for (int r = 0; r < check_size; r++) want = want * 10 + (r + i) % 10;
                CHECK(y[i].value == want, "root %d place %d: %llu, expected %llu", root, i, y[i].value, want);
            }
    }
    OK(MPI_Reduce(x, y, n, dig, opc, 0, MPI_COMM_WORLD)); /* a _c function through the int call */
    OK(MPI_Op_free(&opc));
    OK(MPI_Type_free(&dig));
    MPI_Datatype v, hole;
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &v));
    OK(MPI_Type_create_resized(v, 0, 16, &hole));
    OK(MPI_Type_commit(&hole));
    OK(MPI_Op_create(add_strided, 1, &ops));
    int *p = alloc(4 * n * sizeof(int)), *q = alloc(4 * n * sizeof(int));
    for (int i = 0; i < 4 * n; i++) p[i] = i % 2 ? 12345 : i + check_rank;
    OK(MPI_Allreduce(p, q, n, hole, ops, MPI_COMM_WORLD));
    int bad = 0, sum = check_size * (check_size - 1) / 2;
    for (int i = 0; i < 4 * n; i += 2) bad += q[i] != i * check_size + sum;
    EQ(bad, 0);
    EQ(q[1], (int)0xeeeeeeee);
    OK(MPI_Reduce_local(p, q, n, hole, ops));
    OK(MPI_Op_free(&ops));
    OK(MPI_Type_free(&v));
    OK(MPI_Type_free(&hole));
    /* a function runs only for ranks that combine; freed before the nonblocking collective ends */
    MPI_Request rq;
    OK(MPI_Op_create(last, 1, &op));
    OK(MPI_Iallreduce(&a, &b, 1, MPI_INT, op, MPI_COMM_WORLD, &rq));
    OK(MPI_Op_free(&op));
    OK(MPI_Wait(&rq, MPI_STATUS_IGNORE));
    return check_done();
}
