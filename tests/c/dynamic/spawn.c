/* MPI_Comm_spawn and MPI_Comm_spawn_multiple: arguments, ranks, attributes, messages and collectives between parents and children, merging, children of
 * children, several communicators at the same time, info keys. The program spawns itself. */
#include "check.h"

static char *self;

/* What parents and children do together. `base` is what the children are told. */
static void talk(MPI_Comm inter, int is_parent, int children)
{
    int flag, remote, local, rank, sum = 0, one = 1;
    MPI_Comm merged, dup, half;
    OK(MPI_Comm_test_inter(inter, &flag)); EQ(flag, 1);
    OK(MPI_Comm_size(inter, &local)); OK(MPI_Comm_remote_size(inter, &remote)); OK(MPI_Comm_rank(inter, &rank));
    EQ(is_parent ? remote : local, children);
    /* everybody to everybody on the other side, small and large */
    enum { LARGE = 300000 };
    static int out[LARGE], in[LARGE];
    for (int i = 0; i < remote; i++) {
        MPI_Request requests[2];
        MPI_Status status;
        int count = (i + rank) % 2 ? LARGE : 3;
        for (int k = 0; k < count; k++) out[k] = 1000 * rank + k;
        OK(MPI_Irecv(in, LARGE, MPI_INT, i, 7, inter, &requests[0]));
        OK(MPI_Isend(out, count, MPI_INT, i, 7, inter, &requests[1]));
        OK(MPI_Wait(&requests[0], &status)); OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
        EQ(status.MPI_SOURCE, i); EQ(in[2], 1000 * i + 2);
        int got;
        OK(MPI_Get_count(&status, MPI_INT, &got)); EQ(got, count); EQ(in[got - 1], 1000 * i + got - 1);
    }
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter)); EQ(sum, remote);
    OK(MPI_Barrier(inter));
    OK(MPI_Comm_dup(inter, &dup));
    OK(MPI_Intercomm_merge(dup, !is_parent, &merged));
    int size, place, all;
    OK(MPI_Comm_size(merged, &size)); EQ(size, local + remote);
    OK(MPI_Comm_rank(merged, &place)); EQ(place, is_parent ? rank : remote + rank);
    OK(MPI_Allreduce(&place, &all, 1, MPI_INT, MPI_SUM, merged)); EQ(all, size * (size - 1) / 2);
    OK(MPI_Comm_split(merged, place % 2, 0, &half));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, half)); EQ(sum, (size + 1 - place % 2) / 2);
    MPI_Group world, members;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world)); OK(MPI_Comm_group(merged, &members));
    int mine, there;
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &mine)); OK(MPI_Group_translate_ranks(world, 1, &mine, members, &there)); EQ(there, place);
    OK(MPI_Group_free(&world)); OK(MPI_Group_free(&members));
    OK(MPI_Comm_free(&half)); OK(MPI_Comm_free(&merged)); OK(MPI_Comm_free(&dup));
}

static int child(MPI_Comm parent, int argc, char **argv)
{
    int *app, flag;
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Comm again;
    CHECK(argc == 4, "%d arguments", argc);
    int children = atoi(argv[2]), depth = atoi(argv[3]);
    OK(MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN));
    OK(MPI_Comm_get_parent(&again)); CHECK(again == parent);
    OK(MPI_Comm_get_name(parent, name, &flag)); STREQ(name, "MPI_COMM_PARENT");
    EQ(check_size, children);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &app, &flag)); EQ(flag, 1);
    EQ(*app, children == 5 && check_rank >= 2);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &app, &flag)); if (flag) CHECK(*app >= children, "%d", *app);
    talk(parent, 0, children);
    if (depth > 0) {
        char next[16];
        snprintf(next, sizeof next, "%d", depth - 1);
        char *args[] = {"child", "1", next, NULL};
        MPI_Comm inter;
        OK(MPI_Comm_spawn(self, args, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
        talk(inter, 1, 1);
        OK(MPI_Comm_disconnect(&inter));
    }
    OK(MPI_Comm_disconnect(&parent)); CHECK(parent == MPI_COMM_NULL);
    OK(MPI_Comm_get_parent(&again)); CHECK(again == MPI_COMM_NULL);
    return check_done();
}

/* soft: as many as possible of a set, in another directory */
static int soft(void)
{
    MPI_Comm inter;
    MPI_Info info;
    OK(MPI_Info_create(&info)); OK(MPI_Info_set(info, "soft", "1:2")); OK(MPI_Info_set(info, "wdir", "/"));
    char *two[] = {"child", "2", "0", NULL};
    char path[4096];
    CHECK(realpath(self, path) != NULL);
    OK(MPI_Comm_spawn(path, two, 4, info, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    talk(inter, 1, 2);
    OK(MPI_Comm_disconnect(&inter));
    OK(MPI_Info_free(&info));
    return check_done();
}

int main(int argc, char **argv)
{
    MPI_Comm parent, inter, own, both[2];
    int codes[8];
    self = argv[0];
    check_init(&argc, &argv);
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL)
        return child(parent, argc, argv);
    if (argc > 1 && !strcmp(argv[1], "soft"))
        return soft();
    /* one program, from all, with children of children */
    char *args[] = {"child", "3", "1", NULL};
    memset(codes, 1, sizeof codes);
    int root = check_size - 1;
    OK(MPI_Comm_spawn(check_rank == root ? self : NULL, check_rank == root ? args : NULL, 3, MPI_INFO_NULL, root, MPI_COMM_WORLD, &inter, codes));
    for (int i = 0; i < 3; i++) EQ(codes[i], MPI_SUCCESS);
    talk(inter, 1, 3);
    OK(MPI_Comm_disconnect(&inter)); CHECK(inter == MPI_COMM_NULL);
    /* several programs */
    char *one[] = {"child", "5", "0", NULL}, **argvs[] = {one, one}, *commands[] = {self, self};
    int counts[] = {2, 3};
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    OK(MPI_Comm_spawn_multiple(2, commands, argvs, counts, infos, 0, MPI_COMM_WORLD, &inter, codes));
    for (int i = 0; i < 5; i++) EQ(codes[i], MPI_SUCCESS);
    talk(inter, 1, 5);
    OK(MPI_Comm_disconnect(&inter));
    /* each rank for itself, at the same time, and two of them open at once */
    char *alone[] = {"child", "1", "0", NULL};
    OK(MPI_Comm_dup(MPI_COMM_SELF, &own));
    OK(MPI_Comm_spawn(self, alone, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &both[0], MPI_ERRCODES_IGNORE));
    OK(MPI_Comm_spawn(self, alone, 1, MPI_INFO_NULL, 0, own, &both[1], MPI_ERRCODES_IGNORE));
    talk(both[1], 1, 1); talk(both[0], 1, 1);
    OK(MPI_Comm_disconnect(&both[0])); OK(MPI_Comm_disconnect(&both[1]));
    OK(MPI_Comm_free(&own));
    return check_done();
}
