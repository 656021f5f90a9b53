/* Names of communicators and types, info of communicators, info objects themselves. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    char name[MPI_MAX_OBJECT_NAME], value[MPI_MAX_INFO_VAL + 1], key[MPI_MAX_INFO_KEY];
    int len, flag, n;
    MPI_Comm c;
    OK(MPI_Comm_get_name(MPI_COMM_WORLD, name, &len)); STREQ(name, "MPI_COMM_WORLD"); EQ(len, 14);
    OK(MPI_Comm_get_name(MPI_COMM_SELF, name, &len)); STREQ(name, "MPI_COMM_SELF");
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &c));
    OK(MPI_Comm_get_name(c, name, &len)); EQ(len, 0); STREQ(name, "");
    OK(MPI_Comm_set_name(c, "mine")); OK(MPI_Comm_get_name(c, name, &len)); STREQ(name, "mine");
    MPI_Datatype t;
    OK(MPI_Type_contiguous(2, MPI_INT, &t)); OK(MPI_Type_get_name(t, name, &len)); EQ(len, 0);
    OK(MPI_Type_set_name(t, "pair")); OK(MPI_Type_get_name(t, name, &len)); STREQ(name, "pair"); OK(MPI_Type_free(&t));
    MPI_Info i, j;
    OK(MPI_Info_create(&i));
    OK(MPI_Info_set(i, "b", "1")); OK(MPI_Info_set(i, "a", "two")); OK(MPI_Info_set(i, "b", "three"));
    OK(MPI_Info_get_nkeys(i, &n)); EQ(n, 2);
    int seen = 0;
    for (int k = 0; k < n; k++) { OK(MPI_Info_get_nthkey(i, k, key)); seen += !strcmp(key, "a") ? 1 : !strcmp(key, "b") ? 10 : 100; }
    EQ(seen, 11);
    len = sizeof value; OK(MPI_Info_get_string(i, "b", &len, value, &flag)); EQ(flag, 1); STREQ(value, "three"); EQ(len, 6);
    len = 3; OK(MPI_Info_get_string(i, "b", &len, value, &flag)); EQ(flag, 1); STREQ(value, "th"); EQ(len, 6);
    len = 0; OK(MPI_Info_get_string(i, "b", &len, NULL, &flag)); EQ(len, 6);
    OK(MPI_Info_get_string(i, "zz", &len, value, &flag)); EQ(flag, 0);
    OK(MPI_Info_get(i, "a", 10, value, &flag)); EQ(flag, 1); STREQ(value, "two");
    OK(MPI_Info_get_valuelen(i, "a", &len, &flag)); EQ(flag, 1); EQ(len, 3);
    OK(MPI_Info_dup(i, &j)); OK(MPI_Info_delete(i, "a")); OK(MPI_Info_get_nkeys(i, &n)); EQ(n, 1); OK(MPI_Info_get_nkeys(j, &n)); EQ(n, 2);
    FAILS(MPI_ERR_INFO_NOKEY, MPI_Info_delete(i, "a"));
    char longkey[MPI_MAX_INFO_KEY + 10];
    memset(longkey, 'k', sizeof longkey); longkey[sizeof longkey - 1] = 0;
    FAILS(MPI_ERR_INFO_KEY, MPI_Info_set(i, longkey, "x"));
    FAILS(MPI_ERR_INFO_KEY, MPI_Info_set(i, "", "x"));
    FAILS_ANY(MPI_Info_get_nthkey(i, 5, key));
    OK(MPI_Comm_set_info(c, j)); OK(MPI_Info_free(&i)); EQ(i == MPI_INFO_NULL, 1);
    OK(MPI_Comm_get_info(c, &i)); OK(MPI_Info_free(&i)); OK(MPI_Info_free(&j));
    OK(MPI_Comm_free(&c));
    OK(MPI_Info_get_nkeys(MPI_INFO_ENV, &n)); CHECK(n >= 0);
    OK(MPI_Info_create_env(argc, argv, &i)); OK(MPI_Info_get_nkeys(i, &n)); OK(MPI_Info_free(&i));
    OK(MPI_Get_hw_resource_info(&i)); OK(MPI_Info_free(&i));
    return check_done();
}
