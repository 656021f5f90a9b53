/* Attributes of communicators and datatypes: copy and delete callbacks, their order, failures, predefined ones. */
#include "check.h"
static int copies, deletes, order[8], fail_copy, fail_delete;
static int copy_c(MPI_Comm c, int k, void *x, void *in, void *out, int *flag) { (void)c; (void)k; copies++; *(void **)out = (char *)in + 1; *flag = x == NULL ? 0 : 1; return fail_copy ? MPI_ERR_INTERN : 0; }
static int delete_c(MPI_Comm c, int k, void *v, void *x) { (void)c; (void)k; (void)x; if (deletes < 8) order[deletes] = (int)(intptr_t)v; deletes++; return fail_delete ? MPI_ERR_INTERN : 0; }
static MPI_Datatype type_seen;
static int copy_t(MPI_Datatype c, int k, void *x, void *in, void *out, int *flag) { type_seen = c; (void)k; (void)x; copies++; *(void **)out = in; *flag = 1; return 0; }
static int delete_t(MPI_Datatype c, int k, void *v, void *x) { type_seen = c; (void)k; (void)v; (void)x; deletes++; return 0; }

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    int k, k0, kd, kn, flag, *p;
    void *v;
    MPI_Comm c, d;
    OK(MPI_Comm_create_keyval(copy_c, delete_c, &k, &copies)); /* copies when dup'ed */
    OK(MPI_Comm_create_keyval(copy_c, delete_c, &k0, NULL)); /* asked, and says no */
    OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &kd, NULL));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &kn, NULL));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &c));
    OK(MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN));
    OK(MPI_Comm_get_attr(c, k, &v, &flag)); EQ(flag, 0);
    OK(MPI_Comm_set_attr(c, k, (void *)10)); OK(MPI_Comm_set_attr(c, k0, (void *)20)); OK(MPI_Comm_set_attr(c, kd, (void *)30)); OK(MPI_Comm_set_attr(c, kn, (void *)40));
    OK(MPI_Comm_get_attr(c, k, &v, &flag)); EQ(flag, 1); EQ((intptr_t)v, 10);
    OK(MPI_Comm_set_attr(c, k, (void *)11)); EQ(deletes, 1); EQ(order[0], 10); /* replaced: the old one is deleted */
    copies = deletes = 0;
    OK(MPI_Comm_dup(c, &d)); EQ(copies, 2);
    OK(MPI_Comm_get_attr(d, k, &v, &flag)); EQ(flag, 1); EQ((intptr_t)v, 12);
    OK(MPI_Comm_get_attr(d, k0, &v, &flag)); EQ(flag, 0);
    OK(MPI_Comm_get_attr(d, kd, &v, &flag)); EQ(flag, 1); EQ((intptr_t)v, 30);
    OK(MPI_Comm_get_attr(d, kn, &v, &flag)); EQ(flag, 0);
    OK(MPI_Comm_delete_attr(d, k)); EQ(deletes, 1); EQ(order[0], 12);
    OK(MPI_Comm_get_attr(d, k, &v, &flag)); EQ(flag, 0);
    OK(MPI_Comm_free(&d));
    /* a callback that fails stops dup, delete and free */
    fail_copy = 1;
    FAILS_ANY(MPI_Comm_dup(c, &d));
    fail_copy = 0, fail_delete = 1;
    FAILS_ANY(MPI_Comm_delete_attr(c, k));
    fail_delete = 0;
    /* the keyval may be freed while attributes live */
    int old = k;
    OK(MPI_Comm_free_keyval(&k)); EQ(k, MPI_KEYVAL_INVALID);
    deletes = 0;
    OK(MPI_Comm_free(&c)); EQ(deletes, 2);
    (void)old;
    OK(MPI_Comm_free_keyval(&k0)); OK(MPI_Comm_free_keyval(&kd)); OK(MPI_Comm_free_keyval(&kn));
    FAILS(MPI_ERR_KEYVAL, MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_KEYVAL_INVALID, NULL));
    FAILS2(MPI_ERR_KEYVAL, MPI_ERR_ARG, MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_TAG_UB, NULL));
    /* predefined */
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &p, &flag)); EQ(flag, 1); CHECK(*p >= 32767, "tag_ub %d", *p);
    int tag = *p, in = 0, one = 1;
    OK(MPI_Sendrecv(&one, 1, MPI_INT, check_rank, tag, &in, 1, MPI_INT, check_rank, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE)); EQ(in, 1);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &p, &flag)); EQ(flag, 1); CHECK(*p == 0 || *p == 1);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, &p, &flag)); EQ(flag, 1);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_HOST, &p, &flag)); EQ(flag, 1); EQ(*p, MPI_PROC_NULL);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &p, &flag)); if (flag) CHECK(*p >= check_size);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &p, &flag)); if (flag) EQ(*p, 0);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &p, &flag)); EQ(flag, 1); CHECK(*p >= MPI_ERR_LASTCODE);
    /* datatypes */
    MPI_Datatype t, u, copied_from_double;
    copies = deletes = 0;
    OK(MPI_Type_create_keyval(copy_t, delete_t, &k, NULL));
    OK(MPI_Type_dup(MPI_INT, &t));
    OK(MPI_Type_set_attr(t, k, (void *)7));
    OK(MPI_Type_dup(t, &u)); EQ(copies, 1);
    OK(MPI_Type_get_attr(u, k, &v, &flag)); EQ(flag, 1); EQ((intptr_t)v, 7);
    OK(MPI_Type_delete_attr(u, k)); EQ(deletes, 1);
    OK(MPI_Type_set_attr(MPI_DOUBLE, k, (void *)9));
    OK(MPI_Type_get_attr(MPI_DOUBLE, k, &v, &flag)); EQ(flag, 1); EQ((intptr_t)v, 9);
    OK(MPI_Type_dup(MPI_DOUBLE, &copied_from_double)); CHECK(type_seen == MPI_DOUBLE); type_seen = MPI_DATATYPE_NULL; /* a predefined type has its own handle in callbacks */
    OK(MPI_Type_free(&copied_from_double));
    OK(MPI_Type_delete_attr(MPI_DOUBLE, k)); CHECK(type_seen == MPI_DOUBLE);
    OK(MPI_Type_free(&u)); OK(MPI_Type_free(&t)); EQ(deletes, 4);
    OK(MPI_Type_free_keyval(&k));
    /* the deprecated forms of chapter 2 still work */
    OK(MPI_Keyval_create(MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN, &k, NULL));
    OK(MPI_Attr_put(MPI_COMM_WORLD, k, (void *)3)); OK(MPI_Attr_get(MPI_COMM_WORLD, k, &v, &flag)); EQ(flag, 1); EQ((intptr_t)v, 3);
    OK(MPI_Attr_delete(MPI_COMM_WORLD, k)); OK(MPI_Keyval_free(&k));
    return check_done();
}
