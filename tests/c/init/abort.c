/* Ends in the way its argument says; the test list gives the exit code that mpiexec must return. */
#include "check.h"
#include <signal.h>

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    const char *how = argc > 1 ? argv[1] : "";
    OK(MPI_Barrier(MPI_COMM_WORLD));
    int last = check_rank == check_size - 1;
    if (!strcmp(how, "abort") && last) MPI_Abort(MPI_COMM_WORLD, 42);
    if (!strcmp(how, "exit") && last) exit(7); /* without finalize */
    if (!strcmp(how, "signal") && last) raise(SIGSEGV);
    if (!strcmp(how, "kill") && last) raise(SIGKILL);
    if (!strcmp(how, "fatal") && last) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
        MPI_Send(NULL, -1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    }
    if (!strcmp(how, "code")) { MPI_Finalize(); return last ? 3 : 0; }
    int never;
    MPI_Recv(&never, 1, MPI_INT, check_rank, 999, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* the others wait for ever */
    return 0;
}
