/* What may be called before init and after finalize; attribute callbacks on SELF at finalize; provided thread level. */
#include "check.h"
static int deleted;
static int at_end(MPI_Comm c, int k, void *v, void *x)
{
    int flag = 1;
    (void)c; (void)k; (void)x;
    MPI_Finalized(&flag); /* MPI is still there */
    if (!flag) deleted = deleted * 10 + (int)(intptr_t)v;
    return 0;
}

int main(int argc, char **argv)
{
    int flag = -1, v, s, len, levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE},
        want = argc > 1 ? levels[atoi(argv[1]) & 3] : MPI_THREAD_SINGLE, got = -1;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Info info;
    if (MPI_Initialized(&flag) || flag) return 2;
    if (MPI_Finalized(&flag) || flag) return 3;
    if (MPI_Get_version(&v, &s) || v != 5) return 4;
    if (MPI_Get_library_version(text, &len)) return 5;
    if (MPI_Info_create(&info) || MPI_Info_set(info, "a", "b") || MPI_Info_free(&info)) return 6;
    if (MPI_Init_thread(&argc, &argv, want, &got)) return 7;
    check_world();
    CHECK(got >= want, "asked %d, got %d", want, got);
    OK(MPI_Query_thread(&v)); EQ(v, got);
    int k;
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_end, &k, NULL));
    int k2;
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_end, &k2, NULL));
    OK(MPI_Comm_set_attr(MPI_COMM_SELF, k, (void *)1));
    OK(MPI_Comm_set_attr(MPI_COMM_SELF, k2, (void *)2));
    int code = check_done();
    if (MPI_Initialized(&flag) || !flag) return 8;
    if (MPI_Finalized(&flag) || !flag) return 9;
    if (MPI_Get_version(&v, &s)) return 10;
    if (deleted != 21) { fprintf(stderr, "callbacks at finalize: %d, expected 21 (reverse order)\n", deleted); return 11; }
    return code;
}
