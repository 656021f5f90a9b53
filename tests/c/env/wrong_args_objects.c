/* Wrong arguments of calls on communicators, groups, datatypes, topologies, info, attributes, error handlers. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    MPI_Comm w = MPI_COMM_WORLD, nul = MPI_COMM_NULL, c;
    MPI_Group gn = MPI_GROUP_NULL, world, g;
    MPI_Datatype dn = MPI_DATATYPE_NULL, t, I = MPI_INT;
    MPI_Info inull = MPI_INFO_NULL, info;
    MPI_Errhandler e, en = MPI_ERRHANDLER_NULL;
    int n, flag, p = check_size, r[3] = {0, 0, 1}, out[3], neg = -1, big = p, one = 1;
    char s[MPI_MAX_OBJECT_NAME];
    void *v;
    MPI_Aint a, b;
    OK(MPI_Comm_group(w, &world));
    /* communicators */
    FAILS(MPI_ERR_COMM, MPI_Comm_dup(nul, &c)); FAILS(MPI_ERR_COMM, MPI_Comm_split(nul, 0, 0, &c)); FAILS(MPI_ERR_COMM, MPI_Comm_free(&nul)); nul = MPI_COMM_NULL;
    FAILS(MPI_ERR_COMM, MPI_Comm_create(nul, world, &c)); FAILS(MPI_ERR_GROUP, MPI_Comm_create(w, gn, &c)); FAILS(MPI_ERR_COMM, MPI_Comm_group(nul, &g));
    FAILS(MPI_ERR_COMM, MPI_Comm_compare(nul, w, &n)); FAILS(MPI_ERR_COMM, MPI_Comm_set_name(nul, "x"));
    FAILS(MPI_ERR_COMM, MPI_Comm_test_inter(nul, &n)); STRICT(FAILS(MPI_ERR_COMM, MPI_Comm_remote_group(w, &g))); FAILS(MPI_ERR_COMM, MPI_Comm_split_type(nul, MPI_COMM_TYPE_SHARED, 0, inull, &c));
    FAILS(MPI_ERR_ARG, MPI_Comm_split_type(w, 987, 0, inull, &c)); STRICT(FAILS_ANY(MPI_Comm_split(w, -5, 0, &c)));
    FAILS(MPI_ERR_COMM, MPI_Comm_create_group(nul, world, 0, &c)); FAILS(MPI_ERR_GROUP, MPI_Comm_create_group(w, gn, 0, &c)); FAILS(MPI_ERR_TAG, MPI_Comm_create_group(w, world, -1, &c));
    FAILS(MPI_ERR_COMM, MPI_Intercomm_create(nul, 0, w, 0, 0, &c)); FAILS(MPI_ERR_COMM, MPI_Intercomm_merge(nul, 0, &c)); STRICT(FAILS(MPI_ERR_COMM, MPI_Intercomm_merge(w, 0, &c)));
    c = MPI_COMM_WORLD; FAILS(MPI_ERR_COMM, MPI_Comm_free(&c)); c = MPI_COMM_SELF; FAILS(MPI_ERR_COMM, MPI_Comm_free(&c));
    /* groups */
    FAILS(MPI_ERR_GROUP, MPI_Group_size(gn, &n)); FAILS(MPI_ERR_GROUP, MPI_Group_rank(gn, &n)); FAILS(MPI_ERR_GROUP, MPI_Group_compare(gn, world, &n));
    FAILS(MPI_ERR_GROUP, MPI_Group_union(world, gn, &g)); FAILS(MPI_ERR_GROUP, MPI_Group_intersection(gn, world, &g)); FAILS(MPI_ERR_GROUP, MPI_Group_difference(gn, gn, &g));
    FAILS(MPI_ERR_RANK, MPI_Group_incl(world, 1, &big, &g)); FAILS(MPI_ERR_RANK, MPI_Group_incl(world, 1, &neg, &g)); STRICT(FAILS2(MPI_ERR_RANK, MPI_ERR_ARG, MPI_Group_incl(world, 2, r, &g)));
    FAILS(MPI_ERR_RANK, MPI_Group_excl(world, 1, &big, &g)); FAILS_ANY(MPI_Group_incl(world, -1, r, &g)); FAILS(MPI_ERR_RANK, MPI_Group_translate_ranks(world, 1, &big, world, out));
    /* the oracle ends in a segmentation fault */
    STRICT(FAILS(MPI_ERR_ARG, MPI_Group_translate_ranks(world, 1, r, world, NULL))); STRICT(FAILS(MPI_ERR_ARG, MPI_Group_translate_ranks(world, 1, NULL, world, out)));
    OK(MPI_Group_translate_ranks(world, 0, NULL, world, NULL));
    int range[1][3] = {{0, p, 1}}, zero[1][3] = {{0, p - 1, 0}};
    FAILS2(MPI_ERR_RANK, MPI_ERR_ARG, MPI_Group_range_incl(world, 1, range, &g)); FAILS_ANY(MPI_Group_range_incl(world, 1, zero, &g)); FAILS_ANY(MPI_Group_range_excl(world, 1, range, &g));
    FAILS(MPI_ERR_GROUP, MPI_Group_free(&gn)); gn = MPI_GROUP_NULL;
    /* datatypes */
    FAILS(MPI_ERR_COUNT, MPI_Type_contiguous(-1, I, &t)); FAILS(MPI_ERR_TYPE, MPI_Type_contiguous(1, dn, &t)); FAILS(MPI_ERR_COUNT, MPI_Type_vector(-1, 1, 1, I, &t));
    FAILS_ANY(MPI_Type_vector(1, -1, 1, I, &t)); FAILS(MPI_ERR_TYPE, MPI_Type_vector(1, 1, 1, dn, &t)); FAILS(MPI_ERR_COUNT, MPI_Type_create_hvector(-1, 1, 1, I, &t));
    FAILS(MPI_ERR_COUNT, MPI_Type_indexed(-1, r, r, I, &t)); FAILS_ANY(MPI_Type_indexed(1, &neg, r, I, &t)); FAILS(MPI_ERR_TYPE, MPI_Type_indexed(1, &one, r, dn, &t));
    FAILS(MPI_ERR_TYPE, MPI_Type_create_struct(1, &one, &(MPI_Aint){0}, &dn, &t)); FAILS(MPI_ERR_COUNT, MPI_Type_create_struct(-1, &one, &(MPI_Aint){0}, &I, &t));
    FAILS(MPI_ERR_TYPE, MPI_Type_commit(&dn)); dn = MPI_DATATYPE_NULL; FAILS(MPI_ERR_TYPE, MPI_Type_free(&dn)); dn = MPI_DATATYPE_NULL;
    t = MPI_INT; FAILS(MPI_ERR_TYPE, MPI_Type_free(&t)); OK(MPI_Type_commit(&t));
    FAILS(MPI_ERR_TYPE, MPI_Type_size(dn, &n)); FAILS(MPI_ERR_TYPE, MPI_Type_get_extent(dn, &a, &b)); FAILS(MPI_ERR_TYPE, MPI_Type_dup(dn, &t)); FAILS(MPI_ERR_TYPE, MPI_Type_create_resized(dn, 0, 4, &t));
    int sz[2] = {4, 4}, ss[2] = {2, 5}, st[2] = {0, 0}, st2[2] = {3, 0}, s2[2] = {2, 2};
    STRICT(FAILS_ANY(MPI_Type_create_subarray(2, sz, ss, st, MPI_ORDER_C, I, &t))); STRICT(FAILS_ANY(MPI_Type_create_subarray(2, sz, s2, st2, MPI_ORDER_C, I, &t)));
    STRICT(FAILS_ANY(MPI_Type_create_subarray(0, sz, s2, st, MPI_ORDER_C, I, &t))); FAILS(MPI_ERR_ARG, MPI_Type_create_subarray(2, sz, s2, st, 77, I, &t)); FAILS(MPI_ERR_TYPE, MPI_Type_create_subarray(2, sz, s2, st, MPI_ORDER_C, dn, &t));
    FAILS(MPI_ERR_TYPE, MPI_Type_get_envelope(dn, &n, &n, &n, &n)); FAILS(MPI_ERR_TYPE, MPI_Type_get_contents(I, 1, 1, 1, &n, &a, &t));
    OK(MPI_Type_contiguous(3, I, &t)); FAILS_ANY(MPI_Type_get_contents(t, 0, 0, 0, &n, &a, &t)); OK(MPI_Type_free(&t));
    /* pack */
    int pos = 0; char buf[64];
    FAILS(MPI_ERR_COMM, MPI_Pack(&n, 1, I, buf, 64, &pos, nul)); FAILS(MPI_ERR_TYPE, MPI_Pack(&n, 1, dn, buf, 64, &pos, w)); FAILS(MPI_ERR_COUNT, MPI_Pack(&n, -1, I, buf, 64, &pos, w));
    FAILS(MPI_ERR_COUNT, MPI_Pack_size(-1, I, w, &n)); FAILS(MPI_ERR_TYPE, MPI_Pack_size(1, dn, w, &n)); FAILS(MPI_ERR_COMM, MPI_Unpack(buf, 64, &pos, &n, 1, I, nul));
    MPI_Aint ap = 0; STRICT(FAILS_ANY(MPI_Pack_external("no such", &n, 1, I, buf, 64, &ap)));
    /* info */
    FAILS2(MPI_ERR_INFO, MPI_ERR_ARG, MPI_Info_set(inull, "a", "b")); FAILS2(MPI_ERR_INFO, MPI_ERR_ARG, MPI_Info_get_nkeys(inull, &n)); FAILS2(MPI_ERR_INFO, MPI_ERR_ARG, MPI_Info_dup(inull, &info)); FAILS2(MPI_ERR_INFO, MPI_ERR_ARG, MPI_Info_free(&inull)); inull = MPI_INFO_NULL;
    OK(MPI_Info_create(&info)); FAILS2(MPI_ERR_INFO_KEY, MPI_ERR_ARG, MPI_Info_set(info, NULL, "x")); FAILS2(MPI_ERR_INFO_VALUE, MPI_ERR_ARG, MPI_Info_set(info, "x", NULL)); OK(MPI_Info_free(&info));
    /* attributes and error handlers */
    n = MPI_KEYVAL_INVALID; FAILS(MPI_ERR_KEYVAL, MPI_Comm_free_keyval(&n)); FAILS(MPI_ERR_KEYVAL, MPI_Comm_get_attr(w, MPI_KEYVAL_INVALID, &v, &flag)); FAILS(MPI_ERR_COMM, MPI_Comm_get_attr(nul, MPI_TAG_UB, &v, &flag));
    n = MPI_TAG_UB; FAILS2(MPI_ERR_KEYVAL, MPI_ERR_ARG, MPI_Comm_free_keyval(&n)); FAILS(MPI_ERR_TYPE, MPI_Type_set_attr(dn, n, v));
    FAILS2(MPI_ERR_ERRHANDLER, MPI_ERR_ARG, MPI_Comm_set_errhandler(w, en)); FAILS2(MPI_ERR_ERRHANDLER, MPI_ERR_ARG, MPI_Errhandler_free(&en)); FAILS(MPI_ERR_COMM, MPI_Comm_get_errhandler(nul, &e));
    STRICT(FAILS_ANY(MPI_Error_class(-1, &n))); STRICT(FAILS_ANY(MPI_Error_string(0x3ffffff, s, &n))); FAILS_ANY(MPI_Add_error_string(MPI_ERR_COMM, "no"));
    FAILS_ANY(MPI_Add_error_code(-3, &n));
    /* topologies */
    int d[2] = {1, 1}, per[2] = {0, 0};
    FAILS(MPI_ERR_COMM, MPI_Cart_create(nul, 1, d, per, 0, &c)); FAILS_ANY(MPI_Cart_create(w, -1, d, per, 0, &c)); FAILS(MPI_ERR_COMM, MPI_Topo_test(nul, &n)); FAILS_ANY(MPI_Dims_create(-1, 1, d)); FAILS_ANY(MPI_Dims_create(4, 0, NULL));
    FAILS(MPI_ERR_COMM, MPI_Graph_create(nul, 1, r, r, 0, &c)); FAILS(MPI_ERR_TOPOLOGY, MPI_Graph_neighbors_count(w, 0, &n)); FAILS(MPI_ERR_TOPOLOGY, MPI_Dist_graph_neighbors_count(w, &n, &n, &n));
    FAILS(MPI_ERR_TOPOLOGY, MPI_Cartdim_get(w, &n)); FAILS(MPI_ERR_TOPOLOGY, MPI_Cart_rank(w, d, &n)); FAILS(MPI_ERR_TOPOLOGY, MPI_Cart_sub(w, d, &c));
    STRICT(FAILS_ANY(MPI_Dist_graph_create_adjacent(w, 1, &big, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED, inull, 0, &c)));
    FAILS_ANY(MPI_Alloc_mem(-1, inull, &v)); FAILS_ANY(MPI_Op_create(NULL, 1, &(MPI_Op){0}));
    OK(MPI_Group_free(&world));
    OK(MPI_Barrier(w));
    return check_done();
}
