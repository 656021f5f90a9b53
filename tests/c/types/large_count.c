/* Large-count constructors and queries: sizes beyond 2^31 and what the int forms answer then. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    MPI_Datatype t, u;
    MPI_Count big = (MPI_Count)1 << 34, size, lb, ext, lens[2] = {big, 1}, disp[2] = {0, 2 * big};
    MPI_Aint alb, aext;
    int isize;
    OK(MPI_Type_contiguous_c(big, MPI_INT, &t));
    OK(MPI_Type_size_c(t, &size)); EQ(size, 4 * big);
    OK(MPI_Type_size(t, &isize)); EQ(isize, MPI_UNDEFINED);
    OK(MPI_Type_size_x(t, &size)); EQ(size, 4 * big);
    OK(MPI_Type_get_extent_c(t, &lb, &ext)); EQ(ext, 4 * big);
    OK(MPI_Type_get_extent(t, &alb, &aext)); EQ(aext, 4 * big);
    OK(MPI_Type_get_extent_x(t, &lb, &ext)); EQ(ext, 4 * big);
    OK(MPI_Type_vector_c(10, big, 2 * big, MPI_CHAR, &u));
    OK(MPI_Type_size_c(u, &size)); EQ(size, 10 * big);
    OK(MPI_Type_get_extent_c(u, &lb, &ext)); EQ(ext, 19 * big);
    OK(MPI_Type_get_true_extent_c(u, &lb, &ext)); EQ(ext, 19 * big);
    OK(MPI_Type_free(&u));
    OK(MPI_Type_create_hvector_c(3, 1, big, t, &u));
    OK(MPI_Type_size_c(u, &size)); EQ(size, 12 * big);
    OK(MPI_Type_get_extent_c(u, &lb, &ext)); EQ(ext, 6 * big);
    OK(MPI_Type_free(&u));
    OK(MPI_Type_indexed_c(2, lens, disp, MPI_CHAR, &u));
    OK(MPI_Type_size_c(u, &size)); EQ(size, big + 1);
    OK(MPI_Type_get_extent_c(u, &lb, &ext)); EQ(ext, 2 * big + 1);
    OK(MPI_Type_free(&u));
    OK(MPI_Type_create_hindexed_c(2, lens, disp, MPI_CHAR, &u));
    OK(MPI_Type_size_c(u, &size)); EQ(size, big + 1);
    OK(MPI_Type_free(&u));
    OK(MPI_Type_create_indexed_block_c(2, big, disp, MPI_CHAR, &u));
    OK(MPI_Type_size_c(u, &size)); EQ(size, 2 * big);
    OK(MPI_Type_free(&u));
    OK(MPI_Type_create_hindexed_block_c(2, big, disp, MPI_CHAR, &u));
    OK(MPI_Type_size_c(u, &size)); EQ(size, 2 * big);
    OK(MPI_Type_free(&u));
    MPI_Datatype two[2] = {MPI_CHAR, MPI_CHAR};
    OK(MPI_Type_create_struct_c(2, lens, disp, two, &u));
    OK(MPI_Type_size_c(u, &size)); EQ(size, big + 1);
    OK(MPI_Type_free(&u));
    OK(MPI_Type_create_resized_c(MPI_INT, -big, 3 * big, &u));
    OK(MPI_Type_get_extent_c(u, &lb, &ext)); EQ(lb, -big); EQ(ext, 3 * big);
    OK(MPI_Type_free(&u));
    MPI_Count gs[2] = {1 << 20, 1 << 20}, ss[2] = {1 << 18, 1 << 19}, st[2] = {0, 5};
    OK(MPI_Type_create_subarray_c(2, gs, ss, st, MPI_ORDER_C, MPI_CHAR, &u));
    OK(MPI_Type_size_c(u, &size)); EQ(size, (MPI_Count)1 << 37);
    OK(MPI_Type_get_extent_c(u, &lb, &ext)); EQ(ext, (MPI_Count)1 << 40);
    OK(MPI_Type_free(&u));
    int ds[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC}, da[2] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG}, ps[2] = {2, 2};
    OK(MPI_Type_create_darray_c(4, 0, 2, gs, ds, da, ps, MPI_ORDER_C, MPI_CHAR, &u));
    OK(MPI_Type_size_c(u, &size)); EQ(size, (MPI_Count)1 << 38);
    OK(MPI_Type_free(&u));
    /* a giant count over an empty type, and a giant extent over one int: real messages */
    MPI_Datatype empty, wide;
    MPI_Status stt;
    int one = 1, got[2] = {0, 0};
    OK(MPI_Type_contiguous(0, MPI_INT, &empty));
    OK(MPI_Type_commit(&empty));
    OK(MPI_Sendrecv_c(NULL, big, empty, 0, 1, NULL, big, empty, 0, 1, MPI_COMM_SELF, &stt));
    OK(MPI_Type_create_resized(MPI_INT, 0, (MPI_Aint)1 << 40, &wide));
    OK(MPI_Type_commit(&wide));
    OK(MPI_Sendrecv_c(&one, 1, wide, 0, 1, got, 1, wide, 0, 1, MPI_COMM_SELF, &stt));
    EQ(got[0], 1);
    OK(MPI_Type_free(&empty));
    OK(MPI_Type_free(&wide));
    OK(MPI_Type_free(&t));
    return check_done();
}
