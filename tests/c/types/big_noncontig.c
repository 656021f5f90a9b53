/* Strided and indexed types through eager and rendezvous paths: matrix columns, holes, partial receives, pipelines. */
#include "check.h"

static void columns(int n, int blocks, int stride, int peer)
{
    MPI_Datatype t, tt;
    int *a = alloc((size_t)blocks * stride * sizeof(int) * n), *b = alloc((size_t)blocks * stride * sizeof(int) * n);
    for (int i = 0; i < blocks * stride * n; i++)
        a[i] = i ^ (check_rank << 24), b[i] = -1;
    OK(MPI_Type_vector(blocks, 1, stride, MPI_INT, &t));
    OK(MPI_Type_create_resized(t, 0, (MPI_Aint)blocks * stride * sizeof(int), &tt));
    OK(MPI_Type_commit(&tt));
    OK(MPI_Sendrecv(a + 1, n, tt, peer, 1, b + 1, n, tt, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    int bad = 0;
    for (int i = 0; i < blocks * stride * n; i++)
        bad += b[i] != (i % stride == 1 % stride ? (i ^ (peer << 24)) : -1);
    EQ(bad, 0);
    /* typed to contiguous and back */
    int *c = alloc((size_t)blocks * n * sizeof(int));
    OK(MPI_Sendrecv(a + 1, n, tt, peer, 1, c, blocks * n, MPI_INT, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    bad = 0;
    for (int i = 0; i < blocks * n; i++)
        bad += c[i] != ((i * stride + 1) ^ (peer << 24));
    EQ(bad, 0);
    memset(b, 0xff, (size_t)blocks * stride * sizeof(int) * n);
    OK(MPI_Sendrecv(c, blocks * n, MPI_INT, peer, 1, b + 1, n, tt, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    bad = 0;
    for (int i = 0; i < blocks * stride * n; i++)
        bad += b[i] != (i % stride == 1 % stride ? (i ^ (check_rank << 24)) : -1);
    EQ(bad, 0);
    free(a); free(b); free(c);
    OK(MPI_Type_free(&t));
    OK(MPI_Type_free(&tt));
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    int peer = check_rank ^ 1;
    if (peer >= check_size)
        peer = check_rank;
    static const int shape[][3] = {{1, 1, 2}, {1, 10, 3}, {3, 100, 2}, {1, 1000, 5}, {2, 5000, 2}, {1, 100000, 3}, {5, 60000, 2}};
    for (int i = 0; i < LEN(shape); i++)
        columns(shape[i][0], shape[i][1], shape[i][2], peer);
    /* a shorter message than the receive type: elements of a struct, across the rendezvous limit */
    MPI_Datatype s;
    int lens[2] = {3, 1}, got;
    MPI_Aint disp[2] = {0, 16};
    MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE};
    OK(MPI_Type_create_struct(2, lens, disp, types, &s));
    OK(MPI_Type_commit(&s));
    char *a = alloc(24 * 50000), *b = alloc(24 * 50000);
    static const int counts[] = {1, 40, 3000, 40000};
    for (int i = 0; i < LEN(counts); i++) {
        MPI_Status st;
        OK(MPI_Sendrecv(a, counts[i], s, peer, 1, b, 50000, s, peer, 1, MPI_COMM_WORLD, &st));
        OK(MPI_Get_count(&st, s, &got));
        EQ(got, counts[i]);
        OK(MPI_Get_elements(&st, s, &got));
        EQ(got, counts[i] * 4);
    }
    OK(MPI_Type_free(&s));
    return check_done();
}
