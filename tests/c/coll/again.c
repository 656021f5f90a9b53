/* The same call again and again, and calls that differ in one argument only: a library that remembers what it did for a call must see the
 * difference, also when it is inside of an array, or when a freed datatype's place has been taken by another. */
#include "coll/coll.h"
enum { PMAX = 64, ROUNDS = 12 };
static int mine[PMAX * 8], got[PMAX * 8], cnt[PMAX], dsp[PMAX];

static int put(int round, int from, int k) { return round * 10007 + from * 101 + k; }

static void fresh(int round)
{
    for (int i = 0; i < LEN(mine); i++)
        mine[i] = put(round, check_rank, i), got[i] = -1;
}

/* `n` ints at `at` are those that `from` holds from `first` on. */
static void holds(int at, int n, int round, int from, int first)
{
    for (int k = 0; k < n; k++)
        EQ(got[at + k], put(round, from, first + k));
}

static void even(int round)
{
    int p = check_size, me = check_rank, root = round / 2 % p, n = 1 + round / 4 % 3;
    fresh(round);
    OK(MPI_Gather(mine, n, MPI_INT, got, n, MPI_INT, root, MPI_COMM_WORLD));
    for (int r = 0; r < p; r++)
        if (me == root) holds(r * n, n, round, r, 0);
        else EQ(got[r * n], -1);
    fresh(round);
    OK(MPI_Scatter(mine, n, MPI_INT, got, n, MPI_INT, root, MPI_COMM_WORLD));
    holds(0, n, round, root, me * n);
    fresh(round);
    OK(MPI_Allgather(mine, n, MPI_INT, got, n, MPI_INT, MPI_COMM_WORLD));
    for (int r = 0; r < p; r++) holds(r * n, n, round, r, 0);
    fresh(round);
    OK(MPI_Alltoall(mine, n, MPI_INT, got, n, MPI_INT, MPI_COMM_WORLD));
    for (int r = 0; r < p; r++) holds(r * n, n, round, r, me * n);
}

/* Between rounds only the contents of the arrays change: every second round the counts, every third the displacements. */
static void listed(int round)
{
    int p = check_size, me = check_rank, root = round / 4 % p, gap = round / 3 % 2;
    for (int r = 0, at = 0; r < p; r++) {
        cnt[r] = (r + round / 2) % 4;
        dsp[r] = at;
        at += cnt[r] + gap;
    }
    fresh(round);
    OK(MPI_Gatherv(mine, cnt[me], MPI_INT, got, cnt, dsp, MPI_INT, root, MPI_COMM_WORLD));
    for (int r = 0; r < p && me == root; r++) holds(dsp[r], cnt[r], round, r, 0);
    fresh(round);
    OK(MPI_Scatterv(mine, cnt, dsp, MPI_INT, got, cnt[me], MPI_INT, root, MPI_COMM_WORLD));
    holds(0, cnt[me], round, root, dsp[me]);
    fresh(round);
    OK(MPI_Allgatherv(mine, cnt[me], MPI_INT, got, cnt, dsp, MPI_INT, MPI_COMM_WORLD));
    for (int r = 0; r < p; r++) holds(dsp[r], cnt[r], round, r, 0);
    int each[PMAX], at[PMAX];
    for (int r = 0; r < p; r++) each[r] = cnt[me], at[r] = r * 4 + gap;
    fresh(round);
    OK(MPI_Alltoallv(mine, cnt, dsp, MPI_INT, got, each, at, MPI_INT, MPI_COMM_WORLD));
    for (int r = 0; r < p; r++) holds(at[r], cnt[me], round, r, dsp[me]);
    fresh(round);
    OK(MPI_Reduce_scatter(mine, got, cnt, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    int before = 0;
    for (int r = 0; r < me; r++) before += cnt[r];
    holds(0, cnt[me], round, p - 1, before);
    if (cnt[me] < 4) EQ(got[cnt[me]], -1);
}

static void reductions(int round)
{
    int p = check_size, me = check_rank, n = 1 + round / 2 % 2;
    MPI_Op op = round / 3 % 2 ? MPI_MAX : MPI_MIN;
    fresh(round);
    OK(MPI_Scan(mine, got, n, MPI_INT, op, MPI_COMM_WORLD));
    holds(0, n, round, op == MPI_MAX ? me : 0, 0);
    EQ(got[n], -1);
    fresh(round);
    OK(MPI_Exscan(mine, got, n, MPI_INT, op, MPI_COMM_WORLD));
    if (me) holds(0, n, round, op == MPI_MAX ? me - 1 : 0, 0);
    fresh(round);
    OK(MPI_Reduce_scatter_block(mine, got, n, MPI_INT, op, MPI_COMM_WORLD));
    holds(0, n, round, op == MPI_MAX ? p - 1 : 0, me * n);
    EQ(got[n], -1);
    fresh(round);
    OK(MPI_Reduce_scatter_block(MPI_IN_PLACE, mine, n, MPI_INT, op, MPI_COMM_WORLD));
    for (int k = 0; k < n; k++) EQ(mine[k], put(round, op == MPI_MAX ? p - 1 : 0, me * n + k));
}

/* A type is freed and another made, most likely in its place. */
static void types(int round)
{
    MPI_Datatype t;
    int p = check_size, stride = 2 + round % 2;
    OK(MPI_Type_vector(2, 1, stride, MPI_INT, &t));
    OK(MPI_Type_commit(&t));
    fresh(round);
    OK(MPI_Gather(mine, 1, t, got, 2, MPI_INT, 0, MPI_COMM_WORLD));
    for (int r = 0; r < p && check_rank == 0; r++)
        for (int k = 0; k < 2; k++) EQ(got[2 * r + k], put(round, r, k * stride));
    fresh(round);
    OK(MPI_Scatter(mine, 2, MPI_INT, got, 1, t, 0, MPI_COMM_WORLD));
    for (int k = 0; k < 2; k++) EQ(got[k * stride], put(round, 0, 2 * check_rank + k));
    EQ(got[1], -1);
    OK(MPI_Type_free(&t));
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    for (int round = 0; round < ROUNDS; round++) {
        even(round);
        listed(round);
        reductions(round);
        types(round);
    }
    return check_done();
}
