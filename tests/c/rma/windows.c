/* Windows as objects (MPI-5.0, 12.2): every way to make one, attributes, names, groups, info, error handlers, keyvals. */
#include "check.h"

static int copied, deleted, called, seen_code;
static int copy_fn(MPI_Win w, int k, void *e, void *in, void *out, int *flag) { (void)w; (void)k; (void)e; *(void **)out = in; *flag = 1; copied++; return MPI_SUCCESS; }
static int delete_fn(MPI_Win w, int k, void *v, void *e) { (void)w; (void)k; (void)v; deleted += (int)(intptr_t)e; return MPI_SUCCESS; }
static void handler(MPI_Win *w, int *code, ...) { (void)w; called++; MPI_Error_class(*code, &seen_code); }

static void attributes(MPI_Win win, void *base, MPI_Aint size, int unit, int flavor)
{
    void *value; int flag;
    OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &value, &flag)); EQ(flag, 1); CHECK(value == base);
    OK(MPI_Win_get_attr(win, MPI_WIN_SIZE, &value, &flag)); EQ(flag, 1); EQ(*(MPI_Aint *)value, size);
    OK(MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &value, &flag)); EQ(flag, 1); EQ(*(int *)value, unit);
    OK(MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &value, &flag)); EQ(flag, 1); EQ(*(int *)value, flavor);
    OK(MPI_Win_get_attr(win, MPI_WIN_MODEL, &value, &flag)); EQ(flag, 1); EQ(*(int *)value, MPI_WIN_UNIFIED);
}

static void object(MPI_Win win)
{
    char name[MPI_MAX_OBJECT_NAME], value[8];
    int len, result, flag, key;
    MPI_Group group, world;
    MPI_Info info;
    MPI_Errhandler eh, other;
    OK(MPI_Win_set_name(win, "panorama")); OK(MPI_Win_get_name(win, name, &len)); STREQ(name, "panorama"); EQ(len, 8);
    OK(MPI_Win_get_group(win, &group)); OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_compare(group, world, &result)); EQ(result, MPI_IDENT);
    OK(MPI_Group_free(&group)); OK(MPI_Group_free(&world));
    OK(MPI_Info_create(&info)); OK(MPI_Info_set(info, "no_locks", "false")); OK(MPI_Info_set(info, "colour", "blue"));
    OK(MPI_Win_set_info(win, info)); OK(MPI_Info_free(&info));
    OK(MPI_Win_get_info(win, &info)); len = sizeof value;
    OK(MPI_Info_get_string(info, "no_locks", &len, value, &flag)); EQ(flag, 1); STREQ(value, "false");
    OK(MPI_Info_free(&info));
    OK(MPI_Win_get_errhandler(win, &eh)); CHECK(eh == MPI_ERRORS_ARE_FATAL);
    OK(MPI_Win_create_errhandler(handler, &other)); OK(MPI_Win_set_errhandler(win, other)); OK(MPI_Errhandler_free(&other));
    called = 0; OK(MPI_Win_call_errhandler(win, MPI_ERR_RMA_RANGE)); EQ(called, 1); EQ(seen_code, MPI_ERR_RMA_RANGE);
    (void)MPI_Win_unlock(0, win); EQ(called, 2); EQ(seen_code, MPI_ERR_RMA_SYNC);
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    deleted = 0;
    OK(MPI_Win_create_keyval(copy_fn, delete_fn, &key, (void *)1));
    OK(MPI_Win_set_attr(win, key, &deleted));
    void *got; OK(MPI_Win_get_attr(win, key, &got, &flag)); EQ(flag, 1); CHECK(got == &deleted);
    OK(MPI_Win_delete_attr(win, key)); EQ(deleted, 1);
    OK(MPI_Win_get_attr(win, key, &got, &flag)); EQ(flag, 0);
    OK(MPI_Win_set_attr(win, key, &deleted));
    OK(MPI_Win_free_keyval(&key)); EQ(key, MPI_KEYVAL_INVALID);
    MPI_Win again = MPI_Win_fromint(MPI_Win_toint(win)); CHECK(again == win);
}

static void end(MPI_Win *win)
{
    OK(MPI_Win_free(win)); CHECK(*win == MPI_WIN_NULL); EQ(deleted, 2); EQ(copied, 0);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    MPI_Win win;
    double memory[10];
    char name[MPI_MAX_OBJECT_NAME];
    int len, *base;
    OK(MPI_Win_get_name(MPI_WIN_NULL, name, &len)); STREQ(name, "MPI_WIN_NULL");
    /* Only some have memory, in units of their own. */
    MPI_Aint mine = check_rank % 2 ? 0 : (MPI_Aint)sizeof memory;
    OK(MPI_Win_create(mine ? memory : NULL, mine, 1 + check_rank, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    attributes(win, mine ? memory : NULL, mine, 1 + check_rank, MPI_WIN_FLAVOR_CREATE); object(win); end(&win);
    OK(MPI_Win_create_c(memory, sizeof memory, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    attributes(win, memory, sizeof memory, 8, MPI_WIN_FLAVOR_CREATE); object(win); end(&win);
    OK(MPI_Win_allocate(4000, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    CHECK(base != NULL); memset(base, 1, 4000);
    attributes(win, base, 4000, 4, MPI_WIN_FLAVOR_ALLOCATE); object(win); end(&win);
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    attributes(win, MPI_BOTTOM, 0, 1, MPI_WIN_FLAVOR_DYNAMIC); object(win); end(&win);
    /* Many at a time, freed in another order. */
    MPI_Win many[20];
    for (int i = 0; i < 20; i++) OK(MPI_Win_allocate(100 * i, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &many[i]));
    for (int i = 0; i < 20; i++) OK(MPI_Win_free(&many[(i * 7) % 20]));
    OK(MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win)); OK(MPI_Win_free(&win));
    return check_done();
}
