/* Errors of one-sided communication (MPI-5.0, 12.6): the right class, at the call that is wrong, and nothing hangs. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    MPI_Win win, bad = MPI_WIN_NULL;
    MPI_Comm inter, half;
    int memory[16], value = 5, *base;
    double real = 1;
    MPI_Request request;
    FAILS(MPI_ERR_SIZE, MPI_Win_create(memory, -1, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &bad));
    FAILS2(MPI_ERR_DISP, MPI_ERR_ARG, MPI_Win_create(memory, sizeof memory, 0, MPI_INFO_NULL, MPI_COMM_WORLD, &bad));
    FAILS2(MPI_ERR_SIZE, MPI_ERR_ARG, MPI_Win_allocate(-5, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &bad));
    FAILS(MPI_ERR_COMM, MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_NULL, &bad));
    FAILS(MPI_ERR_WIN, MPI_Win_fence(0, MPI_WIN_NULL));
    FAILS(MPI_ERR_WIN, MPI_Win_free(&bad));
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, 0, &half));
    if (check_size > 1) {
        OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - check_rank % 2, 3, &inter));
        OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
        FAILS(MPI_ERR_COMM, MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, inter, &bad));
        OK(MPI_Comm_free(&inter));
    }
    OK(MPI_Comm_free(&half));
    OK(MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    /* No epoch. */
    FAILS(MPI_ERR_RMA_SYNC, MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Get(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_unlock(0, win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_unlock_all(win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_complete(win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_wait(win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_flush(0, win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_flush_all(win));
    FAILS_ANY(MPI_Win_lock(77, 0, 0, win));
    if (!on_mpich()) FAILS(MPI_ERR_LOCKTYPE, MPI_Win_lock(77, 0, 0, win));
    FAILS(MPI_ERR_RANK, MPI_Win_lock(MPI_LOCK_SHARED, check_size, 0, win));
    if (!on_mpich()) FAILS(MPI_ERR_ASSERT, MPI_Win_fence(MPI_MODE_NOCHECK, win)); /* the oracle ignores what it doesn't know */
    /* In an epoch of a lock. */
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_lock_all(0, win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_fence(0, win));
    FAILS(MPI_ERR_RANK, MPI_Put(&value, 1, MPI_INT, check_size, 0, 1, MPI_INT, win));
    FAILS(MPI_ERR_RANK, MPI_Put(&value, 1, MPI_INT, -50, 0, 1, MPI_INT, win));
    FAILS(MPI_ERR_COUNT, MPI_Put(&value, -1, MPI_INT, 0, 0, 1, MPI_INT, win));
    FAILS(MPI_ERR_TYPE, MPI_Put(&value, 1, MPI_DATATYPE_NULL, 0, 0, 1, MPI_INT, win));
    FAILS(MPI_ERR_DISP, MPI_Put(&value, 1, MPI_INT, 0, -1, 1, MPI_INT, win));
    if (!on_mpich()) {
        /* The oracle writes there. */
        FAILS(MPI_ERR_RMA_RANGE, MPI_Put(&value, 1, MPI_INT, 0, 16, 1, MPI_INT, win));
        FAILS(MPI_ERR_RMA_RANGE, MPI_Get(&value, 1, MPI_INT, 0, (MPI_Aint)1 << 61, 1, MPI_INT, win));
        FAILS(MPI_ERR_TRUNCATE, MPI_Put(&value, 1, MPI_INT, 0, 0, 2, MPI_INT, win));
        FAILS(MPI_ERR_TYPE, MPI_Accumulate(&value, 1, MPI_INT, 0, 0, 1, MPI_FLOAT, MPI_SUM, win));
    }
    FAILS(MPI_ERR_OP, MPI_Accumulate(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_OP_NULL, win));
    if (!on_mpich()) FAILS(MPI_ERR_OP, MPI_Accumulate(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_MAXLOC, win)); /* the oracle ends the program later */
    FAILS(MPI_ERR_TYPE, MPI_Compare_and_swap(&real, &real, &real, MPI_DOUBLE, 0, 0, win));
    /* Of nothing every type is right. */
    OK(MPI_Accumulate(&real, 0, MPI_DOUBLE, 0, 0, 0, MPI_INT, MPI_SUM, win));
    OK(MPI_Get_accumulate(NULL, 0, MPI_DOUBLE, NULL, 0, MPI_CHAR, 0, 0, 0, MPI_INT, MPI_SUM, win));
    OK(MPI_Rput(&value, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win, &request)); OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Win_unlock(0, win));
    if (check_size > 1) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win));
        FAILS(MPI_ERR_RMA_SYNC, MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
        OK(MPI_Win_unlock(1, win));
    }
    FAILS2(MPI_ERR_RMA_FLAVOR, MPI_ERR_RMA_ATTACH, MPI_Win_attach(win, memory, sizeof memory));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* In an epoch of a fence. */
    OK(MPI_Win_fence(0, win));
    if (!on_mpich()) FAILS(MPI_ERR_RMA_SYNC, MPI_Rput(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win, &request)); /* the oracle does it */
    OK(MPI_Put(&value, 1, MPI_INT, check_rank, 2, 1, MPI_INT, win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_lock_all(0, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
    EQ(memory[2], 5);
    OK(MPI_Win_free(&win));
    /* Dynamic windows: what is not attached is not accessed. */
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    FAILS_ANY(MPI_Win_attach(win, memory, -1));
    if (!on_mpich()) {
        MPI_Aint at, all[64], unit_size; int unit; void *where;
        OK(MPI_Win_attach(win, memory, 8 * sizeof(int)));
        FAILS(MPI_ERR_RMA_ATTACH, MPI_Win_attach(win, memory + 4, 4));
        FAILS(MPI_ERR_RMA_ATTACH, MPI_Win_detach(win, memory + 1));
        FAILS(MPI_ERR_RMA_FLAVOR, MPI_Win_shared_query(win, 0, &unit_size, &unit, &where));
        OK(MPI_Get_address(memory, &at)); OK(MPI_Allgather(&at, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD));
        int next = (check_rank + 1) % check_size;
        MPI_Aint outside = MPI_Aint_add(all[next], 8 * (MPI_Aint)sizeof(int));
        OK(MPI_Win_lock_all(0, win));
        if (check_size == 1) {
            FAILS(MPI_ERR_RMA_RANGE, MPI_Put(&value, 1, MPI_INT, next, outside, 1, MPI_INT, win));
        } else {
            /* The target finds it. */
            OK(MPI_Put(&value, 1, MPI_INT, next, outside, 1, MPI_INT, win));
            FAILS(MPI_ERR_RMA_RANGE, MPI_Win_flush(next, win));
            OK(MPI_Rget(&value, 1, MPI_INT, next, outside, 1, MPI_INT, win, &request));
            FAILS(MPI_ERR_RMA_RANGE, MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        OK(MPI_Win_unlock_all(win)); OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Win_detach(win, memory));
    }
    OK(MPI_Win_free(&win));
    return check_done();
}
