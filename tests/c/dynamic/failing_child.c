/* A spawned rank that fails after it has met its parents: exit, abort or a crash, as the first argument says. The parents wait for ever. */
#include "check.h"
#include <signal.h>

int main(int argc, char **argv)
{
    MPI_Comm parent, inter;
    check_init(&argc, &argv);
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL) {
        OK(MPI_Barrier(parent));
        if (check_rank == 1) {
            if (!strcmp(argv[1], "exit")) _exit(7);
            if (!strcmp(argv[1], "abort")) MPI_Abort(MPI_COMM_WORLD, 9);
            raise(SIGKILL);
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        return 0;
    }
    OK(MPI_Comm_spawn(argv[0], argv + 1, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    OK(MPI_Barrier(inter));
    MPI_Barrier(inter);
    pause();
    return 0;
}
