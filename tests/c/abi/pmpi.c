/* Interposition: run alone it just works; under LD_PRELOAD of libcount the tool must see exactly these calls and no inner ones. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    int v = 0, out = 0;
    for (int i = 0; i < 5; i++) {
        if (check_rank == 0) OK(MPI_Send(&i, 1, MPI_INT, 1, 0, MPI_COMM_WORLD));
        if (check_rank == 1) OK(MPI_Recv(&v, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    for (int i = 0; i < 3; i++) OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Bcast(&v, 1, MPI_INT, 0, MPI_COMM_WORLD)); /* must not show up as sends */
    OK(PMPI_Allreduce(&v, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    if (check_rank == 0) OK(PMPI_Send(&v, 1, MPI_INT, 1, 1, MPI_COMM_WORLD));
    if (check_rank == 1) OK(PMPI_Recv(&v, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MPI_Comm c;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &c));
    OK(MPI_Comm_free(&c));
    return check_done();
}
