/* Barrier in its three forms really separates: nobody leaves before the last has entered. */
#include "coll/coll.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    for (int form = 0; form < 3; form++)
        for (int late = 0; late < check_size; late++) {
            MPI_Request rq;
            OK(MPI_Barrier(MPI_COMM_WORLD));
            if (form == 2) OK(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &rq));
            if (check_rank == late) usleep(100000);
            double entered = check_clock();
            if (form == 0) OK(MPI_Barrier(MPI_COMM_WORLD));
            if (form == 1) { OK(MPI_Ibarrier(MPI_COMM_WORLD, &rq)); coll_wait(&rq); }
            if (form == 2) { OK(MPI_Start(&rq)); OK(MPI_Wait(&rq, MPI_STATUS_IGNORE)); OK(MPI_Request_free(&rq)); }
            double left = check_clock();
            OK(MPI_Bcast(&entered, 1, MPI_DOUBLE, late, MPI_COMM_WORLD));
            CHECK(left >= entered, "form %d: left %.6f s before the last has entered", form, entered - left);
        }
    for (int i = 0; i < 300; i++) OK(MPI_Barrier(MPI_COMM_WORLD));
    return check_done();
}
