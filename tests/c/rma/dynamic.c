/* Dynamic windows (MPI-5.0, 12.2.5): what is attached in many pieces and in turn, accesses across pieces that touch, and processes that change each other's
 * memory while they wait for it with calls that find nothing to do. */
#include "check.h"

enum { PIECES = 6, LEN = 300 };

/* The access or the synchronisation after it says that the memory is not part of the window. */
static void refused(MPI_Win win, int target, int of_access)
{
    int of_unlock = MPI_Win_unlock(target, win), class;
    OK(MPI_Error_class(of_access ? of_access : of_unlock, &class));
    EQ(class, MPI_ERR_RMA_RANGE);
}

/* Each process attaches pieces of one array that touch; the next one writes all of it at once, and reads it in parts. */
static void across(MPI_Win win, int left, int right)
{
    long *memory, *data = malloc(PIECES * LEN * sizeof *data), *back = calloc(PIECES * LEN, sizeof *back);
    MPI_Aint mine, theirs;
    OK(MPI_Alloc_mem(PIECES * LEN * sizeof *memory, MPI_INFO_NULL, &memory));
    memset(memory, 0, PIECES * LEN * sizeof *memory);
    OK(MPI_Get_address(memory, &mine));
    for (int i = 0; i < PIECES; i++)
        OK(MPI_Win_attach(win, memory + (i % 2 ? i : PIECES - 2 - i) * LEN, LEN * sizeof *memory));
    OK(MPI_Sendrecv(&mine, 1, MPI_AINT, left, 0, &theirs, 1, MPI_AINT, right, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < PIECES * LEN; i++) data[i] = 1000 * check_rank + i;
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Put(data, PIECES * LEN, MPI_LONG, right, theirs, PIECES * LEN, MPI_LONG, win));
    OK(MPI_Win_flush(right, win));
    /* Across two pieces by a message, then in one of them: the order of accumulates holds. */
    OK(MPI_Accumulate(data, 2 * LEN, MPI_LONG, right, theirs, 2 * LEN, MPI_LONG, MPI_SUM, win));
    OK(MPI_Accumulate(data + 7, 1, MPI_LONG, right, MPI_Aint_add(theirs, 9 * sizeof(long)), 1, MPI_LONG, MPI_REPLACE, win));
    OK(MPI_Win_flush(right, win));
    for (int i = 0; i < PIECES; i++)
        OK(MPI_Get(back + i * LEN, LEN, MPI_LONG, right, MPI_Aint_add(theirs, i * LEN * sizeof(long)), LEN, MPI_LONG, win));
    OK(MPI_Win_unlock_all(win));
    for (int i = 0; i < PIECES * LEN; i++) EQ(back[i], i == 9 ? data[7] : i < 2 * LEN ? 2 * data[i] : data[i]);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* A hole is no part of the window, nor is what was detached. */
    OK(MPI_Win_detach(win, memory + LEN));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (!on_mpich()) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win));
        refused(win, right, MPI_Put(data, 2 * LEN, MPI_LONG, right, theirs, 2 * LEN, MPI_LONG, win));
        OK(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win));
        refused(win, right, MPI_Get(back, 1, MPI_LONG, right, MPI_Aint_add(theirs, LEN * sizeof(long)), 1, MPI_LONG, win));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < PIECES; i++)
        if (i != 1) OK(MPI_Win_detach(win, memory + i * LEN));
    OK(MPI_Free_mem(memory));
    free(data), free(back);
}

/* More pieces than have a place in any table, at several moments. */
static void many(MPI_Win win, int left, int right)
{
    enum { MANY = 700 };
    int *memory = calloc(2 * MANY, sizeof *memory), value = 0;
    MPI_Aint mine, theirs;
    OK(MPI_Get_address(memory, &mine));
    OK(MPI_Sendrecv(&mine, 1, MPI_AINT, left, 0, &theirs, 1, MPI_AINT, right, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < MANY; i++) OK(MPI_Win_attach(win, memory + 2 * i, sizeof *memory));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win));
    for (int i = 0; i < MANY; i++) {
        MPI_Aint at = MPI_Aint_add(theirs, 2 * i * sizeof(int));
        int one = i;
        OK(MPI_Fetch_and_op(&one, &value, MPI_INT, right, at, MPI_SUM, win));
        OK(MPI_Win_flush(right, win));
        EQ(value, 0);
    }
    OK(MPI_Win_unlock(right, win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < MANY; i++) {
        EQ(memory[2 * i], i);
        EQ(memory[2 * i + 1], 0);
        OK(MPI_Win_detach(win, memory + 2 * i));
    }
    free(memory);
}

/* Each process waits for what its neighbour writes into it, with accesses to its own memory only: they have to let the neighbour's come in. */
static void waiting(MPI_Win win, int left, int right)
{
    int *word, value = 0, one = 1;
    MPI_Aint mine, theirs;
    OK(MPI_Alloc_mem(sizeof *word, MPI_INFO_NULL, &word));
    *word = 0;
    OK(MPI_Win_attach(win, word, sizeof *word));
    OK(MPI_Get_address(word, &mine));
    OK(MPI_Sendrecv(&mine, 1, MPI_AINT, left, 0, &theirs, 1, MPI_AINT, right, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Win_lock_all(0, win));
    if (check_rank == 0) {
        OK(MPI_Accumulate(&one, 1, MPI_INT, right, theirs, 1, MPI_INT, MPI_REPLACE, win));
        OK(MPI_Win_flush(right, win));
    }
    while (!value) {
        OK(MPI_Get_accumulate(NULL, 0, MPI_DATATYPE_NULL, &value, 1, MPI_INT, check_rank, mine, 1, MPI_INT, MPI_NO_OP, win));
        OK(MPI_Win_flush(check_rank, win));
    }
    if (check_rank != 0) {
        OK(MPI_Accumulate(&one, 1, MPI_INT, right, theirs, 1, MPI_INT, MPI_REPLACE, win));
        OK(MPI_Win_flush(right, win));
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_detach(win, word));
    OK(MPI_Free_mem(word));
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    int left = (check_rank + check_size - 1) % check_size, right = (check_rank + 1) % check_size;
    MPI_Win win;
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    across(win, left, right);
    many(win, left, right);
    waiting(win, left, right);
    across(win, left, right);
    OK(MPI_Win_free(&win));
    return check_done();
}
