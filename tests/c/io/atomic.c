/* Atomic mode: overlapping writes of all ranks leave one rank's data, not a mixture, also through a view with holes; readers see all of a write or nothing.
 * With romio_ds_write=enable writes into each other's holes lose nothing. */
#include "file.h"

enum { N = 20000, ROUNDS = 20 };
static int data[N], seen[N];

static int mixed(const int *a, int n)
{
    for (int i = 1; i < n; i++)
        if (a[i] != a[0])
            return i;
    return 0;
}

static void overlapping(const char *name, int holes)
{
    MPI_File fh = file_open(name, MPI_MODE_RDWR | MPI_MODE_CREATE);
    MPI_Datatype every;
    OK(MPI_Type_vector(1, 1, 1, MPI_INT, &every));
    if (holes) {
        OK(MPI_Type_free(&every));
        OK(MPI_Type_create_resized(MPI_INT, 0, 8, &every));
    }
    OK(MPI_Type_commit(&every));
    OK(MPI_File_set_atomicity(fh, 1));
    OK(MPI_File_set_view(fh, 0, MPI_INT, every, "native", MPI_INFO_NULL));
    for (int i = 0; i < N; i++)
        data[i] = -1;
    OK(MPI_File_write_at_all(fh, 0, data, N, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++)
            data[i] = round * 100 + check_rank;
        if (round & 1)
            OK(MPI_File_write_at_all(fh, 0, data, N, MPI_INT, MPI_STATUS_IGNORE));
        else
            OK(MPI_File_write_at(fh, 0, data, N, MPI_INT, MPI_STATUS_IGNORE));
        OK(MPI_File_read_at(fh, 0, seen, N, MPI_INT, MPI_STATUS_IGNORE));
        EQ(mixed(seen, N), 0);
    }
    OK(MPI_Type_free(&every));
    OK(MPI_File_close(&fh));
}

static void holes_of_others(const char *name)
{
    MPI_Info info;
    MPI_File fh;
    MPI_Datatype mine, one;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "romio_ds_write", "enable"));
    OK(MPI_Info_set(info, "ind_wr_buffer_size", "4096"));
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &fh));
    OK(MPI_Info_free(&info));
    OK(MPI_Type_create_resized(MPI_INT, 0, 4 * check_size, &one));
    OK(MPI_Type_dup(one, &mine));
    OK(MPI_Type_commit(&mine));
    OK(MPI_File_set_view(fh, 4 * check_rank, MPI_INT, mine, "native", MPI_INFO_NULL));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++)
            data[i] = round * N + i;
        OK(MPI_File_write_at(fh, 0, data, N, MPI_INT, MPI_STATUS_IGNORE));
        OK(MPI_File_read_at(fh, 0, seen, N, MPI_INT, MPI_STATUS_IGNORE));
        CHECK(!memcmp(data, seen, sizeof data), "round %d", round);
    }
    OK(MPI_Type_free(&one));
    OK(MPI_Type_free(&mine));
    OK(MPI_File_close(&fh));
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    const char *name = file_name("atomic");
    overlapping(name, 0);
    STRICT(overlapping(name, 1)); /* the oracle's data get mixed */
    STRICT(holes_of_others(name)); /* the oracle's view differs between ranks in its holes */
    if (check_rank == 0)
        OK(MPI_File_delete(name, MPI_INFO_NULL));
    return check_done();
}
