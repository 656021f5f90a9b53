/* Opening, closing, deleting; access modes and their errors; size, group, info, sync, atomicity; error handlers; integers of handles. */
#include "file.h"

static int calls, last;
static void note(MPI_File *fh, int *code, ...)
{
    (void)fh;
    calls++;
    MPI_Error_class(*code, &last);
}

static void modes(const char *name)
{
    MPI_File fh = MPI_FILE_NULL;
    static const int bad[] = {0, MPI_MODE_RDONLY | MPI_MODE_RDWR, MPI_MODE_RDONLY | MPI_MODE_WRONLY, MPI_MODE_CREATE,
                              MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_MODE_RDONLY | MPI_MODE_EXCL, MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL};
    for (int i = 0; i < LEN(bad); i++)
        FAILS(MPI_ERR_AMODE, MPI_File_open(MPI_COMM_WORLD, name, bad[i], MPI_INFO_NULL, &fh));
    STRICT(FAILS(MPI_ERR_AMODE, MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | 1 << 20, MPI_INFO_NULL, &fh)));
    EQ(file_size(name), -1);
    FAILS(MPI_ERR_NO_SUCH_FILE, MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &fh));
    STRICT(CHECK(fh == MPI_FILE_NULL));
    if (check_size > 1) /* not the same on all ranks */
        FAILS2(MPI_ERR_NOT_SAME, MPI_ERR_AMODE,
               MPI_File_open(MPI_COMM_WORLD, name, check_rank ? MPI_MODE_RDWR : MPI_MODE_RDONLY, MPI_INFO_NULL, &fh));
    static const int good[] = {MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL, MPI_MODE_RDONLY, MPI_MODE_WRONLY,
                               MPI_MODE_WRONLY | MPI_MODE_APPEND | MPI_MODE_UNIQUE_OPEN, MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL};
    for (int i = 0; i < LEN(good); i++) {
        int amode = -1;
        OK(MPI_File_open(MPI_COMM_WORLD, name, good[i], MPI_INFO_NULL, &fh));
        OK(MPI_File_get_amode(fh, &amode));
        EQ(amode, good[i]);
        OK(MPI_File_close(&fh));
        CHECK(fh == MPI_FILE_NULL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    FAILS(MPI_ERR_FILE_EXISTS, MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL, MPI_INFO_NULL, &fh));
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0)
        OK(MPI_File_delete(name, MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);
    FAILS(MPI_ERR_NO_SUCH_FILE, MPI_File_delete(name, MPI_INFO_NULL));
}

static void names(void)
{
    MPI_File fh;
    char text[600];
    const char *dir = file_name("folder");
    if (check_rank == 0)
        mkdir(dir, 0700);
    MPI_Barrier(MPI_COMM_WORLD);
    STRICT(FAILS(MPI_ERR_BAD_FILE, MPI_File_open(MPI_COMM_WORLD, dir, MPI_MODE_RDONLY, MPI_INFO_NULL, &fh)));
    STRICT(FAILS(MPI_ERR_BAD_FILE, MPI_File_open(MPI_COMM_WORLD, dir, MPI_MODE_RDWR, MPI_INFO_NULL, &fh)));
    STRICT(FAILS(MPI_ERR_BAD_FILE, MPI_File_delete(dir, MPI_INFO_NULL)));
    snprintf(text, sizeof text, "%s/no/such/folder", dir);
    FAILS(MPI_ERR_NO_SUCH_FILE, MPI_File_open(MPI_COMM_WORLD, text, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &fh));
    memset(text, 'x', sizeof text);
    memcpy(text, "/tmp/", 5);
    text[sizeof text - 1] = 0;
    FAILS(MPI_ERR_BAD_FILE, MPI_File_open(MPI_COMM_WORLD, text, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &fh));
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0)
        rmdir(dir);
    /* whoever is not root */
    if (geteuid() == 0)
        return;
    FAILS(MPI_ERR_ACCESS, MPI_File_open(MPI_COMM_WORLD, "/etc/shadow", MPI_MODE_RDONLY, MPI_INFO_NULL, &fh));
}

static void properties(const char *name)
{
    MPI_File fh = file_open(name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
    MPI_Offset size = -1;
    MPI_Group group, world;
    int flag = -1, same = -1;
    OK(MPI_File_get_size(fh, &size));
    EQ(size, 0);
    OK(MPI_File_set_size(fh, 1000));
    OK(MPI_File_get_size(fh, &size));
    EQ(size, 1000);
    OK(MPI_File_preallocate(fh, 500));
    OK(MPI_File_get_size(fh, &size));
    EQ(size, 1000);
    OK(MPI_File_preallocate(fh, 5000));
    OK(MPI_File_get_size(fh, &size));
    EQ(size, 5000);
    FAILS(MPI_ERR_ARG, MPI_File_set_size(fh, -1));
    FAILS(MPI_ERR_ARG, MPI_File_preallocate(fh, -1));
    if (check_size > 1)
        FAILS2(MPI_ERR_NOT_SAME, MPI_ERR_ARG, MPI_File_set_size(fh, 10 + check_rank));
    OK(MPI_File_set_size(fh, 0));
    OK(MPI_File_get_group(fh, &group));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_compare(group, world, &same));
    EQ(same, MPI_IDENT);
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&world));
    OK(MPI_File_get_atomicity(fh, &flag));
    EQ(flag, 0);
    OK(MPI_File_set_atomicity(fh, 1));
    OK(MPI_File_get_atomicity(fh, &flag));
    EQ(flag, 1);
    OK(MPI_File_set_atomicity(fh, 0));
    OK(MPI_File_sync(fh));
    CHECK(MPI_File_f2c(MPI_File_c2f(fh)) == fh);
    CHECK(MPI_File_f2c(MPI_File_c2f(MPI_FILE_NULL)) == MPI_FILE_NULL);
    OK(MPI_File_close(&fh));
    EQ(file_size(name), -1);
}

static void hints(const char *name)
{
    MPI_File fh;
    MPI_Info info, used;
    char value[100];
    int found = 0;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "cb_nodes", "1"));
    OK(MPI_Info_set(info, "cb_buffer_size", "65536"));
    OK(MPI_Info_set(info, "romio_cb_write", "enable"));
    OK(MPI_Info_set(info, "romio_no_such_thing", "7"));
    OK(MPI_Info_set(info, "no_such_thing", "7"));
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, info, &fh));
    OK(MPI_File_get_info(fh, &used));
    OK(MPI_Info_get(used, "cb_nodes", 99, value, &found));
    CHECK(found);
    STREQ(value, "1");
    OK(MPI_Info_get(used, "cb_buffer_size", 99, value, &found));
    STREQ(value, "65536");
    OK(MPI_Info_get(used, "romio_cb_write", 99, value, &found));
    STREQ(value, "enable");
    OK(MPI_Info_get(used, "no_such_thing", 99, value, &found));
    STRICT(CHECK(!found));
    OK(MPI_Info_free(&used));
    OK(MPI_Info_set(info, "romio_ds_read", "disable"));
    OK(MPI_File_set_info(fh, info));
    OK(MPI_File_get_info(fh, &used));
    OK(MPI_Info_get(used, "romio_ds_read", 99, value, &found));
    CHECK(found);
    STREQ(value, "disable");
    OK(MPI_Info_free(&used));
    OK(MPI_Info_free(&info));
    OK(MPI_File_close(&fh));
}

static void handlers(const char *name)
{
    MPI_File fh = MPI_FILE_NULL;
    MPI_Errhandler mine, got;
    int amode;
    OK(MPI_File_get_errhandler(MPI_FILE_NULL, &got));
    CHECK(got == MPI_ERRORS_RETURN);
    OK(MPI_File_create_errhandler(note, &mine));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, mine));
    /* the oracle's calls succeed after a handler of the program */
    STRICT(FAILS(MPI_ERR_NO_SUCH_FILE, MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &fh)));
    if (on_mpich())
        MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &fh);
    EQ(calls, 1);
    EQ(last, MPI_ERR_NO_SUCH_FILE);
    /* the oracle crashes */
    STRICT(FAILS(MPI_ERR_FILE, MPI_File_get_amode(MPI_FILE_NULL, &amode)));
    STRICT(EQ(calls, 2));
    fh = file_open(name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
    OK(MPI_File_get_errhandler(fh, &got)); /* inherited */
    CHECK(got == mine);
    OK(MPI_Errhandler_free(&got));
    STRICT(FAILS(MPI_ERR_ARG, MPI_File_seek(fh, -1, MPI_SEEK_SET)));
    STRICT(EQ(calls, 3));
    calls = 0;
    OK(MPI_File_set_errhandler(fh, MPI_ERRORS_RETURN));
    FAILS(MPI_ERR_ARG, MPI_File_seek(fh, -1, MPI_SEEK_SET));
    EQ(calls, 0);
    OK(MPI_File_set_errhandler(fh, mine));
    MPI_File_call_errhandler(fh, MPI_ERR_QUOTA);
    EQ(calls, 1);
    EQ(last, MPI_ERR_QUOTA);
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&mine));
    OK(MPI_File_close(&fh));
    STRICT(FAILS(MPI_ERR_FILE, MPI_File_close(&fh)));
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    modes(file_name("modes"));
    names();
    properties(file_name("properties"));
    hints(file_name("hints"));
    handlers(file_name("handlers"));
    return check_done();
}
