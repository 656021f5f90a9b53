/* What the system refuses: a full disk, a read-only file system, a program that runs. A small tmpfs in a mount namespace of rank 0's own; the others reach
 * it through /proc, and it ends with rank 0. After each failure the data written before are as they were, and all ranks have got an error. */
#define _GNU_SOURCE
#include "file.h"
#include <sched.h>
#include <sys/mount.h>

enum { DISK = 1 << 20, BIG = 1 << 20, SMALL = 1 << 12 };
static unsigned char big[2 * BIG], back[SMALL];

/* The folder of a new tmpfs; empty if this process may not make one. */
static void make_disk(char *dir, size_t room)
{
    dir[0] = 0;
    if (check_rank == 0) {
        char options[64];
        snprintf(options, sizeof options, "size=%d", DISK);
        if (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && mount("none", "/mnt", "tmpfs", 0, options) == 0)
            snprintf(dir, room, "/proc/%d/root/mnt", (int)getpid());
        else
            perror("no tmpfs of our own");
    }
    OK(MPI_Bcast(dir, (int)room, MPI_CHAR, 0, MPI_COMM_WORLD));
}

static MPI_File open_with(const char *name, const char *together)
{
    MPI_Info info;
    MPI_File fh;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "romio_cb_write", together));
    OK(MPI_Info_set(info, "romio_cb_read", together));
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &fh));
    OK(MPI_Info_free(&info));
    return fh;
}

static void full(const char *name, const char *together)
{
    MPI_File fh = open_with(name, together);
    MPI_Status st;
    MPI_Request rq;
    MPI_Offset size = -1;
    fill(big, SMALL, (uint64_t)check_rank);
    OK(MPI_File_write_at_all(fh, (MPI_Offset)check_rank * SMALL, big, SMALL, MPI_BYTE, &st));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    memset(big, 7, sizeof big);
    /* the oracle says MPI_ERR_IO */
    FAILS2(MPI_ERR_NO_SPACE, on_mpich() ? MPI_ERR_IO : MPI_ERR_NO_SPACE, MPI_File_write_at_all(fh, DISK + (MPI_Offset)check_rank * BIG, big, BIG, MPI_BYTE, &st));
    FAILS2(MPI_ERR_NO_SPACE, on_mpich() ? MPI_ERR_IO : MPI_ERR_NO_SPACE, MPI_File_write_at(fh, DISK + (MPI_Offset)check_rank * BIG, big, BIG, MPI_BYTE, &st));
    STRICT(OK(MPI_File_iwrite_at(fh, DISK + (MPI_Offset)check_rank * BIG, big, BIG, MPI_BYTE, &rq)));
    STRICT(FAILS(MPI_ERR_NO_SPACE, MPI_Wait(&rq, &st)));
    STRICT(FAILS(MPI_ERR_NO_SPACE, MPI_File_preallocate(fh, 4 * DISK)));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_read_at_all(fh, (MPI_Offset)check_rank * SMALL, back, SMALL, MPI_BYTE, &st));
    EQ(moved(&st, MPI_BYTE), SMALL);
    EQ(wrong_at(back, SMALL, (uint64_t)check_rank), -1);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_set_size(fh, (MPI_Offset)check_size * SMALL));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_write_at_all(fh, (MPI_Offset)(check_size + check_rank) * SMALL, big, SMALL, MPI_BYTE, &st)); /* there is room again */
    OK(MPI_File_sync(fh));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_get_size(fh, &size));
    EQ(size, 2 * check_size * SMALL);
    OK(MPI_File_close(&fh));
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    char dir[256], name[300];
    MPI_File fh;
    STRICT(FAILS(MPI_ERR_FILE_IN_USE, MPI_File_open(MPI_COMM_WORLD, argv[0], MPI_MODE_RDWR, MPI_INFO_NULL, &fh)));
    make_disk(dir, sizeof dir);
    if (!dir[0])
        return check_skip("a mount namespace takes root");
    snprintf(name, sizeof name, "%s/data", dir);
    full(name, "disable");
    full(name, "enable");
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0)
        CHECK(mount("none", "/mnt", NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    FAILS(MPI_ERR_READ_ONLY, MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &fh));
    STRICT(FAILS(MPI_ERR_READ_ONLY, MPI_File_delete(name, MPI_INFO_NULL)));
    fh = file_open(name, MPI_MODE_RDONLY);
    OK(MPI_File_read_at_all(fh, (MPI_Offset)check_rank * SMALL, back, SMALL, MPI_BYTE, MPI_STATUS_IGNORE));
    EQ(wrong_at(back, SMALL, (uint64_t)check_rank), -1);
    OK(MPI_File_close(&fh));
    return check_done();
}
