/* A rank of one half dies before or while the halves make an inter-communicator: the other half's leader must not wait for a leader that has given
 * up. Who knew of the loss before the call gets MPI_ERR_PROC_ABORTED, and so does whoever meets it. The survivors' halves then meet at the same place
 * with the same tag, where nothing of the first call may be left. Arguments: seed. */
#include "check.h"
#include <signal.h>

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    uint64_t state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    int victim = check_size - 1, class, known = rnd_below(&state, 2), delay_us = rnd_below(&state, 3000);
    MPI_Comm half, inter = MPI_COMM_NULL;
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, check_rank, &half));
    MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN);
    /* nobody dies while others still split; the barrier itself may meet the loss */
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == victim) {
        usleep(known ? 0 : delay_us);
        raise(SIGKILL);
    }
    int broken = check_rank % 2 == victim % 2;
    if (broken && known) { /* wait for the news */
        int code = MPI_Recv(NULL, 0, MPI_INT, victim, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Error_class(code, &class);
        EQ(class, ERR_LOST);
    }
    usleep(rnd_below(&state, 3000) / (check_rank + 1));
    int code = MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !(check_rank % 2), 4, &inter);
    MPI_Error_class(code, &class);
    if (code == MPI_SUCCESS)
        OK(MPI_Comm_free(&inter));
    CHECK(class == ERR_LOST || (class == MPI_SUCCESS && !known), "class %d, known %d", class, known);
    MPI_Group everybody, alive;
    MPI_Comm survivors;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &everybody));
    OK(MPI_Group_excl(everybody, 1, &victim, &alive));
    OK(MPI_Comm_create_group(MPI_COMM_WORLD, alive, 5, &survivors));
    OK(MPI_Group_free(&alive));
    OK(MPI_Group_free(&everybody));
    OK(MPI_Comm_free(&half));
    int count, total = 0, one = 1;
    OK(MPI_Comm_split(survivors, check_rank % 2, check_rank, &half));
    OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !(check_rank % 2), 4, &inter));
    OK(MPI_Comm_remote_size(inter, &count));
    OK(MPI_Allreduce(&one, &total, 1, MPI_INT, MPI_SUM, inter));
    EQ(total, count);
    OK(MPI_Comm_free(&inter));
    OK(MPI_Comm_free(&half));
    check_survivors(&survivors);
    OK(MPI_Finalize());
    return check_failed != 0;
}
