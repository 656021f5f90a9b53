/* A process of a window dies: what needs it ends with an error, and the others go on among themselves. Needs --continue-on-failure.
 * The argument says what the others do then: 1 a fence, 2 start and put, 3 a lock that the dead process holds, 4 wait for a post that never comes,
 * 5 an accumulate at the dead process. */
#include "check.h"
#include <signal.h>

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    int what = argc > 1 ? atoi(argv[1]) : 1, victim = check_size - 1, value = 1, code = MPI_SUCCESS, class = 0;
    int *memory;
    MPI_Win win;
    MPI_Group world, others, dead;
    MPI_Comm survivors;
    OK(MPI_Win_allocate(1024, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_excl(world, 1, &victim, &others)); OK(MPI_Group_incl(world, 1, &victim, &dead));
    if (what == 3 && check_rank == victim) OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
    if (what == 2 && check_rank == victim) OK(MPI_Win_post(others, 0, win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == victim) raise(SIGKILL);
    switch (what) {
    case 1:
        /* Some may leave the first one before they know. */
        for (int i = 0; i < 3 && code == MPI_SUCCESS; i++) code = MPI_Win_fence(0, win);
        break;
    case 2:
        /* The post has come; the end comes some time after. */
        code = MPI_Win_start(dead, 0, win);
        for (int i = 0; i < 1000000 && code == MPI_SUCCESS; i++) {
            code = MPI_Win_complete(win);
            if (code == MPI_SUCCESS) code = MPI_Win_start(dead, 0, win);
        }
        break;
    case 3: code = MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win); break;
    case 4: code = MPI_Win_post(dead, 0, win); if (code == MPI_SUCCESS) code = MPI_Win_wait(win); break;
    case 5:
        OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, win));
        for (int i = 0; i < 100000000 && code == MPI_SUCCESS; i++) {
            code = MPI_Fetch_and_op(&value, &class, MPI_INT, victim, 0, MPI_SUM, win);
            if (code == MPI_SUCCESS) code = MPI_Win_flush(victim, win);
            /* Memory that is mapped here is still there. */
            if (i == 100 && code == MPI_SUCCESS) code = MPI_Recv(&class, 1, MPI_INT, victim, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        break;
    }
    MPI_Error_class(code, &class); EQ(class, ERR_LOST);
    OK(MPI_Comm_create_group(MPI_COMM_WORLD, others, 1, &survivors));
    /* They make a window of their own. */
    int *mine, left;
    MPI_Win own;
    OK(MPI_Win_allocate(64, sizeof(int), MPI_INFO_NULL, survivors, &mine, &own));
    mine[0] = 0;
    OK(MPI_Win_fence(0, own)); OK(MPI_Accumulate(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, own)); OK(MPI_Win_fence(0, own));
    OK(MPI_Comm_size(survivors, &left)); if (check_rank == 0) EQ(mine[0], left);
    OK(MPI_Win_free(&own));
    OK(MPI_Group_free(&world)); OK(MPI_Group_free(&others)); OK(MPI_Group_free(&dead));
    check_survivors(&survivors);
    MPI_Finalize();
    return 0;
}
