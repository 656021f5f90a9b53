/* Many spawns in a row leave no descriptor, process or context behind. The first argument is their number. */
#include "check.h"
#include <dirent.h>

static int descriptors(void)
{
    int count = 0;
    DIR *all = opendir("/proc/self/fd");
    while (readdir(all))
        count++;
    closedir(all);
    return count;
}

int main(int argc, char **argv)
{
    MPI_Comm parent, inter;
    check_init(&argc, &argv);
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL) {
        OK(MPI_Barrier(parent));
        OK(MPI_Comm_disconnect(&parent));
        return check_done();
    }
    int rounds = argc > 1 ? atoi(argv[1]) : 10, before = 0;
    for (int i = 0; i < rounds; i++) {
        OK(MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1 + i % 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
        OK(MPI_Barrier(inter));
        OK(MPI_Comm_disconnect(&inter));
        if (i == 2)
            before = descriptors();
    }
    /* Connections end a little after the processes that have left. */
    int after = 0, flag;
    for (int i = 0; i < 500 && (i == 0 || after > before); i++) {
        struct timespec pause = {0, 10000000};
        nanosleep(&pause, NULL);
        OK(MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        after = descriptors();
    }
    CHECK(after <= before + 4, "%d descriptors after three, %d after %d", before, after, rounds);
    return check_done();
}
