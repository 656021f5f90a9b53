/* Envelope and contents of every constructor; contents rebuild an equal type; the returned handles may be freed. */
#include "check.h"
static int ints[40];
static MPI_Aint addrs[40];
static MPI_Datatype types[40];

static void envelope(MPI_Datatype t, int ni, int na, int nt, int combiner, const char *what)
{
    int a, b, c, d;
    OK(MPI_Type_get_envelope(t, &a, &b, &c, &d));
    CHECK(a == ni && b == na && c == nt && d == combiner, "%s: %d %d %d combiner %d, expected %d %d %d %d", what, a, b, c, d, ni, na, nt, combiner);
    if (combiner != MPI_COMBINER_NAMED && a == ni && b == na && c == nt)
        OK(MPI_Type_get_contents(t, a, b, c, ints, addrs, types));
}
#define INTS(...) do { int w_[] = {__VA_ARGS__}; for (int i_ = 0; i_ < LEN(w_); i_++) EQ(ints[i_], w_[i_]); } while (0)
#define ADDRS(...) do { MPI_Aint w_[] = {__VA_ARGS__}; for (int i_ = 0; i_ < LEN(w_); i_++) EQ(addrs[i_], w_[i_]); } while (0)

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    MPI_Datatype t, u;
    int lens[2] = {2, 3}, disp[2] = {0, 5};
    MPI_Aint hdisp[2] = {0, 40};
    MPI_Datatype two[2] = {MPI_INT, MPI_DOUBLE};
    envelope(MPI_INT, 0, 0, 0, MPI_COMBINER_NAMED, "named");
    envelope(MPI_DOUBLE_INT, 0, 0, 0, MPI_COMBINER_NAMED, "pair");
    OK(MPI_Type_dup(MPI_INT, &t)); envelope(t, 0, 0, 1, MPI_COMBINER_DUP, "dup"); EQ(types[0] == MPI_INT, 1); OK(MPI_Type_free(&t));
    OK(MPI_Type_contiguous(4, MPI_INT, &t)); envelope(t, 1, 0, 1, MPI_COMBINER_CONTIGUOUS, "contiguous"); INTS(4);
    OK(MPI_Type_vector(2, 3, 4, t, &u)); envelope(u, 3, 0, 1, MPI_COMBINER_VECTOR, "vector"); INTS(2, 3, 4);
    CHECK(types[0] != MPI_INT); OK(MPI_Type_free(&types[0])); /* derived: a handle of our own */
    OK(MPI_Type_free(&t)); OK(MPI_Type_free(&u));
    OK(MPI_Type_create_hvector(2, 3, 44, MPI_INT, &t)); envelope(t, 2, 1, 1, MPI_COMBINER_HVECTOR, "hvector"); INTS(2, 3); ADDRS(44); OK(MPI_Type_free(&t));
    OK(MPI_Type_indexed(2, lens, disp, MPI_INT, &t)); envelope(t, 5, 0, 1, MPI_COMBINER_INDEXED, "indexed"); INTS(2, 2, 3, 0, 5); OK(MPI_Type_free(&t));
    OK(MPI_Type_create_hindexed(2, lens, hdisp, MPI_INT, &t)); envelope(t, 3, 2, 1, MPI_COMBINER_HINDEXED, "hindexed"); INTS(2, 2, 3); ADDRS(0, 40); OK(MPI_Type_free(&t));
    OK(MPI_Type_create_indexed_block(2, 4, disp, MPI_INT, &t)); envelope(t, 4, 0, 1, MPI_COMBINER_INDEXED_BLOCK, "indexed_block"); INTS(2, 4, 0, 5); OK(MPI_Type_free(&t));
    OK(MPI_Type_create_hindexed_block(2, 4, hdisp, MPI_INT, &t)); envelope(t, 2, 2, 1, MPI_COMBINER_HINDEXED_BLOCK, "hindexed_block"); INTS(2, 4); ADDRS(0, 40); OK(MPI_Type_free(&t));
    OK(MPI_Type_create_struct(2, lens, hdisp, two, &t)); envelope(t, 3, 2, 2, MPI_COMBINER_STRUCT, "struct"); INTS(2, 2, 3); ADDRS(0, 40);
    EQ(types[0] == MPI_INT && types[1] == MPI_DOUBLE, 1); OK(MPI_Type_free(&t));
    int gs[2] = {8, 6}, ss[2] = {2, 3}, st[2] = {1, 2}, ds[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC}, da[2] = {MPI_DISTRIBUTE_DFLT_DARG, 2}, ps[2] = {2, 1};
    OK(MPI_Type_create_subarray(2, gs, ss, st, MPI_ORDER_FORTRAN, MPI_INT, &t)); envelope(t, 8, 0, 1, MPI_COMBINER_SUBARRAY, "subarray");
    INTS(2, 8, 6, 2, 3, 1, 2, MPI_ORDER_FORTRAN); OK(MPI_Type_free(&t));
    OK(MPI_Type_create_darray(2, 1, 2, gs, ds, da, ps, MPI_ORDER_C, MPI_INT, &t)); envelope(t, 12, 0, 1, MPI_COMBINER_DARRAY, "darray");
    INTS(2, 1, 2, 8, 6, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_DFLT_DARG, 2, 2, 1, MPI_ORDER_C); OK(MPI_Type_free(&t));
    OK(MPI_Type_create_resized(MPI_INT, -4, 20, &t)); envelope(t, 0, 2, 1, MPI_COMBINER_RESIZED, "resized"); ADDRS(-4, 20); OK(MPI_Type_free(&t));
    OK(MPI_Type_create_f90_real(6, 30, &t)); envelope(t, 2, 0, 0, MPI_COMBINER_F90_REAL, "f90_real"); INTS(6, 30);
    OK(MPI_Type_create_f90_real(6, 30, &u)); EQ(t == u, 1); /* the same handle again */
    OK(MPI_Type_create_f90_complex(12, MPI_UNDEFINED, &t)); envelope(t, 2, 0, 0, MPI_COMBINER_F90_COMPLEX, "f90_complex"); INTS(12, MPI_UNDEFINED);
    OK(MPI_Type_create_f90_integer(9, &t)); envelope(t, 1, 0, 0, MPI_COMBINER_F90_INTEGER, "f90_integer"); INTS(9);
    /* large-count queries, of types made either way */
    MPI_Count ci[10], ni, na, nc, nt, cl[2] = {2, 3}, cd[2] = {0, 5};
    int combiner;
    OK(MPI_Type_contiguous_c((MPI_Count)1 << 33, MPI_CHAR, &t));
    OK(MPI_Type_get_envelope_c(t, &ni, &na, &nc, &nt, &combiner));
    EQ(ni, 0); EQ(na, 0); EQ(nc, 1); EQ(nt, 1); EQ(combiner, MPI_COMBINER_CONTIGUOUS);
    OK(MPI_Type_get_contents_c(t, ni, na, nc, nt, ints, addrs, ci, types));
    EQ(ci[0], (MPI_Count)1 << 33);
    OK(MPI_Type_free(&t));
    OK(MPI_Type_indexed_c(2, cl, cd, MPI_INT, &t));
    OK(MPI_Type_get_envelope_c(t, &ni, &na, &nc, &nt, &combiner));
    EQ(ni, 0); EQ(na, 0); EQ(nc, 5); EQ(nt, 1); EQ(combiner, MPI_COMBINER_INDEXED);
    OK(MPI_Type_get_contents_c(t, ni, na, nc, nt, ints, addrs, ci, types));
    EQ(ci[0], 2); EQ(ci[2], 3); EQ(ci[4], 5);
    OK(MPI_Type_free(&t));
    OK(MPI_Type_vector(2, 3, 4, MPI_INT, &t)); /* made by the int form: integers stay integers */
    OK(MPI_Type_get_envelope_c(t, &ni, &na, &nc, &nt, &combiner));
    EQ(ni, 3); EQ(nc, 0); EQ(nt, 1);
    OK(MPI_Type_free(&t));
    return check_done();
}
