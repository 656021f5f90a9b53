/* Shared windows (MPI-5.0, 12.2.3): memory that all ranks of a node load from and store to. */
#include "check.h"

static void check_window(MPI_Comm node, int apart)
{
    int rank, size, unit;
    MPI_Info info;
    MPI_Win win;
    MPI_Aint bytes;
    long *mine, *theirs, *first;
    OK(MPI_Comm_rank(node, &rank)); OK(MPI_Comm_size(node, &size));
    OK(MPI_Info_create(&info)); OK(MPI_Info_set(info, "alloc_shared_noncontig", apart ? "true" : "false"));
    long n = 100 + rank;
    OK(MPI_Win_allocate_shared(n * (MPI_Aint)sizeof(long), sizeof(long), info, node, &mine, &win));
    OK(MPI_Info_free(&info));
    OK(MPI_Win_lock_all(0, win));
    for (long i = 0; i < n; i++) mine[i] = 1000 * rank + i;
    OK(MPI_Win_sync(win)); OK(MPI_Barrier(node)); OK(MPI_Win_sync(win));
    OK(MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &first)); EQ(bytes, 100 * sizeof(long)); EQ(first[5], 5);
    long *expected = first;
    for (int r = 0; r < size; r++) {
        OK(MPI_Win_shared_query(win, r, &bytes, &unit, &theirs));
        EQ(bytes, (100 + r) * (long)sizeof(long)); EQ(unit, sizeof(long));
        for (long i = 0; i < 100 + r; i++) EQ(theirs[i], 1000 * r + i);
        if (!apart) CHECK(theirs == expected, "rank %d is not behind rank %d", r, r - 1);
        expected = theirs + 100 + r;
    }
    OK(MPI_Barrier(node));
    /* Direct stores, accesses and atomics see each other. */
    long one = 1, old;
    OK(MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 3, MPI_SUM, win)); OK(MPI_Win_flush(0, win));
    OK(MPI_Put(&n, 1, MPI_LONG, (rank + 1) % size, 4, 1, MPI_LONG, win)); OK(MPI_Win_flush_all(win));
    OK(MPI_Barrier(node)); OK(MPI_Win_sync(win));
    EQ(first[3], 3 + size); EQ(mine[4], 100 + (rank + size - 1) % size);
    OK(MPI_Win_unlock_all(win)); OK(MPI_Win_free(&win));
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    MPI_Comm node;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    check_window(node, 0);
    check_window(node, 1);
    /* Some without memory. */
    int rank, unit; MPI_Win win; char *mine, *found; MPI_Aint bytes;
    OK(MPI_Comm_rank(node, &rank));
    OK(MPI_Win_allocate_shared(rank == 1 ? 10 : 0, 1, MPI_INFO_NULL, node, &mine, &win));
    OK(MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &found)); EQ(bytes, check_size > 1 ? 10 : 0);
    /* No memory has no address. */
    OK(MPI_Win_shared_query(win, 0, &bytes, &unit, &found)); EQ(bytes, 0); EQ(unit, 1); CHECK(on_mpich() || !found);
    OK(MPI_Win_free(&win));
    OK(MPI_Comm_free(&node));
    return check_done();
}
